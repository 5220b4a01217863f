//! 64-bit words of the control blocks: counted up by one CPU, read by others while it does.

/// One atomic word, where the processor stores 64 bits at once.
#[cfg(target_pointer_width = "64")]
pub type Long = crate::sync::AtomicU64;
/// Two halves, where it does not.
#[cfg(target_pointer_width = "32")]
pub type Long = Halves;
#[cfg(any(target_pointer_width = "32", test))]
pub use halves::Halves;

/// The machine word at the front of a [`Long`], which is all that the hot paths use.
#[cfg(target_pointer_width = "64")]
pub(crate) type Native = crate::sync::AtomicU64;
/// The machine word at the front of a [`Long`], which is all that the hot paths use.
#[cfg(target_pointer_width = "32")]
pub(crate) type Native = crate::sync::AtomicU32;

/// A quotient by a number of packets or bytes, which is never 0; without a panic if it were.
#[inline]
pub(crate) fn checked_div(number: u64, by: u64) -> u64 {
    number.checked_div(by).unwrap_or(0)
}

/// The remainder of [`checked_div`].
#[inline]
pub(crate) fn checked_rem(number: u64, by: u64) -> u64 {
    number.checked_rem(by).unwrap_or(0)
}

/// The remainder of a division that is made once in a session, by a number that is never 0: without
/// a division of 64 bits, which is 1 KiB of code on a 32-bit processor.
pub(crate) fn remainder(number: u64, by: u32) -> u32 {
    let mut rest = 0_u64;
    for bit in (0..u64::BITS).rev() {
        rest = rest << 1 | (number >> bit & 1);
        if rest >= u64::from(by) {
            rest -= u64::from(by);
        }
    }
    rest as u32
}

/// The number that two words stand for, loaded in this order, `high` first. The halves share bit
/// 31, so that they tell whether the lower one was carried over meanwhile: no reader has to try
/// again, and a dump of a machine that died between the two stores reads right.
///
/// The result is right as long as the number did not grow by 2^31 between the two loads.
pub const fn join(high: u32, low: u32) -> u64 {
    let high = high.wrapping_add((high ^ low >> 31) & 1);
    (high as u64) << 31 | (low & 0x7fff_ffff) as u64
}

/// The two words of a number below 2^63: low, high. The low one is stored first.
pub const fn split(value: u64) -> [u32; 2] {
    [value as u32, (value >> 31) as u32]
}

#[cfg(any(target_pointer_width = "32", test))]
mod halves {
    use crate::sync::{AtomicU32, Ordering};

    /// A number below 2^63 in two words of 32 bits that share bit 31; see [`join`](super::join).
    #[derive(Debug)]
    #[repr(C, align(8))]
    pub struct Halves {
        /// The low 32 bits, which the hot path may use alone.
        pub(super) low: AtomicU32,
        pub(super) high: AtomicU32,
    }

    impl Halves {
        /// A number with this value.
        pub const fn new(value: u64) -> Halves {
            let [low, high] = super::split(value);
            Halves {
                low: AtomicU32::new(low),
                high: AtomicU32::new(high),
            }
        }

        /// Loads the number; later loads come after it, whatever `_order` says.
        pub fn load(&self, _order: Ordering) -> u64 {
            let high = self.high.load(Ordering::Acquire);
            super::join(high, self.low.load(Ordering::Acquire))
        }

        /// Stores the number; earlier stores are visible before it, whatever `_order` says. Only
        /// its one writer may call this.
        pub fn store(&self, value: u64, _order: Ordering) {
            let [low, high] = super::split(value);
            self.low.store(low, Ordering::Release);
            // The reader that sees it sees the low half too. Partner: the first load in `load`.
            self.high.store(high, Ordering::Release);
        }

        /// Gives its words to loom.
        #[cfg(all(test, loom))]
        pub(crate) fn watch(&self) {
            self.low.watch();
            self.high.watch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn remainders_are_those_of_the_division() {
        let numbers = [0, 1, 6, 7, 8, 1 << 31, u64::MAX - 1, u64::MAX];
        for (number, by) in numbers
            .into_iter()
            .flat_map(|number| [1, 2, 7, 4096, u32::MAX - 1, u32::MAX].map(|by| (number, by)))
        {
            assert_eq!(u64::from(remainder(number, by)), number % u64::from(by));
        }
    }

    /// Every pair of loads that a reader may make, around every store of a number that grows over
    /// the carries of bits 31 and 32.
    #[test]
    fn a_number_read_while_it_is_carried_over_is_the_old_or_the_new_one() {
        for carry in [1u64 << 31, 1 << 32, 3 << 31, 1 << 62] {
            for (old, new) in [
                (carry - 1, carry),
                (carry - 1, carry + 5),
                (carry, carry + 1),
                (carry - 2, carry - 1),
            ] {
                let ([old_low, old_high], [new_low, new_high]) = (split(old), split(new));
                // What memory holds, step by step.
                let states = [
                    (old_high, old_low),
                    (old_high, new_low),
                    (new_high, new_low),
                ];
                for (at, (high, _)) in states.iter().enumerate() {
                    for (_, low) in states.get(at..).unwrap() {
                        let read = join(*high, *low);
                        assert!(
                            read == old || read == new,
                            "{old:#x} -> {new:#x} was read as {read:#x}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn halves_hold_numbers_of_63_bits() {
        let halves = Halves::new(u64::from(u32::MAX) + 1);
        assert_eq!(halves.load(Relaxed), 1 << 32);
        for value in [
            0,
            1,
            (1 << 31) - 1,
            1 << 31,
            u64::from(u32::MAX),
            1 << 32,
            (1 << 33) + 7,
            (1 << 63) - 1,
        ] {
            halves.store(value, Relaxed);
            assert_eq!(halves.load(Relaxed), value);
            assert_eq!(
                halves.low.load(Relaxed),
                value as u32,
                "the hot path reads the low half alone"
            );
        }
    }
}
