//! Mutual exclusion among harts, for short stretches with interrupts disabled.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu;

const FREE: usize = usize::MAX;

pub struct SpinLock<T> {
    name: &'static str,
    /// Id of the hart that holds the lock, or `FREE`.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: one hart at a time reaches the value, through the guard.
unsafe impl<T: Send> Sync for SpinLock<T> {}

pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// A guard belongs to the hart that took it.
    _not_send: core::marker::PhantomData<*const ()>,
}

impl<T> SpinLock<T> {
    pub const fn new(name: &'static str, value: T) -> SpinLock<T> {
        SpinLock {
            name,
            holder: AtomicUsize::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> SpinGuard<'_, T> {
        cpu::push_off();
        assert!(!self.is_mine(), "{} is already held here", self.name);
        while self
            .holder
            .compare_exchange_weak(FREE, cpu::id(), Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            core::hint::spin_loop();
        }
        SpinGuard {
            lock: self,
            _not_send: core::marker::PhantomData,
        }
    }

    /// The guard of a lock that was taken on the other side of a context switch, or a lock's
    /// release by one that has no guard.
    ///
    /// # Safety
    ///
    /// This hart holds the lock, and the guard by which it was taken is never dropped.
    pub unsafe fn adopt(&self) -> SpinGuard<'_, T> {
        assert!(self.is_mine(), "{} is not held here", self.name);
        SpinGuard {
            lock: self,
            _not_send: core::marker::PhantomData,
        }
    }

    fn is_mine(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == cpu::id()
    }
}

impl<'a, T> SpinGuard<'a, T> {
    pub fn lock_of(&self) -> &'a SpinLock<T> {
        self.lock
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held while its guard lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held while its guard lives, and there is one guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        assert!(self.lock.is_mine(), "{} is not held here", self.lock.name);
        self.lock.holder.store(FREE, Ordering::Release);
        cpu::pop_off();
    }
}
