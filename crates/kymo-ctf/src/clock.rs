//! Clocks: from ticks to time.

use std::fmt;

/// A value of a clock, in its own ticks ("cycles"), not yet turned into time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A clock that timestamps are taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockClass {
    /// Name, to which fields are mapped.
    pub name: String,
    /// Identity, if the metadata gives one.
    pub uuid: Option<[u8; 16]>,
    /// What it is, in words.
    pub description: Option<String>,
    /// Ticks a second; never 0, and 1,000,000,000 where the metadata gives none.
    pub frequency: u64,
    /// Uncertainty of a value, in ticks.
    pub precision: u64,
    /// Seconds from the clock's origin to its tick 0, to which `offset` is added.
    pub offset_s: i64,
    /// Ticks from the origin (and `offset_s`) to tick 0.
    pub offset: u64,
    /// Whether the origin is known outside the trace, so that clocks of several traces can be compared. Then it is the Unix epoch.
    pub absolute: bool,
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl ClockClass {
    /// Nanoseconds from the clock's origin to tick `ticks`, rounded down.
    ///
    /// `offset_s * 10^9 + floor((offset + ticks) * 10^9 / frequency)`, exactly: nothing is rounded before the division, and no
    /// input overflows.
    pub fn nanos_from_origin(&self, ticks: Ticks) -> i128 {
        let ticks = u128::from(self.offset) + u128::from(ticks.0);
        let frequency = u128::from(self.frequency.max(1));
        // The whole seconds are taken out first; what is left is below 2^64 ticks, times 2^30.
        let nanos = ticks / frequency * NANOS_PER_SECOND + ticks % frequency * NANOS_PER_SECOND / frequency;
        i128::from(self.offset_s) * NANOS_PER_SECOND.cast_signed() + nanos.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(frequency: u64, offset_s: i64, offset: u64) -> ClockClass {
        ClockClass { name: "c".into(), uuid: None, description: None, frequency, precision: 0, offset_s, offset, absolute: false }
    }

    #[test]
    fn conversion_is_exact() {
        assert_eq!(clock(1_000_000_000, 0, 0).nanos_from_origin(Ticks(u64::MAX)), i128::from(u64::MAX));
        // 3 ticks at 3 Hz are a second to the nanosecond, however they are spread over offset and value.
        assert_eq!(clock(3, -2, 1).nanos_from_origin(Ticks(2)), -1_000_000_000);
        assert_eq!(clock(3, 0, 0).nanos_from_origin(Ticks(1)), 333_333_333);
        assert_eq!(clock(3, 0, 1).nanos_from_origin(Ticks(1)), 666_666_666);
        assert_eq!(clock(7, 0, 0).nanos_from_origin(Ticks(6)), 857_142_857);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let far = clock(1, i64::MAX, u64::MAX).nanos_from_origin(Ticks(u64::MAX));
        assert_eq!(far, (i128::from(i64::MAX) + 2 * i128::from(u64::MAX)) * 1_000_000_000);
        let fast = clock(u64::MAX, 0, u64::MAX).nanos_from_origin(Ticks(u64::MAX));
        assert_eq!(fast, 2_000_000_000);
        assert_eq!(clock(1, i64::MIN, 0).nanos_from_origin(Ticks(0)), i128::from(i64::MIN) * 1_000_000_000);
    }
}
