//! Field classes: how bits of a stream become a value. One model for CTF 1.8 and CTF 2.
//!
//! Front ends (TSDL, JSON) create these with every byte order, alignment and size filled in.
//! Lengths, tags and selectors are [locations](FieldLocation) of other fields; linking the metadata
//! gives each located integer a *slot*, a cell that stores its value when it is read, for the
//! fields that depend on it.

pub(crate) mod attribute;
mod compound;
mod integer;
mod location;
mod text;
mod wide;
pub(crate) mod wide_int;

use std::sync::Arc;

use crate::class::wide_int::WideInt;

pub use compound::{ArrayClass, Length, Member, OptionalClass, StructClass, VariantClass};
pub(crate) use compound::{Choice, LinkedLength};
pub use integer::{
    Base, BitMapClass, BitOrder, ByteOrder, Encoding, EnumClass, FloatClass, IntegerClass, Mapping,
    Role, Roles, VarIntClass,
};
pub(crate) use integer::{NO_SLOT, Unit, active, sign_extend};
pub(crate) use location::LEAST;
pub use location::{FieldLocation, IntRange, Origin, Scope};
pub use text::{BlobClass, StringClass, StringLength, TextEncoding};
pub(crate) use wide::active_widely;
pub use wide::{WideClass, WideKind};

/// Any class of field.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FieldClass {
    /// An integer of 1 to 64 bits.
    Integer(IntegerClass),
    /// A floating-point number of 16, 32, 64 or 128 bits.
    Float(FloatClass),
    /// Text.
    String(StringClass),
    /// An integer whose values have labels.
    Enum(EnumClass),
    /// Fields one after another.
    Struct(StructClass),
    /// Elements of one class: an array (fixed length) or a sequence (length in another field).
    Array(ArrayClass),
    /// One of several classes, chosen by an integer read before.
    Variant(VariantClass),
    /// A bit array (CTF 2), stored as an unsigned integer.
    BitArray(IntegerClass),
    /// Bits with names (CTF 2).
    BitMap(BitMapClass),
    /// True unless all bits are zero (CTF 2).
    Bool(IntegerClass),
    /// An integer of variable length, in LEB128 (CTF 2).
    VarInt(VarIntClass),
    /// A field of more than 64 bits: an integer, an enumeration, a bit map, a bit array or a
    /// boolean (CTF 2).
    Wide(WideClass),
    /// Bytes (CTF 2).
    Blob(BlobClass),
    /// A field that may be absent (CTF 2).
    Optional(OptionalClass),
}

impl FieldClass {
    /// Alignment of the field's first bit, in bits from the packet's first bit.
    pub fn alignment(&self) -> u32 {
        match self {
            FieldClass::Integer(class) | FieldClass::BitArray(class) | FieldClass::Bool(class) => {
                class.alignment
            }
            FieldClass::BitMap(class) => class.integer.alignment,
            FieldClass::Float(class) => class.alignment,
            FieldClass::String(_) | FieldClass::VarInt(_) | FieldClass::Blob(_) => 8,
            FieldClass::Enum(class) => class.integer.alignment,
            FieldClass::Struct(class) => class.alignment,
            FieldClass::Array(class) => class.element.alignment().max(class.minimum_alignment),
            FieldClass::Wide(class) => class.alignment,
            FieldClass::Variant(_) | FieldClass::Optional(_) => 1,
        }
    }

    /// Alignment in bits that the field imposes on its structure: C bit-fields count as their
    /// units.
    pub(crate) fn outer_alignment(&self) -> u32 {
        self.storage()
            .map_or_else(|| self.alignment(), IntegerClass::outer_alignment)
    }

    /// The fewest bits that a field of this class can take, without padding. Lengths are checked
    /// against it before anything is allocated.
    pub(crate) fn least_bits(&self) -> u64 {
        match self {
            FieldClass::Float(class) => u64::from(class.size),
            FieldClass::String(class) => class.least_bits(),
            FieldClass::VarInt(_) => 8,
            FieldClass::Blob(class) => class.length.least_bits(),
            FieldClass::Struct(class) => class.members.iter().fold(0, |bits: u64, member| {
                bits.saturating_add(member.class.least_bits())
            }),
            FieldClass::Array(class) => class.least_bits,
            FieldClass::Variant(class) => {
                let options = class.options.iter();
                options
                    .map(|option| option.class.least_bits())
                    .min()
                    .unwrap_or(0)
            }
            FieldClass::Optional(_) => 0,
            FieldClass::Wide(class) => class.size,
            FieldClass::Integer(_)
            | FieldClass::Enum(_)
            | FieldClass::BitArray(_)
            | FieldClass::BitMap(_)
            | FieldClass::Bool(_) => self.storage().map_or(0, |class| u64::from(class.size)),
        }
    }

    /// The integer under an integer or enumeration class.
    pub fn as_integer(&self) -> Option<&IntegerClass> {
        match self {
            FieldClass::Integer(class) => Some(class),
            FieldClass::Enum(class) => Some(&class.integer),
            _ => None,
        }
    }

    /// The integer as which a field of fixed length is stored.
    pub(crate) fn storage(&self) -> Option<&IntegerClass> {
        match self {
            FieldClass::Integer(class) | FieldClass::BitArray(class) | FieldClass::Bool(class) => {
                Some(class)
            }
            FieldClass::Enum(class) => Some(&class.integer),
            FieldClass::BitMap(class) => Some(&class.integer),
            _ => None,
        }
    }

    /// Mutable access to the integer as which the field is stored.
    pub(crate) fn storage_mut(&mut self) -> Option<&mut IntegerClass> {
        match self {
            FieldClass::Integer(class) | FieldClass::BitArray(class) | FieldClass::Bool(class) => {
                Some(class)
            }
            FieldClass::Enum(class) => Some(&mut class.integer),
            FieldClass::BitMap(class) => Some(&mut class.integer),
            _ => None,
        }
    }

    /// The byte order of a field of fixed length; such a field may share its first and last byte
    /// with other fields.
    pub(crate) fn byte_order(&self) -> Option<ByteOrder> {
        match self {
            FieldClass::Float(class) => Some(class.byte_order),
            FieldClass::Wide(class) => Some(class.byte_order),
            _ => self.storage().map(|class| class.byte_order),
        }
    }

    /// The slot of a field on which others may depend; [`NO_SLOT`] if none does.
    pub(crate) fn slot(&self) -> Option<u32> {
        match self {
            FieldClass::VarInt(class) => Some(class.slot),
            FieldClass::Wide(class) => Some(class.slot),
            _ => self.storage().map(|class| class.slot),
        }
    }

    /// Mutable access to the field's slot.
    pub(crate) fn slot_mut(&mut self) -> Option<&mut u32> {
        match self {
            FieldClass::VarInt(class) => Some(&mut class.slot),
            FieldClass::Wide(class) => Some(&mut class.slot),
            _ => self.storage_mut().map(|class| &mut class.slot),
        }
    }

    /// What an integer means to the reader.
    pub fn roles(&self) -> Roles {
        match self {
            FieldClass::VarInt(class) => class.roles,
            FieldClass::Wide(class) => class.roles,
            _ => self.storage().map_or(Roles::NONE, |class| class.roles),
        }
    }

    /// The flags of a bit map of more than 64 bits that are active in `bits`, in declared order,
    /// each once.
    pub fn active(&self, bits: &WideInt) -> Vec<&Arc<str>> {
        match self {
            FieldClass::Wide(WideClass {
                kind: WideKind::BitMap(flags),
                ..
            }) => active_widely(flags, bits),
            _ => Vec::new(),
        }
    }

    /// The labels of an integer's values, where it has any.
    pub fn mappings(&self) -> Option<&[Mapping]> {
        match self {
            FieldClass::Enum(class) => Some(&class.mappings),
            FieldClass::VarInt(class) => class.mappings.as_deref(),
            FieldClass::Wide(WideClass {
                kind: WideKind::Enum(mappings),
                ..
            }) => Some(mappings),
            _ => None,
        }
    }
}
