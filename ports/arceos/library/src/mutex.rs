//! `axsync`'s mutex, with events.

use core::ptr;

use kymo::vocabulary::{
    LockAcquired, LockFailed, LockKind, LockName, LockReleased, LockWait, Object,
};
use kymo::{Text, Tid, trace};

/// `EBUSY`.
const BUSY: i32 = 16;

/// The mutex of `axsync`, whose waiters, owners and releases are recorded: use it in its place.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Records the name of a mutex. Call it after [`start`](crate::start).
pub fn name_mutex<T>(mutex: &Mutex<T>, name: &str) {
    // SAFETY: this locks and unlocks nothing.
    let lock = unsafe { mutex.raw() }.object();
    trace!(LockName {
        lock,
        kind: LockKind::Mutex,
        name: Text::new(name)
    });
}

/// What a [`Mutex`] is made of.
pub struct RawMutex(axsync::RawMutex);

impl RawMutex {
    fn object(&self) -> Object {
        Object(ptr::from_ref(self) as u64)
    }

    fn acquired(&self, contended: bool) {
        let kind = LockKind::Mutex;
        trace!(LockAcquired {
            lock: self.object(),
            kind,
            contended
        });
    }
}

// SAFETY: it locks and unlocks as `axsync`'s does.
unsafe impl lock_api::RawMutex for RawMutex {
    type GuardMarker = <axsync::RawMutex as lock_api::RawMutex>::GuardMarker;

    #[allow(clippy::declare_interior_mutable_const)] // The trait asks for it.
    const INIT: Self = RawMutex(axsync::RawMutex::new());

    fn lock(&self) {
        let contended = !self.0.try_lock();
        if contended {
            trace!(LockWait {
                lock: self.object(),
                owner_tid: Tid::UNKNOWN,
                kind: LockKind::Mutex
            });
            self.0.lock();
        }
        self.acquired(contended);
    }

    fn try_lock(&self) -> bool {
        let locked = self.0.try_lock();
        if locked {
            self.acquired(false);
        } else {
            trace!(LockFailed {
                lock: self.object(),
                error: BUSY,
                kind: LockKind::Mutex
            });
        }
        locked
    }

    unsafe fn unlock(&self) {
        // Before, so that the next owner's event comes after this one.
        trace!(LockReleased {
            lock: self.object(),
            kind: LockKind::Mutex
        });
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}
