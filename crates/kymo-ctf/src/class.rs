//! Field classes: how bits of a stream become a value.
//!
//! They come out of the metadata with nothing left to look up: byte orders, alignments and lengths are numbers, and the field
//! that a sequence's length or a variant's tag is in is a *slot*, a cell that reading the one field fills and reading the other uses.

use std::collections::HashMap;
use std::sync::Arc;

/// Which end of an integer comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first, and within a byte least significant bit first.
    Little,
    /// Most significant byte first, and within a byte most significant bit first.
    Big,
}

/// The base an integer is best shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// Base 2.
    Binary,
    /// Base 8.
    Octal,
    /// Base 10.
    #[default]
    Decimal,
    /// Base 16.
    Hexadecimal,
}

/// Whether 8-bit integers are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Numbers.
    #[default]
    None,
    /// UTF-8.
    Utf8,
    /// ASCII.
    Ascii,
}

/// What reading an integer does besides giving its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    None,
    /// Its value is the id of the event record's class.
    EventId,
    /// Its value is the low bits of the stream's clock.
    Clock,
}

/// Any class of field.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FieldClass {
    /// An integer of 1 to 64 bits.
    Integer(IntegerClass),
    /// A floating-point number of 32 or 64 bits.
    Float(FloatClass),
    /// Text up to a zero byte, aligned to 8 bits.
    String,
    /// An integer whose values have labels.
    Enum(EnumClass),
    /// Fields one after another.
    Struct(StructClass),
    /// Several of one class: an array (fixed length) or a sequence (length in another field).
    Array(ArrayClass),
    /// One of several classes, chosen by the label of an enumeration read before.
    Variant(VariantClass),
}

impl FieldClass {
    /// What the field's first bit must be aligned to, in bits from the packet's first bit.
    pub fn alignment(&self) -> u32 {
        match self {
            FieldClass::Integer(class) => class.alignment,
            FieldClass::Float(class) => class.alignment,
            FieldClass::String => 8,
            FieldClass::Enum(class) => class.integer.alignment,
            FieldClass::Struct(class) => class.alignment,
            FieldClass::Array(class) => class.element.alignment(),
            FieldClass::Variant(_) => 1,
        }
    }

    /// The fewest bits a field of this class can take, padding aside. Lengths are checked with it before anything is allocated.
    pub(crate) fn least_bits(&self) -> u64 {
        match self {
            FieldClass::Integer(class) => u64::from(class.size),
            FieldClass::Float(class) => u64::from(class.size),
            FieldClass::String => 8,
            FieldClass::Enum(class) => u64::from(class.integer.size),
            FieldClass::Struct(class) => {
                class.members.iter().fold(0, |bits: u64, member| bits.saturating_add(member.class.least_bits()))
            }
            FieldClass::Array(class) => class.least_bits,
            FieldClass::Variant(class) => {
                let options = class.options.iter();
                options.map(|option| option.class.least_bits()).min().unwrap_or(0)
            }
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
}

/// An integer of 1 to 64 bits.
#[derive(Debug, Clone)]
pub struct IntegerClass {
    /// Bits, 1 to 64.
    pub size: u8,
    /// Alignment in bits, a power of two.
    pub alignment: u32,
    /// Whether the top bit is a sign (two's complement).
    pub signed: bool,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// The base to show it in.
    pub base: Base,
    /// Whether it is a character.
    pub encoding: Encoding,
    /// The name of the clock it is mapped to.
    pub clock: Option<Arc<str>>,
    pub(crate) slot: u32,
    pub(crate) role: Role,
}

/// A floating-point number in IEEE 754 interchange format.
#[derive(Debug, Clone)]
pub struct FloatClass {
    /// 32 or 64 bits.
    pub size: u8,
    /// Alignment in bits, a power of two.
    pub alignment: u32,
    /// Byte order.
    pub byte_order: ByteOrder,
}

/// An integer whose values have labels.
#[derive(Debug, Clone)]
pub struct EnumClass {
    /// How the value is stored.
    pub integer: IntegerClass,
    /// Labels and the ranges they stand for, in declared order. One label may have several, and ranges may overlap.
    pub mappings: Arc<[Mapping]>,
}

impl EnumClass {
    /// The labels of `value`, in declared order.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &Arc<str>> {
        let holding = self.mappings.iter().filter(move |mapping| mapping.holds(value));
        holding.map(|mapping| &mapping.label)
    }
}

/// A label and the values it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The label.
    pub label: Arc<str>,
    /// The lowest value.
    pub low: i128,
    /// The highest value, included.
    pub high: i128,
}

impl Mapping {
    /// Whether `value` is in the range.
    pub fn holds(&self, value: i128) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Fields one after another.
#[derive(Debug, Clone, Default)]
pub struct StructClass {
    /// The members, in the order they are stored.
    pub members: Vec<Member>,
    /// Alignment in bits: the largest of the members' and of the one asked for with `align(N)`.
    pub alignment: u32,
}

impl StructClass {
    /// The member that the metadata calls `name`, leading underscore included.
    pub fn member(&self, name: &str) -> Option<&FieldClass> {
        let member = self.members.iter().find(|member| &*member.declared_name == name);
        member.map(|member| &member.class)
    }
}

/// A named field: a structure's member or a variant's option.
#[derive(Debug, Clone)]
pub struct Member {
    /// The name to show: without the underscore that TSDL puts before names that could be keywords.
    pub name: Arc<str>,
    /// The name as the metadata has it.
    pub declared_name: Arc<str>,
    /// The field's class.
    pub class: FieldClass,
}

/// Several fields of one class.
#[derive(Debug, Clone)]
pub struct ArrayClass {
    /// The class of each.
    pub element: Box<FieldClass>,
    pub(crate) length: Length,
    /// Whether the elements are characters, so that the whole is text (up to its first zero byte).
    pub text: bool,
    pub(crate) element_bits: u64,
    pub(crate) least_bits: u64,
}

impl ArrayClass {
    /// The number of elements, if it is fixed.
    pub fn fixed_length(&self) -> Option<u64> {
        match self.length {
            Length::Fixed(length) => Some(length),
            Length::Slot(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    Fixed(u64),
    Slot(u32),
}

/// One of several classes.
#[derive(Debug, Clone)]
pub struct VariantClass {
    pub(crate) tag: u32,
    /// The tag's labels, shared with the tag's class.
    pub(crate) labels: Arc<[Mapping]>,
    /// Which option a label selects; labels without an option select none.
    pub(crate) by_label: HashMap<Arc<str>, usize>,
    /// The options, in declared order.
    pub options: Vec<Member>,
}

impl VariantClass {
    /// The option that a tag of `value` selects.
    pub(crate) fn choose(&self, value: i128) -> Option<&Member> {
        let labels = self.labels.iter().filter(|mapping| mapping.holds(value));
        let mut options = labels.filter_map(|mapping| self.by_label.get(&mapping.label));
        self.options.get(*options.next()?)
    }
}
