//! From the ticks of a clock to nanoseconds, fast.

use kymo_ctf::{ClockClass, EventRef, Ticks};

/// Turns ticks into nanoseconds since a given time.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Nanoseconds since the clock's origin that are counted from.
    begin: i128,
    /// Nanoseconds of a tick, and of tick 0, where both are whole and small.
    line: Option<(u64, i64)>,
}

const NANOS: u64 = 1_000_000_000;

impl Scale {
    /// `begin` is in nanoseconds from the clock's origin.
    pub fn new(clock: Option<&ClockClass>, begin: i128) -> Scale {
        let line = clock.and_then(|clock| {
            let frequency = clock.frequency.max(1);
            let zero = clock.nanos_from_origin(Ticks(0)).checked_sub(begin)?;
            let whole = NANOS.is_multiple_of(frequency);
            whole.then_some((NANOS / frequency, i64::try_from(zero).ok()?))
        });
        Scale { begin, line }
    }

    /// When the event happened, if that is not before what is counted from.
    #[inline]
    pub fn nanos(&self, event: &EventRef<'_>) -> Option<u64> {
        let fast = self.line.and_then(|(tick, zero)| {
            let ticks = event.time()?.0;
            ticks.checked_mul(tick)?.checked_add_signed(zero)
        });
        fast.or_else(|| u64::try_from(self.signed(event)?).ok())
    }

    /// When the event happened; `None` without a clock.
    #[inline(never)]
    pub fn signed(&self, event: &EventRef<'_>) -> Option<i128> {
        Some(event.nanos()? - self.begin)
    }
}
