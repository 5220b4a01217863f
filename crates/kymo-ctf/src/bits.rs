//! Reading integers at any bit of a packet.

use crate::class::ByteOrder;
use crate::error::DecodeError;

/// A place in a packet, in bits from its first, and the bits up to `limit`.
///
/// In little-endian order the bits of a byte are counted from the least significant one up, in big-endian order from the most
/// significant one down, so that in both an integer's bits are neighbours.
#[derive(Debug, Clone)]
pub(crate) struct BitCursor<'a> {
    bytes: &'a [u8],
    position: u64,
    limit: u64,
    /// Order of the last integer, which is that of the bits before `position` in its byte.
    order: Option<ByteOrder>,
}

impl<'a> BitCursor<'a> {
    /// A cursor at bit `position`, reading no further than bit `limit` nor than `bytes` goes.
    pub(crate) fn new(bytes: &'a [u8], position: u64, limit: u64) -> Self {
        let all = (bytes.len() as u64).saturating_mul(8);
        BitCursor { bytes, position, limit: limit.min(all), order: None }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.position)
    }

    /// Steps to the next multiple of `alignment`, a power of two.
    pub(crate) fn align(&mut self, alignment: u32) -> Result<(), DecodeError> {
        let mask = u64::from(alignment.max(1)) - 1;
        let padding = self.position.wrapping_neg() & mask;
        self.skip(padding)
    }

    /// Steps over `count` bits.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), DecodeError> {
        let left = self.left();
        if count > left {
            return Err(DecodeError::UnexpectedEnd { needed: count, left });
        }
        self.position += count;
        Ok(())
    }

    /// An integer of `size` bits (1 to 64), not sign-extended.
    pub(crate) fn integer(&mut self, size: u8, order: ByteOrder) -> Result<u64, DecodeError> {
        let start = self.position;
        let shift = start % 8;
        if shift != 0 && self.order.is_some_and(|before| before != order) {
            return Err(DecodeError::ByteOrderInsideByte);
        }
        self.skip(u64::from(size))?;
        self.order = Some(order);
        let end = self.position.div_ceil(8);
        let bytes = self.bytes.get(to_index(start / 8)..to_index(end)).unwrap_or(&[]);
        // 64 bits that begin inside a byte touch nine.
        let mut gathered: u128 = 0;
        let value = match order {
            ByteOrder::Little => {
                for &byte in bytes.iter().rev() {
                    gathered = gathered << 8 | u128::from(byte);
                }
                gathered >> shift
            }
            ByteOrder::Big => {
                for &byte in bytes {
                    gathered = gathered << 8 | u128::from(byte);
                }
                gathered >> (end * 8 - self.position)
            }
        };
        Ok(value as u64 & low_mask(size))
    }

    /// The next `count` bytes; the place must be on a byte.
    pub(crate) fn take_bytes(&mut self, count: u64) -> Result<&'a [u8], DecodeError> {
        let needed = count.saturating_mul(8);
        let start = self.position;
        self.skip(needed)?;
        self.order = None;
        let end = to_index(self.position / 8);
        Ok(self.bytes.get(to_index(start / 8)..end).unwrap_or(&[]))
    }

    /// The bytes up to the next zero byte, which is stepped over; the place must be on a byte.
    pub(crate) fn bytes_to_zero(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = to_index(self.position / 8);
        let end = to_index(self.limit / 8);
        let rest = self.bytes.get(start..end).unwrap_or(&[]);
        let Some(length) = rest.iter().position(|&byte| byte == 0) else {
            let left = self.left();
            return Err(DecodeError::UnexpectedEnd { needed: left.saturating_add(8), left });
        };
        self.skip((length as u64 + 1).saturating_mul(8))?;
        self.order = None;
        Ok(rest.get(..length).unwrap_or(&[]))
    }
}

/// A byte offset as an index. One that does not fit is past every slice, and the slices are asked with `get`.
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

/// The value of the low `size` bits as two's complement.
pub(crate) fn sign_extend(value: u64, size: u8) -> i64 {
    let unused = 64 - u32::from(size.clamp(1, 64));
    (value << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use ByteOrder::{Big, Little};

    /// Bit by bit, straight from the definition.
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
        let bytes: Vec<u8> = (0..24u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
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
        assert_eq!(cursor.integer(5, Big), Err(DecodeError::UnexpectedEnd { needed: 5, left: 4 }));
        assert_eq!(cursor.integer(4, Big), Ok(0));
        assert!(BitCursor::new(&[1], 0, 99).skip(9).is_err());
        assert!(BitCursor::new(&[b'a', 0], 0, 8).bytes_to_zero().is_err());
    }

    #[test]
    fn a_byte_has_one_order() {
        let mut cursor = BitCursor::new(&[0xff; 4], 0, 32);
        assert!(cursor.integer(4, Big).is_ok());
        assert_eq!(cursor.integer(4, Little), Err(DecodeError::ByteOrderInsideByte));
        assert!(cursor.integer(4, Big).is_ok());
        assert!(cursor.integer(4, Little).is_ok());
    }

    #[test]
    fn signs_are_extended() {
        assert_eq!(sign_extend(0b111, 3), -1);
        assert_eq!(sign_extend(0b011, 3), 3);
        assert_eq!(sign_extend(u64::MAX, 64), -1);
        assert_eq!(sign_extend(1, 1), -1);
    }
}
