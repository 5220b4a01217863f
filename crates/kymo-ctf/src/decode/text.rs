//! Decodes text and floating-point numbers.

use std::borrow::Cow;

use crate::class::{BitOrder, ByteOrder, FloatClass, TextEncoding};
use crate::decode::bits::{BitCursor, reverse};
use crate::error::DecodeError;

/// The text in `bytes`, up to the first zero code unit.
pub(crate) fn decode(bytes: &[u8], encoding: TextEncoding) -> Cow<'_, str> {
    let end = crate::decode::bits::terminator(bytes, encoding.unit()).unwrap_or(bytes.len());
    let bytes = bytes.get(..end).unwrap_or(bytes);
    let sixteen = |unit: fn([u8; 2]) -> u16| {
        let (units, rest) = bytes.as_chunks::<2>();
        let chars = char::decode_utf16(units.iter().map(|&two| unit(two)));
        finish(
            chars
                .map(|decoded| decoded.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect(),
            rest,
        )
    };
    let thirty_two = |unit: fn([u8; 4]) -> u32| {
        let (units, rest) = bytes.as_chunks::<4>();
        let chars = units
            .iter()
            .map(|&four| char::from_u32(unit(four)).unwrap_or(char::REPLACEMENT_CHARACTER));
        finish(chars.collect(), rest)
    };
    match encoding {
        // Checking first is cheaper: valid text, above all ASCII, is not taken apart.
        TextEncoding::Utf8 => match str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        },
        TextEncoding::Utf16Be => sixteen(u16::from_be_bytes),
        TextEncoding::Utf16Le => sixteen(u16::from_le_bytes),
        TextEncoding::Utf32Be => thirty_two(u32::from_be_bytes),
        TextEncoding::Utf32Le => thirty_two(u32::from_le_bytes),
    }
}

/// Appends U+FFFD for an incomplete code unit at the end.
fn finish(mut text: String, rest: &[u8]) -> Cow<'static, str> {
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(text)
}

/// The floating-point number at the cursor.
pub(crate) fn float(cursor: &mut BitCursor<'_>, class: &FloatClass) -> Result<f64, DecodeError> {
    if class.size == 128 {
        let first = cursor.integer(64, class.byte_order)?;
        let second = cursor.integer(64, class.byte_order)?;
        let (high, low) = if class.byte_order == ByteOrder::Big {
            (first, second)
        } else {
            (second, first)
        };
        let raw = u128::from(high) << 64 | u128::from(low);
        return Ok(from_128(if class.bit_order == BitOrder::Reversed {
            raw.reverse_bits()
        } else {
            raw
        }));
    }
    let raw = cursor.integer(class.size, class.byte_order)?;
    let raw = if class.bit_order == BitOrder::Reversed {
        reverse(raw, class.size)
    } else {
        raw
    };
    Ok(match class.size {
        16 => from_16(raw as u16),
        32 => f64::from(f32::from_bits(raw as u32)),
        _ => f64::from_bits(raw),
    })
}

/// Converts IEEE 754 binary16 exactly.
fn from_16(raw: u16) -> f64 {
    let (exponent, fraction) = (raw >> 10 & 0x1f, f64::from(raw & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    };
    if raw >> 15 == 1 { -size } else { size }
}

/// Converts IEEE 754 binary128, rounding to nearest; too small values become 0, too large ones
/// infinite.
fn from_128(raw: u128) -> f64 {
    let sign = if raw >> 127 == 1 { -1.0 } else { 1.0 };
    let exponent = (raw >> 112 & 0x7fff) as i32;
    let fraction = raw & ((1 << 112) - 1);
    let size = match (exponent, fraction) {
        (0, _) => 0.0,
        (0x7fff, 0) => f64::INFINITY,
        (0x7fff, _) => f64::NAN,
        _ => {
            let significand = (1 << 112 | fraction) as f64;
            // In two steps, as 2^-1074 is subnormal.
            let power = exponent - 16383 - 112;
            significand * 2f64.powi(power / 2) * 2f64.powi(power - power / 2)
        }
    };
    sign * size
}

/// The text in an array of characters: up to its first zero byte. Invalid bytes become U+FFFD.
pub(crate) fn characters(bytes: &[u8]) -> Cow<'_, str> {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_all_encodings() {
        let text = "aé€😀";
        let be16: Vec<u8> = text
            .encode_utf16()
            .chain([0, 65])
            .flat_map(u16::to_be_bytes)
            .collect();
        let le16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be32: Vec<u8> = text
            .chars()
            .flat_map(|c| u32::from(c).to_be_bytes())
            .collect();
        let le32: Vec<u8> = text
            .chars()
            .map(u32::from)
            .chain([0, 65])
            .flat_map(u32::to_le_bytes)
            .collect();
        assert_eq!(decode(&be16, TextEncoding::Utf16Be), text);
        assert_eq!(decode(&le16, TextEncoding::Utf16Le), text);
        assert_eq!(decode(&be32, TextEncoding::Utf32Be), text);
        assert_eq!(decode(&le32, TextEncoding::Utf32Le), text);
        assert_eq!(decode(b"ab\0c", TextEncoding::Utf8), "ab");
        assert_eq!(
            decode(&[0xd8, 0, 0, 65, 1], TextEncoding::Utf16Be),
            "\u{fffd}A\u{fffd}"
        );
    }

    #[test]
    fn floats_of_16_bits() {
        for (raw, value) in [
            (0, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (1, 2f64.powi(-24)),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(from_16(raw), value, "{raw:#x}");
        }
        assert!(from_16(0x7e00).is_nan());
    }

    #[test]
    fn floats_of_128_bits() {
        assert_eq!(from_128(0x3fff << 112), 1.0);
        assert_eq!(from_128(0xc000_8000 << 96), -3.0);
        assert_eq!(from_128(0x7fff << 112), f64::INFINITY);
        assert_eq!(
            from_128(0x3ffd_5555_5555_5555_5555_5555_5555_5555),
            1.0 / 3.0
        );
        assert_eq!(from_128(0x7000 << 112), f64::INFINITY);
        assert_eq!(from_128(1), 0.0);
    }
}
