//! Classes of compound fields.

use std::sync::Arc;

use super::{BitOrder, ByteOrder, FieldClass, FieldLocation, IntRange, Roles};
use crate::class::attribute::Attributes;
use crate::error::Position;

/// Fields one after another.
#[derive(Debug, Clone, Default)]
pub struct StructClass {
    /// The members, in the order they are stored.
    pub members: Vec<Member>,
    /// Alignment in bits: the largest of the members' and the one given by `align(N)`.
    pub alignment: u32,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    /// Number of the structure's body in the text (CTF 1.8); 0 is none.
    pub(crate) body: u32,
}

impl StructClass {
    /// A structure without members.
    pub(crate) const EMPTY: StructClass = StructClass {
        members: Vec::new(),
        alignment: 1,
        attributes: Attributes(None),
        body: 0,
    };

    /// A structure of these members, aligned to at least `minimum` bits.
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

    /// The member with the declared name `name`, leading underscore included.
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
    /// The name to show: without the underscore by which TSDL avoids keywords.
    pub name: Arc<str>,
    /// The name as declared in the metadata.
    pub declared_name: Arc<str>,
    /// The field's class.
    pub class: FieldClass,
    /// Attributes from the metadata.
    pub attributes: Attributes,
}

/// Several fields of one class.
#[derive(Debug, Clone)]
pub struct ArrayClass {
    /// The class of each element.
    pub element: Box<FieldClass>,
    /// The number of elements.
    pub length: Length,
    /// Whether the elements are characters, so that the array is text (up to its first zero byte).
    pub text: bool,
    /// Minimum alignment in bits, in addition to that of the elements (CTF 2).
    pub minimum_alignment: u32,
    /// Roles of the whole array: 16 bytes may be the trace's UUID.
    pub roles: Roles,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    /// The fewest bits of an element and of the array, cached.
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

    /// Whether the elements are unsigned little-endian integers of 64 bits without gaps.
    pub(crate) fn is_of_words(&self) -> bool {
        match &*self.element {
            FieldClass::Integer(class) => {
                class.size == 64
                    && !class.signed
                    && class.alignment <= 64
                    && class.unit.is_none()
                    && class.byte_order == ByteOrder::Little
                    && class.bit_order == BitOrder::Natural
                    && self.minimum_alignment <= class.alignment
            }
            _ => false,
        }
    }

    pub(crate) fn linked_length(&self) -> LinkedLength {
        match &self.length {
            Length::Static(length) => LinkedLength::Fixed(*length),
            Length::Dynamic(location) => LinkedLength::Slot(location.slot),
        }
    }
}

/// The number of elements of an array.
#[derive(Debug, Clone)]
pub enum Length {
    /// A fixed number.
    Static(u64),
    /// The value of another field.
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
    /// The integer or enumeration that selects the option.
    pub selector: FieldLocation,
    /// The options, in declared order.
    pub options: Vec<Member>,
    /// The values that select each option, in the order of the options (CTF 2); `None` if the
    /// selector's labels name the option (CTF 1.8).
    pub ranges: Option<Vec<Vec<IntRange>>>,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    /// Set by linking: the first choice that holds the selector's value applies.
    pub(crate) choices: Arc<[Choice]>,
    /// Slots of fields in the options, to clear because the fields of other options are absent.
    pub(crate) clears: Arc<[u32]>,
}

impl VariantClass {
    /// A variant that is not linked yet.
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

/// A range of the selector's values and the option that it selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) range: IntRange,
    pub(crate) option: u32,
}

/// A field that may be absent (CTF 2).
#[derive(Debug, Clone)]
pub struct OptionalClass {
    /// The boolean or integer that decides whether the field is present.
    pub selector: FieldLocation,
    /// The selector values for which the field is present; `None` for a boolean selector.
    pub ranges: Option<Vec<IntRange>>,
    /// The class of the field.
    pub class: Box<FieldClass>,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    /// Slots of the fields in it, to clear if it is absent.
    pub(crate) clears: Arc<[u32]>,
    /// Position of the ranges in the metadata, or of the class that lacks them.
    pub(crate) ranges_position: Position,
}

impl OptionalClass {
    /// An optional field that is not linked yet.
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
