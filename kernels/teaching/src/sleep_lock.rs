//! Mutual exclusion among processes, for long stretches: who must wait sleeps.

use kymo::vocabulary::{LockAcquired, LockKind, LockName, LockReleased, LockWait, Object};
use kymo::{NameEpoch, Text, Tid, trace};

use crate::Kymo;
use crate::process;
use crate::spin_lock::SpinLock;

pub struct SleepLock {
    held: SpinLock<bool>,
    name: &'static str,
    named: NameEpoch,
}

impl SleepLock {
    pub const fn new(name: &'static str) -> SleepLock {
        SleepLock {
            held: SpinLock::new(name, false),
            name,
            named: NameEpoch::new(),
        }
    }

    pub fn acquire(&self) {
        let lock = self.id();
        Kymo::named(&self.named, || LockName {
            lock,
            kind: LockKind::Mutex,
            name: Text::new(self.name),
        });
        let mut held = self.held.lock();
        let contended = *held;
        if contended {
            trace!(LockWait {
                lock,
                owner_tid: Tid::UNKNOWN,
                kind: LockKind::Mutex
            });
        }
        while *held {
            held = process::sleep(self.channel(), held);
        }
        *held = true;
        trace!(LockAcquired {
            lock,
            kind: LockKind::Mutex,
            contended
        });
    }

    pub fn release(&self) {
        trace!(LockReleased {
            lock: self.id(),
            kind: LockKind::Mutex
        });
        *self.held.lock() = false;
        process::wakeup(self.channel());
    }

    fn id(&self) -> Object {
        Object(self.channel() as u64)
    }

    fn channel(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}
