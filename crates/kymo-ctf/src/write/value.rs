//! Copies values from a packet of the source to the output, by plans that are made once for each
//! class.

use std::sync::Arc;

use super::framing::put;
use crate::class::wide_int::WideInt;
use crate::class::{
    BitOrder, ByteOrder, Choice, FieldClass, FloatClass, IntRange, IntegerClass, LinkedLength,
    StringLength, TextEncoding, WideClass,
};
use crate::decode::bits::Leb;
use crate::decode::choice::{choose, is_there};
use crate::decode::place::Place;
use crate::decode::state::ABSENT;
use crate::decode::text;
use crate::error::DecodeError;

/// How to write one field.
#[derive(Debug)]
pub(super) enum Write {
    /// The field is not written, only read for the fields that depend on it.
    Skip(FieldClass),
    /// An integer, as one of this many bytes.
    Integer {
        from: IntegerClass,
        bytes: u8,
    },
    /// A boolean, as one byte, 0 or 1.
    Bool(IntegerClass),
    /// An integer of more than 64 bits, as one of this many bytes.
    Wide {
        from: WideClass,
        bytes: u64,
    },
    /// An integer of more than 64 bits, as zero-terminated text.
    WideText(WideClass),
    /// A boolean of more than 64 bits, as one byte, 0 or 1.
    WideBool(WideClass),
    /// A LEB128 integer, as such or as an integer of 8 bytes.
    Leb {
        signed: bool,
        slot: u32,
        fixed: bool,
    },
    /// A floating-point number of this many bytes.
    Float {
        from: FloatClass,
        bytes: u8,
    },
    /// Bytes unchanged, with their terminator.
    Bytes {
        length: StringLength,
        unit: usize,
    },
    /// Text as zero-terminated UTF-8, up to its first zero.
    Text {
        length: StringLength,
        encoding: TextEncoding,
    },
    Struct(StructWrite),
    Array {
        length: LinkedLength,
        alignment: u32,
        element: Box<Write>,
    },
    Variant {
        slot: u32,
        choices: Arc<[Choice]>,
        options: Vec<Write>,
        clears: Arc<[u32]>,
    },
    Optional {
        test: Test,
        class: Box<Write>,
        clears: Arc<[u32]>,
    },
}

/// How to write the members of a structure.
#[derive(Debug, Default)]
pub(super) struct StructWrite {
    pub(super) alignment: u32,
    pub(super) members: Vec<MemberWrite>,
}

/// How to write a member, with the copies before it of values that it cannot refer to.
#[derive(Debug)]
pub(super) struct MemberWrite {
    pub(super) copies: Vec<Copy>,
    pub(super) write: Write,
}

/// How to copy a value that was read before.
#[derive(Debug, Clone)]
pub(super) enum Copy {
    /// As an integer of 8 bytes.
    Number(u32),
    /// As an integer of this many bytes, more than 8.
    Wide(u32, u64),
    /// As LEB128, signed or unsigned.
    Leb(u32, bool),
    /// As the index of the variant's option that it selects, in 8 bytes.
    Option(u32, Arc<[Choice]>),
    /// As whether an optional field is present, in one byte.
    There(Test),
}

/// Test for the presence of an optional field.
#[derive(Debug, Clone)]
pub(super) struct Test {
    pub(super) slot: u32,
    pub(super) ranges: Option<Vec<IntRange>>,
}

impl Test {
    fn holds(&self, place: &Place<'_>) -> bool {
        // If the selector is absent, so is the field.
        let value = place.slots.get(self.slot);
        value != ABSENT && is_there(self.ranges.as_deref(), value, &place.slots, self.slot)
    }
}

/// Why a field was not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// The field cannot be read.
    Unread(DecodeError),
    /// This number does not fit into the written field.
    Wide(WideInt),
}

impl From<DecodeError> for Unwritten {
    fn from(reason: DecodeError) -> Self {
        Unwritten::Unread(reason)
    }
}

type Written = Result<(), Unwritten>;

/// Not expected: records are written only after they were skipped without an error.
const GONE: DecodeError = DecodeError::AbsentField;

impl StructWrite {
    pub(super) fn put(&self, place: &mut Place<'_>, out: &mut Vec<u8>) -> Written {
        place.align(self.alignment);
        for member in &self.members {
            for copy in &member.copies {
                match copy {
                    Copy::Number(slot) => put(out, low(place.slots.get(*slot)), 8),
                    Copy::Wide(slot, bytes) => match place.slots.get(*slot) {
                        ABSENT => put_wide(out, &WideInt::from(0_u128), *bytes),
                        _ => put_wide(out, &place.slots.exact(*slot), *bytes),
                    },
                    Copy::Leb(slot, signed) => match place.slots.get(*slot) {
                        ABSENT => out.push(0),
                        _ => put_wide_leb(out, &place.slots.exact(*slot), *signed),
                    },
                    // If no option is selected, the variant is absent.
                    Copy::Option(slot, choices) => put(
                        out,
                        choose(choices, &place.slots, *slot).unwrap_or(0) as u64,
                        8,
                    ),
                    Copy::There(test) => out.push(test.holds(place).into()),
                }
            }
            member.write.put(place, out)?;
        }
        Ok(())
    }
}

/// Two's complement in 64 bits. The value of an absent field does not matter, as the fields that
/// depend on it are absent, too.
fn low(value: i128) -> u64 {
    if value == ABSENT { 0 } else { value as u64 }
}

impl Write {
    fn put(&self, place: &mut Place<'_>, out: &mut Vec<u8>) -> Written {
        match self {
            Write::Skip(class) => place.walk(|walker| walker.field(class))?,
            Write::Integer { from, bytes } => {
                let raw = place.integer(from).ok_or(GONE)?;
                let value = if from.signed {
                    from.sign_extend(raw).cast_unsigned()
                } else {
                    raw
                };
                put(out, value, *bytes);
            }
            Write::Bool(from) => {
                let value = place.integer(from).ok_or(GONE)? != 0;
                place.slots.set(from.slot, value.into());
                out.push(value.into());
            }
            Write::Leb {
                signed,
                slot,
                fixed,
            } => match place.var_int(*signed, *slot).ok_or(GONE)? {
                Leb::Small(raw) if *fixed => put(out, raw, 8),
                Leb::Small(raw) => put_leb(out, raw, *signed),
                Leb::Wide(value) if *fixed => return Err(Unwritten::Wide(value)),
                Leb::Wide(value) => put_wide_leb(out, &value, *signed),
            },
            Write::Wide { from, bytes } => {
                let value = place.wide(from).ok_or(GONE)?;
                put_wide(out, &value, *bytes);
            }
            Write::WideText(from) => {
                out.extend_from_slice(place.wide(from).ok_or(GONE)?.in_base(from.base).as_bytes());
                out.push(0);
            }
            Write::WideBool(from) => out.push((!place.wide(from).ok_or(GONE)?.is_zero()).into()),
            Write::Float { from, bytes } => float(place, from, *bytes, out)?,
            Write::Bytes { length, unit } => {
                out.extend_from_slice(place.bytes(length, *unit).ok_or(GONE)?);
                if matches!(length, StringLength::Terminated) {
                    out.extend(std::iter::repeat_n(0, *unit));
                }
            }
            Write::Text { length, encoding } => {
                let bytes = place.bytes(length, encoding.unit()).ok_or(GONE)?;
                out.extend_from_slice(text::decode(bytes, *encoding).as_bytes());
                out.push(0);
            }
            Write::Struct(of) => of.put(place, out)?,
            Write::Array {
                length,
                alignment,
                element,
            } => {
                let length = match length {
                    LinkedLength::Fixed(length) => *length,
                    LinkedLength::Slot(slot) => place.slots.checked_length(*slot)?,
                };
                place.align(*alignment);
                (0..length).try_for_each(|_| element.put(place, out))?;
            }
            Write::Variant {
                slot,
                choices,
                options,
                clears,
            } => {
                let option = choose(choices, &place.slots, *slot).ok_or(GONE)?;
                place.slots.clear(clears);
                options
                    .get(option)
                    .ok_or(DecodeError::AbsentField)?
                    .put(place, out)?;
            }
            Write::Optional {
                test,
                class,
                clears,
            } => {
                let is_there = test.holds(place);
                place.slots.clear(clears);
                if is_there {
                    class.put(place, out)?;
                }
            }
        }
        Ok(())
    }
}

fn float(place: &mut Place<'_>, from: &FloatClass, bytes: u8, out: &mut Vec<u8>) -> Written {
    if u32::from(bytes) * 8 != u32::from(from.size) {
        let value = place.float(from).ok_or(GONE)?;
        if bytes == 4 {
            out.extend_from_slice(&(value as f32).to_le_bytes());
        } else {
            out.extend_from_slice(&value.to_le_bytes());
        }
        return Ok(());
    }
    place.align(from.alignment);
    let (size, order) = (from.size.min(64), from.byte_order);
    let mut part = || {
        let bits = place.walk(|walker| walker.cursor.integer(size, order))?;
        Ok::<_, DecodeError>(u128::from(bits))
    };
    let raw = match (from.size, order) {
        (128, ByteOrder::Big) => part()? << 64 | part()?,
        (128, ByteOrder::Little) => part()? | part()? << 64,
        _ => part()?,
    };
    let raw = match from.bit_order {
        BitOrder::Natural => raw,
        BitOrder::Reversed => raw.reverse_bits() >> (128 - u32::from(from.size)),
    };
    out.extend_from_slice(raw.to_le_bytes().get(..usize::from(bytes)).unwrap_or(&[]));
    Ok(())
}

/// Appends LEB128 in as few bytes as possible.
pub(super) fn put_leb(out: &mut Vec<u8>, mut value: u64, signed: bool) {
    loop {
        let seven = (value & 0x7f) as u8;
        value = if signed {
            (value.cast_signed() >> 7).cast_unsigned()
        } else {
            value >> 7
        };
        let sign = seven & 0x40 != 0;
        let done = match value {
            0 => !signed || !sign,
            u64::MAX => signed && sign,
            _ => false,
        };
        if done {
            return out.push(seven);
        }
        out.push(seven | 0x80);
    }
}

/// Appends the low `bytes` bytes of a number.
fn put_wide(out: &mut Vec<u8>, value: &WideInt, bytes: u64) {
    let limbs = value.to_bits(bytes.saturating_mul(8));
    let little = limbs.iter().flat_map(|limb| limb.to_le_bytes());
    out.extend(little.take(usize::try_from(bytes).unwrap_or(0)));
}

/// Appends a number of any size as LEB128.
fn put_wide_leb(out: &mut Vec<u8>, value: &WideInt, signed: bool) {
    let bits = value.bits().saturating_add(signed.into());
    let count = bits.div_ceil(7).max(1);
    let limbs = value.to_bits(count * 7);
    let bit = |at: u64| {
        limbs
            .get((at / 64) as usize)
            .is_some_and(|limb| limb >> (at % 64) & 1 == 1)
    };
    for seven in 0..count {
        let low = (0..7)
            .filter(|more| bit(seven * 7 + more))
            .fold(0, |low, more| low | 1 << more);
        out.push(if seven + 1 < count { low | 0x80 } else { low });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::bits::{leb128, leb128_wide};

    #[test]
    fn leb128_is_read_as_it_was_written() {
        for value in [
            0,
            1,
            0x3f,
            0x40,
            0x7f,
            0x80,
            0x3fff,
            1 << 62,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ] {
            for signed in [false, true] {
                let mut bytes = Vec::new();
                put_leb(&mut bytes, value, signed);
                assert_eq!(
                    leb128(&bytes, signed),
                    Ok((value, bytes.len())),
                    "{value} {signed}"
                );
            }
        }
        let mut bytes = Vec::new();
        put_leb(&mut bytes, (-1_i64).cast_unsigned(), true);
        assert_eq!(bytes, [0x7f]);
    }

    #[test]
    fn leb128_of_any_size_is_read_as_it_was_written() {
        let texts = [
            "0",
            "1",
            "-1",
            "63",
            "64",
            "-64",
            "-65",
            "18446744073709551616",
            "-18446744073709551616",
        ];
        let large = [
            "1180591620717411303423",
            "1180591620717411303424",
            "-590295810358705651713",
            "-1180591620717411303424",
        ];
        for text in texts.into_iter().chain(large) {
            let value = WideInt::from_decimal(text).unwrap();
            for signed in [value.is_negative(), true] {
                let mut bytes = Vec::new();
                put_wide_leb(&mut bytes, &value, signed);
                assert_eq!(
                    leb128_wide(&bytes, signed),
                    Some((value.clone(), bytes.len())),
                    "{text} {signed}"
                );
            }
        }
    }
}
