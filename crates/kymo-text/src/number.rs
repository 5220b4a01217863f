//! Numbers as C's `printf` writes them.
//!
//! Short texts are appended as a fixed number of bytes, and the line is then cut where the text
//! ends: a store or two, whereas a copy of variable length is a call.

use std::io::Write as _;

/// The digits of numbers below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[inline]
fn pair(number: u32) -> [u8; 2] {
    PAIRS.get(number as usize).copied().unwrap_or([b'0'; 2])
}

/// The nine digits of `number`, which is below 10^9.
#[inline]
pub fn nine_digits(number: u32) -> [u8; 9] {
    let (first, rest) = (number / 100_000_000, number % 100_000_000);
    let (high, low) = (rest / 10_000, rest % 10_000);
    let [a, b] = pair(high / 100);
    let [c, d] = pair(high % 100);
    let [e, f] = pair(low / 100);
    let [g, h] = pair(low % 100);
    [b'0' + first as u8, a, b, c, d, e, f, g, h]
}

/// Appends a decimal number.
#[inline]
pub fn decimal(line: &mut Vec<u8>, number: u64) {
    if number < 10 {
        line.push(b'0' + number as u8);
    } else if number < SHORT {
        let (digits, length) = digits(number as u32);
        let end = line.len() + length;
        line.extend_from_slice(&digits.to_le_bytes());
        line.truncate(end);
    } else {
        line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Appends decimal numbers with a short text (two bytes at most) between them, as arrays are
/// written.
#[inline]
pub fn decimals<const N: usize>(
    line: &mut Vec<u8>,
    between: [u8; N],
    mut numbers: impl Iterator<Item = u64>,
) {
    if let Some(first) = numbers.next() {
        decimal(line, first);
    }
    numbers.for_each(|number| decimal_after(line, between, number));
}

#[inline]
fn decimal_after<const N: usize>(line: &mut Vec<u8>, before: [u8; N], number: u64) {
    const { assert!(N <= 2) };
    if number < SHORT {
        let (digits, length) = digits(number as u32);
        let mut text = (u128::from(digits) << (8 * N)).to_le_bytes();
        text.iter_mut()
            .zip(before)
            .for_each(|(to, byte)| *to = byte);
        let end = line.len() + N + length;
        line.extend_from_slice(&text);
        line.truncate(end);
    } else {
        line.extend_from_slice(&before);
        decimal(line, number);
    }
}

/// Numbers below this one have eight digits at most.
const SHORT: u64 = 100_000_000;

/// The digits of a number below [`SHORT`], the first in the lowest byte, and how many there are.
///
/// The number is halved thrice, into parts of four, two and one digit, all parts at once. A part is
/// divided by multiplication and shift, which is exact for its few digits.
#[inline]
fn digits(number: u32) -> (u64, usize) {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 5243) >> 19) & 0x7f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - tens * 10) << 8;
    // The last digit is written even if it is zero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    let text = digits | u64::from_le_bytes([b'0'; 8]);
    (text >> (8 * zeros), 8 - zeros as usize)
}

/// Appends a decimal number that may have more than 64 bits.
#[inline]
pub fn decimal_wide(line: &mut Vec<u8>, number: i128) {
    match u64::try_from(number) {
        Ok(number) => decimal(line, number),
        Err(_) => drop(write!(line, "{number}")),
    }
}

/// Appends the shortest decimal number that parses as `value`, never with an exponent.
pub fn float(line: &mut Vec<u8>, value: f64) {
    let begin = line.len();
    let _ = serde_json::to_writer(&mut *line, &value);
    let text = line.get(begin..).unwrap_or_default();
    // Of up to 15 digits, no other is as short. Of more there may be two, between which the fast
    // way and the standard library's choose differently.
    if text.len() > 16 || text.contains(&b'e') || !value.is_finite() {
        line.truncate(begin);
        let _ = write!(line, "{value}");
    } else if text.ends_with(b".0") {
        line.truncate(line.len() - 2);
    }
}

/// Appends `0x` and a hexadecimal number in lower case.
#[inline]
pub fn hexadecimal(line: &mut Vec<u8>, number: u64) {
    line.extend_from_slice(b"0x");
    hexadecimal_digits(line, number, b'a');
}

/// Appends a hexadecimal number; `ten` is the digit after 9, `a` or `A`.
#[inline]
pub fn hexadecimal_digits(line: &mut Vec<u8>, number: u64, ten: u8) {
    let mut text = [0; 16];
    for (index, digit) in text.iter_mut().enumerate() {
        let value = (number >> (60 - 4 * index) & 0xf) as u8;
        *digit = if value < 10 {
            b'0' + value
        } else {
            ten + value - 10
        };
    }
    let zeros = (number | 1).leading_zeros() as usize / 4;
    line.extend_from_slice(text.get(zeros..).unwrap_or_default());
}

/// Appends a decimal number with a sign.
#[inline]
pub fn signed(line: &mut Vec<u8>, number: i64) {
    if number < 0 {
        line.push(b'-');
    }
    decimal(line, number.unsigned_abs());
}

/// Appends what babeltrace2 writes before an element of an array: `, [13] = `, without the comma
/// for the first.
#[inline]
pub fn element(line: &mut Vec<u8>, index: u64) {
    match ELEMENTS.get(usize::try_from(index).unwrap_or(usize::MAX)) {
        Some((text, length)) => {
            line.extend_from_slice(text);
            line.truncate(line.len() - (ELEMENT - length));
        }
        None => {
            line.extend_from_slice(b", [");
            decimal(line, index);
            line.extend_from_slice(b"] = ");
        }
    }
}

/// Bytes of an entry of [`ELEMENTS`].
const ELEMENT: usize = 16;

/// What comes before the first hundred elements, and how long that is.
static ELEMENTS: [([u8; ELEMENT], usize); 100] = {
    let mut all = [([0; ELEMENT], 0); 100];
    let mut index = 0;
    while index < 100 {
        let (mut text, mut length) = ([0; ELEMENT], 0);
        let parts: [&[u8]; 3] = [
            if index == 0 { b" [" } else { b", [" },
            &PAIRS[index],
            b"] = ",
        ];
        let mut part = 0;
        while part < parts.len() {
            // Numbers below 10 have one digit.
            let mut at = if part == 1 && index < 10 { 1 } else { 0 };
            while at < parts[part].len() {
                text[length] = parts[part][at];
                length += 1;
                at += 1;
            }
            part += 1;
        }
        all[index] = (text, length);
        index += 1;
    }
    all
};

/// Appends what C writes for `%g`: six digits, rounded to the nearest and ties to even, without
/// zeros at the end.
pub fn general(line: &mut Vec<u8>, value: f64) {
    if value.is_sign_negative() {
        line.push(b'-');
    }
    let value = value.abs();
    if value.is_nan() || value.is_infinite() {
        line.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
    } else if value < 1e6 && value == value.trunc() {
        decimal(line, value as u64);
    } else {
        let (digits, exponent) = six_digits(value);
        write(line, digits, exponent);
    }
}

/// The six digits of a positive number as an integer, and the decimal exponent of the first.
fn six_digits(value: f64) -> (u32, i32) {
    // In this range every product and quotient below fits 128 bits.
    let exact = if (1e-5..1e17).contains(&value) {
        scaled(value)
    } else {
        None
    };
    exact.unwrap_or_else(|| {
        let text = format!("{value:.5e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = digits
            .bytes()
            .filter(u8::is_ascii_digit)
            .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        (digits, exponent.parse().unwrap_or(0))
    })
}

fn scaled(value: f64) -> Option<(u32, i32)> {
    let bits = value.to_bits();
    let power = i32::try_from(bits >> 52 & 0x7ff).ok()? - 1075;
    let significand = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    // The decimal exponent, or one less: 1233/4096 is little less than the logarithm of 2.
    let mut exponent = ((power + 52) * 1233) >> 12;
    loop {
        let scale = 5 - exponent;
        let (mut above, mut below) = (significand, 1);
        let ten = 10_u128.checked_pow(scale.unsigned_abs())?;
        if scale >= 0 {
            above *= ten
        } else {
            below *= ten
        }
        let digits = if power >= 0 {
            quotient(above << power, below)
        } else if below == 1 {
            let (whole, rest, half) = (
                above >> -power,
                above & ((1 << -power) - 1),
                1 << (-power - 1),
            );
            whole + u128::from(rest > half || rest == half && whole & 1 == 1)
        } else {
            quotient(above, below << -power)
        };
        match u32::try_from(digits).ok()? {
            digits @ 100_000..1_000_000 => return Some((digits, exponent)),
            0..100_000 => exponent -= 1,
            _ => exponent += 1,
        }
    }
}

/// Rounded to the nearest, and to even where two are as near.
fn quotient(above: u128, below: u128) -> u128 {
    let (whole, rest) = match (u64::try_from(above), u64::try_from(below)) {
        (Ok(above), Ok(below)) => (u128::from(above / below), u128::from(above % below)),
        _ => (above / below, above % below),
    };
    whole + u128::from(2 * rest > below || 2 * rest == below && whole & 1 == 1)
}

fn write(line: &mut Vec<u8>, digits: u32, exponent: i32) {
    let [_, _, _, text @ ..] = nine_digits(digits);
    let kept = text
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(1, |last| last + 1);
    let text = text.get(..kept).unwrap_or(&[]);
    match exponent {
        -4..0 => {
            line.extend_from_slice(b"0.");
            line.extend((exponent..-1).map(|_| b'0'));
            line.extend_from_slice(text);
        }
        0..6 => {
            let point = exponent as usize + 1;
            let (whole, rest) = text.split_at(point.min(kept));
            line.extend_from_slice(whole);
            line.extend((kept..point).map(|_| b'0'));
            if !rest.is_empty() {
                line.push(b'.');
                line.extend_from_slice(rest);
            }
        }
        _ => {
            let (first, rest) = text.split_at(1);
            line.extend_from_slice(first);
            if !rest.is_empty() {
                line.push(b'.');
                line.extend_from_slice(rest);
            }
            line.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            if exponent.unsigned_abs() < 10 {
                line.push(b'0');
            }
            decimal(line, exponent.unsigned_abs().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: f64) -> String {
        let mut line = Vec::new();
        general(&mut line, value);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn floats_are_as_short_as_can_be() {
        let mut values = vec![
            0.0,
            -0.0,
            1e15,
            1e16,
            1e-5,
            1e-9,
            0.1 + 0.2,
            f64::MAX,
            5e-324,
        ];
        values.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        // Of these some lie in the middle between two of 16 digits.
        values.extend((1..1000).map(|number| f64::from(number * 129) / 131_072.0));
        values.extend((1..1000).map(|number| f64::from(number) / -1000.0));
        for value in values {
            let mut line = Vec::new();
            float(&mut line, value);
            assert_eq!(String::from_utf8(line).unwrap(), value.to_string());
        }
    }

    #[test]
    fn integers_are_written_as_everywhere() {
        let mut numbers: Vec<u64> = (0..20_000).collect();
        numbers.extend((0..64).map(|bit| u64::MAX >> bit));
        numbers.extend((0..20).flat_map(|power| {
            [
                10_u64.pow(power) - 1,
                10_u64.pow(power),
                10_u64.pow(power) + 1,
            ]
        }));
        for number in numbers {
            let mut line = b"x".to_vec();
            decimal(&mut line, number);
            signed(&mut line, number.cast_signed());
            line.push(b'=');
            decimals(&mut line, *b", ", [number, 7, number].into_iter());
            decimals(&mut line, *b",", std::iter::empty());
            assert_eq!(
                String::from_utf8(line).unwrap(),
                format!("x{number}{}={number}, 7, {number}", number.cast_signed())
            );
            let (mut line, wide) = (Vec::new(), i128::from(number) * -3);
            decimal_wide(&mut line, wide);
            assert_eq!(String::from_utf8(line).unwrap(), wide.to_string());
            assert_eq!(
                nine_digits((number % 1_000_000_000) as u32),
                format!("{:09}", number % 1_000_000_000).as_bytes()
            );
        }
        for index in 0..200 {
            let mut line = b"x".to_vec();
            element(&mut line, index);
            assert_eq!(
                String::from_utf8(line).unwrap(),
                format!("x{} [{index}] = ", if index == 0 { "" } else { "," })
            );
        }
    }

    /// What C gives; some of these lie exactly between two results.
    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (999_999.5, "1e+06"),
            (1_000_000.0, "1e+06"),
            (1_234_565.0, "1.23456e+06"),
            (1_234_575.0, "1.23458e+06"),
            (123_456.75, "123457"),
            (123_456.5, "123456"),
            (123_457.5, "123458"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000099999999, "0.0001"),
            (0.00123456789, "0.00123457"),
            (std::f64::consts::PI, "3.14159"),
            (9.9999949, "9.99999"),
            (9.999995, "10"),
            (9.999996, "10"),
            (1e17, "1e+17"),
            (123_456_789_012_345_680.0, "1.23457e+17"),
            (1e100, "1e+100"),
            (f64::MAX, "1.79769e+308"),
            (f64::MIN_POSITIVE, "2.22507e-308"),
            (5e-324, "4.94066e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(shown(value), expected, "{value:e}");
        }
    }

    #[test]
    fn the_short_way_agrees_with_the_long_one() {
        let mut state = 1_u64;
        for step in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Exponents of all the range, and significands of few bits and of many, so that there
            // are ties.
            let power = 1023 - 17 + (state >> 58);
            let significand = (state << 6 >> 12) & (u64::MAX << (step % 52));
            let value = f64::from_bits(power << 52 | significand & ((1 << 52) - 1));
            if !(1e-5..1e17).contains(&value) {
                continue;
            }
            let long = format!("{value:.5e}");
            let (digits, exponent) = scaled(value).unwrap();
            let digits = digits.to_string();
            assert_eq!(
                format!("{}.{}e{exponent}", &digits[..1], &digits[1..]),
                long,
                "{value}"
            );
        }
    }
}
