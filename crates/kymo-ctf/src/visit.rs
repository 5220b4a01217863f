//! A record's fields told one after another, in one pass.
//!
//! [`StructRef`](crate::StructRef) gives any field at any time, and pays for it: what is before a field is stepped over again. Who wants
//! all fields in their order, to print them, has each told once here.

use crate::class::{
    ArrayClass, FieldClass, FloatClass, IntegerClass, LinkedLength, Member, Scope, StructClass, TextEncoding, VarIntClass, choose,
};
use crate::event_ref::EventRef;
use crate::source::Source as _;
use crate::value_ref::Place;

/// Is told every field of a record.
///
/// Every [`structure`](Visitor::structure), [`array`](Visitor::array) and [`variant`](Visitor::variant) is closed by [`end`](Visitor::end).
pub trait Visitor<'a> {
    /// A part of the record begins: a structure, which is told next.
    fn scope(&mut self, scope: Scope);

    /// A structure.
    fn structure(&mut self, class: &'a StructClass);

    /// The next member of the structure. What it is comes next, unless the answer is `false`: then it is left out.
    fn member(&mut self, member: &'a Member) -> bool;

    /// An array of `length` elements, each told after an [`element`](Visitor::element). Arrays of characters are [`text`](Visitor::text).
    fn array(&mut self, class: &'a ArrayClass, length: u64);

    /// The next element, counted from 0.
    fn element(&mut self, index: u64);

    /// A variant, whose option is told next.
    fn variant(&mut self, option: &'a Member);

    /// The innermost structure, array or variant is over.
    fn end(&mut self, of: Compound);

    /// An integer or what is stored as one: an enumeration, a boolean, a bit array, a bit map. `class` says which. `bits` are its
    /// [size](IntegerClass::size) low bits, not sign-extended.
    fn integer(&mut self, class: &'a FieldClass, integer: &'a IntegerClass, bits: u64);

    /// A LEB128 integer, sign-extended to 64 bits if it is signed.
    fn var_int(&mut self, class: &'a VarIntClass, bits: u64);

    /// A floating-point number; smaller ones are widened.
    fn float(&mut self, class: &'a FloatClass, value: f64);

    /// Text as it is stored, whatever is in it: a terminator and what follows it belong to `bytes` where the length is stated.
    fn text(&mut self, bytes: &'a [u8], encoding: TextEncoding);

    /// Bytes.
    fn blob(&mut self, bytes: &'a [u8]);

    /// An optional field that is not there.
    fn absent(&mut self);
}

/// What fields are inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compound {
    /// A structure.
    Structure,
    /// An array.
    Array,
    /// A variant.
    Variant,
}

impl<'a> EventRef<'a> {
    /// Tells the record's contexts and fields: those that its class has.
    pub fn visit<V: Visitor<'a>>(&self, visitor: &mut V) {
        let (mut place, parts) = self.stream.body(&self.plan.class);
        let scopes = [Scope::EventCommonContext, Scope::EventContext, Scope::EventFields];
        for (part, scope) in parts.into_iter().zip(scopes) {
            if let Some(class) = part {
                visitor.scope(scope);
                // Records are handed out only after they were stepped over without an error.
                let _ = place.tell_structure(class, visitor);
            }
        }
    }

    /// Tells the context of the record's packet, if there is one.
    pub fn visit_packet_context<V: Visitor<'a>>(&self, visitor: &mut V) {
        let head = self.stream.head.as_ref();
        if let Some((mut place, class)) = head.and_then(|head| head.context(self.stream.source.bytes(), &self.stream.metadata)) {
            visitor.scope(Scope::PacketContext);
            let _ = place.tell_structure(class, visitor);
        }
    }

    /// Counts packets of the stream as they are read: events of the same stream and count are in the same packet.
    pub fn packet_count(&self) -> u64 {
        self.stream.packets
    }
}

impl<'a> Place<'a> {
    pub(crate) fn tell_structure<V: Visitor<'a>>(&mut self, class: &'a StructClass, visitor: &mut V) -> Option<()> {
        self.align(class.alignment);
        visitor.structure(class);
        for member in &class.members {
            if visitor.member(member) {
                self.tell(&member.class, visitor)?;
            } else {
                self.walk(|walker| walker.field(&member.class)).ok()?;
            }
        }
        visitor.end(Compound::Structure);
        Some(())
    }

    fn tell<V: Visitor<'a>>(&mut self, class: &'a FieldClass, visitor: &mut V) -> Option<()> {
        match class {
            FieldClass::Integer(integer) | FieldClass::BitArray(integer) => {
                let bits = self.integer(integer)?;
                visitor.integer(class, integer, bits);
            }
            FieldClass::Enum(of) => {
                let bits = self.integer(&of.integer)?;
                visitor.integer(class, &of.integer, bits);
            }
            FieldClass::BitMap(of) => {
                let bits = self.integer(&of.integer)?;
                visitor.integer(class, &of.integer, bits);
            }
            FieldClass::Bool(integer) => {
                let bits = self.integer(integer)?;
                self.slots.set(integer.slot, i128::from(bits != 0));
                visitor.integer(class, integer, bits);
            }
            FieldClass::VarInt(of) => {
                let bits = self.var_int(of)?;
                visitor.var_int(of, bits);
            }
            FieldClass::Float(of) => {
                let value = self.float(of)?;
                visitor.float(of, value);
            }
            FieldClass::String(of) => {
                let bytes = self.bytes(&of.length, of.encoding.unit())?;
                visitor.text(bytes, of.encoding);
            }
            FieldClass::Blob(of) => {
                let bytes = self.bytes(&of.length, 1)?;
                visitor.blob(bytes);
            }
            FieldClass::Struct(of) => self.tell_structure(of, visitor)?,
            FieldClass::Array(of) => self.tell_array(of, visitor)?,
            FieldClass::Variant(of) => {
                let tag = self.slots.get(of.selector.slot);
                self.slots.clear(&of.clears);
                let option = choose(&of.choices, tag)?;
                let option = of.options.get(option)?;
                visitor.variant(option);
                self.tell(&option.class, visitor)?;
                visitor.end(Compound::Variant);
            }
            FieldClass::Optional(of) => {
                let selector = self.slots.get(of.selector.slot);
                self.slots.clear(&of.clears);
                if of.is_there(selector) {
                    self.tell(&of.class, visitor)?;
                } else {
                    visitor.absent();
                }
            }
        }
        Some(())
    }

    fn tell_array<V: Visitor<'a>>(&mut self, class: &'a ArrayClass, visitor: &mut V) -> Option<()> {
        let length = match class.linked_length() {
            LinkedLength::Fixed(length) => length,
            LinkedLength::Slot(slot) => self.slots.length(slot)?,
        };
        self.align(class.element.alignment().max(class.minimum_alignment));
        if class.text {
            let bytes = self.walk(|walker| walker.cursor.take_bytes(length)).ok()?;
            visitor.text(bytes, TextEncoding::Utf8);
            return Some(());
        }
        visitor.array(class, length);
        for index in 0..length {
            visitor.element(index);
            self.tell(&class.element, visitor)?;
        }
        visitor.end(Compound::Array);
        Some(())
    }
}
