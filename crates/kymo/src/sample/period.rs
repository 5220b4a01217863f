//! The period of samples, which interrupts load at any time.

/// One word, where the processor stores 64 bits at once.
#[cfg(target_pointer_width = "64")]
pub(super) type Period = crate::sync::AtomicU64;
/// Two places for two halves each, where it does not.
#[cfg(target_pointer_width = "32")]
pub(super) type Period = Settled;
#[cfg(any(target_pointer_width = "32", test))]
#[cfg_attr(target_pointer_width = "64", allow(unused_imports))] // Only the model has it there.
pub(super) use settled::Settled;

#[cfg(any(target_pointer_width = "32", test))]
mod settled {
    use crate::ring::long::Halves;
    use crate::sync::{AtomicU32, Ordering};

    /// A number below 2^63 that may change to any other. [`Halves`] alone serve only for a number
    /// that counts up: between the two stores of any other change they hold neither number.
    ///
    /// The number is stored in the place that does not count, which then counts. So whoever
    /// interrupts a store finds the number before, and nobody waits: a load is made again only if
    /// the number was set meanwhile.
    #[derive(Debug)]
    pub struct Settled {
        places: [Halves; 2],
        /// How often the number was set. The last bit tells which place counts.
        times: AtomicU32,
    }

    #[cfg_attr(target_pointer_width = "64", allow(dead_code))] // As above.
    impl Settled {
        pub const fn new(value: u64) -> Settled {
            Settled {
                places: [Halves::new(value), Halves::new(value)],
                times: AtomicU32::new(0),
            }
        }

        fn place(&self, times: u32) -> &Halves {
            let [even, odd] = &self.places;
            if times & 1 == 0 { even } else { odd }
        }

        /// Loads the number, whatever `_order` says.
        pub fn load(&self, _order: Ordering) -> u64 {
            loop {
                // Partner: the last store in `store`.
                let times = self.times.load(Ordering::Acquire);
                let value = self.place(times).load(Ordering::Relaxed);
                // Behind both halves. If one of them is of the next but one number, `times` is
                // another too.
                if self.times.load(Ordering::Relaxed) == times {
                    return value;
                }
            }
        }

        /// Stores the number, whatever `_order` says. One call at a time.
        pub fn store(&self, value: u64, _order: Ordering) {
            let next = self.times.load(Ordering::Relaxed).wrapping_add(1);
            self.place(next).store(value, Ordering::Relaxed);
            // Both halves are visible before it.
            self.times.store(next, Ordering::Release);
        }

        /// Gives its words to loom.
        #[cfg(all(test, loom))]
        pub(in crate::sample) fn watch(&self) {
            self.places.iter().for_each(Halves::watch);
            self.times.watch();
        }
    }
}
