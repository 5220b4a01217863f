//! Integers and what is stored as one.

use std::collections::HashMap;
use std::sync::Arc;

use super::IntRange;
use crate::class::attribute::Attributes;

/// Which end of an integer comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first, and within a byte least significant bit first.
    Little,
    /// Most significant byte first, and within a byte most significant bit first.
    Big,
}

/// Which bit of a bit array comes first (CTF 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BitOrder {
    /// As the byte order has it: first to last for little-endian, last to first for big-endian.
    #[default]
    Natural,
    /// The other way round: the bits of the natural order reversed.
    Reversed,
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

/// What a field means to the reader, besides its value. CTF 2 says it; for CTF 1.8 it follows from
/// reserved names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The magic number of CTF packets.
    PacketMagic,
    /// The UUID that metadata and packets share.
    MetadataUuid,
    /// Id of the stream class.
    StreamClassId,
    /// Id of the stream within its class.
    StreamId,
    /// Bits of the packet, padding included.
    PacketTotalLength,
    /// Bits of the packet, padding not included.
    PacketContentLength,
    /// The default clock, or its low bits.
    Timestamp,
    /// The default clock at the packet's end.
    PacketEndTimestamp,
    /// Events discarded so far.
    DiscardedEvents,
    /// The packet's number in its stream.
    PacketSequenceNumber,
    /// Id of the event's class.
    EventClassId,
    /// The CPU (not a role of CTF 2, but a name that all tracers use).
    CpuId,
}

impl Role {
    /// How many there are.
    pub(crate) const COUNT: usize = 12;
}

/// A set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u16);

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles(0);

    /// With `role` besides.
    #[must_use]
    pub const fn with(self, role: Role) -> Roles {
        Roles(self.0 | 1 << role as u16)
    }

    /// Whether `role` is in it.
    pub const fn has(self, role: Role) -> bool {
        self.0 & 1 << role as u16 != 0
    }

    /// Those that are values of the default clock.
    pub(crate) const fn times(self) -> Roles {
        Roles(self.0 & (1 << Role::Timestamp as u16 | 1 << Role::PacketEndTimestamp as u16))
    }

    /// All but these.
    pub(crate) const fn others(self) -> Roles {
        Roles(self.0 & !self.times().0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// No cell: nothing depends on the field.
pub(crate) const NO_SLOT: u32 = u32::MAX;

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
    /// Order of the bits.
    pub bit_order: BitOrder,
    /// The base to show it in.
    pub base: Base,
    /// Whether it is a character.
    pub encoding: Encoding,
    /// The name of the clock it is mapped to (CTF 1.8).
    pub clock: Option<Arc<str>>,
    /// What it means to the reader.
    pub roles: Roles,
    /// What the metadata says besides.
    pub attributes: Attributes,
    pub(crate) slot: u32,
    /// The unit that a bit-field of C may not cross the end of.
    pub(crate) unit: Option<Unit>,
}

/// What bit-fields of C are put into: a type of `size` bits, aligned to `alignment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) size: u8,
    pub(crate) alignment: u32,
}

impl Unit {
    /// The bits to skip from `position` on, so that a field of `size` bits is in one unit.
    pub(crate) fn padding(self, position: u64, size: u8) -> u64 {
        let unit = u64::from(self.size.max(1));
        let used = position % unit;
        if used + u64::from(size) > unit {
            unit - used
        } else {
            0
        }
    }
}

impl IntegerClass {
    /// A plain integer: decimal, without a role.
    pub(crate) fn new(size: u8, alignment: u32, signed: bool, byte_order: ByteOrder) -> Self {
        IntegerClass {
            size,
            alignment,
            signed,
            byte_order,
            bit_order: BitOrder::Natural,
            base: Base::Decimal,
            encoding: Encoding::None,
            clock: None,
            roles: Roles::NONE,
            attributes: Attributes::default(),
            slot: NO_SLOT,
            unit: None,
        }
    }

    /// What a structure is aligned to because of it: a bit-field counts as its unit.
    pub(crate) fn outer_alignment(&self) -> u32 {
        self.unit
            .map_or(self.alignment, |unit| unit.alignment.max(self.alignment))
    }
}

/// An integer in LEB128: seven bits a byte, the least significant first, aligned to 8 bits.
#[derive(Debug, Clone)]
pub struct VarIntClass {
    /// Whether it has a sign.
    pub signed: bool,
    /// The base to show it in.
    pub base: Base,
    /// Labels of its values, if it has any.
    pub mappings: Option<Arc<[Mapping]>>,
    /// What it means to the reader.
    pub roles: Roles,
    /// What the metadata says besides.
    pub attributes: Attributes,
    pub(crate) slot: u32,
}

impl VarIntClass {
    /// A plain one.
    pub(crate) fn new(signed: bool) -> Self {
        VarIntClass {
            signed,
            base: Base::Decimal,
            mappings: None,
            roles: Roles::NONE,
            attributes: Attributes::default(),
            slot: NO_SLOT,
        }
    }
}

/// A floating-point number in IEEE 754 interchange format.
#[derive(Debug, Clone)]
pub struct FloatClass {
    /// 16, 32, 64 or 128 bits.
    pub size: u8,
    /// Alignment in bits, a power of two.
    pub alignment: u32,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// Order of the bits.
    pub bit_order: BitOrder,
    /// What the metadata says besides.
    pub attributes: Attributes,
}

/// An integer whose values have labels.
#[derive(Debug, Clone)]
pub struct EnumClass {
    /// How the value is stored.
    pub integer: IntegerClass,
    /// Labels and the ranges they stand for, in declared order. One label may have several, and
    /// ranges may overlap.
    pub mappings: Arc<[Mapping]>,
}

impl EnumClass {
    /// The labels of `value`, in declared order, each once.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &Arc<str>> {
        Mapping::labels_of(&self.mappings, move |mapping| mapping.holds(value))
    }
}

/// Bits with names.
#[derive(Debug, Clone)]
pub struct BitMapClass {
    /// How the bits are stored; bit 0 is the least significant.
    pub integer: IntegerClass,
    /// Names of bits: a flag is active if any of the bits in its range is set.
    pub flags: Arc<[Mapping]>,
}

impl BitMapClass {
    /// The flags that are active in `bits`, in declared order, each once.
    pub fn active(&self, bits: u64) -> Vec<&Arc<str>> {
        active(&self.flags, bits)
    }
}

/// Of `flags` those that are active in `bits`, in declared order, each once.
pub(crate) fn active(flags: &[Mapping], bits: u64) -> Vec<&Arc<str>> {
    let mut names: Vec<&Arc<str>> = Vec::new();
    for flag in flags {
        let set = (0..64).any(|bit| bits >> bit & 1 == 1 && flag.holds(bit.into()));
        if set && !names.contains(&&flag.label) {
            names.push(&flag.label);
        }
    }
    names
}

/// A label and the values it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The label.
    pub label: Arc<str>,
    /// The values.
    pub range: IntRange,
}

impl Mapping {
    /// The labels of those of `mappings` that hold a value, in declared order. Ranges of one label
    /// may overlap; it is still one label.
    pub(crate) fn labels_of(
        mappings: &[Mapping],
        holds: impl Fn(&Mapping) -> bool,
    ) -> impl Iterator<Item = &Arc<str>> {
        let new = mappings.iter().enumerate().filter(move |(index, mapping)| {
            let mut before = mappings.iter().take(*index);
            holds(mapping) && !before.any(|before| before.label == mapping.label && holds(before))
        });
        new.map(|(_, mapping)| &mapping.label)
    }

    /// The ranges of one label together, where the label is first, and each value in one of them: a
    /// value has a label or has it not. No bound is beyond an `i128`.
    pub(crate) fn by_label(mut mappings: Vec<Mapping>) -> Vec<Mapping> {
        let mut first = HashMap::new();
        for (index, mapping) in mappings.iter().enumerate() {
            first.entry(Arc::clone(&mapping.label)).or_insert(index);
        }
        if first.len() == mappings.len() {
            return mappings;
        }
        mappings.sort_by_key(|mapping| (first.get(&mapping.label).copied(), mapping.range.low));
        mappings.dedup_by(|next, last| {
            let same = next.label == last.label && next.range.low <= last.range.high;
            if same {
                last.range.high = last.range.high.max(next.range.high);
            }
            same
        });
        mappings
    }

    /// A label for the values from `low` to `high`.
    pub(crate) fn new(label: Arc<str>, low: i128, high: i128) -> Self {
        Mapping {
            label,
            range: IntRange::new(low, high),
        }
    }

    /// Whether `value` is in the range.
    #[inline]
    pub fn holds(&self, value: i128) -> bool {
        self.range.holds(value)
    }
}
