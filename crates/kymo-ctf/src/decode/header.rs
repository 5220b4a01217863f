//! Event headers: the id and the time of a record, from fixed offsets.
//!
//! Nearly every tracer writes one of two kinds: fields of fixed size, or a short integer that
//! chooses between such layouts (LTTng's compact and large headers, Kymo's). Both are compiled to
//! loads at fixed offsets. Any other header is walked over field by field.

use crate::class::{
    ByteOrder, FieldClass, IntegerClass, Member, NO_SLOT, Role, StructClass, VariantClass,
};
use crate::decode::bits::low_mask;
use crate::decode::skip::is_natural;

/// Bytes that are looked at together: eight from any of the first sixteen.
pub(crate) const WORD: usize = 24;

/// How to read an event header.
#[derive(Debug)]
pub(crate) enum Header {
    /// Fields at fixed offsets, and behind them, if there is a tag, one of several parts.
    Compiled(Word, Switch),
    /// Field by field.
    Walk,
}

/// Where the bytes are that a header begins with and all fields looked at are in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    /// The header begins at the next multiple of `mask + 1` bits.
    pub(crate) mask: u64,
    /// Whether its fields are big-endian.
    pub(crate) big: bool,
    /// Whether no field is looked at, so that no bytes need be there.
    unread: bool,
}

/// A header whose first part chooses the second. Without a tag it is one part: the tag is 0 then,
/// from no bits.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) tag: Load,
    /// Where the tag is kept for fields that refer to it.
    pub(crate) slot: u32,
    options: Box<[Branch]>,
}

/// A layout of fixed offsets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) id: Id,
    pub(crate) time: Option<Load>,
    /// Where it ends, in bits from the header's first.
    pub(crate) end: u64,
}

/// Where the id of the event's class is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Id {
    /// Nowhere.
    #[default]
    None,
    /// It is the tag.
    Tag,
    At(Load),
}

/// What a header's tag chooses.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) part: Part,
}

impl Branch {
    /// Whether this tag chooses it.
    #[inline(always)]
    pub(crate) fn holds(&self, tag: u64) -> bool {
        self.low <= tag && tag <= self.high
    }
}

/// An unsigned integer in a [`Word`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The eight bytes that it is in begin here, 8 at most.
    at: u8,
    shift: u8,
    pub(crate) mask: u64,
}

impl Word {
    /// The bytes from `at` on, or `None` where fewer are left.
    #[inline(always)]
    pub(crate) fn read(self, bytes: &[u8], at: u64) -> Option<&[u8; WORD]> {
        const NOTHING: [u8; WORD] = [0; WORD];
        match bytes
            .get(usize::try_from(at).ok()?..)?
            .first_chunk::<WORD>()
        {
            Some(chunk) => Some(chunk),
            None => self.unread.then_some(&NOTHING),
        }
    }
}

impl Id {
    /// Whether it is `id`, where the tag is the same as that of another record with this `id`.
    #[inline(always)]
    pub(crate) fn is_for_this_tag<const BIG: bool>(self, id: u64, word: &[u8; WORD]) -> bool {
        match self {
            Id::At(load) => load.of::<BIG>(word) == id,
            Id::None | Id::Tag => true,
        }
    }
}

impl Load {
    /// Of no bits: 0.
    pub(crate) const NOTHING: Load = Load {
        at: 0,
        shift: 0,
        mask: 0,
    };

    #[inline(always)]
    pub(crate) fn of<const BIG: bool>(self, word: &[u8; WORD]) -> u64 {
        self.bits(self.eight::<BIG>(word))
    }

    /// Whether it is in the eight bytes that `other` is in.
    pub(crate) fn shares_bytes(self, other: Load) -> bool {
        self.at == other.at
    }

    /// Its value, from the eight bytes that it is in.
    #[inline(always)]
    pub(crate) fn bits(self, eight: u64) -> u64 {
        eight >> self.shift & self.mask
    }

    /// The eight bytes that it is in.
    #[inline(always)]
    pub(crate) fn eight<const BIG: bool>(self, word: &[u8; WORD]) -> u64 {
        // The mask tells the compiler that eight bytes are there.
        let eight = word
            .get(usize::from(self.at & 15)..)
            .and_then(<[u8]>::first_chunk::<8>);
        let little = u64::from_le_bytes(*eight.unwrap_or(&[0; 8]));
        if BIG { little.swap_bytes() } else { little }
    }
}

impl Switch {
    /// The only layout of a header without a tag.
    fn of(part: Part) -> Switch {
        Switch {
            tag: Load::NOTHING,
            slot: NO_SLOT,
            options: [Branch {
                low: 0,
                high: 0,
                part,
            }]
            .into(),
        }
    }

    /// Whether there is a tag.
    pub(crate) fn has_tag(&self) -> bool {
        self.tag.mask != 0
    }

    /// The layout that most tags choose.
    pub(crate) fn main(&self) -> Option<&Branch> {
        self.options
            .iter()
            .max_by_key(|branch| branch.high.saturating_sub(branch.low))
    }

    /// The layout that a tag chooses.
    #[inline(always)]
    pub(crate) fn choose(&self, tag: u64) -> Option<&Branch> {
        self.options.iter().find(|option| option.holds(tag))
    }
}

impl Header {
    /// Whether every layout ends on a byte.
    pub(crate) fn ends_on_byte(&self) -> bool {
        match self {
            Header::Compiled(_, switch) => switch
                .options
                .iter()
                .all(|branch| branch.part.end.is_multiple_of(8)),
            Header::Walk => false,
        }
    }

    pub(crate) fn of(class: Option<&StructClass>) -> Header {
        let Some(class) = class else {
            return Header::Compiled(
                Word {
                    mask: 0,
                    big: false,
                    unread: true,
                },
                Switch::of(Part::default()),
            );
        };
        compile(class).unwrap_or(Header::Walk)
    }
}

/// Offsets are fixed only where the header begins on a byte, and no field asks for more alignment
/// than the whole.
fn compile(class: &StructClass) -> Option<Header> {
    if class.alignment < 8 {
        return None;
    }
    let mut layout = Layout {
        part: Part::default(),
        alignment: class.alignment,
        order: None,
    };
    let (last, before) = match class.members.split_last() {
        Some((
            Member {
                class: FieldClass::Variant(variant),
                ..
            },
            before,
        )) => (Some(variant), before),
        _ => (None, &class.members[..]),
    };
    // The selector is the one field that others may refer to.
    let mut tag = None;
    for member in before {
        if let Some(integer) = member.class.storage()
            && integer.slot != NO_SLOT
        {
            let is_tag = last.is_some_and(|variant| variant.selector.slot == integer.slot);
            if !is_tag
                || tag.is_some()
                || integer.signed
                || matches!(member.class, FieldClass::Bool(_))
            {
                return None;
            }
            tag = Some((integer, layout.part.end));
        }
        layout.field(&member.class)?;
    }
    let big = layout.order == Some(ByteOrder::Big);
    let word = Word {
        mask: u64::from(class.alignment) - 1,
        big,
        unread: false,
    };
    match last {
        None => Some(Header::Compiled(word, Switch::of(layout.part))),
        Some(variant) => {
            let (tag, at) = tag?;
            let options = layout.branches(variant)?;
            let tag_layout = Layout {
                part: Part {
                    end: at,
                    ..Part::default()
                },
                ..layout
            };
            Some(Header::Compiled(
                word,
                Switch {
                    tag: tag_layout.load(tag)?,
                    slot: tag.slot,
                    options,
                },
            ))
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    part: Part,
    alignment: u32,
    /// The byte order of all fields: none of them may share a byte with one of another.
    order: Option<ByteOrder>,
}

impl Layout {
    fn align(&mut self, to: u32) -> Option<()> {
        if to > self.alignment {
            return None;
        }
        self.part.end = self
            .part
            .end
            .checked_next_multiple_of(u64::from(to.max(1)))?;
        Some(())
    }

    /// The load of an integer that comes here.
    fn load(&self, class: &IntegerClass) -> Option<Load> {
        let at = self
            .part
            .end
            .checked_next_multiple_of(u64::from(class.alignment.max(1)))?;
        let end = at
            .checked_add(class.size.into())
            .filter(|end| *end <= u64::from(u128::BITS))?;
        if !is_natural(class) {
            return None;
        }
        let byte = (at / 8).min(8);
        let (first, last) = (at - byte * 8, end - byte * 8);
        let big = class.byte_order == ByteOrder::Big;
        let shift = if big {
            64_u64.checked_sub(last)?
        } else {
            first
        };
        let (at, shift) = (u8::try_from(byte).ok()?, u8::try_from(shift).ok()?);
        (last <= 64).then_some(Load {
            at,
            shift,
            mask: low_mask(class.size),
        })
    }

    fn field(&mut self, class: &FieldClass) -> Option<()> {
        if let FieldClass::Struct(class) = class {
            self.align(class.alignment)?;
            return class.members.iter().try_for_each(|member| {
                // Only the selector's place is looked at.
                let kept = member
                    .class
                    .storage()
                    .is_some_and(|integer| integer.slot != NO_SLOT);
                if kept {
                    None
                } else {
                    self.field(&member.class)
                }
            });
        }
        let integer = class.storage()?;
        if integer.unit.is_some() {
            return None;
        }
        let is_tag = integer.slot != NO_SLOT;
        self.align(integer.alignment)?;
        if *self.order.get_or_insert(integer.byte_order) != integer.byte_order {
            return None;
        }
        if integer.roles.has(Role::EventClassId) {
            self.part.id = if is_tag {
                Id::Tag
            } else {
                Id::At(self.load(integer)?)
            };
        }
        if integer.roles.has(Role::Timestamp)
            && self.part.time.replace(self.load(integer)?).is_some()
        {
            // Two times: the second goes on from the first.
            return None;
        }
        self.part.end = self.part.end.checked_add(integer.size.into())?;
        Some(())
    }

    fn branches(&self, variant: &VariantClass) -> Option<Box<[Branch]>> {
        let mut branches = Vec::new();
        for choice in variant.choices.iter() {
            let option = variant.options.get(choice.option as usize)?;
            if option
                .class
                .storage()
                .is_some_and(|integer| integer.slot != NO_SLOT)
            {
                return None;
            }
            let mut layout = *self;
            layout.field(&option.class)?;
            let (Ok(low), Ok(high)) = (
                choice.range.low.max(0).try_into(),
                choice.range.high.min(u64::MAX.into()).try_into(),
            ) else {
                continue;
            };
            branches.push(Branch {
                low,
                high,
                part: layout.part,
            });
            if self.order != layout.order {
                return None;
            }
        }
        Some(branches.into())
    }
}
