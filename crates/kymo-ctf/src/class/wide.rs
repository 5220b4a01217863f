//! Classes of integers of more than 64 bits, and of fields stored as such (CTF 2).

use std::collections::HashSet;
use std::sync::Arc;

use super::{Base, BitOrder, ByteOrder, Mapping, NO_SLOT, Roles};
use crate::class::attribute::Attributes;
use crate::class::wide_int::WideInt;

/// A field of a fixed size of more than 64 bits.
#[derive(Debug, Clone)]
pub struct WideClass {
    /// Size in bits, 65 or more.
    pub size: u64,
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
    /// The meaning of the bits.
    pub kind: WideKind,
    /// The field's roles.
    pub roles: Roles,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    pub(crate) slot: u32,
}

/// The meaning of a wide field's bits.
#[derive(Debug, Clone)]
pub enum WideKind {
    /// An integer.
    Integer,
    /// An integer whose values have labels.
    Enum(Arc<[Mapping]>),
    /// Bits without a meaning of their own.
    BitArray,
    /// Bits with names: a flag is active if any of the bits in its range is set.
    BitMap(Arc<[Mapping]>),
    /// True unless all bits are zero.
    Bool,
}

impl WideClass {
    /// A plain integer: decimal, without a role.
    pub(crate) fn new(size: u64, alignment: u32, signed: bool, byte_order: ByteOrder) -> Self {
        WideClass {
            size,
            alignment,
            signed,
            byte_order,
            bit_order: BitOrder::Natural,
            base: Base::Decimal,
            kind: WideKind::Integer,
            roles: Roles::NONE,
            attributes: Attributes::default(),
            slot: NO_SLOT,
        }
    }

    /// Whether it is a number, with labels or without.
    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.kind, WideKind::Integer | WideKind::Enum(_))
    }
}

/// The flags among `flags` that are active in `bits`, in declared order, without duplicates.
///
/// There may be many flags and many bits, so each flag inspects at most two words.
pub(crate) fn active_widely<'f>(flags: &'f [Mapping], bits: &WideInt) -> Vec<&'f Arc<str>> {
    let limbs = bits.magnitude();
    let set: Vec<usize> = limbs
        .iter()
        .enumerate()
        .filter(|(_, limb)| **limb != 0)
        .map(|(index, _)| index)
        .collect();
    // The first set bit at or after `from`.
    let next = |from: u128| {
        let limb = usize::try_from(from / 64).ok()?;
        let mut at = set
            .get(set.partition_point(|index| *index < limb)..)?
            .iter();
        at.by_ref().take(2).find_map(|index| {
            let clear = if *index == limb {
                (1_u64 << (from % 64)) - 1
            } else {
                0
            };
            let word = limbs.get(*index)? & !clear;
            (word != 0).then(|| *index as u128 * 64 + u128::from(word.trailing_zeros()))
        })
    };
    let mut names: Vec<&Arc<str>> = Vec::new();
    let mut seen = HashSet::new();
    for flag in flags {
        let low = u128::try_from(flag.range.low.max(0)).unwrap_or(0);
        let is_set = next(low)
            .and_then(|bit| i128::try_from(bit).ok())
            .is_some_and(|bit| flag.range.has(bit));
        if is_set && seen.insert(&flag.label) {
            names.push(&flag.label);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_active_if_one_of_their_bits_is_set() {
        let bits = WideInt::from_decimal("680564733841876926926749214863536422916").unwrap();
        assert_eq!(format!("{bits:x}"), "200000000000000000000000000000004");
        let flag = |label: &str, low, high| Mapping::new(label.into(), low, high);
        let flags = [
            flag("below", -5, 1),
            flag("two", -1, 2),
            flag("gap", 3, 128),
            flag("high", 66, 129),
            flag("two", 129, 129),
            flag("last", 129, i128::MAX),
            flag("beyond", 130, i128::MAX),
        ];
        let names: Vec<&str> = active_widely(&flags, &bits)
            .into_iter()
            .map(|name| &**name)
            .collect();
        assert_eq!(names, ["two", "high", "last"]);
        for bit in 0..200 {
            let mut limbs = [0; 4];
            limbs[bit / 64] = 1 << (bit % 64);
            let bits = WideInt::from_bits(limbs.to_vec(), 256, false);
            for (low, high) in [
                (0, 63),
                (0, 64),
                (63, 64),
                (64, 64),
                (65, 127),
                (127, 128),
                (100, 199),
                (199, 199),
            ] {
                let active = !active_widely(&[flag("f", low, high)], &bits).is_empty();
                assert_eq!(
                    active,
                    (low..=high).contains(&(bit as i128)),
                    "{bit} in {low} to {high}"
                );
            }
        }
    }
}
