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
        match self.taken.compare_exchange(0, 1, Acquire, Relaxed) {
            // Made here and nowhere else: dropping a `Claim` frees the value, so one that is made
            // before it is known to be granted would free what another caller has.
            Ok(_) => Some(Claim(self)),
            Err(_) => None,
        }
    }

    /// The value, as soon as nobody else has it. Spins until then: never call it where the caller
    /// that has the value cannot go on, as in an interrupt handler on that caller's CPU.
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

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_refused_claim_leaves_the_value_with_its_owner() {
        let value = Exclusive::new(1);
        let first = value.claim().unwrap();
        for _ in 0..3 {
            assert!(value.claim().is_none());
        }
        drop(first);
        assert!(value.claim().is_some());
        assert!(value.claim().is_some(), "the claim before was dropped");
    }

    /// Counts without atomic operations, so that two claims at a time lose a count (and are a data
    /// race, which Miri reports).
    #[test]
    fn callers_that_wait_have_the_value_one_at_a_time() {
        const THREADS: u32 = 4;
        let rounds = if cfg!(miri) { 20 } else { 10_000 };
        let (value, inside, most) = (Exclusive::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut claim = value.wait();
                        most.fetch_max(inside.fetch_add(1, Relaxed) + 1, Relaxed);
                        *claim.get() += 1;
                        inside.fetch_sub(1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(*value.wait().get(), THREADS * rounds);
        assert_eq!(most.into_inner(), 1, "callers that had the value at a time");
    }
}
