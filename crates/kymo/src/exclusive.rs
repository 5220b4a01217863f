//! Values that calls on several CPUs share: one of them has a value at a time.

use core::cell::UnsafeCell;
use core::fmt;

use crate::sync::{AtomicU8, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A value that one caller at a time may use.
pub struct Exclusive<T> {
    taken: AtomicU8,
    value: UnsafeCell<T>,
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

// SAFETY: the value is only reached through `claim`, which gives it to one caller at a time.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    /// A value that nobody has.
    pub const fn new(value: T) -> Self {
        Exclusive {
            taken: AtomicU8::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, if nobody has it.
    pub fn claim(&self) -> Option<Claim<'_, T>> {
        // Partner: the release in `drop`.
        let free = self.taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        free.then_some(Claim(self))
    }

    /// The value, when those who have it are done.
    pub fn wait(&self) -> Claim<'_, T> {
        loop {
            if let Some(claim) = self.claim() {
                return claim;
            }
            core::hint::spin_loop();
        }
    }
}

/// The value, in the hands of its one user.
#[derive(Debug)]
pub struct Claim<'a, T>(&'a Exclusive<T>);

impl<T> Claim<'_, T> {
    /// The value.
    pub fn get(&mut self) -> &mut T {
        // SAFETY: `claim` gave it to this caller alone, until it is dropped.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.0.taken.store(0, Release);
    }
}
