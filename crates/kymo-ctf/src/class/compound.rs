//! Fields made of fields.

use std::sync::Arc;

use super::{FieldClass, FieldLocation, IntRange, Roles};
use crate::class::attribute::Attributes;
use crate::error::Position;

/// Fields one after another.
#[derive(Debug, Clone, Default)]
pub struct StructClass {
    /// The members, in the order they are stored.
    pub members: Vec<Member>,
    /// Alignment in bits: the largest of the members' and of the one asked for with `align(N)`.
    pub alignment: u32,
    /// What the metadata says besides.
    pub attributes: Attributes,
    /// Which body of a structure in the text (CTF 1.8); 0 is none.
    pub(crate) body: u32,
}

impl StructClass {
    /// Of no members.
    pub(crate) const EMPTY: StructClass = StructClass {
        members: Vec::new(),
        alignment: 1,
        attributes: Attributes(None),
        body: 0,
    };

    /// A structure of these members, aligned to `minimum` bits at least.
    pub(crate) fn new(members: Vec<Member>, minimum: u32) -> Self {
        let alignments = members.iter().map(|member| member.class.outer_alignment());
        let alignment = alignments.fold(minimum.max(1), u32::max);
        StructClass {
            members,
            alignment,
            attributes: Attributes::default(),
            body: 0,
        }
    }

    /// The member that the metadata calls `name`, leading underscore included.
    pub fn member(&self, name: &str) -> Option<&FieldClass> {
        let member = self
            .members
            .iter()
            .find(|member| &*member.declared_name == name);
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
    /// What the metadata says besides.
    pub attributes: Attributes,
}

/// Several fields of one class.
#[derive(Debug, Clone)]
pub struct ArrayClass {
    /// The class of each.
    pub element: Box<FieldClass>,
    /// How many there are.
    pub length: Length,
    /// Whether the elements are characters, so that the whole is text (up to its first zero byte).
    pub text: bool,
    /// Alignment in bits that is asked for besides the elements' own (CTF 2).
    pub minimum_alignment: u32,
    /// What the whole means to the reader: 16 bytes may be the trace's UUID.
    pub roles: Roles,
    /// What the metadata says besides.
    pub attributes: Attributes,
    /// The fewest bits of an element and of the whole, computed once.
    pub(crate) element_bits: u64,
    pub(crate) least_bits: u64,
}

impl ArrayClass {
    /// An array of `element`s.
    pub(crate) fn new(element: FieldClass, length: Length) -> Self {
        let element_bits = element.least_bits();
        let least_bits = match length {
            Length::Static(length) => length.saturating_mul(element_bits),
            Length::Dynamic(_) => 0,
        };
        ArrayClass {
            element: Box::new(element),
            length,
            text: false,
            minimum_alignment: 1,
            roles: Roles::NONE,
            attributes: Attributes::default(),
            element_bits,
            least_bits,
        }
    }

    /// The number of elements, if it is fixed.
    pub fn fixed_length(&self) -> Option<u64> {
        match self.length {
            Length::Static(length) => Some(length),
            Length::Dynamic(_) => None,
        }
    }

    pub(crate) fn linked_length(&self) -> LinkedLength {
        match &self.length {
            Length::Static(length) => LinkedLength::Fixed(*length),
            Length::Dynamic(location) => LinkedLength::Slot(location.slot),
        }
    }
}

/// How many elements there are.
#[derive(Debug, Clone)]
pub enum Length {
    /// This many.
    Static(u64),
    /// As many as another field says.
    Dynamic(FieldLocation),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum LinkedLength {
    Fixed(u64),
    Slot(u32),
}

/// One of several classes.
#[derive(Debug, Clone)]
pub struct VariantClass {
    /// The integer or enumeration that chooses.
    pub selector: FieldLocation,
    /// The options, in declared order.
    pub options: Vec<Member>,
    /// The values that choose each option, in the options' order (CTF 2); `None` where the
    /// selector's labels name the option (CTF 1.8).
    pub ranges: Option<Vec<Vec<IntRange>>>,
    /// What the metadata says besides.
    pub attributes: Attributes,
    /// Once linked: the first choice that holds is made.
    pub(crate) choices: Arc<[Choice]>,
    /// Cells of fields in the options, of which those that are not chosen are not there.
    pub(crate) clears: Arc<[u32]>,
}

impl VariantClass {
    /// A variant, not linked yet.
    pub(crate) fn new(
        selector: FieldLocation,
        options: Vec<Member>,
        ranges: Option<Vec<Vec<IntRange>>>,
    ) -> Self {
        VariantClass {
            selector,
            options,
            ranges,
            attributes: Attributes::default(),
            choices: Arc::from([]),
            clears: Arc::from([]),
        }
    }
}

/// A range of a selector's values and what it chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) range: IntRange,
    pub(crate) option: u32,
}

/// A field that is there or not (CTF 2).
#[derive(Debug, Clone)]
pub struct OptionalClass {
    /// The boolean or integer that decides.
    pub selector: FieldLocation,
    /// The integers for which it is there; `None` for a boolean selector.
    pub ranges: Option<Vec<IntRange>>,
    /// The class of the field that may be there.
    pub class: Box<FieldClass>,
    /// What the metadata says besides.
    pub attributes: Attributes,
    /// Cells of fields in it.
    pub(crate) clears: Arc<[u32]>,
    /// Where the metadata has the ranges, or what lacks them.
    pub(crate) ranges_position: Position,
}

impl OptionalClass {
    /// A field that may be there, not linked yet.
    pub(crate) fn new(
        selector: FieldLocation,
        ranges: Option<Vec<IntRange>>,
        class: FieldClass,
    ) -> Self {
        OptionalClass {
            selector,
            ranges,
            class: Box::new(class),
            attributes: Attributes::default(),
            clears: Arc::from([]),
            ranges_position: Position::default(),
        }
    }
}
