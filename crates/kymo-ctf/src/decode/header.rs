//! Event headers: reads the id and time of a record at fixed offsets.
//!
//! Nearly all tracers write one of two kinds: fields of fixed size, or a short integer that selects
//! between such layouts (LTTng's compact and large headers, Kymo's). Both are compiled to loads at
//! fixed offsets. Any other header is walked field by field.

use crate::class::{
    ByteOrder, FieldClass, IntegerClass, Member, NO_SLOT, Role, StructClass, VariantClass,
};
use crate::decode::bits::low_mask;
use crate::decode::skip::is_natural;

/// Bytes of a header that are examined: eight from any of the first sixteen offsets.
pub(crate) const WORD: usize = 24;

/// How to read an event header.
#[derive(Debug)]
pub(crate) enum Header {
    /// Fields at fixed offsets, followed by one of several parts if there is a tag.
    Compiled(Word, Switch),
    /// Field by field.
    Walk,
}

/// The first bytes of a header, which hold all examined fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    /// The header begins at the next multiple of `mask + 1` bits.
    pub(crate) mask: u64,
    /// Whether its fields are big-endian.
    pub(crate) big: bool,
    /// Whether no field is examined, so that no bytes are needed.
    unread: bool,
}

/// A header whose first part selects the second. A header without a tag has one part, and a tag of
/// no bits, which is 0.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) tag: Load,
    /// Slot of the tag, for fields that refer to it.
    pub(crate) slot: u32,
    options: Box<[Branch]>,
}

/// A layout of fixed offsets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) id: Id,
    pub(crate) time: Option<Load>,
    /// Bit position of its end in the header.
    pub(crate) end: u64,
}

/// Location of the event class id.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Id {
    /// There is no id.
    #[default]
    None,
    /// The tag is the id.
    Tag,
    At(Load),
}

/// A part that a header's tag selects.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) part: Part,
}

impl Branch {
    /// Whether this tag selects the part.
    #[inline(always)]
    pub(crate) fn holds(&self, tag: u64) -> bool {
        self.low <= tag && tag <= self.high
    }
}

/// An unsigned integer in a [`Word`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Offset of the eight bytes that contain it, 8 at most.
    at: u8,
    shift: u8,
    pub(crate) mask: u64,
}

impl Word {
    /// The bytes from `at`; `None` if fewer are left.
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
    /// Whether the id is `id`, given that the tag is that of another record with this `id`.
    #[inline(always)]
    pub(crate) fn is_for_this_tag<const BIG: bool>(self, id: u64, word: &[u8; WORD]) -> bool {
        match self {
            Id::At(load) => load.of::<BIG>(word) == id,
            Id::None | Id::Tag => true,
        }
    }
}

impl Load {
    /// A load of no bits, which gives 0.
    pub(crate) const NOTHING: Load = Load {
        at: 0,
        shift: 0,
        mask: 0,
    };

    #[inline(always)]
    pub(crate) fn of<const BIG: bool>(self, word: &[u8; WORD]) -> u64 {
        self.bits(self.eight::<BIG>(word))
    }

    /// Whether it is in the same eight bytes as `other`.
    pub(crate) fn shares_bytes(self, other: Load) -> bool {
        self.at == other.at
    }

    /// Its value, from the eight bytes that contain it.
    #[inline(always)]
    pub(crate) fn bits(self, eight: u64) -> u64 {
        eight >> self.shift & self.mask
    }

    /// The eight bytes that contain it.
    #[inline(always)]
    pub(crate) fn eight<const BIG: bool>(self, word: &[u8; WORD]) -> u64 {
        // The mask proves to the compiler that eight bytes exist.
        let eight = word
            .get(usize::from(self.at & 15)..)
            .and_then(<[u8]>::first_chunk::<8>);
        let little = u64::from_le_bytes(*eight.unwrap_or(&[0; 8]));
        if BIG { little.swap_bytes() } else { little }
    }
}

impl Switch {
    /// The switch of a header without a tag.
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

    /// The layout that most tags select.
    pub(crate) fn main(&self) -> Option<&Branch> {
        self.options
            .iter()
            .max_by_key(|branch| branch.high.saturating_sub(branch.low))
    }

    /// The layout that a tag selects.
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

/// Compiles a header class. Offsets are fixed only if the header begins on a byte and no field
/// needs more alignment than the header.
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
    // The selector is the only field to which others may refer.
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
    /// The common byte order of all fields: different orders must not share a byte.
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

    /// The load of an integer at this position.
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
                // Only the selector is examined here.
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
            // Of two times, the second continues from the first.
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
