//! Texts written piece by piece, without the standard library's code that formats: a kernel in C is
//! linked with none of it.

use core::fmt::{self, Write};

/// Where a text goes: a function that takes its pieces. As an object, [`fmt::Write`] would ask for
/// the code that formats, whether it is called or not.
pub struct Out<'a>(&'a mut dyn FnMut(&str) -> fmt::Result);

impl<'a> Out<'a> {
    /// Passes each piece to `put`, up to its first error.
    pub fn new(put: &'a mut dyn FnMut(&str) -> fmt::Result) -> Self {
        Out(put)
    }
}

impl fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Out")
    }
}

impl Write for Out<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        (self.0)(text)
    }
}

/// The powers of ten, falling.
const POWERS: [u64; 20] = {
    let mut powers = [0; 20];
    let (mut power, mut at) = (1u64, powers.len());
    while at > 0 {
        at -= 1;
        powers[at] = power;
        power = power.wrapping_mul(10);
    }
    powers
};

/// Writes a number in decimal. (By subtraction: a division of 64 bits would be the only one that a
/// kernel for a 32-bit processor is linked with, and takes 1 KiB.)
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write_number(out: &mut impl Write, mut number: u64) -> fmt::Result {
    let mut has_begun = false;
    for power in POWERS {
        let mut digit = b'0';
        while number >= power {
            number -= power;
            digit += 1;
        }
        has_begun |= digit > b'0' || power == 1;
        if has_begun {
            out.write_char(digit.into())?;
        }
    }
    Ok(())
}

/// Writes a number in hexadecimal, with as many digits as it needs and `least` at least.
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write_hex(out: &mut impl Write, mut number: u64, least: u32) -> fmt::Result {
    let mut has_begun = false;
    for left in (1..=u64::BITS / 4).rev() {
        let digit = (number >> (u64::BITS - 4)) as u8;
        number <<= 4;
        has_begun |= digit > 0 || left <= least;
        if has_begun {
            let first = if digit < 10 { b'0' } else { b'a' - 10 };
            out.write_char((first + digit).into())?;
        }
    }
    Ok(())
}

/// What stands before the first such byte, which is of ASCII, and what behind it. (The standard
/// library's search is linked with code that panics.)
pub(crate) fn split_once(text: &str, at: u8) -> Option<(&str, &str)> {
    let place = text.bytes().position(|byte| byte == at)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

/// As [`split_once`], for the last such byte.
pub(crate) fn rsplit_once(text: &str, at: u8) -> Option<(&str, &str)> {
    let place = text.bytes().rposition(|byte| byte == at)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

/// Ticks as seconds in at least five columns, with as many digits as the clock is worth, nine at
/// most.
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write_seconds(out: &mut impl Write, ticks: u64, frequency: u64) -> fmt::Result {
    let frequency = frequency.max(1);
    let (seconds, mut rest) = divide(ticks, frequency);
    for limit in [10_000, 1_000, 100, 10] {
        if seconds < limit {
            out.write_str(" ")?;
        }
    }
    write_number(out, seconds)?;
    let (mut before, mut scale) = (".", 1u64);
    while scale < frequency.min(1_000_000_000) {
        scale *= 10;
        out.write_str(core::mem::take(&mut before))?;
        // Ten times the rest, by additions that cannot overflow: the digit is how often the
        // frequency is passed.
        let (mut digit, mut sum) = (b'0', 0);
        for _ in 0..10 {
            let to_go = frequency - rest;
            if sum >= to_go {
                sum -= to_go;
                digit += 1;
            } else {
                sum += rest;
            }
        }
        rest = sum;
        out.write_char(digit.into())?;
    }
    Ok(())
}

/// Quotient and rest, bit by bit: see [`write_number`].
fn divide(mut number: u64, by: u64) -> (u64, u64) {
    let (mut quotient, mut rest) = (0, 0u64);
    for _ in 0..u64::BITS {
        let is_over = rest >> 63 > 0;
        rest = rest << 1 | number >> 63;
        number <<= 1;
        quotient <<= 1;
        if is_over || rest >= by {
            rest = rest.wrapping_sub(by);
            quotient |= 1;
        }
    }
    (quotient, rest)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut String) -> fmt::Result) -> String {
        let mut text = String::new();
        write(&mut text).unwrap();
        text
    }

    /// As the standard library writes them.
    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        let mut number = 0x9e37_79b9_7f4a_7c15_u64;
        let edges = [0, 1, 9, 10, 15, 16, 99, 100, 999_999_999, u64::MAX];
        let random = (0..2_000).map(|round| {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            number >> (round % 64)
        });
        let numbers: Vec<u64> = edges.into_iter().chain(random).collect();
        for (&number, &other) in numbers.iter().zip(numbers.iter().rev()) {
            assert_eq!(written(|out| write_number(out, number)), number.to_string());
            assert_eq!(
                written(|out| write_hex(out, number, 1)),
                format!("{number:x}")
            );
            assert_eq!(
                written(|out| write_hex(out, number, 2)),
                format!("{number:02x}")
            );
            let by = other.max(1);
            assert_eq!(divide(number, by), (number / by, number % by));
        }
        for &ticks in &numbers {
            for frequency in [0, 1, 2, 3, 10, 32_768, 10_000_000, 1_000_000_001, u64::MAX] {
                let by = frequency.max(1);
                let (mut digits, mut scale) = (0, 1);
                while digits < 9 && scale < by {
                    (digits, scale) = (digits + 1, scale * 10);
                }
                let (seconds, rest) = (ticks / by, u128::from(ticks % by));
                let part = rest * u128::from(scale) / u128::from(by);
                let expected = match digits {
                    0 => format!("{seconds:>5}"),
                    _ => format!("{seconds:>5}.{part:0digits$}"),
                };
                let found = written(|out| write_seconds(out, ticks, frequency));
                assert_eq!(found, expected, "{ticks} at {frequency}");
            }
        }
    }
}
