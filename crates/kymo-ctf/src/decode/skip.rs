//! Skips fields without decoding them: all consecutive fields of fixed size are one addition.
//!
//! The compiler tracks the known alignment of each position, as it follows from the preceding
//! fields. Padding within the known alignment is constant; only a larger alignment depends on the
//! actual position.

use std::sync::Arc;

use crate::class::{
    ArrayClass, BitOrder, ByteOrder, Choice, FieldClass, IntRange, IntegerClass, LinkedLength,
    NO_SLOT, StringLength, StructClass, WideClass, sign_extend,
};
use crate::decode::bits::{leb128, leb128_length, leb128_wide, load, reverse, terminator};
use crate::decode::check::{EMPTY_ELEMENTS, Walker};
use crate::decode::choice::{choose, is_there};
use crate::decode::state::{ABSENT, Slots};

/// How to skip a record's body.
#[derive(Debug)]
pub(crate) enum Layout {
    /// `bits` bits, aligned to `mask + 1` bits.
    Fixed { mask: u64, bits: u64 },
    /// Aligned to `mask + 1` bits; each of the given numbers of bits is followed by a
    /// zero-terminated text, and the last text by `after` bits.
    Texts {
        mask: u64,
        before: Box<[u64]>,
        after: u64,
    },
    /// Skipped step by step.
    Steps(Box<[Step]>),
}

/// A step of skipping a body.
#[derive(Debug)]
pub(crate) enum Step {
    /// Skips this many bits.
    Skip(u64),
    /// Aligns to a multiple of `mask + 1` bits.
    Align(u64),
    /// Stores an integer that is needed later.
    Keep(Kept),
    /// A LEB128 integer.
    Leb { signed: bool, slot: u32 },
    /// Stores an integer of more than 64 bits that is needed later.
    Wide(Box<WideClass>),
    /// Text up to a zero code unit.
    Text { unit: usize },
    /// Text of `length` bytes, in code units of `unit` bytes; the last one may be incomplete only
    /// after a terminator.
    Units { length: LinkedLength, unit: usize },
    /// Elements whose number is in a slot: `stride` bits each, the last one `size` bits.
    Rows { slot: u32, stride: u64, size: u64 },
    /// Repeats the steps of `body`; each element takes at least `least` bits.
    Loop {
        length: LinkedLength,
        least: u64,
        body: Box<[Step]>,
    },
    /// The steps of the selected option.
    Choose {
        slot: u32,
        choices: Box<[Choice]>,
        options: Box<[Box<[Step]>]>,
    },
    /// The steps of `body`, if the field is present.
    If {
        slot: u32,
        ranges: Option<Box<[IntRange]>>,
        body: Box<[Step]>,
    },
    /// Marks the fields of these slots absent, until they are read.
    Clear(Arc<[u32]>),
    /// Fails unless the position is on a byte; otherwise two byte orders might share a byte.
    OnByte,
    /// Always fails: this field cannot be skipped.
    Never,
}

/// How to read an integer, and the slot to store it in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    slot: u32,
    size: u8,
    byte_order: ByteOrder,
    kind: KeptKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptKind {
    /// The value as stored.
    Unsigned,
    Signed,
    /// 1 if any bit is set.
    Bool,
    /// Unsigned or signed, with the bits in reverse order.
    Reversed,
    SignedReversed,
}

impl Layout {
    /// Compiles consecutive structures, of which the first begins anywhere.
    pub(crate) fn of(parts: [Option<&StructClass>; 3]) -> Layout {
        let mut compiler = Compiler::default();
        parts
            .into_iter()
            .flatten()
            .for_each(|class| compiler.structure(class));
        let steps = compiler.finish();
        let (mask, rest) = match &*steps {
            [Step::Align(mask), rest @ ..] => (*mask, rest),
            all => (0, all),
        };
        match skips_and_texts(rest) {
            Some((before, bits)) if before.is_empty() => Layout::Fixed { mask, bits },
            Some((before, after)) => Layout::Texts {
                mask,
                before,
                after,
            },
            None => Layout::Steps(steps),
        }
    }

    /// Whether the end depends on field values.
    #[inline]
    pub(crate) fn looks(&self) -> bool {
        matches!(self, Layout::Steps(_))
    }

    /// The end of the record whose body begins at bit `position`. `None` if the end is after
    /// `limit`, if the record is malformed, and in rare cases that only [`crate::decode::check`]
    /// can decide.
    #[inline]
    pub(crate) fn end(
        &self,
        bytes: &[u8],
        position: u64,
        limit: u64,
        slots: &mut Slots,
    ) -> Option<u64> {
        let end = match self {
            Layout::Fixed { mask, bits } => aligned(position, *mask).checked_add(*bits)?,
            Layout::Texts {
                mask,
                before,
                after,
            } => {
                let bytes = bytes.get(..usize::try_from(limit / 8).ok()?)?;
                let mut at = aligned(position, *mask);
                for bits in before {
                    at = at.checked_add(*bits)?;
                    let length = terminator(bytes.get(usize::try_from(at / 8).ok()?..)?, 1)?;
                    at += (length + 1) as u64 * 8;
                }
                at.checked_add(*after)?
            }
            Layout::Steps(steps) => {
                let mut run = Run {
                    bytes,
                    limit,
                    slots,
                    empty: EMPTY_ELEMENTS,
                };
                run.steps(steps, position)?
            }
        };
        (end <= limit).then_some(end)
    }
}

/// The bits before each text and after the last, if the steps are only fixed sizes and texts.
fn skips_and_texts(steps: &[Step]) -> Option<(Box<[u64]>, u64)> {
    let (mut before, mut skip) = (Vec::new(), 0_u64);
    for step in steps {
        match step {
            Step::Skip(bits) => skip = skip.checked_add(*bits)?,
            Step::Text { unit: 1 } => before.push(std::mem::take(&mut skip)),
            _ => return None,
        }
    }
    Some((before.into(), skip))
}

/// The next multiple of `mask + 1` at or after `position`. Positions are far below 2^64.
#[inline]
pub(crate) fn aligned(position: u64, mask: u64) -> u64 {
    position.wrapping_add(mask) & !mask
}

struct Run<'a, 's> {
    bytes: &'a [u8],
    limit: u64,
    slots: &'s mut Slots,
    empty: u64,
}

impl Run<'_, '_> {
    fn steps(&mut self, steps: &[Step], mut at: u64) -> Option<u64> {
        for step in steps {
            at = match step {
                Step::Skip(bits) => at.checked_add(*bits)?,
                Step::Align(mask) => aligned(at, *mask),
                Step::Keep(kept) => self.keep(kept, at)?,
                Step::Text { unit } => {
                    let length = terminator(self.rest(at)?, *unit)?;
                    at + (length + unit) as u64 * 8
                }
                Step::Units { length, unit } => {
                    let length = match length {
                        LinkedLength::Fixed(length) => *length,
                        LinkedLength::Slot(slot) => self.slots.length(*slot)?,
                    };
                    let bytes = self.rest(at)?.get(..usize::try_from(length).ok()?)?;
                    if !bytes.len().is_multiple_of(*unit) {
                        terminator(bytes, *unit)?;
                    }
                    at + length * 8
                }
                Step::Rows { slot, stride, size } => match self.slots.length(*slot)? {
                    0 => at,
                    length => {
                        at.checked_add((length - 1).checked_mul(*stride)?.checked_add(*size)?)?
                    }
                },
                Step::Leb { signed, slot } => {
                    if let Ok((value, length)) = leb128(self.rest(at)?, *signed) {
                        self.slots.set(
                            *slot,
                            if *signed {
                                i128::from(value.cast_signed())
                            } else {
                                i128::from(value)
                            },
                        );
                        at + length as u64 * 8
                    } else {
                        self.wide_leb(*signed, *slot, at)?
                    }
                }
                Step::Wide(class) => self.wide(class, at)?,
                Step::Loop {
                    length,
                    least,
                    body,
                } => self.repeat(*length, *least, body, at)?,
                Step::Choose {
                    slot,
                    choices,
                    options,
                } => {
                    let option = choose(choices, self.slots, *slot)?;
                    self.steps(options.get(option)?, at)?
                }
                Step::If { slot, ranges, body } => {
                    let value = self.slots.get(*slot);
                    if value == ABSENT {
                        return None;
                    }
                    if is_there(ranges.as_deref(), value, self.slots, *slot) {
                        self.steps(body, at)?
                    } else {
                        at
                    }
                }
                Step::Clear(slots) => {
                    self.slots.clear(slots);
                    at
                }
                Step::OnByte if at.is_multiple_of(8) => at,
                Step::OnByte | Step::Never => return None,
            };
        }
        Some(at)
    }

    /// The bytes from bit `at`, which must be on a byte, to the limit.
    #[inline]
    fn rest(&self, at: u64) -> Option<&[u8]> {
        let end = usize::try_from(self.limit / 8).ok()?;
        self.bytes.get(usize::try_from(at / 8).ok()?..end)
    }

    #[inline]
    fn keep(&mut self, kept: &Kept, at: u64) -> Option<u64> {
        let end = at
            .checked_add(u64::from(kept.size))
            .filter(|end| *end <= self.limit)?;
        let raw = load(self.bytes, at, kept.size, kept.byte_order)?;
        let value = match kept.kind {
            KeptKind::Unsigned => i128::from(raw),
            KeptKind::Signed => i128::from(sign_extend(raw, kept.size)),
            KeptKind::Bool => i128::from(raw != 0),
            KeptKind::Reversed => i128::from(reverse(raw, kept.size)),
            KeptKind::SignedReversed => i128::from(sign_extend(reverse(raw, kept.size), kept.size)),
        };
        self.slots.set(kept.slot, value);
        Some(end)
    }

    /// Handles a LEB128 integer that has more than 64 bits or is incomplete.
    #[cold]
    fn wide_leb(&mut self, signed: bool, slot: u32, at: u64) -> Option<u64> {
        let rest = self.rest(at)?;
        let length = leb128_length(rest)?;
        if slot != NO_SLOT {
            let (value, _) = leb128_wide(rest, signed)?;
            self.slots.set_wide(slot, &value);
        }
        Some(at + length as u64 * 8)
    }

    #[cold]
    fn wide(&mut self, class: &WideClass, at: u64) -> Option<u64> {
        let end = at
            .checked_add(class.size)
            .filter(|end| *end <= self.limit)?;
        let mut walker = Walker::new(self.bytes, at, end, self.slots, None);
        walker.wide(class).ok()?;
        Some(end)
    }

    fn repeat(
        &mut self,
        length: LinkedLength,
        least: u64,
        body: &[Step],
        mut at: u64,
    ) -> Option<u64> {
        let length = match length {
            LinkedLength::Fixed(length) => length,
            LinkedLength::Slot(slot) => self.slots.length(slot)?,
        };
        if least == 0 {
            self.empty = self.empty.checked_sub(length)?;
        } else if length > self.limit.saturating_sub(at) / least {
            return None;
        }
        for _ in 0..length {
            at = self.steps(body, at)?;
        }
        (at <= self.limit).then_some(at)
    }
}

/// What is known about the current position, and the steps so far.
#[derive(Debug)]
struct Compiler {
    steps: Vec<Step>,
    /// Bits to skip before the next step.
    skip: u64,
    /// The position is a multiple of `modulus` bits, a power of two, plus `offset` bits.
    modulus: u64,
    offset: u64,
    order: Before,
}

/// The byte order of the previous field, whose last byte may extend to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// No field, or it ended on a byte.
    Nothing,
    Order(ByteOrder),
    Unknown,
}

impl Default for Compiler {
    fn default() -> Self {
        Compiler {
            steps: Vec::new(),
            skip: 0,
            modulus: 1,
            offset: 0,
            order: Before::Nothing,
        }
    }
}

impl Compiler {
    fn finish(mut self) -> Box<[Step]> {
        self.flush();
        self.steps.into()
    }

    fn flush(&mut self) {
        if self.skip > 0 {
            self.steps.push(Step::Skip(self.skip));
            self.skip = 0;
        }
    }

    fn step(&mut self, step: Step) {
        self.flush();
        self.steps.push(step);
    }

    fn advance(&mut self, bits: u64) {
        self.skip = self.skip.saturating_add(bits);
        self.offset = self.offset.wrapping_add(bits) & (self.modulus - 1);
    }

    fn align(&mut self, to: u32) {
        let to = u64::from(to.max(1));
        if to <= self.modulus {
            self.advance(self.offset.wrapping_neg() & (to - 1));
        } else {
            self.step(Step::Align(to - 1));
            self.know(to);
        }
    }

    /// Sets the position to some multiple of `modulus`.
    fn know(&mut self, modulus: u64) {
        self.modulus = modulus.max(1);
        self.offset = 0;
    }

    fn structure(&mut self, class: &StructClass) {
        self.align(class.alignment);
        class
            .members
            .iter()
            .for_each(|member| self.field(&member.class));
    }

    fn field(&mut self, class: &FieldClass) {
        match class {
            FieldClass::Struct(class) => self.structure(class),
            FieldClass::Array(class) => self.array(class),
            FieldClass::Float(class) => {
                self.align(class.alignment);
                self.share(class.byte_order);
                self.advance(class.size.into());
            }
            FieldClass::VarInt(class) => {
                self.align(8);
                self.step(Step::Leb {
                    signed: class.signed,
                    slot: class.slot,
                });
                self.know(8);
                self.order = Before::Nothing;
            }
            FieldClass::Wide(class) => {
                self.align(class.alignment);
                self.share(class.byte_order);
                if class.slot == NO_SLOT {
                    return self.advance(class.size);
                }
                self.step(Step::Wide(Box::new(class.clone())));
                self.offset = self.offset.wrapping_add(class.size) & (self.modulus - 1);
            }
            FieldClass::String(class) => {
                self.align(8);
                self.bytes(&class.length, class.encoding.unit());
            }
            FieldClass::Blob(class) => {
                self.align(8);
                self.bytes(&class.length, 1);
            }
            FieldClass::Variant(class) => {
                let options = class
                    .options
                    .iter()
                    .map(|option| self.inside(&option.class))
                    .collect();
                let choices = (&*class.choices).into();
                self.clear(&class.clears);
                self.step(Step::Choose {
                    slot: class.selector.slot,
                    choices,
                    options,
                });
                self.unknown();
            }
            FieldClass::Optional(class) => {
                let body = self.inside(&class.class);
                let ranges = class.ranges.as_deref().map(Into::into);
                self.clear(&class.clears);
                self.step(Step::If {
                    slot: class.selector.slot,
                    ranges,
                    body,
                });
                self.unknown();
            }
            _ => {
                let Some(integer) = class.storage() else {
                    return self.step(Step::Never);
                };
                self.align(integer.alignment);
                if let Some(unit) = integer.unit {
                    if !self.modulus.is_multiple_of(u64::from(unit.size.max(1))) {
                        return self.step(Step::Never);
                    }
                    self.advance(unit.padding(self.offset, integer.size));
                }
                self.share(integer.byte_order);
                if integer.slot == NO_SLOT {
                    return self.advance(integer.size.into());
                }
                let kind = match (class, integer.signed, is_natural(integer)) {
                    (FieldClass::Bool(_), ..) => KeptKind::Bool,
                    (_, false, true) => KeptKind::Unsigned,
                    (_, true, true) => KeptKind::Signed,
                    (_, false, false) => KeptKind::Reversed,
                    (_, true, false) => KeptKind::SignedReversed,
                };
                let IntegerClass {
                    slot,
                    size,
                    byte_order,
                    ..
                } = *integer;
                self.step(Step::Keep(Kept {
                    slot,
                    size,
                    byte_order,
                    kind,
                }));
                self.offset = (self.offset + u64::from(integer.size)) & (self.modulus - 1);
            }
        }
    }

    fn clear(&mut self, slots: &Arc<[u32]>) {
        if !slots.is_empty() {
            self.step(Step::Clear(Arc::clone(slots)));
        }
    }

    /// Compiles the steps of a field whose position is unknown.
    fn inside(&self, class: &FieldClass) -> Box<[Step]> {
        let mut compiler = Compiler {
            order: self.order,
            ..Compiler::default()
        };
        if self.offset == 0 {
            compiler.modulus = self.modulus;
        }
        compiler.field(class);
        compiler.finish()
    }

    fn unknown(&mut self) {
        self.know(1);
        self.order = Before::Unknown;
    }

    /// Ensures that integers of two byte orders do not share a byte. If that is unknown at compile
    /// time, the walker decides.
    fn share(&mut self, order: ByteOrder) {
        let before = std::mem::replace(&mut self.order, Before::Order(order));
        if before == Before::Nothing || before == Before::Order(order) {
            return;
        }
        if self.modulus < 8 {
            self.step(Step::OnByte);
        } else if !self.offset.is_multiple_of(8) {
            self.step(Step::Never);
        }
    }

    fn bytes(&mut self, length: &StringLength, unit: usize) {
        self.order = Before::Nothing;
        match length {
            StringLength::Terminated => {
                self.step(Step::Text { unit });
                self.know(8);
            }
            StringLength::Static(length) if length.is_multiple_of(unit as u64) => {
                self.advance(length.saturating_mul(8))
            }
            StringLength::Static(length) => {
                self.step(Step::Units {
                    length: LinkedLength::Fixed(*length),
                    unit,
                });
                self.know(8);
            }
            StringLength::Dynamic(location) if unit > 1 => {
                self.step(Step::Units {
                    length: LinkedLength::Slot(location.slot),
                    unit,
                });
                self.know(8);
            }
            StringLength::Dynamic(location) => {
                self.step(Step::Rows {
                    slot: location.slot,
                    stride: 8,
                    size: 8,
                });
                self.know(8);
            }
        }
    }

    fn array(&mut self, class: &ArrayClass) {
        let alignment = class.element.alignment().max(class.minimum_alignment);
        self.align(alignment);
        let element = &*class.element;
        let length = class.linked_length();
        let fixed = fixed_size(element).filter(|size| *size > 0);
        let fixed = fixed.and_then(|size| {
            Some((
                size,
                size.checked_next_multiple_of(u64::from(element.alignment().max(1)))?,
            ))
        });
        match (fixed, length) {
            (Some(_), LinkedLength::Fixed(0)) => {}
            (Some((size, stride)), LinkedLength::Fixed(length)) => {
                let rows = (length - 1).saturating_mul(stride);
                self.order_of(element);
                self.advance(rows.saturating_add(size));
            }
            (Some((size, stride)), LinkedLength::Slot(slot)) => {
                self.order_of(element);
                self.step(Step::Rows { slot, stride, size });
                // The array ends `size` bits after an aligned position, or is empty.
                let sure = 1 << size.trailing_zeros().min(63);
                self.know(u64::from(alignment.max(1)).min(sure));
            }
            (None, length) => {
                let mut compiler = Compiler {
                    order: Before::Unknown,
                    ..Compiler::default()
                };
                compiler.field(element);
                self.step(Step::Loop {
                    length,
                    least: class.element_bits,
                    body: compiler.finish(),
                });
                self.unknown();
            }
        }
    }

    /// Updates the byte order across an array: its first element follows the previous field, and
    /// its last precedes the next.
    fn order_of(&mut self, element: &FieldClass) {
        match element.byte_order() {
            Some(order) => self.share(order),
            None => {
                if self.modulus < 8 {
                    self.step(Step::OnByte);
                } else if !self.offset.is_multiple_of(8) {
                    self.step(Step::Never);
                }
                self.order = Before::Unknown;
            }
        }
    }
}

/// Size of a field in bits, from its aligned start, if it is the same for all values and no value
/// is needed later.
pub(crate) fn fixed_size(class: &FieldClass) -> Option<u64> {
    match class {
        FieldClass::Float(class) => Some(class.size.into()),
        FieldClass::Wide(class) => Some(class.size).filter(|_| class.slot == NO_SLOT),
        FieldClass::Struct(class) => {
            let mut order = None;
            class.members.iter().try_fold(0_u64, |at, member| {
                // The walker detects a change of byte order inside a byte.
                let own = byte_order(&member.class);
                let at = at.checked_next_multiple_of(u64::from(member.class.alignment().max(1)))?;
                let is_on_byte = at.is_multiple_of(8) && class.alignment >= 8;
                if !is_on_byte && at > 0 && own != order {
                    return None;
                }
                order = own;
                at.checked_add(fixed_size(&member.class)?)
            })
        }
        FieldClass::Array(class) if class.minimum_alignment <= class.element.alignment() => {
            let size = fixed_size(&class.element)?;
            match class.fixed_length()? {
                0 => Some(0),
                length => {
                    let stride =
                        size.checked_next_multiple_of(u64::from(class.element.alignment().max(1)))?;
                    (length - 1).checked_mul(stride)?.checked_add(size)
                }
            }
        }
        _ => class
            .storage()
            .filter(|class| class.slot == NO_SLOT && class.unit.is_none())
            .map(|class| class.size.into()),
    }
}

fn byte_order(class: &FieldClass) -> Option<ByteOrder> {
    match class {
        FieldClass::Array(class) => byte_order(&class.element),
        _ => class.byte_order(),
    }
}

/// Whether the bits of an integer are in the natural order, which fixed loads give.
pub(crate) fn is_natural(class: &IntegerClass) -> bool {
    class.bit_order == BitOrder::Natural
}
