//! Clock classes: conversion of ticks to time.

use std::fmt;

use crate::class::attribute::Attributes;

/// A clock value in ticks ("cycles").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A clock of timestamps.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockClass {
    /// Name, to which fields are mapped (CTF 1.8); in CTF 2, the name or, if it has none, the id.
    pub name: String,
    /// The id by which stream classes refer to it (CTF 2); otherwise the name.
    pub id: String,
    /// Namespace of the name and unique id (CTF 2).
    pub namespace: Option<String>,
    /// Unique id (CTF 2).
    pub uid: Option<String>,
    /// Identity, if the metadata gives one.
    pub uuid: Option<[u8; 16]>,
    /// Description, if the metadata gives one.
    pub description: Option<String>,
    /// Ticks per second; never 0; default: 1,000,000,000.
    pub frequency: u64,
    /// Random error of a value, in ticks; default: 0.
    pub precision: u64,
    /// Systematic error of a value, in ticks, if given (CTF 2).
    pub accuracy: Option<u64>,
    /// Seconds from the clock's origin to its tick 0, to which `offset` is added.
    pub offset_s: i64,
    /// Ticks from the origin (and `offset_s`) to tick 0.
    pub offset: u64,
    /// Whether the origin is the Unix epoch, so that clocks of several traces can be compared.
    pub absolute: bool,
    /// The origin, if it is known and not the Unix epoch (CTF 2).
    pub origin: Option<ClockOrigin>,
    /// Attributes from the metadata.
    pub attributes: Attributes,
}

/// An origin that several clocks may share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockOrigin {
    /// Namespace of the name and id.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Unique id.
    pub uid: String,
}

const NANOS: u64 = 1_000_000_000;
const NANOS_PER_SECOND: u128 = NANOS as u128;

impl ClockClass {
    /// A clock with the default properties: nanoseconds from an unknown origin.
    pub(crate) fn new(name: String) -> Self {
        ClockClass {
            id: name.clone(),
            name,
            namespace: None,
            uid: None,
            uuid: None,
            description: None,
            frequency: 1_000_000_000,
            precision: 0,
            accuracy: None,
            offset_s: 0,
            offset: 0,
            absolute: false,
            origin: None,
            attributes: Attributes::default(),
        }
    }

    /// Sets `offset` to a number of ticks that may be negative; whole seconds go to `offset_s`.
    pub(crate) fn set_offset(&mut self, ticks: i128) {
        let frequency = i128::from(self.frequency.max(1));
        match u64::try_from(ticks) {
            Ok(ticks) => self.offset = ticks,
            Err(_) => {
                let seconds = ticks.div_euclid(frequency);
                self.offset = ticks.rem_euclid(frequency).try_into().unwrap_or(0);
                self.offset_s = self.offset_s.saturating_add(
                    i64::try_from(seconds).unwrap_or(if seconds < 0 { i64::MIN } else { i64::MAX }),
                );
            }
        }
    }

    /// Nanoseconds from the clock's origin to tick `ticks`, rounded down.
    ///
    /// `offset_s * 10^9 + floor((offset + ticks) * 10^9 / frequency)`, exactly: nothing is rounded
    /// before the division, and no input overflows.
    #[inline]
    pub fn nanos_from_origin(&self, ticks: Ticks) -> i128 {
        // Most clocks need no division.
        let nanos_a_tick: u64 = match self.frequency {
            NANOS => 1,
            100_000_000 => 10,
            10_000_000 => 100,
            1_000_000 => 1_000,
            1_000 => 1_000_000,
            _ => return self.divided_nanos(ticks),
        };
        let nanos = |ticks: u64| i128::from(ticks) * i128::from(nanos_a_tick);
        i128::from(self.offset_s) * i128::from(NANOS) + nanos(self.offset) + nanos(ticks.0)
    }

    /// [`nanos_from_origin`](Self::nanos_from_origin) of any clock.
    #[inline(never)]
    fn divided_nanos(&self, ticks: Ticks) -> i128 {
        let origin = i128::from(self.offset_s) * i128::from(NANOS);
        // Every other clock in practice: sums fit into 64 bits.
        if let Some(sum) = self.offset.checked_add(ticks.0)
            && self.frequency < 1 << 34
        {
            let frequency = self.frequency.max(1);
            let (seconds, rest) = (sum / frequency, sum % frequency);
            return origin
                + i128::from(seconds) * i128::from(NANOS)
                + i128::from(rest * NANOS / frequency);
        }
        let ticks = u128::from(self.offset) + u128::from(ticks.0);
        let frequency = u128::from(self.frequency.max(1));
        // Whole seconds are split off first; the rest is below 2^64 ticks, times 2^30.
        let nanos =
            ticks / frequency * NANOS_PER_SECOND + ticks % frequency * NANOS_PER_SECOND / frequency;
        origin + nanos.cast_signed()
    }

    /// A key that orders times of different clocks: nanoseconds from the origin, within 292 years,
    /// biased to be unsigned.
    pub(crate) fn comparable(&self, ticks: Ticks) -> u64 {
        let nanos = self.nanos_from_origin(ticks);
        let narrow = nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        narrow.cast_unsigned() ^ 1 << 63
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(frequency: u64, offset_s: i64, offset: u64) -> ClockClass {
        ClockClass {
            frequency,
            offset_s,
            offset,
            ..ClockClass::new("c".into())
        }
    }

    #[test]
    fn conversion_is_exact() {
        assert_eq!(
            clock(1_000_000_000, 0, 0).nanos_from_origin(Ticks(u64::MAX)),
            i128::from(u64::MAX)
        );
        // 3 ticks at 3 Hz are exactly one second, however they are split between offset and value.
        assert_eq!(clock(3, -2, 1).nanos_from_origin(Ticks(2)), -1_000_000_000);
        assert_eq!(clock(3, 0, 0).nanos_from_origin(Ticks(1)), 333_333_333);
        assert_eq!(clock(3, 0, 1).nanos_from_origin(Ticks(1)), 666_666_666);
        assert_eq!(clock(7, 0, 0).nanos_from_origin(Ticks(6)), 857_142_857);
    }

    #[test]
    fn negative_offsets_count_backwards() {
        for ticks in [-1, -3, -10, 0, 7] {
            let mut shifted = clock(3, 5, 0);
            shifted.set_offset(ticks);
            let wanted = 5_000_000_000 + (ticks * 1_000_000_000).div_euclid(3);
            assert_eq!(shifted.nanos_from_origin(Ticks(0)), wanted, "{ticks}");
        }
    }

    #[test]
    fn the_short_way_agrees_with_the_long_one() {
        for frequency in [
            1,
            3,
            999_999_999,
            1_000_000_000,
            3_000_000_001,
            (1 << 34) - 1,
        ] {
            for (offset, ticks) in [
                (0, 0),
                (5, 7),
                (1 << 62, 1 << 62),
                (frequency - 1, frequency),
                (12_345, 1 << 40),
            ] {
                let sum = i128::from(offset) + i128::from(ticks);
                let wanted =
                    -3_000_000_000 + (sum * 1_000_000_000).div_euclid(i128::from(frequency));
                assert_eq!(
                    clock(frequency, -3, offset).nanos_from_origin(Ticks(ticks)),
                    wanted,
                    "{frequency} {offset} {ticks}"
                );
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let far = clock(1, i64::MAX, u64::MAX).nanos_from_origin(Ticks(u64::MAX));
        assert_eq!(
            far,
            (i128::from(i64::MAX) + 2 * i128::from(u64::MAX)) * 1_000_000_000
        );
        let fast = clock(u64::MAX, 0, u64::MAX).nanos_from_origin(Ticks(u64::MAX));
        assert_eq!(fast, 2_000_000_000);
        assert_eq!(
            clock(1, i64::MIN, 0).nanos_from_origin(Ticks(0)),
            i128::from(i64::MIN) * 1_000_000_000
        );
    }
}
