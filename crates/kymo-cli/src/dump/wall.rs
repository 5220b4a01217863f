//! Times of the day.

use kymo_text::nine_digits;
use std::io::Write as _;

use chrono::{Local, TimeZone as _, Timelike as _};

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The machine's, or what `TZ` says.
    Local,
    /// UTC.
    Utc,
}

const NANOS: i128 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Writes times as `hh:mm:ss.nnnnnnnnn`. What is the same for a whole second is made once.
#[derive(Debug)]
pub struct Wall {
    zone: Zone,
    /// The second that was written last, and its text.
    second: i64,
    text: [u8; 9],
}

impl Wall {
    pub fn new(zone: Zone) -> Wall {
        let mut wall = Wall {
            zone,
            second: 0,
            text: [0; 9],
        };
        wall.go_to(0);
        wall
    }

    /// The time of the day of `nanos` from the Unix epoch; `None` for what is before that, or
    /// further from it than 64 bits go.
    #[inline]
    pub fn time(&mut self, nanos: i128) -> Option<[u8; 18]> {
        let nanos = u64::try_from(nanos).ok()?;
        let second = (nanos / NANOS as u64) as i64;
        if second != self.second {
            self.go_to(second);
        }
        let mut text = [0; 18];
        let (head, tail) = text.split_at_mut(9);
        head.copy_from_slice(&self.text);
        tail.copy_from_slice(&nine_digits((nanos % NANOS as u64) as u32));
        Some(text)
    }

    /// Writes it; where there is no time of the day, seconds with their sign.
    pub fn write(&mut self, line: &mut Vec<u8>, nanos: i128) {
        match self.time(nanos) {
            Some(text) => line.extend_from_slice(&text),
            None => {
                let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
                let _ = write!(
                    line,
                    "{sign}{}.{:09}",
                    nanos / NANOS as u128,
                    nanos % NANOS as u128
                );
            }
        }
    }

    #[cold]
    fn go_to(&mut self, second: i64) {
        let local = match self.zone {
            Zone::Utc => None,
            Zone::Local => Local.timestamp_opt(second, 0).single(),
        };
        // Of a year that no calendar has, the time of the day is known all the same.
        let of_day = local.map_or(second.rem_euclid(DAY), |time| {
            i64::from(time.num_seconds_from_midnight())
        });
        self.second = second;
        let text = format!(
            "{:02}:{:02}:{:02}.",
            of_day / 3600,
            of_day / 60 % 60,
            of_day % 60
        );
        text.bytes()
            .zip(&mut self.text)
            .for_each(|(from, to)| *to = from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_day_and_what_is_before_them() {
        let mut wall = Wall::new(Zone::Utc);
        let mut written = |nanos| {
            let mut line = Vec::new();
            wall.write(&mut line, nanos);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(written(0), "00:00:00.000000000");
        assert_eq!(written(1_795_307_752_019_168_413), "00:35:52.019168413");
        assert_eq!(written(86_399_999_999_999), "23:59:59.999999999");
        assert_eq!(written(86_400_000_000_001), "00:00:00.000000001");
        assert_eq!(written(-1_500_000_000), "-1.500000000");
        assert_eq!(written(i128::from(u64::MAX)), "23:34:33.709551615");
        assert_eq!(written(1 << 80), "1208925819614629.174706176");
    }
}
