//! Times of the day.

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
        let mut wall = Wall { zone, second: 0, text: [0; 9] };
        wall.go_to(0);
        wall
    }

    /// `nanos` from the Unix epoch. What is before it is written as seconds, with a sign.
    #[inline]
    pub fn write(&mut self, line: &mut Vec<u8>, nanos: i128) {
        match u64::try_from(nanos) {
            Ok(nanos) => {
                let second = (nanos / NANOS as u64) as i64;
                if second != self.second {
                    self.go_to(second);
                }
                let mut text = [0; 18];
                if let Some((head, tail)) = text.split_first_chunk_mut() {
                    *head = self.text;
                    nine_digits((nanos % NANOS as u64) as u32, tail);
                }
                line.extend_from_slice(&text);
            }
            Err(_) => {
                let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
                let _ = write!(line, "{sign}{}.{:09}", nanos / NANOS as u128, nanos % NANOS as u128);
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
        let of_day = local.map_or(second.rem_euclid(DAY), |time| i64::from(time.num_seconds_from_midnight()));
        self.second = second;
        let text = format!("{:02}:{:02}:{:02}.", of_day / 3600, of_day / 60 % 60, of_day % 60);
        text.bytes().zip(&mut self.text).for_each(|(from, to)| *to = from);
    }
}

/// `number`, which is below 10^9, with zeros before it.
#[inline]
pub fn nine_digits(mut number: u32, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
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
        assert_eq!(written(1_795_307_752_019_168_413), "00:49:12.019168413");
        assert_eq!(written(86_399_999_999_999), "23:59:59.999999999");
        assert_eq!(written(86_400_000_000_001), "00:00:00.000000001");
        assert_eq!(written(-1_500_000_000), "-1.500000000");
        assert_eq!(written(i128::from(u64::MAX)), "23:34:33.709551615");
        assert_eq!(written(1 << 80), "1208925819614629.174706176");
    }
}
