//! Types in their place: from [`super::types`] to the field classes that streams are decoded by.
//!
//! A length or a tag is a path. It is looked up among the members before it, from the innermost structure outwards, and then in the
//! parts of the packet that come before: event context, stream event context, event header, packet context, packet header. A path
//! that begins with such a part's own name (`stream.event.header.`) means that part.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{At, Length as PathLength, Path};
use super::attributes::dotted;
use super::types::{IntegerType, MemberType, Type, TypeKind, shown_name};
use crate::class::{
    ArrayClass, ByteOrder, Encoding, EnumClass, FieldClass, FloatClass, IntegerClass, Length, Member, Role, StructClass,
    VariantClass,
};
use crate::error::{MetadataError, Position};

/// Fields that a trace may describe. A text can ask for exponentially many by using a structure in a structure; this is where it ends.
const MAX_FIELDS: u32 = 1 << 19;

/// A part of a packet or record that later parts can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    PacketHeader,
    PacketContext,
    EventHeader,
    StreamEventContext,
    EventContext,
    EventFields,
}

impl Root {
    /// Its absolute name.
    pub(crate) fn path(self) -> &'static [&'static str] {
        match self {
            Root::PacketHeader => &["trace", "packet", "header"],
            Root::PacketContext => &["stream", "packet", "context"],
            Root::EventHeader => &["stream", "event", "header"],
            Root::StreamEventContext => &["stream", "event", "context"],
            Root::EventContext => &["event", "context"],
            Root::EventFields => &["event", "fields"],
        }
    }
}

/// Parts of the packet that are read before the one being instantiated, in reading order.
pub(crate) type Before = Vec<(Root, Arc<StructClass>)>;

/// Makes field classes; one for a whole trace, as slots are counted through.
#[derive(Debug)]
pub(crate) struct Instantiator {
    byte_order: ByteOrder,
    clocks: Vec<String>,
    fields: u32,
    slots: u32,
}

type Checked<T> = Result<T, MetadataError>;

impl Instantiator {
    pub(crate) fn new(byte_order: ByteOrder, clocks: Vec<String>) -> Self {
        Instantiator { byte_order, clocks, fields: 0, slots: 0 }
    }

    /// How many slots decoding needs.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// The class of a whole part, which must be a structure.
    pub(crate) fn root(&mut self, root: Root, of: &At<std::rc::Rc<Type>>, before: &Before) -> Checked<Arc<StructClass>> {
        let mut place = Place { whole: self, root, before, open: Vec::new() };
        match place.field(&of.value, of.position)? {
            FieldClass::Struct(class) => Ok(Arc::new(class)),
            _ => Err(MetadataError::new(of.position, format!("`{}` must be a structure", root.path().join(".")))),
        }
    }
}

/// One part being instantiated.
struct Place<'a> {
    whole: &'a mut Instantiator,
    root: Root,
    before: &'a Before,
    /// The members read so far of every structure that is open, outermost first.
    open: Vec<Vec<Member>>,
}

impl Place<'_> {
    fn field(&mut self, of: &Type, at: Position) -> Checked<FieldClass> {
        self.whole.fields += 1;
        if self.whole.fields > MAX_FIELDS {
            return Err(MetadataError::new(
                at,
                format!("the trace describes more than {MAX_FIELDS} fields, which is not supported"),
            ));
        }
        Ok(match &of.kind {
            TypeKind::Integer(integer) => FieldClass::Integer(self.integer(integer)?),
            TypeKind::Float(float) => FieldClass::Float(FloatClass {
                size: float.size,
                alignment: float.alignment,
                byte_order: float.byte_order.unwrap_or(self.whole.byte_order),
            }),
            TypeKind::String => FieldClass::String,
            TypeKind::Enum { integer, mappings } => {
                FieldClass::Enum(EnumClass { integer: self.integer(integer)?, mappings: Arc::clone(mappings) })
            }
            TypeKind::Struct { members, align } => self.structure(members, *align)?,
            TypeKind::Array { element, length } => self.array(element, length, at)?,
            TypeKind::Variant { tag, options } => self.variant(tag.as_ref(), options, at)?,
        })
    }

    fn integer(&mut self, integer: &IntegerType) -> Checked<IntegerClass> {
        if let Some(clock) = &integer.clock
            && !self.whole.clocks.iter().any(|name| **name == *clock.value)
        {
            return Err(MetadataError::new(clock.position, format!("there is no clock `{}`", clock.value)));
        }
        let slot = self.whole.slots;
        self.whole.slots += 1;
        let clock = integer.clock.as_ref().map(|clock| Arc::clone(&clock.value));
        let drives_time = clock.is_some() && self.root == Root::EventHeader;
        Ok(IntegerClass {
            size: integer.size,
            alignment: integer.alignment,
            signed: integer.signed,
            byte_order: integer.byte_order.unwrap_or(self.whole.byte_order),
            base: integer.base,
            encoding: integer.encoding,
            clock,
            slot,
            role: if drives_time { Role::Clock } else { Role::None },
        })
    }

    fn member(&mut self, member: &MemberType) -> Checked<Member> {
        let mut class = self.field(&member.of, member.position)?;
        if self.root == Root::EventHeader && &*member.name == "id" {
            let integer = match &mut class {
                FieldClass::Integer(integer) => Some(integer),
                FieldClass::Enum(class) => Some(&mut class.integer),
                _ => None,
            };
            match integer {
                Some(integer) if !integer.signed && integer.clock.is_none() => integer.role = Role::EventId,
                _ => {
                    let message = "the event header's `id` must be an unsigned integer or an enumeration of such";
                    return Err(MetadataError::new(member.position, message));
                }
            }
        }
        Ok(Member { name: Arc::from(shown_name(&member.name)), declared_name: Arc::clone(&member.name), class })
    }

    fn structure(&mut self, members: &[MemberType], align: u32) -> Checked<FieldClass> {
        self.open.push(Vec::new());
        let mut alignment = align;
        for member in members {
            let made = self.member(member)?;
            alignment = alignment.max(made.class.alignment());
            if let Some(open) = self.open.last_mut() {
                open.push(made);
            }
        }
        let members = self.open.pop().unwrap_or_default();
        Ok(FieldClass::Struct(StructClass { members, alignment }))
    }

    fn array(&mut self, element: &Type, length: &At<PathLength>, at: Position) -> Checked<FieldClass> {
        let slot = match &length.value {
            PathLength::Fixed(length) => Length::Fixed(*length),
            PathLength::Field(path) => {
                let integer = self.find(path, length.position)?.as_integer();
                let Some(IntegerClass { slot, signed: false, .. }) = integer else {
                    return Err(MetadataError::new(
                        length.position,
                        format!("`{}` gives a length, so it must be an unsigned integer", dotted(path)),
                    ));
                };
                Length::Slot(*slot)
            }
        };
        let element = self.field(element, at)?;
        let element_bits = element.least_bits();
        if element_bits == 0 {
            let message = "arrays of elements that may take no bits are not supported";
            return Err(MetadataError::new(at, message));
        }
        let least_bits = match slot {
            Length::Fixed(length) => length.saturating_mul(element_bits),
            Length::Slot(_) => 0,
        };
        let text = matches!(&element, FieldClass::Integer(integer)
            if integer.size == 8 && integer.alignment == 8 && integer.encoding != Encoding::None);
        Ok(FieldClass::Array(ArrayClass { element: Box::new(element), length: slot, text, element_bits, least_bits }))
    }

    fn variant(&mut self, tag: Option<&At<Path>>, options: &[MemberType], at: Position) -> Checked<FieldClass> {
        let Some(tag) = tag else {
            return Err(MetadataError::new(at, "this variant is used without a tag"));
        };
        let (slot, labels) = match self.find(&tag.value, tag.position)? {
            FieldClass::Enum(class) => (class.integer.slot, Arc::clone(&class.mappings)),
            _ => {
                return Err(MetadataError::new(
                    tag.position,
                    format!("`{}` is a variant's tag, so it must be an enumeration", dotted(&tag.value)),
                ));
            }
        };
        // Labels and options are matched as declared; a label that is no name cannot have been given the option's underscore.
        let mut by_label = HashMap::new();
        for (index, option) in options.iter().enumerate() {
            by_label.entry(Arc::from(shown_name(&option.name))).or_insert(index);
        }
        for (index, option) in options.iter().enumerate() {
            by_label.insert(Arc::clone(&option.name), index);
        }
        let options = options.iter().map(|option| self.member(option)).collect::<Checked<_>>()?;
        Ok(FieldClass::Variant(VariantClass { tag: slot, labels, by_label, options }))
    }

    /// The field that `path` means here.
    fn find(&self, path: &Path, at: Position) -> Checked<&FieldClass> {
        let missing = || MetadataError::new(at, format!("no field `{}` is read before this one", dotted(path)));
        for root in [
            Root::PacketHeader,
            Root::PacketContext,
            Root::EventHeader,
            Root::StreamEventContext,
            Root::EventContext,
            Root::EventFields,
        ] {
            let prefix = root.path();
            if path.len() > prefix.len() && path.iter().zip(prefix).all(|(have, want)| have == want) {
                let rest = path.get(prefix.len()..).unwrap_or(&[]);
                let part = if root == self.root {
                    self.open.first().map(Vec::as_slice)
                } else {
                    let part = self.before.iter().find(|(before, _)| *before == root);
                    part.map(|(_, class)| class.members.as_slice())
                };
                return part.and_then(|members| descend(members, rest)).ok_or_else(missing);
            }
        }
        let first = path.first().ok_or_else(missing)?;
        let here = self.open.iter().rev().map(Vec::as_slice);
        let before = self.before.iter().rev().map(|(_, class)| class.members.as_slice());
        here.chain(before)
            .find(|members| members.iter().any(|member| *member.declared_name == **first))
            .and_then(|members| descend(members, path))
            .ok_or_else(missing)
    }
}

/// Follows a path through structures.
fn descend<'a>(members: &'a [Member], path: &[String]) -> Option<&'a FieldClass> {
    let (first, rest) = path.split_first()?;
    let member = members.iter().find(|member| *member.declared_name == **first)?;
    match (&member.class, rest) {
        (class, []) => Some(class),
        (FieldClass::Struct(class), rest) => descend(&class.members, rest),
        _ => None,
    }
}
