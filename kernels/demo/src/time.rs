//! Time: microseconds in ticks of the clock.

use crate::arch::timer::frequency;

/// The ticks of the clock in this many microseconds; a time of centuries is cut.
pub fn ticks(us: u64) -> u64 {
    const SECOND: u64 = 1_000_000;
    let seconds = (us / SECOND).saturating_mul(frequency());
    seconds.saturating_add(us % SECOND * frequency() / SECOND)
}
