//! Reads integers at any bit of a packet.

use crate::class::wide_int::WideInt;
use crate::class::{BitOrder, ByteOrder, WideClass, sign_extend};
use crate::error::DecodeError;

/// A cursor over the bits of a packet, up to `limit`.
///
/// In little-endian order the bits of a byte are counted from the least significant one up, in
/// big-endian order from the most significant one down, so that an integer's bits are contiguous in
/// both.
#[derive(Debug, Clone)]
pub(crate) struct BitCursor<'a> {
    bytes: &'a [u8],
    position: u64,
    limit: u64,
    /// Byte order of the last integer, hence of the bits before `position` in its byte.
    order: Option<ByteOrder>,
}

impl<'a> BitCursor<'a> {
    /// A cursor at bit `position` that stops at bit `limit` or at the end of `bytes`.
    pub(crate) fn new(bytes: &'a [u8], position: u64, limit: u64) -> Self {
        let all = (bytes.len() as u64).saturating_mul(8);
        BitCursor {
            bytes,
            position,
            limit: limit.min(all),
            order: None,
        }
    }

    /// Sets the byte order of the previous field, which may share a byte with the next.
    pub(crate) fn after(self, order: Option<ByteOrder>) -> Self {
        BitCursor { order, ..self }
    }

    /// The byte order of the previous field, if it may share a byte with the next.
    pub(crate) fn order(&self) -> Option<ByteOrder> {
        self.order
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.position)
    }

    /// Aligns the position to `alignment`, a power of two.
    pub(crate) fn align(&mut self, alignment: u32) -> Result<(), DecodeError> {
        let mask = u64::from(alignment.max(1)) - 1;
        let padding = self.position.wrapping_neg() & mask;
        self.skip(padding)
    }

    /// Skips `count` bits.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), DecodeError> {
        let left = self.left();
        if count > left {
            return Err(DecodeError::UnexpectedEnd {
                needed: count,
                left,
            });
        }
        self.position += count;
        Ok(())
    }

    /// An integer of `size` bits (1 to 64), not sign-extended.
    pub(crate) fn integer(&mut self, size: u8, order: ByteOrder) -> Result<u64, DecodeError> {
        let start = self.position;
        if !start.is_multiple_of(8) && self.order.is_some_and(|before| before != order) {
            return Err(DecodeError::ByteOrderInsideByte);
        }
        self.skip(u64::from(size))?;
        self.order = Some(order);
        // Cannot fail, as the limit is within the bytes.
        Ok(load(self.bytes, start, size, order).unwrap_or(0))
    }

    /// The bits of a field of `class` in 64-bit words, least significant first, padded with zeros.
    pub(crate) fn wide(&mut self, class: &WideClass) -> Result<Vec<u64>, DecodeError> {
        let start = self.position;
        self.skip_wide(class)?;
        Ok(load_wide(self.bytes, start, class).unwrap_or_default())
    }

    /// Skips a field of `class`.
    pub(crate) fn skip_wide(&mut self, class: &WideClass) -> Result<(), DecodeError> {
        let order = class.byte_order;
        if !self.position.is_multiple_of(8) && self.order.is_some_and(|before| before != order) {
            return Err(DecodeError::ByteOrderInsideByte);
        }
        self.skip(class.size)?;
        self.order = Some(order);
        Ok(())
    }

    /// Reads a LEB128 integer, sign-extended to 64 bits if `signed` and if it fits. The position
    /// must be on a byte.
    pub(crate) fn leb128(&mut self, signed: bool) -> Result<Leb, DecodeError> {
        let start = to_index(self.position / 8);
        let end = to_index(self.limit / 8);
        let rest = self.bytes.get(start..end).unwrap_or(&[]);
        let read = match leb128(rest, signed) {
            Err(LebError::TooLarge) => {
                leb128_wide(rest, signed).map(|(value, bytes)| (Leb::Wide(value), bytes))
            }
            read => read.ok().map(|(value, bytes)| (Leb::Small(value), bytes)),
        };
        let left = self.left();
        let (value, bytes) = read.ok_or(DecodeError::UnexpectedEnd {
            needed: left.saturating_add(8),
            left,
        })?;
        self.skip(bytes as u64 * 8)?;
        self.order = None;
        Ok(value)
    }

    /// Takes the next `count` bytes. The position must be on a byte.
    pub(crate) fn take_bytes(&mut self, count: u64) -> Result<&'a [u8], DecodeError> {
        let needed = count.saturating_mul(8);
        let start = self.position;
        self.skip(needed)?;
        self.order = None;
        let end = to_index(self.position / 8);
        Ok(self.bytes.get(to_index(start / 8)..end).unwrap_or(&[]))
    }

    /// Takes the bytes up to the next code unit of `unit` zeros, which is skipped. The position
    /// must be on a byte.
    pub(crate) fn bytes_to_zero(&mut self, unit: usize) -> Result<&'a [u8], DecodeError> {
        let start = to_index(self.position / 8);
        let end = to_index(self.limit / 8);
        let rest = self.bytes.get(start..end).unwrap_or(&[]);
        let Some(length) = terminator(rest, unit) else {
            let left = self.left();
            return Err(DecodeError::UnexpectedEnd {
                needed: left.saturating_add(8),
                left,
            });
        };
        self.skip((length + unit) as u64 * 8)?;
        self.order = None;
        Ok(rest.get(..length).unwrap_or(&[]))
    }
}

/// The `size` bits (1 to 64) at bit `start`, or `None` if `bytes` ends before.
#[inline]
pub(crate) fn load(bytes: &[u8], start: u64, size: u8, order: ByteOrder) -> Option<u64> {
    match load_at_once(bytes, start, size, order) {
        Some(value) => Some(value),
        None => load_slowly(bytes, start, size, order),
    }
}

/// What [`load`] gives, or `None` where it takes more than one look at eight bytes.
#[inline]
pub(crate) fn load_at_once(bytes: &[u8], start: u64, size: u8, order: ByteOrder) -> Option<u64> {
    let eight = bytes.get(to_index(start / 8)..)?.first_chunk::<8>()?;
    let (before, unused) = ((start % 8) as u32, 64 - u32::from(size));
    let behind = unused.checked_sub(before)?;
    let to_top = match order {
        ByteOrder::Little => u64::from_le_bytes(*eight) << behind,
        ByteOrder::Big => u64::from_be_bytes(*eight) << before,
    };
    Some(to_top >> unused)
}

/// Handles loads near the end, and 64 bits that begin inside a byte and so touch nine bytes.
fn load_slowly(bytes: &[u8], start: u64, size: u8, order: ByteOrder) -> Option<u64> {
    let end = start.checked_add(u64::from(size))?;
    let bytes = bytes.get(to_index(start / 8)..to_index(end.div_ceil(8)))?;
    let mut gathered: u128 = 0;
    let value = match order {
        ByteOrder::Little => {
            for &byte in bytes.iter().rev() {
                gathered = gathered << 8 | u128::from(byte);
            }
            gathered >> (start % 8)
        }
        ByteOrder::Big => {
            for &byte in bytes {
                gathered = gathered << 8 | u128::from(byte);
            }
            gathered >> (end.div_ceil(8) * 8 - end)
        }
    };
    Some(value as u64 & low_mask(size))
}

/// The bits of a field of `class` at bit `start` in 64-bit words, least significant first, padded
/// with zeros.
pub(crate) fn load_wide(bytes: &[u8], start: u64, class: &WideClass) -> Option<Vec<u64>> {
    let end = start
        .checked_add(class.size)
        .filter(|end| end.div_ceil(8) <= bytes.len() as u64)?;
    let reversed = class.bit_order == BitOrder::Reversed;
    // Byte order and bit order each select the end with the least significant bits.
    let from_front = (class.byte_order == ByteOrder::Little) != reversed;
    let limb = |index: u64| {
        let before = index * 64;
        let bits = class.size.saturating_sub(before).min(64);
        let at = if from_front {
            start + before
        } else {
            end - before - bits
        };
        let raw = load(bytes, at, bits as u8, class.byte_order)?;
        Some(if reversed {
            reverse(raw, bits as u8)
        } else {
            raw
        })
    };
    (0..class.size.div_ceil(64)).map(limb).collect()
}

/// Offset in bytes of the first code unit of `unit` zeros.
#[inline]
pub(crate) fn terminator(bytes: &[u8], unit: usize) -> Option<usize> {
    if unit == 1 {
        return first_zero(bytes);
    }
    let units = bytes
        .chunks_exact(unit)
        .position(|unit| unit.iter().all(|&byte| byte == 0))?;
    Some(units * unit)
}

/// Offset of the first zero byte. Most texts are short, so the first few words are searched without
/// a call.
#[inline]
fn first_zero(bytes: &[u8]) -> Option<usize> {
    const ONES: u128 = u128::MAX / 0xff;
    let mut at = 0;
    while at < 96
        && let Some(sixteen) = bytes.get(at..).and_then(<[u8]>::first_chunk::<16>)
    {
        // Has no branch inside, so it compiles to one vector comparison.
        if sixteen.iter().fold(false, |any, byte| any | (*byte == 0)) {
            let word = u128::from_le_bytes(*sixteen);
            // The lowest set bit is the top bit of the first zero byte.
            let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
            return Some(at + (zeros.trailing_zeros() / 8) as usize);
        }
        at += 16;
    }
    Some(at + memchr::memchr(0, bytes.get(at..)?)?)
}

/// Why bytes are not a LEB128 integer of up to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LebError {
    Unfinished,
    TooLarge,
}

/// The LEB128 integer at the start of `bytes`, sign-extended to 64 bits if `signed`, and its length
/// in bytes.
pub(crate) fn leb128(bytes: &[u8], signed: bool) -> Result<(u64, usize), LebError> {
    let mut value: u64 = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        let shift = index * 7;
        let bits = u64::from(byte & 0x7f);
        let last = byte & 0x80 == 0;
        // Bytes after the tenth, and the tenth's upper bits, may only repeat the sign.
        let filler = if signed && value >> 63 == 1 { 0x7f } else { 0 };
        match shift {
            0..63 => value |= bits << shift,
            63 => {
                let wanted = if signed && bits & 1 == 1 {
                    0x7f
                } else {
                    bits & 1
                };
                if bits != wanted {
                    return Err(LebError::TooLarge);
                }
                value |= bits << 63;
            }
            _ if bits != filler => return Err(LebError::TooLarge),
            _ => {}
        }
        if last {
            let width = shift + 7;
            if signed && width < 64 {
                value = sign_extend(value, width as u8).cast_unsigned();
            }
            return Ok((value, index + 1));
        }
    }
    Err(LebError::Unfinished)
}

/// A LEB128 integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leb {
    /// An integer of up to 64 bits, sign-extended to 64 bits if it is signed.
    Small(u64),
    /// Of more.
    Wide(WideInt),
}

/// Length of the LEB128 integer at the start of `bytes`.
pub(crate) fn leb128_length(bytes: &[u8]) -> Option<usize> {
    Some(bytes.iter().position(|byte| byte & 0x80 == 0)? + 1)
}

/// The LEB128 integer of any size at the start of `bytes`, and its length.
#[cold]
pub(crate) fn leb128_wide(bytes: &[u8], signed: bool) -> Option<(WideInt, usize)> {
    let length = leb128_length(bytes)?;
    let (mut limbs, mut limb, mut filled) = (Vec::with_capacity(length * 7 / 64 + 1), 0, 0);
    for byte in bytes.get(..length)? {
        let bits = u64::from(byte & 0x7f);
        limb |= bits << filled;
        filled += 7;
        if filled >= 64 {
            limbs.push(limb);
            filled -= 64;
            limb = bits >> (7 - filled);
        }
    }
    if filled > 0 {
        limbs.push(limb);
    }
    Some((WideInt::from_bits(limbs, length as u64 * 7, signed), length))
}

/// The low `size` bits of `value` in reverse order.
pub(crate) fn reverse(value: u64, size: u8) -> u64 {
    value.reverse_bits() >> (64 - u32::from(size.clamp(1, 64)))
}

/// A byte offset as an index. One that does not fit becomes an index beyond any slice, for which
/// `get` returns `None`.
fn to_index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// The low `size` bits set.
pub(crate) fn low_mask(size: u8) -> u64 {
    match size {
        0 => 0,
        1..64 => (1 << size) - 1,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ByteOrder::{Big, Little};

    /// Reference implementation, bit by bit from the definition.
    fn slow(bytes: &[u8], start: u64, size: u8, order: ByteOrder) -> u64 {
        (0..u64::from(size)).fold(0, |value, i| {
            let at = start + i;
            let byte = bytes[(at / 8) as usize];
            match order {
                Little => value | u64::from(byte >> (at % 8) & 1) << i,
                Big => value << 1 | u64::from(byte >> (7 - at % 8) & 1),
            }
        })
    }

    #[test]
    fn every_size_at_every_bit_agrees_with_the_definition() {
        let bytes: Vec<u8> = (0..24u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for order in [Little, Big] {
            for size in 1..=64 {
                for start in 0..64 {
                    let mut cursor = BitCursor::new(&bytes, start, u64::MAX);
                    assert_eq!(
                        cursor.integer(size, order).unwrap(),
                        slow(&bytes, start, size, order),
                        "{size} bits at {start}, {order:?}"
                    );
                    assert_eq!(cursor.position(), start + u64::from(size));
                }
            }
        }
    }

    #[test]
    fn nothing_is_read_past_the_limit() {
        let mut cursor = BitCursor::new(&[1, 2, 3], 0, 20);
        assert_eq!(cursor.integer(16, Big), Ok(0x0102));
        assert_eq!(
            cursor.integer(5, Big),
            Err(DecodeError::UnexpectedEnd { needed: 5, left: 4 })
        );
        assert_eq!(cursor.integer(4, Big), Ok(0));
        assert!(BitCursor::new(&[1], 0, 99).skip(9).is_err());
        assert!(BitCursor::new(&[b'a', 0], 0, 8).bytes_to_zero(1).is_err());
    }

    #[test]
    fn a_byte_has_one_order() {
        let mut cursor = BitCursor::new(&[0xff; 4], 0, 32);
        assert!(cursor.integer(4, Big).is_ok());
        assert_eq!(
            cursor.integer(4, Little),
            Err(DecodeError::ByteOrderInsideByte)
        );
        assert!(cursor.integer(4, Big).is_ok());
        assert!(cursor.integer(4, Little).is_ok());
    }

    #[test]
    fn leb128_to_64_bits_and_no_further() {
        let unsigned = |bytes: &[u8]| leb128(bytes, false);
        let signed =
            |bytes: &[u8]| leb128(bytes, true).map(|(value, length)| (value.cast_signed(), length));
        assert_eq!(unsigned(&[0xe5, 0x8e, 0x26, 9]), Ok((624_485, 3)));
        assert_eq!(signed(&[0xc0, 0xbb, 0x78]), Ok((-123_456, 3)));
        assert_eq!(signed(&[0x7f]), Ok((-1, 1)));
        assert_eq!(signed(&[0x3f]), Ok((63, 1)));
        assert_eq!(
            unsigned(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            Ok((u64::MAX, 10))
        );
        assert_eq!(
            signed(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f]),
            Ok((i64::MIN, 10))
        );
        assert_eq!(
            unsigned(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
            Err(LebError::TooLarge)
        );
        assert_eq!(
            signed(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            Err(LebError::TooLarge)
        );
        // Redundant zeros (or signs) may follow.
        assert_eq!(
            unsigned(&[
                0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0
            ]),
            Ok((1, 12))
        );
        assert_eq!(unsigned(&[0x80]), Err(LebError::Unfinished));
        assert_eq!(unsigned(&[]), Err(LebError::Unfinished));
    }

    #[test]
    fn leb128_of_any_size() {
        let of = |text: &str| WideInt::from_decimal(text).unwrap();
        let mut bytes = [0x80; 20];
        bytes[10] = 1;
        assert_eq!(
            leb128_wide(&bytes, false),
            Some((of("1180591620717411303424"), 11))
        );
        assert_eq!(
            leb128_wide(&[&[0xff; 18][..], &[3]].concat(), false),
            Some((of(&u128::MAX.to_string()), 19))
        );
        bytes[10] = 0x7f;
        assert_eq!(
            leb128_wide(&bytes, true),
            Some((of("-1180591620717411303424"), 11))
        );
        assert_eq!(leb128_wide(&[0x80; 30], true), None);
        let mut cursor = BitCursor::new(&bytes, 0, u64::MAX);
        assert_eq!(
            (cursor.leb128(true), cursor.position()),
            (Ok(Leb::Wide(of("-1180591620717411303424"))), 88)
        );
        // Numbers that fit are the same both ways.
        for value in [0, 1, -1, 63, 64, -64, -65, i64::MIN, i64::MAX] {
            for length in 10..150 {
                let byte = |index: u32| (value >> (index * 7).min(63)) as u8 & 0x7f;
                let mut bytes: Vec<u8> = (0..length).map(|index| byte(index) | 0x80).collect();
                *bytes.last_mut().unwrap() &= 0x7f;
                assert_eq!(
                    leb128(&bytes, true),
                    Ok((value.cast_unsigned(), length as usize))
                );
                assert_eq!(
                    leb128_wide(&bytes, true),
                    Some((i128::from(value).into(), length as usize))
                );
            }
        }
    }

    #[test]
    fn wide_bits_agree_with_the_definition() {
        let bytes: Vec<u8> = (0..60u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for order in [Little, Big] {
            for bit_order in [BitOrder::Natural, BitOrder::Reversed] {
                for size in [65, 66, 71, 72, 100, 127, 128, 129, 191, 192, 193, 300] {
                    for start in 0..70 {
                        let class = WideClass {
                            bit_order,
                            ..WideClass::new(size, 1, false, order)
                        };
                        // The bits in storage order; the two orders determine which is the least
                        // significant.
                        let mut bits: Vec<u64> = (0..size)
                            .map(|bit| slow(&bytes, start + bit, 1, order))
                            .collect();
                        if (order == Big) != (bit_order == BitOrder::Reversed) {
                            bits.reverse();
                        }
                        let wanted: Vec<u64> = bits
                            .chunks(64)
                            .map(|chunk| chunk.iter().rev().fold(0, |limb, bit| limb << 1 | bit))
                            .collect();
                        let mut cursor = BitCursor::new(&bytes, start, u64::MAX);
                        assert_eq!(
                            cursor.wide(&class),
                            Ok(wanted),
                            "{size} bits at {start}, {order:?} {bit_order:?}"
                        );
                        assert_eq!(cursor.position(), start + size);
                    }
                }
            }
        }
        let class = |size, order| WideClass::new(size, 1, false, order);
        let mut cursor = BitCursor::new(&bytes, 4, 200);
        assert_eq!(
            cursor.wide(&class(197, Big)),
            Err(DecodeError::UnexpectedEnd {
                needed: 197,
                left: 196
            })
        );
        assert!(cursor.wide(&class(66, Big)).is_ok());
        assert_eq!(
            cursor.wide(&class(66, Little)),
            Err(DecodeError::ByteOrderInsideByte)
        );
        assert_eq!(
            cursor.integer(1, Little),
            Err(DecodeError::ByteOrderInsideByte)
        );
    }

    #[test]
    fn bits_are_reversed_within_their_size() {
        assert_eq!(reverse(0b0011, 4), 0b1100);
        assert_eq!(reverse(1, 64), 1 << 63);
        assert_eq!(reverse(1, 1), 1);
    }

    #[test]
    fn terminators_are_whole_code_units() {
        assert_eq!(terminator(b"ab\0", 1), Some(2));
        assert_eq!(terminator(&[1, 0, 0, 1, 0, 0], 2), Some(4));
        assert_eq!(terminator(&[1, 0, 0], 2), None);
        for length in 0..70 {
            let mut bytes = vec![0x80; length];
            bytes.extend([0, 1, 0]);
            assert_eq!(terminator(&bytes, 1), Some(length));
            assert_eq!(terminator(&bytes[..length], 1), None);
        }
    }

    #[test]
    fn signs_are_extended() {
        assert_eq!(sign_extend(0b111, 3), -1);
        assert_eq!(sign_extend(0b011, 3), 3);
        assert_eq!(sign_extend(u64::MAX, 64), -1);
        assert_eq!(sign_extend(1, 1), -1);
    }
}
