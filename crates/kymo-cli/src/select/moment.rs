//! Times on the command line.

use kymo_ctf::TraceMap;

/// A time on the command line, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Since the trace began.
    SinceBegin(i128),
    /// Before the trace's last event.
    BeforeEnd(i128),
    /// After `--from`.
    AfterFrom(i128),
    /// Since the clock's origin.
    SinceOrigin(i128),
}

/// The times of a trace from which times on the command line count.
#[derive(Clone, Copy, Debug)]
pub struct Anchors {
    /// The trace's begin, in nanoseconds from the clock's origin.
    pub begin: i128,
    /// Time of the last event, if any time counts from there.
    end: Option<i128>,
}

impl Anchors {
    /// Those of this trace, for these times.
    pub fn of(map: &TraceMap, moments: impl IntoIterator<Item = Option<Moment>>) -> Anchors {
        let mut moments = moments.into_iter().flatten();
        let by_end = moments.any(|moment| matches!(moment, Moment::BeforeEnd(_)));
        Anchors {
            begin: map.read().begin_nanos().unwrap_or(0),
            end: if by_end { map.end_nanos() } else { None },
        }
    }

    /// A time in nanoseconds from the clock's origin; `from` is that of `--from`.
    pub fn nanos(&self, moment: Moment, from: Option<i128>) -> i128 {
        match moment {
            Moment::SinceBegin(nanos) => self.begin + nanos,
            Moment::BeforeEnd(nanos) => self.end.unwrap_or(self.begin) - nanos,
            Moment::AfterFrom(nanos) => from.unwrap_or(self.begin) + nanos,
            Moment::SinceOrigin(nanos) => nanos,
        }
    }
}

/// Parses a time.
pub fn moment(text: &str) -> Result<Moment, String> {
    let parsed = match text.split_at_checked(1) {
        Some(("-", rest)) => duration(rest).map(Moment::BeforeEnd),
        Some(("+", rest)) => duration(rest).map(Moment::AfterFrom),
        Some(("@", rest)) => rest.parse().ok().map(Moment::SinceOrigin),
        _ => duration(text).map(Moment::SinceBegin),
    };
    parsed.ok_or_else(|| {
        "expected a time such as 0.25, 250ms, -10ms (before the end) or @5003000000; for --to also \
         +5ms"
            .to_owned()
    })
}

/// Parses a time that is not relative to `--from`.
pub fn begin(text: &str) -> Result<Moment, String> {
    match moment(text)? {
        Moment::AfterFrom(_) => Err("only --to can be relative to --from".to_owned()),
        moment => Ok(moment),
    }
}

/// Parses a duration into nanoseconds: a decimal number and an optional unit, by default seconds.
/// Truncates to whole nanoseconds.
fn duration(text: &str) -> Option<i128> {
    let (number, unit) = text.split_at(
        text.find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(text.len()),
    );
    let unit: i128 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // 15 digits of seconds are longer than any trace, and their nanoseconds fit.
    if !digits(whole)
        || !digits(fraction)
        || whole.len() > 15
        || fraction.len() > 15
        || whole.len() + fraction.len() == 0
    {
        return None;
    }
    let value = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<i128>().ok()
        }
    };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some(value(whole)? * unit + value(fraction)? * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_and_have_units() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1_000_000_000),
            ("0.000000001", 1),
            (".5", 500_000_000),
            ("1.", 1_000_000_000),
            ("12.345678901", 12_345_678_901),
            ("250ms", 250_000_000),
            ("1.5us", 1_500),
            ("3ns", 3),
            ("0.9ns", 0),
            ("2min", 120_000_000_000),
            ("1s", 1_000_000_000),
        ] {
            assert_eq!(moment(text), Ok(Moment::SinceBegin(expected)), "{text}");
        }
        assert_eq!(moment("-10ms"), Ok(Moment::BeforeEnd(10_000_000)));
        assert_eq!(moment("+5us"), Ok(Moment::AfterFrom(5_000)));
        assert_eq!(moment("@-7"), Ok(Moment::SinceOrigin(-7)));
        for text in [
            "",
            ".",
            "-",
            "--json",
            "1h",
            "1e3",
            "0x1",
            "1.2.3",
            "é",
            "-é",
            "1 ms",
            "@1.5",
            "9999999999999999",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
        assert!(begin("+1ms").is_err() && begin("-1ms").is_ok());
    }
}
