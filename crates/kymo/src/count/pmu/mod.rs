//! Drivers of performance-monitoring units.

pub mod aarch64;
mod model;
pub mod riscv;
pub mod x86_64;

pub use model::Model;

use super::event::{EventKind, Exclude};

/// Most counters of a PMU.
pub const MAX_COUNTERS: usize = 64;

/// The counters of one CPU. Their numbers are the driver's; sets of them are bit masks.
///
/// All calls come from the CPU whose counters they are, with interrupts masked.
pub trait Pmu {
    /// Most events that can be counted at the same time, on the largest PMU of this type.
    const SLOTS: usize;
    /// Counters that count one event each and no other. They are preferred, so that the others
    /// stay free.
    const FIXED: u64 = 0;

    /// Most events that this CPU can count at the same time.
    fn slots(&self) -> usize {
        Self::SLOTS
    }

    /// The longest period after which a counter can interrupt.
    fn longest_period(&self) -> u64 {
        u64::MAX
    }

    /// The counters that can interrupt: an event with a period is counted by no other.
    fn interrupting(&self) -> u64 {
        u64::MAX
    }

    /// The counters that can count an event in the modes that are not excluded; 0 if none can.
    fn counters(&self, event: EventKind, exclude: Exclude) -> u64;

    /// Number of a counter's bits, at most 64.
    fn width(&self, counter: u32) -> u32;

    /// Makes a counter, which is stopped, count an event from a value on, once it is started.
    /// Gives whether the counter can.
    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool;

    /// The counter's value, in its lower [`width`](Pmu::width) bits.
    fn read(&self, counter: u32) -> u64;

    /// Sets the value of a counter, which may be counting.
    fn write(&mut self, counter: u32, value: u64);

    /// Starts these counters, all at the same time where the hardware can. Overflows of what they
    /// counted before are forgotten.
    fn start(&mut self, counters: u64);

    /// Stops these counters, all at the same time where the hardware can.
    fn stop(&mut self, counters: u64);

    /// The counters that have gone past their end since the last call.
    fn overflowed(&mut self) -> u64;
}
