//! A position in a packet that advances from field to field; all decoding of values uses it.
//!
//! Records are given out only after they were skipped without an error, so nothing can fail here.
//! Should it fail nevertheless, values are missing, never wrong.

use crate::class::wide_int::WideInt;
use crate::class::{FloatClass, IntegerClass, NO_SLOT, StringLength, StructClass, WideClass};
use crate::decode::bits::{Leb, leb128, load};
use crate::decode::check::{Walker, in_order, widened};
use crate::decode::skip::aligned;
use crate::decode::state::Slots;
use crate::decode::text;
use crate::error::DecodeError;

/// A position in a packet, with the slots that the preceding fields have set.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) position: u64,
    pub(crate) limit: u64,
    pub(crate) slots: Slots,
}

impl<'a> Place<'a> {
    /// Skips the structure here.
    pub(crate) fn step_over(&mut self, class: &StructClass) {
        let _ = self.walk(|walker| walker.structure(class));
    }

    /// Advances by a step of the walker.
    pub(crate) fn walk<T>(
        &mut self,
        walk: impl FnOnce(&mut Walker<'a, '_>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let mut walker = Walker::new(self.bytes, self.position, self.limit, &mut self.slots, None);
        let walked = walk(&mut walker);
        self.position = walker.cursor.position();
        walked
    }

    /// Aligns to a multiple of `alignment` bits.
    #[inline]
    pub(crate) fn align(&mut self, alignment: u32) {
        self.position = aligned(self.position, u64::from(alignment.max(1)) - 1);
    }

    /// A LEB128 integer.
    #[inline]
    pub(crate) fn var_int(&mut self, signed: bool, slot: u32) -> Option<Leb> {
        let at = aligned(self.position, 7);
        let range = usize::try_from(at / 8).ok()?..usize::try_from(self.limit / 8).ok()?;
        let Ok((raw, length)) = leb128(self.bytes.get(range)?, signed) else {
            return self.wide_var_int(signed, slot);
        };
        self.position = at + length as u64 * 8;
        self.slots.set(
            slot,
            if signed {
                raw.cast_signed().into()
            } else {
                raw.into()
            },
        );
        Some(Leb::Small(raw))
    }

    #[cold]
    fn wide_var_int(&mut self, signed: bool, slot: u32) -> Option<Leb> {
        self.walk(|walker| walker.leb128(signed, slot)).ok()
    }

    /// An integer of more than 64 bits.
    pub(crate) fn wide(&mut self, class: &WideClass) -> Option<WideInt> {
        self.walk(|walker| walker.wide(class)).ok()
    }

    /// Reads an integer's bits, in the bit order of its class.
    #[inline]
    pub(crate) fn integer(&mut self, class: &IntegerClass) -> Option<u64> {
        let mut at = aligned(self.position, u64::from(class.alignment.max(1)) - 1);
        if let Some(unit) = class.unit {
            at = at.checked_add(unit.padding(at, class.size))?;
        }
        let end = at
            .checked_add(class.size.into())
            .filter(|end| *end <= self.limit)?;
        let raw = in_order(load(self.bytes, at, class.size, class.byte_order)?, class);
        self.position = end;
        if class.slot != NO_SLOT {
            self.slots.set(class.slot, widened(raw, class));
        }
        Some(raw)
    }

    /// A floating-point number.
    pub(crate) fn float(&mut self, class: &FloatClass) -> Option<f64> {
        let read = self.walk(|walker| {
            walker.cursor.align(class.alignment)?;
            text::float(&mut walker.cursor, class)
        });
        read.ok()
    }

    /// Reads text or bytes, without the terminator.
    pub(crate) fn bytes(&mut self, length: &StringLength, unit: usize) -> Option<&'a [u8]> {
        let count = match length {
            StringLength::Terminated => None,
            StringLength::Static(length) => Some(*length),
            StringLength::Dynamic(location) => Some(self.slots.length(location.slot)?),
        };
        let bytes = self.walk(|walker| {
            walker.cursor.align(8)?;
            match count {
                None => walker.cursor.bytes_to_zero(unit),
                Some(count) => walker.cursor.take_bytes(count),
            }
        });
        bytes.ok()
    }
}
