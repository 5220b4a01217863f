//! Spin locks: the kernel's own, which are not traced, and the traced kind.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use kymo::vocabulary::{LockAcquired, LockKind, LockName, LockReleased, LockWait, Object};
use kymo::{NameEpoch, Text, Tid};

use crate::{arch, sched};

/// Looks at a lock that is taken before its holder's hart is given time to go on, where that must
/// be given.
const LOOKS: u32 = 4096;

/// A value behind a spin lock, which masks interrupts while it is held. The kernel itself is built
/// on it: it records nothing, so that a lock is traced at one level only.
#[derive(Debug)]
pub struct Spin<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` lets one hart at a time use the value, with interrupts masked.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    /// A free one.
    pub const fn new(value: T) -> Spin<T> {
        Spin {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock. Dropping the guard restores the interrupts; guards must be dropped in
    /// reverse order.
    pub fn lock(&self) -> SpinGuard<'_, T> {
        let interrupts = arch::mask();
        let mut looks = 0_u32;
        while !self.take() {
            while self.taken.load(Relaxed) {
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(LOOKS) {
                    arch::relax();
                }
                core::hint::spin_loop();
            }
        }
        SpinGuard {
            lock: self,
            interrupts,
            _stays: PhantomData,
        }
    }

    /// The lock if it is free: for NMIs, which may find their own hart with it.
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        let interrupts = arch::mask();
        if self.take() {
            return Some(SpinGuard {
                lock: self,
                interrupts,
                _stays: PhantomData,
            });
        }
        arch::restore(interrupts);
        None
    }

    fn take(&self) -> bool {
        // Partner: the release in `SpinGuard::drop`.
        !self.taken.swap(true, Acquire)
    }

    /// The guard of a lock that this hart holds, after [`SpinGuard::keep`].
    ///
    /// # Safety
    /// This hart must hold the lock, and there must be no guard.
    pub unsafe fn held(&self, interrupts: bool) -> SpinGuard<'_, T> {
        SpinGuard {
            lock: self,
            interrupts,
            _stays: PhantomData,
        }
    }
}

/// The guard of a [`Spin`].
#[derive(Debug)]
pub struct SpinGuard<'a, T> {
    lock: &'a Spin<T>,
    /// Whether interrupts were on before the lock.
    interrupts: bool,
    /// Makes the guard `!Send`: it belongs to its hart.
    _stays: PhantomData<*const ()>,
}

impl<T> SpinGuard<'_, T> {
    /// Drops the guard, but keeps the lock. Gives whether interrupts were on.
    pub fn keep(self) -> bool {
        ManuallyDrop::new(self).interrupts
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and there is one guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        // Partner: the acquire in `take`.
        self.lock.taken.store(false, Release);
        arch::restore(self.interrupts);
    }
}

/// A traced spin lock, for users of the kernel.
#[derive(Debug)]
pub struct TracedSpin<T> {
    name: &'static str,
    named: NameEpoch,
    /// The tid of the holder, or 0.
    owner: AtomicU32,
    spin: Spin<T>,
}

impl<T> TracedSpin<T> {
    /// A free one.
    pub const fn new(name: &'static str, value: T) -> TracedSpin<T> {
        TracedSpin {
            name,
            named: NameEpoch::new(),
            owner: AtomicU32::new(0),
            spin: Spin::new(value),
        }
    }

    fn object(&self) -> Object {
        Object(&raw const *self as u64)
    }

    /// Waits for the lock.
    pub fn lock(&self) -> TracedSpinGuard<'_, T> {
        let interrupts = arch::mask();
        let (lock, kind) = (self.object(), LockKind::Spin);
        name!(
            self.named,
            LockName {
                lock,
                kind,
                name: Text::new(self.name)
            }
        );
        let contended = !self.spin.take();
        if contended {
            record!(LockWait {
                lock,
                owner_tid: Tid(self.owner.load(Relaxed)),
                kind
            });
            while !self.spin.take() {
                core::hint::spin_loop();
            }
        }
        self.owner.store(sched::tid().0, Relaxed);
        record!(LockAcquired {
            lock,
            kind,
            contended
        });
        TracedSpinGuard {
            lock: self,
            // SAFETY: the lock was taken just now.
            guard: unsafe { self.spin.held(interrupts) },
        }
    }
}

/// The guard of a [`TracedSpin`].
#[derive(Debug)]
pub struct TracedSpinGuard<'a, T> {
    lock: &'a TracedSpin<T>,
    guard: SpinGuard<'a, T>,
}

impl<T> Deref for TracedSpinGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for TracedSpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for TracedSpinGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.owner.store(0, Relaxed);
        record!(LockReleased {
            lock: self.lock.object(),
            kind: LockKind::Spin
        });
    }
}
