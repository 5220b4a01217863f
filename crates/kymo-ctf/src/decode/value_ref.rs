//! Values borrowed from the packet, decoded on access.
//!
//! Records are given out only after they were skipped without an error, so nothing can fail here.
//! Should it fail nevertheless, values are missing, never wrong.

use std::borrow::Cow;
use std::sync::Arc;

use crate::class::wide_int::WideInt;
use crate::class::{
    ArrayClass, FieldClass, LinkedLength, Mapping, Member, NO_SLOT, StructClass, WideClass,
    WideKind, active, active_widely,
};
use crate::decode::bits::Leb;
use crate::decode::check::widened;
use crate::decode::choice::choose;
use crate::decode::place::Place;
use crate::decode::skip::aligned;
use crate::decode::state::Slots;
use crate::decode::text;
use crate::decode::value::{Fields, Value};

/// The value of one field, borrowed from its packet. As in [`Value`], the wide kinds are only for
/// numbers that do not fit into the others.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ValueRef<'a> {
    /// An unsigned integer.
    UInt(u64),
    /// A signed integer.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// An integer with labels.
    Enum(EnumRef<'a>),
    /// Bits with names.
    BitMap(BitMapRef<'a>),
    /// A floating-point number; smaller ones are widened, which is exact, 128-bit ones rounded.
    Float(f64),
    /// Text. Invalid bytes become U+FFFD.
    Str(Cow<'a, str>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array or a sequence.
    Array(ArrayRef<'a>),
    /// A structure.
    Struct(StructRef<'a>),
    /// A variant: the option that its tag selected.
    Variant(VariantRef<'a>),
    /// An absent optional field.
    None,
    /// An integer or a bit array of more than 64 bits (CTF 2).
    Wide(WideInt),
    /// An enumeration whose value does not fit into an `i128` (CTF 2).
    WideEnum(WideEnumRef<'a>),
    /// A bit map with a set bit above the lowest 64 (CTF 2).
    WideBitMap(WideBitMapRef<'a>),
}

/// A named value and its class.
#[derive(Debug, Clone)]
pub struct FieldRef<'a> {
    /// The name to show.
    pub name: &'a Arc<str>,
    /// The field's class.
    pub class: &'a FieldClass,
    /// The value.
    pub value: ValueRef<'a>,
}

/// An integer and its labels.
#[derive(Debug, Clone, Copy)]
pub struct EnumRef<'a> {
    /// The integer.
    pub value: i128,
    mappings: &'a [Mapping],
}

impl<'a> EnumRef<'a> {
    /// The labels of the value, in declared order, without duplicates.
    pub fn labels(self) -> impl Iterator<Item = &'a Arc<str>> {
        Mapping::labels_of(self.mappings, move |mapping| mapping.holds(self.value))
    }
}

/// Bits and their names.
#[derive(Debug, Clone, Copy)]
pub struct BitMapRef<'a> {
    /// The bits.
    pub bits: u64,
    flags: &'a [Mapping],
}

impl<'a> BitMapRef<'a> {
    /// The flags that are active, in declared order, without duplicates.
    pub fn active(self) -> Vec<&'a Arc<str>> {
        active(self.flags, self.bits)
    }
}

/// An integer and its labels.
#[derive(Debug, Clone)]
pub struct WideEnumRef<'a> {
    /// The integer.
    pub value: WideInt,
    mappings: &'a [Mapping],
}

impl<'a> WideEnumRef<'a> {
    /// The labels of the value, in declared order, without duplicates.
    pub fn labels(&self) -> impl Iterator<Item = &'a Arc<str>> {
        Mapping::labels_of(self.mappings, |mapping| {
            mapping.range.holds_wide(&self.value)
        })
    }
}

/// Bits and their names.
#[derive(Debug, Clone)]
pub struct WideBitMapRef<'a> {
    /// The bits.
    pub bits: WideInt,
    flags: &'a [Mapping],
}

impl<'a> WideBitMapRef<'a> {
    /// The flags that are active, in declared order, without duplicates.
    pub fn active(&self) -> Vec<&'a Arc<str>> {
        active_widely(self.flags, &self.bits)
    }
}

impl WideClass {
    /// The value of these bits.
    fn value(&self, bits: WideInt) -> ValueRef<'_> {
        match &self.kind {
            WideKind::Bool => ValueRef::Bool(!bits.is_zero()),
            WideKind::Integer | WideKind::BitArray => integer(bits, self.signed),
            WideKind::Enum(mappings) => enumeration(bits, mappings),
            WideKind::BitMap(flags) => match bits.to_u64() {
                Some(bits) => ValueRef::BitMap(BitMapRef { bits, flags }),
                None => ValueRef::WideBitMap(WideBitMapRef { bits, flags }),
            },
        }
    }
}

fn integer<'a>(value: WideInt, signed: bool) -> ValueRef<'a> {
    let small = if signed {
        value.to_i64().map(ValueRef::Int)
    } else {
        value.to_u64().map(ValueRef::UInt)
    };
    small.unwrap_or(ValueRef::Wide(value))
}

fn enumeration(value: WideInt, mappings: &[Mapping]) -> ValueRef<'_> {
    match value.to_i128() {
        Some(value) => ValueRef::Enum(EnumRef { value, mappings }),
        None => ValueRef::WideEnum(WideEnumRef { value, mappings }),
    }
}

/// A structure in a packet.
#[derive(Debug, Clone)]
pub struct StructRef<'a> {
    class: &'a StructClass,
    place: Place<'a>,
}

/// An array in a packet.
#[derive(Debug, Clone)]
pub struct ArrayRef<'a> {
    class: &'a ArrayClass,
    length: u64,
    place: Place<'a>,
}

/// A variant in a packet.
#[derive(Debug, Clone)]
pub struct VariantRef<'a> {
    option: &'a Member,
    place: Place<'a>,
}

impl<'a> StructRef<'a> {
    /// A structure without members.
    pub(crate) fn empty() -> Self {
        static EMPTY: StructClass = StructClass::EMPTY;
        StructRef {
            class: &EMPTY,
            place: Place {
                bytes: &[],
                position: 0,
                limit: 0,
                slots: Slots::new(0),
            },
        }
    }

    /// Its class.
    pub fn class(&self) -> &'a StructClass {
        self.class
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.class.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.class.members.is_empty()
    }

    /// The members in declared order.
    pub fn iter(&self) -> impl Iterator<Item = FieldRef<'a>> + use<'a> {
        let mut place = self.place.clone();
        self.class.members.iter().map_while(move |member| {
            let value = place.value(&member.class)?;
            Some(FieldRef {
                name: &member.name,
                class: &member.class,
                value,
            })
        })
    }

    /// The member with the shown name `name`. Skips the members before it.
    pub fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        let members = &self.class.members;
        self.member(members.iter().position(|member| &*member.name == name)?)
    }

    /// The member at `index`, in declared order. Skips the members before it.
    pub(crate) fn member(&self, index: usize) -> Option<ValueRef<'a>> {
        let (before, from) = self.class.members.split_at_checked(index)?;
        let mut place = self.place.clone();
        place
            .walk(|walker| {
                before
                    .iter()
                    .try_for_each(|member| walker.field(&member.class))
            })
            .ok()?;
        place.value(&from.first()?.class)
    }

    /// An owned copy of the members.
    pub fn to_fields(&self) -> Fields {
        Fields(
            self.iter()
                .map(|field| (Arc::clone(field.name), field.value.to_value()))
                .collect(),
        )
    }
}

impl<'a> ArrayRef<'a> {
    /// Its class.
    pub fn class(&self) -> &'a ArrayClass {
        self.class
    }

    /// The number of elements.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The elements.
    pub fn iter(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let (mut place, class) = (self.place.clone(), self.class);
        (0..self.length).map_while(move |_| place.value(&class.element))
    }
}

impl ArrayRef<'_> {
    /// Appends the elements that are unsigned integers to `to`.
    pub fn append_unsigned(&self, to: &mut Vec<u64>) {
        match self.words() {
            Some(words) => {
                let words = words.as_chunks::<8>().0.iter();
                to.extend(words.map(|word| u64::from_le_bytes(*word)));
            }
            None => to.extend(self.iter().filter_map(|element| element.as_u64())),
        }
    }

    /// The bytes of the elements, if they are words.
    fn words(&self) -> Option<&[u8]> {
        let at = aligned(
            self.place.position,
            u64::from(self.class.element.alignment().max(1)) - 1,
        );
        if !self.class.is_of_words() || !at.is_multiple_of(8) {
            return None;
        }
        let begin = usize::try_from(at / 8).ok()?;
        let len = usize::try_from(self.length.checked_mul(8)?).ok()?;
        self.place.bytes.get(begin..begin.checked_add(len)?)
    }
}

impl<'a> VariantRef<'a> {
    /// Name and class of the selected option.
    pub fn option(&self) -> &'a Member {
        self.option
    }

    /// Its value.
    pub fn value(&self) -> ValueRef<'a> {
        self.place
            .clone()
            .value(&self.option.class)
            .unwrap_or(ValueRef::None)
    }
}

impl<'a> Place<'a> {
    /// The structure here. Does not advance.
    #[inline]
    pub(crate) fn structure(&self, class: &'a StructClass) -> StructRef<'a> {
        let mut place = self.clone();
        let _ = place.walk(|walker| walker.cursor.align(class.alignment));
        StructRef { class, place }
    }

    /// The value here. Advances past it.
    fn value(&mut self, class: &'a FieldClass) -> Option<ValueRef<'a>> {
        let value = match class {
            FieldClass::Integer(class) => {
                let raw = self.integer(class)?;
                if class.signed {
                    ValueRef::Int(class.sign_extend(raw))
                } else {
                    ValueRef::UInt(raw)
                }
            }
            FieldClass::BitArray(class) => ValueRef::UInt(self.integer(class)?),
            FieldClass::Bool(class) => {
                let value = self.integer(class)? != 0;
                self.slots.set(class.slot, value.into());
                ValueRef::Bool(value)
            }
            FieldClass::BitMap(class) => ValueRef::BitMap(BitMapRef {
                bits: self.integer(&class.integer)?,
                flags: &class.flags,
            }),
            FieldClass::Enum(class) => {
                let value = widened(self.integer(&class.integer)?, &class.integer);
                ValueRef::Enum(EnumRef {
                    value,
                    mappings: &class.mappings,
                })
            }
            FieldClass::VarInt(class) => {
                let raw = match self.var_int(class.signed, class.slot)? {
                    Leb::Small(raw) => raw,
                    Leb::Wide(value) => {
                        return Some(match &class.mappings {
                            Some(mappings) => enumeration(value, mappings),
                            None => ValueRef::Wide(value),
                        });
                    }
                };
                let value = if class.signed {
                    i128::from(raw.cast_signed())
                } else {
                    i128::from(raw)
                };
                match &class.mappings {
                    Some(mappings) => ValueRef::Enum(EnumRef { value, mappings }),
                    None if class.signed => ValueRef::Int(raw.cast_signed()),
                    None => ValueRef::UInt(raw),
                }
            }
            FieldClass::Wide(class) => class.value(self.wide(class)?),
            FieldClass::Float(class) => ValueRef::Float(self.float(class)?),
            FieldClass::String(class) => {
                let bytes = self.bytes(&class.length, class.encoding.unit())?;
                ValueRef::Str(text::decode(bytes, class.encoding))
            }
            FieldClass::Blob(class) => ValueRef::Bytes(self.bytes(&class.length, 1)?),
            FieldClass::Struct(class) => {
                self.walk(|walker| walker.cursor.align(class.alignment))
                    .ok()?;
                let place = self.clone();
                self.walk(|walker| walker.structure(class)).ok()?;
                ValueRef::Struct(StructRef { class, place })
            }
            FieldClass::Array(class) => self.array(class)?,
            FieldClass::Variant(variant) => {
                let option = choose(&variant.choices, &self.slots, variant.selector.slot)?;
                self.slots.clear(&variant.clears);
                let option = variant.options.get(option)?;
                let place = self.clone();
                self.walk(|walker| walker.field(&option.class)).ok()?;
                ValueRef::Variant(VariantRef { option, place })
            }
            FieldClass::Optional(class) => {
                let is_there = class.is_there(&self.slots);
                self.slots.clear(&class.clears);
                if is_there {
                    self.value(&class.class)?
                } else {
                    ValueRef::None
                }
            }
        };
        Some(value)
    }

    /// The position behind `length` integers of fixed size that begin here, on their alignment;
    /// `None` for other elements, or if they do not fit.
    fn behind_integers(&self, element: &FieldClass, length: u64) -> Option<u64> {
        let FieldClass::Integer(class) = element else {
            return None;
        };
        if class.slot != NO_SLOT || class.unit.is_some() {
            return None;
        }
        let size = u64::from(class.size);
        let stride = size.checked_next_multiple_of(u64::from(class.alignment.max(1)))?;
        let end = match length.checked_sub(1) {
            None => self.position,
            Some(before) => {
                let begin = self.position.checked_add(before.checked_mul(stride)?)?;
                begin.checked_add(size)?
            }
        };
        (end <= self.limit).then_some(end)
    }

    fn array(&mut self, class: &'a ArrayClass) -> Option<ValueRef<'a>> {
        let length = match class.linked_length() {
            LinkedLength::Fixed(length) => length,
            LinkedLength::Slot(slot) => self.slots.length(slot)?,
        };
        self.walk(|walker| {
            walker
                .cursor
                .align(class.element.alignment().max(class.minimum_alignment))
        })
        .ok()?;
        if class.text {
            let bytes = self.walk(|walker| walker.cursor.take_bytes(length)).ok()?;
            return Some(ValueRef::Str(text::characters(bytes)));
        }
        let place = self.clone();
        match self.behind_integers(&class.element, length) {
            Some(end) => self.position = end,
            None => self
                .walk(|walker| (0..length).try_for_each(|_| walker.field(&class.element)))
                .ok()?,
        }
        Some(ValueRef::Array(ArrayRef {
            class,
            length,
            place,
        }))
    }
}

impl ValueRef<'_> {
    /// The value as an unsigned integer, if it is an integer or enumeration and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            ValueRef::UInt(value) => Some(*value),
            ValueRef::Int(value) => u64::try_from(*value).ok(),
            ValueRef::Enum(value) => u64::try_from(value.value).ok(),
            _ => None,
        }
    }

    /// The value as a signed integer, if it is an integer or enumeration that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            ValueRef::UInt(value) => i64::try_from(*value).ok(),
            ValueRef::Int(value) => Some(*value),
            ValueRef::Enum(value) => i64::try_from(value.value).ok(),
            _ => None,
        }
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            ValueRef::Str(text) => Some(text),
            _ => None,
        }
    }

    /// An owned copy of the value.
    pub fn to_value(&self) -> Value {
        match self {
            ValueRef::UInt(value) => Value::UInt(*value),
            ValueRef::Int(value) => Value::Int(*value),
            ValueRef::Bool(value) => Value::Bool(*value),
            ValueRef::Enum(value) => Value::Enum {
                value: value.value,
                labels: value.labels().cloned().collect(),
            },
            ValueRef::BitMap(map) => Value::BitMap {
                bits: map.bits,
                flags: map.active().into_iter().cloned().collect(),
            },
            ValueRef::Wide(value) => Value::Wide(value.clone()),
            ValueRef::WideEnum(value) => Value::WideEnum {
                value: value.value.clone(),
                labels: value.labels().cloned().collect(),
            },
            ValueRef::WideBitMap(map) => Value::WideBitMap {
                bits: map.bits.clone(),
                flags: map.active().into_iter().cloned().collect(),
            },
            ValueRef::Float(value) => Value::Float(*value),
            ValueRef::Str(text) => Value::Str(text.clone().into_owned()),
            ValueRef::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            ValueRef::Array(array) => {
                Value::Array(array.iter().map(|value| value.to_value()).collect())
            }
            ValueRef::Struct(fields) => Value::Struct(fields.to_fields()),
            ValueRef::Variant(variant) => Value::Variant {
                option: Arc::clone(&variant.option.name),
                value: Box::new(variant.value().to_value()),
            },
            ValueRef::None => Value::None,
        }
    }
}
