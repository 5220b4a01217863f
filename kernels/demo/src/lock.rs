//! Spin locks: the kernel's own, which leave no trace, and the traced kind.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use kymo::vocabulary::{LockAcquired, LockKind, LockName, LockReleased, LockWait, Object};
use kymo::{NameEpoch, Text, Tid};

use crate::{arch, sched};

/// A value that one hart at a time may use, with interrupts masked meanwhile. What the kernel
/// itself is built on: it records nothing, so that a lock is traced at one level only.
#[derive(Debug)]
pub struct Spin<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` lets one hart at a time at the value, and interrupts are masked while it is
// there.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    /// A free one.
    pub const fn new(value: T) -> Spin<T> {
        Spin {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the value. Interrupts are as they were when the guard is dropped; guards are
    /// dropped in reverse order.
    pub fn lock(&self) -> SpinGuard<'_, T> {
        let interrupts = arch::mask();
        while !self.take() {
            while self.taken.load(Relaxed) {
                core::hint::spin_loop();
            }
        }
        SpinGuard {
            lock: self,
            interrupts,
            _stays: PhantomData,
        }
    }

    fn take(&self) -> bool {
        // Partner: the release in `SpinGuard::drop`.
        !self.taken.swap(true, Acquire)
    }

    /// The guard of a lock that this hart holds, after [`SpinGuard::keep`].
    ///
    /// # Safety
    /// This hart holds it, and there is no guard.
    pub unsafe fn held(&self, interrupts: bool) -> SpinGuard<'_, T> {
        SpinGuard {
            lock: self,
            interrupts,
            _stays: PhantomData,
        }
    }
}

/// The right to use the value of a [`Spin`].
#[derive(Debug)]
pub struct SpinGuard<'a, T> {
    lock: &'a Spin<T>,
    /// Whether interrupts were on before.
    interrupts: bool,
    /// A guard belongs to the hart that it was made on.
    _stays: PhantomData<*const ()>,
}

impl<T> SpinGuard<'_, T> {
    /// Gives up the guard, but not the lock. Gives whether interrupts were on.
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

/// A spin lock that can be seen in the trace, for what is built on the kernel.
#[derive(Debug)]
pub struct TracedSpin<T> {
    name: &'static str,
    named: NameEpoch,
    /// Who has it, or 0.
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

    /// Waits for the value.
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
            // SAFETY: taken just now.
            guard: unsafe { self.spin.held(interrupts) },
        }
    }
}

/// The right to use the value of a [`TracedSpin`].
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
