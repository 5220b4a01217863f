//! Selection of a variant's option, and presence of optional fields.

use crate::class::wide_int::WideInt;
use crate::class::{Choice, IntRange, OptionalClass};
use crate::decode::state::{Slots, WIDE};

/// The option of the first choice that holds the value in a slot.
#[inline]
pub(crate) fn choose(choices: &[Choice], slots: &Slots, slot: u32) -> Option<usize> {
    let value = slots.get(slot);
    let choice = match choices.iter().find(|choice| choice.range.has(value)) {
        Some(choice) => choice,
        None if value == WIDE => choose_widely(choices, slots.wide(slot)?)?,
        None => return None,
    };
    Some(choice.option as usize)
}

#[cold]
fn choose_widely<'c>(choices: &'c [Choice], value: &WideInt) -> Option<&'c Choice> {
    choices.iter().find(|choice| choice.range.holds_wide(value))
}

/// Whether an optional field is present, given the `value` in the slot of its selector, which must
/// be present: if the value is in `ranges` or, without ranges, if it is not 0.
#[inline]
pub(crate) fn is_there(ranges: Option<&[IntRange]>, value: i128, slots: &Slots, slot: u32) -> bool {
    match ranges {
        Some(ranges) => {
            ranges.iter().any(|range| range.has(value))
                || value == WIDE && is_there_widely(ranges, slots.wide(slot))
        }
        None => value != 0,
    }
}

#[cold]
fn is_there_widely(ranges: &[IntRange], value: Option<&WideInt>) -> bool {
    value.is_some_and(|value| ranges.iter().any(|range| range.holds_wide(value)))
}

impl OptionalClass {
    /// Whether the field is present, given the selector's slot.
    pub(crate) fn is_there(&self, slots: &Slots) -> bool {
        is_there(
            self.ranges.as_deref(),
            slots.get(self.selector.slot),
            slots,
            self.selector.slot,
        )
    }
}
