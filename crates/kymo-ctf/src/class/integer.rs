//! Classes of integers, and of fields stored as integers.

use std::collections::HashMap;
use std::sync::Arc;

use super::IntRange;
use crate::class::attribute::Attributes;

/// The order of an integer's bytes.
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
    /// The order that follows from the byte order: first to last for little-endian, last to first
    /// for big-endian.
    #[default]
    Natural,
    /// The reverse of the natural order.
    Reversed,
}

/// The preferred base in which to show an integer.
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

/// What a field means to the reader. CTF 2 states roles; in CTF 1.8 they follow from reserved
/// names.
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
    /// Size of the packet in bits, with padding.
    PacketTotalLength,
    /// Size of the packet's content in bits, without padding.
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
    /// The CPU number (not a role in CTF 2, but a name that all tracers use).
    CpuId,
}

impl Role {
    /// The number of roles.
    pub(crate) const COUNT: usize = 12;
}

/// A set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u16);

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles(0);

    /// The set with `role` added.
    #[must_use]
    pub const fn with(self, role: Role) -> Roles {
        Roles(self.0 | 1 << role as u16)
    }

    /// Whether the set contains `role`.
    pub const fn has(self, role: Role) -> bool {
        self.0 & 1 << role as u16 != 0
    }

    /// The roles in the set that are values of the default clock.
    pub(crate) const fn times(self) -> Roles {
        Roles(self.0 & (1 << Role::Timestamp as u16 | 1 << Role::PacketEndTimestamp as u16))
    }

    /// The roles in the set that are not values of the default clock.
    pub(crate) const fn others(self) -> Roles {
        Roles(self.0 & !self.times().0)
    }

    /// The discriminants of the roles in the set, in ascending order.
    pub(crate) fn discriminants(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = left.trailing_zeros() as usize;
            (left != 0).then(|| {
                left &= left - 1;
                next
            })
        })
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// No slot: no other field depends on this one.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// An integer of 1 to 64 bits.
#[derive(Debug, Clone)]
pub struct IntegerClass {
    /// Size in bits, 1 to 64.
    pub size: u8,
    /// Alignment in bits, a power of two.
    pub alignment: u32,
    /// Whether the top bit is a sign (two's complement).
    pub signed: bool,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// Order of the bits.
    pub bit_order: BitOrder,
    /// The preferred base to show it in.
    pub base: Base,
    /// Whether it is a character.
    pub encoding: Encoding,
    /// The name of the clock to which it is mapped (CTF 1.8).
    pub clock: Option<Arc<str>>,
    /// The field's roles.
    pub roles: Roles,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    pub(crate) slot: u32,
    /// The storage unit whose end a C bit-field may not cross.
    pub(crate) unit: Option<Unit>,
}

/// Storage unit of C bit-fields: a type of `size` bits, aligned to `alignment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) size: u8,
    pub(crate) alignment: u32,
}

impl Unit {
    /// Bits to skip at `position`, so that a field of `size` bits lies within one unit.
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

    /// The value of the low [`size`](IntegerClass::size) bits as two's complement.
    #[inline]
    pub fn sign_extend(&self, bits: u64) -> i64 {
        sign_extend(bits, self.size)
    }

    /// The value of the low [`size`](IntegerClass::size) bits.
    #[inline]
    pub fn value(&self, bits: u64) -> i128 {
        match self.signed {
            true => self.sign_extend(bits).into(),
            false => bits.into(),
        }
    }

    /// The alignment that it imposes on its structure: for a bit-field, that of its unit.
    pub(crate) fn outer_alignment(&self) -> u32 {
        self.unit
            .map_or(self.alignment, |unit| unit.alignment.max(self.alignment))
    }
}

/// The value of the low `size` bits as two's complement.
#[inline]
pub(crate) fn sign_extend(value: u64, size: u8) -> i64 {
    let unused = 64 - u32::from(size.clamp(1, 64));
    (value << unused).cast_signed() >> unused
}

/// An integer in LEB128: seven bits per byte, the least significant first, aligned to 8 bits.
#[derive(Debug, Clone)]
pub struct VarIntClass {
    /// Whether it has a sign.
    pub signed: bool,
    /// The preferred base to show it in.
    pub base: Base,
    /// Labels of its values, if it has any.
    pub mappings: Option<Arc<[Mapping]>>,
    /// The field's roles.
    pub roles: Roles,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    pub(crate) slot: u32,
}

impl VarIntClass {
    /// A decimal integer without labels or roles.
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
    /// Attributes from the metadata.
    pub attributes: Attributes,
}

/// An integer whose values have labels.
#[derive(Debug, Clone)]
pub struct EnumClass {
    /// How the value is stored.
    pub integer: IntegerClass,
    /// Labels and their ranges, in declared order. A label may have several ranges, and ranges may
    /// overlap.
    pub mappings: Arc<[Mapping]>,
}

impl EnumClass {
    /// The labels of `value`, in declared order, without duplicates.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &Arc<str>> {
        Mapping::labels_of(&self.mappings, move |mapping| mapping.holds(value))
    }
}

/// An integer whose bits have names.
#[derive(Debug, Clone)]
pub struct BitMapClass {
    /// How the bits are stored; bit 0 is the least significant.
    pub integer: IntegerClass,
    /// Names of bits: a flag is active if any of the bits in its range is set.
    pub flags: Arc<[Mapping]>,
}

impl BitMapClass {
    /// The flags that are active in `bits`, in declared order, without duplicates.
    pub fn active(&self, bits: u64) -> Vec<&Arc<str>> {
        active(&self.flags, bits)
    }
}

/// The flags among `flags` that are active in `bits`, in declared order, without duplicates.
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

/// A label and the range of values it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The label.
    pub label: Arc<str>,
    /// The values.
    pub range: IntRange,
}

impl Mapping {
    /// The labels of the mappings that hold a value, in declared order, without duplicates.
    pub fn labels_of(
        mappings: &[Mapping],
        holds: impl Fn(&Mapping) -> bool,
    ) -> impl Iterator<Item = &Arc<str>> {
        let new = mappings.iter().enumerate().filter(move |(index, mapping)| {
            let mut before = mappings.iter().take(*index);
            holds(mapping) && !before.any(|before| before.label == mapping.label && holds(before))
        });
        new.map(|(_, mapping)| &mapping.label)
    }

    /// Groups the ranges of each label at the label's first mapping and merges those that overlap.
    /// All bounds must fit into an `i128`.
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
