//! Walks over fields one by one with every check, and stores the values that others need.
//!
//! It reads packet headers and contexts, unusual event headers, and again every record that the
//! compiled [plan](crate::decode::plan) could not skip, to report what is wrong with it and where.

use crate::class::wide_int::WideInt;
use crate::class::{
    ArrayClass, BitOrder, ByteOrder, Choice, FieldClass, IntegerClass, LinkedLength, NO_SLOT, Role,
    Roles, StringLength, StructClass, WideClass, WideKind,
};
use crate::decode::bits::{BitCursor, Leb, reverse, terminator};
use crate::decode::choice::choose;
use crate::decode::state::{ABSENT, Seen, Slots};
use crate::error::DecodeError;

/// Limit on zero-sized elements in one record, so that a few bytes cannot cost much time.
pub(crate) const EMPTY_ELEMENTS: u64 = 1 << 16;

/// Walks over fields at a cursor.
pub(crate) struct Walker<'a, 's> {
    pub(crate) cursor: BitCursor<'a>,
    pub(crate) slots: &'s mut Slots,
    /// Receives the values of fields with roles, if they are needed.
    pub(crate) seen: Option<&'s mut Seen>,
    /// Remaining allowance of zero-sized elements.
    pub(crate) empty: u64,
}

type Walked<T> = Result<T, DecodeError>;

impl<'a, 's> Walker<'a, 's> {
    /// A walker at bit `position` of `bytes` that stops at bit `limit`.
    pub(crate) fn new(
        bytes: &'a [u8],
        position: u64,
        limit: u64,
        slots: &'s mut Slots,
        seen: Option<&'s mut Seen>,
    ) -> Self {
        Walker {
            cursor: BitCursor::new(bytes, position, limit),
            slots,
            seen,
            empty: EMPTY_ELEMENTS,
        }
    }

    /// Sets the byte order of the previous field: two byte orders cannot share a byte.
    pub(crate) fn after(self, order: Option<ByteOrder>) -> Self {
        Walker {
            cursor: self.cursor.after(order),
            ..self
        }
    }

    /// Walks over all members of a structure.
    pub(crate) fn structure(&mut self, class: &StructClass) -> Walked<()> {
        self.cursor.align(class.alignment)?;
        class
            .members
            .iter()
            .try_for_each(|member| self.field(&member.class))
    }

    /// Walks over one field.
    pub(crate) fn field(&mut self, class: &FieldClass) -> Walked<()> {
        match class {
            FieldClass::Integer(class) | FieldClass::BitArray(class) => self.integer(class),
            FieldClass::Enum(class) => self.integer(&class.integer),
            FieldClass::BitMap(class) => self.integer(&class.integer),
            FieldClass::Bool(class) => {
                self.integer(class)?;
                let value = self.slots.get(class.slot);
                self.slots.set(class.slot, i128::from(value != 0));
                Ok(())
            }
            FieldClass::Float(class) => {
                self.cursor.align(class.alignment)?;
                let halves = if class.size > 64 { 2 } else { 1 };
                (0..halves).try_for_each(|_| {
                    self.cursor
                        .integer(class.size / halves, class.byte_order)
                        .map(drop)
                })
            }
            FieldClass::Wide(class)
                if class.slot == NO_SLOT && (class.roles.is_empty() || self.seen.is_none()) =>
            {
                self.cursor.align(class.alignment)?;
                self.cursor.skip_wide(class)
            }
            FieldClass::Wide(class) => {
                let value = self.wide(class)?;
                match value.to_u64() {
                    Some(value) => self.note(class.roles, value, 64),
                    None => self.note_wide(class.roles, &value)?,
                }
                Ok(())
            }
            FieldClass::VarInt(class) => {
                self.cursor.align(8)?;
                let begin = self.cursor.position();
                let raw = match self.leb128(class.signed, class.slot)? {
                    Leb::Small(raw) => raw,
                    Leb::Wide(value) => return self.note_wide(class.roles, &value),
                };
                // As a clock value it has low bits, seven per byte; otherwise it is the full value.
                let bits = (self.cursor.position() - begin) / 8 * 7;
                self.note(class.roles.times(), raw, bits.min(64) as u8);
                self.note(class.roles.others(), raw, 64);
                Ok(())
            }
            FieldClass::String(class) => {
                self.cursor.align(8)?;
                match &class.length {
                    StringLength::Terminated => {
                        self.cursor.bytes_to_zero(class.encoding.unit()).map(drop)
                    }
                    length => self.bytes(length, class.encoding.unit()),
                }
            }
            FieldClass::Blob(class) => {
                self.cursor.align(8)?;
                self.note_uuid(class.roles);
                self.bytes(&class.length, 1)
            }
            FieldClass::Struct(class) => self.structure(class),
            FieldClass::Array(class) => {
                let length = self.length(class)?;
                self.note_uuid(class.roles);
                (0..length).try_for_each(|_| self.field(&class.element))
            }
            FieldClass::Variant(class) => {
                let option = self.chosen(class.selector.slot, &class.choices)?;
                self.slots.clear(&class.clears);
                self.field(
                    &class
                        .options
                        .get(option)
                        .ok_or(DecodeError::AbsentField)?
                        .class,
                )
            }
            FieldClass::Optional(class) => {
                let absent = self.slots.get(class.selector.slot) == ABSENT;
                let is_there = class.is_there(self.slots);
                self.slots.clear(&class.clears);
                match is_there {
                    _ if absent => Err(DecodeError::AbsentField),
                    true => self.field(&class.class),
                    false => Ok(()),
                }
            }
        }
    }

    /// The option that the value in a slot selects.
    pub(crate) fn chosen(&self, slot: u32, choices: &[Choice]) -> Walked<usize> {
        let none = || match self.slots.get(slot) {
            ABSENT => DecodeError::AbsentField,
            _ => DecodeError::NoSuchOption(self.slots.exact(slot)),
        };
        choose(choices, self.slots, slot).ok_or_else(none)
    }

    /// Reads a LEB128 integer and stores it in a slot.
    pub(crate) fn leb128(&mut self, signed: bool, slot: u32) -> Walked<Leb> {
        self.cursor.align(8)?;
        let value = self.cursor.leb128(signed)?;
        match &value {
            Leb::Small(raw) => self.slots.set(
                slot,
                if signed {
                    raw.cast_signed().into()
                } else {
                    (*raw).into()
                },
            ),
            Leb::Wide(value) => self.slots.set_wide(slot, value),
        }
        Ok(value)
    }

    /// Reads an integer of more than 64 bits, or a field stored as one, and stores it in a slot;
    /// for a boolean, stores whether any bit is set.
    pub(crate) fn wide(&mut self, class: &WideClass) -> Walked<WideInt> {
        self.cursor.align(class.alignment)?;
        let value = WideInt::from_bits(self.cursor.wide(class)?, class.size, class.signed);
        match class.kind {
            WideKind::Bool => self.slots.set(class.slot, (!value.is_zero()).into()),
            _ => self.slots.set_wide(class.slot, &value),
        }
        Ok(value)
    }

    fn note_wide(&mut self, roles: Roles, value: &WideInt) -> Walked<()> {
        match &mut self.seen {
            Some(seen) => seen.note_wide(roles, value),
            None => Ok(()),
        }
    }

    fn note(&mut self, roles: Roles, value: u64, size: u8) {
        if let Some(seen) = &mut self.seen {
            seen.note(roles, value, size);
        }
    }

    fn note_uuid(&mut self, roles: Roles) {
        if let Some(seen) = &mut self.seen
            && roles.has(Role::MetadataUuid)
        {
            seen.uuids.push(self.cursor.position());
        }
    }

    /// Walks over text in code units of `unit` bytes; the last one may be incomplete only after a
    /// terminator.
    fn bytes(&mut self, length: &StringLength, unit: usize) -> Walked<()> {
        let length = match length {
            StringLength::Terminated => 0,
            StringLength::Static(length) => *length,
            StringLength::Dynamic(location) => self.slots.checked_length(location.slot)?,
        };
        let left = self.cursor.left();
        if length > left / 8 {
            return Err(DecodeError::LengthTooLarge { length, left });
        }
        let begin = self.cursor.clone();
        let bytes = self.cursor.take_bytes(length)?;
        let rest = bytes.len() % unit;
        if rest != 0 && terminator(bytes, unit).is_none() {
            self.cursor = begin;
            return Err(DecodeError::UnexpectedEnd {
                needed: unit as u64 * 8,
                left: rest as u64 * 8,
            });
        }
        Ok(())
    }

    /// Aligns to the first element and returns the number of elements, which fit into the packet.
    fn length(&mut self, class: &ArrayClass) -> Walked<u64> {
        let length = match class.linked_length() {
            LinkedLength::Fixed(length) => length,
            LinkedLength::Slot(slot) => self.slots.checked_length(slot)?,
        };
        self.cursor
            .align(class.element.alignment().max(class.minimum_alignment))?;
        let left = self.cursor.left();
        let too_large = Err(DecodeError::LengthTooLarge { length, left });
        if class.element_bits == 0 {
            let Some(empty) = self.empty.checked_sub(length) else {
                return too_large;
            };
            self.empty = empty;
        }
        match length.checked_mul(class.element_bits) {
            Some(bits) if bits <= left => Ok(length),
            _ => too_large,
        }
    }

    fn integer(&mut self, class: &IntegerClass) -> Walked<()> {
        self.cursor.align(class.alignment)?;
        if let Some(unit) = class.unit {
            self.cursor
                .skip(unit.padding(self.cursor.position(), class.size))?;
        }
        let raw = self.cursor.integer(class.size, class.byte_order)?;
        let raw = in_order(raw, class);
        self.slots.set(class.slot, widened(raw, class));
        self.note(class.roles, raw, class.size);
        Ok(())
    }
}

/// The bits in the class's bit order.
#[inline]
pub(crate) fn in_order(raw: u64, class: &IntegerClass) -> u64 {
    match class.bit_order {
        BitOrder::Natural => raw,
        BitOrder::Reversed => reverse(raw, class.size),
    }
}

#[inline]
pub(crate) fn widened(raw: u64, class: &IntegerClass) -> i128 {
    if class.signed {
        i128::from(class.sign_extend(raw))
    } else {
        i128::from(raw)
    }
}
