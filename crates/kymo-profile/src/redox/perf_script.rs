//! The text that `perf script` prints, as `redox-kprofiling` writes it: functions in brackets.

use std::io::{self, Write};
use std::str::FromStr;

use super::Sample;

/// The frequency of the time stamp counter, in hertz; not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency(u64);

impl Frequency {
    /// In hertz.
    pub fn hertz(self) -> u64 {
        self.0
    }

    /// The time of a counter's value in units of which a second has `per_second`, rounded down.
    pub fn time(self, ticks: u64, per_second: u32) -> u128 {
        u128::from(ticks) * u128::from(per_second) / u128::from(self.0)
    }
}

impl FromStr for Frequency {
    type Err = &'static str;

    /// A decimal number of gigahertz with at most nine decimals: they are exact.
    fn from_str(gigahertz: &str) -> Result<Frequency, &'static str> {
        const WRONG: &str = "expected gigahertz above 0 and at most 1000, such as 2.4";
        let (whole, decimals) = gigahertz.split_once('.').unwrap_or((gigahertz, ""));
        let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || whole.is_empty() || decimals.len() > 9 {
            return Err(WRONG);
        }
        let hertz = format!("{whole}{decimals:0<9}").parse().unwrap_or(0);
        match hertz {
            1..=1_000_000_000_000 => Ok(Frequency(hertz)),
            _ => Err(WRONG),
        }
    }
}

/// Writes samples as `perf script` prints them.
///
/// The time is in seconds with six decimals. Without a frequency it is in ticks, and the event is
/// named `ticks`.
#[derive(Debug)]
pub struct PerfScript<W> {
    out: W,
    frequency: Option<Frequency>,
}

impl<W: Write> PerfScript<W> {
    /// A writer for counters of this frequency.
    pub fn new(out: W, frequency: Option<Frequency>) -> PerfScript<W> {
        PerfScript { out, frequency }
    }

    /// Writes a sample.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, sample: &Sample<'_>) -> io::Result<()> {
        let (name, cpu) = (sample.name, sample.cpu);
        match self.frequency {
            Some(frequency) => {
                let micros = frequency.time(sample.ticks, 1_000_000);
                let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
                writeln!(self.out, "{name} {cpu} {seconds}.{micros:06}:")?;
            }
            None => writeln!(self.out, "{name} {cpu} {}: ticks:", sample.ticks)?,
        }
        for frame in &sample.frames {
            let name = match frame.function {
                Some(_) => format!("[{}]", frame.name()),
                None => frame.name(),
            };
            let place = match frame.is_kernel {
                true => "[kernel]",
                false => sample.context,
            };
            writeln!(self.out, "\t{:x} {name} ({place})", frame.address)?;
        }
        writeln!(self.out)
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gigahertz_are_exact() {
        let hertz = |text: &str| text.parse::<Frequency>().map(Frequency::hertz);
        assert_eq!(hertz("2.4"), Ok(2_400_000_000));
        assert_eq!(hertz("3"), Ok(3_000_000_000));
        assert_eq!(hertz("0.000000001"), Ok(1));
        assert_eq!(hertz("1000"), Ok(1_000_000_000_000));
        for wrong in [
            "0",
            "0.0",
            "-1",
            "1e3",
            "inf",
            "nan",
            "",
            ".",
            ".5",
            "1.",
            "1000.1",
            "2,4",
            "0.0000000001",
            "99999999999999999999",
            "+1",
            " 1",
        ] {
            let is_number = wrong == "1.";
            assert_eq!(hertz(wrong).is_ok(), is_number, "{wrong}");
        }
        let one: Frequency = "1".parse().unwrap();
        assert_eq!(one.time(u64::MAX, 1_000_000), 18_446_744_073_709_551);
        let slow: Frequency = "0.000000001".parse().unwrap();
        assert_eq!(
            slow.time(u64::MAX, 1_000_000),
            u128::from(u64::MAX) * 1_000_000
        );
    }

    /// `1.000005` s is not `1.5` s.
    #[test]
    fn fractions_of_a_second_are_padded() {
        let sample = |ticks| Sample {
            name: "kernel",
            context: "[kmain]",
            cpu: 3,
            ticks,
            is_kernel: true,
            frames: Vec::new(),
        };
        let mut out = Vec::new();
        let mut script = PerfScript::new(&mut out, "1".parse().ok());
        script.add(&sample(1_000_005_999)).unwrap();
        script.add(&sample(0)).unwrap();
        script.finish().unwrap();
        let mut script = PerfScript::new(&mut out, None);
        script.add(&sample(77)).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "kernel 3 1.000005:\n\nkernel 3 0.000000:\n\nkernel 3 77: ticks:\n\n"
        );
    }
}
