//! Visits all fields of a record in one pass.
//!
//! [`StructRef`](crate::StructRef) gives access to any field, but skips the preceding fields each
//! time. A visitor decodes each field once, in order, as printing needs.

use crate::class::wide_int::WideInt;
use crate::class::{
    ArrayClass, Base, ByteOrder, FieldClass, FloatClass, IntegerClass, LinkedLength, Member,
    NO_SLOT, Scope, StructClass, TextEncoding, VarIntClass,
};
use crate::decode::bits::Leb;
use crate::decode::choice::choose;
use crate::decode::place::Place;
use crate::decode::skip::is_natural;

/// Receives every field of a record, in order.
///
/// Every [`structure`](Visitor::structure), [`array`](Visitor::array) and
/// [`variant`](Visitor::variant) is closed by [`end`](Visitor::end).
pub trait Visitor<'a> {
    /// A part of the record begins; its structure comes next.
    fn scope(&mut self, scope: Scope);

    /// A structure.
    fn structure(&mut self, class: &'a StructClass);

    /// The next member of the structure. Its value comes next, unless the method returns `false`,
    /// which skips it.
    fn member(&mut self, member: &'a Member) -> bool;

    /// An array of `length` elements, each after an [`element`](Visitor::element). Arrays of
    /// characters are [`text`](Visitor::text).
    fn array(&mut self, class: &'a ArrayClass, length: u64);

    /// The next element, counted from 0.
    fn element(&mut self, index: u64);

    /// A variant, whose option comes next.
    fn variant(&mut self, option: &'a Member);

    /// The innermost structure, array or variant ends.
    fn end(&mut self, of: Compound);

    /// An integer, or an enumeration, boolean, bit array or bit map stored as one, according to
    /// `class`. `bits` are its [size](IntegerClass::size) low bits, not sign-extended.
    fn integer(&mut self, class: &'a FieldClass, integer: &'a IntegerClass, bits: u64);

    /// All elements of an array of unsigned decimal integers of whole bytes, in order. A visitor
    /// that prints can write them faster here than one at a time.
    #[inline]
    fn decimals(
        &mut self,
        class: &'a FieldClass,
        integer: &'a IntegerClass,
        values: impl Iterator<Item = u64>,
    ) {
        for (index, bits) in (0..).zip(values) {
            self.element(index);
            self.integer(class, integer, bits);
        }
    }

    /// A LEB128 integer of at most 64 bits, sign-extended to 64 bits if it is signed.
    fn var_int(&mut self, class: &'a VarIntClass, bits: u64);

    /// A LEB128 integer of more than 64 bits, or any value of a [`WideClass`](crate::WideClass),
    /// according to `class`.
    fn wide(&mut self, class: &'a FieldClass, value: WideInt);

    /// A floating-point number; smaller ones are widened.
    fn float(&mut self, class: &'a FloatClass, value: f64);

    /// Text as stored. If the length is stated, `bytes` include a terminator and anything after it.
    fn text(&mut self, bytes: &'a [u8], encoding: TextEncoding);

    /// Bytes.
    fn blob(&mut self, bytes: &'a [u8]);

    /// An absent optional field.
    fn absent(&mut self);
}

/// Kinds of compound fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compound {
    /// A structure.
    Structure,
    /// An array.
    Array,
    /// A variant.
    Variant,
}

impl<'a> Place<'a> {
    pub(crate) fn visit_structure<V: Visitor<'a>>(
        &mut self,
        class: &'a StructClass,
        visitor: &mut V,
    ) -> Option<()> {
        self.align(class.alignment);
        visitor.structure(class);
        for member in &class.members {
            if visitor.member(member) {
                self.visit(&member.class, visitor)?;
            } else {
                self.walk(|walker| walker.field(&member.class)).ok()?;
            }
        }
        visitor.end(Compound::Structure);
        Some(())
    }

    #[inline]
    fn visit<V: Visitor<'a>>(&mut self, class: &'a FieldClass, visitor: &mut V) -> Option<()> {
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
            FieldClass::VarInt(of) => match self.var_int(of.signed, of.slot)? {
                Leb::Small(bits) => visitor.var_int(of, bits),
                Leb::Wide(value) => visitor.wide(class, value),
            },
            FieldClass::Wide(of) => {
                let value = self.wide(of)?;
                visitor.wide(class, value);
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
            FieldClass::Struct(of) => self.visit_structure(of, visitor)?,
            FieldClass::Array(of) => self.visit_array(of, visitor)?,
            FieldClass::Variant(of) => {
                let option = choose(&of.choices, &self.slots, of.selector.slot)?;
                self.slots.clear(&of.clears);
                let option = of.options.get(option)?;
                visitor.variant(option);
                self.visit(&option.class, visitor)?;
                visitor.end(Compound::Variant);
            }
            FieldClass::Optional(of) => {
                let is_there = of.is_there(&self.slots);
                self.slots.clear(&of.clears);
                if is_there {
                    self.visit(&of.class, visitor)?;
                } else {
                    visitor.absent();
                }
            }
        }
        Some(())
    }

    fn visit_array<V: Visitor<'a>>(
        &mut self,
        class: &'a ArrayClass,
        visitor: &mut V,
    ) -> Option<()> {
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
        if let FieldClass::Integer(integer) = &*class.element {
            return self.visit_integers(&class.element, integer, length, visitor);
        }
        for index in 0..length {
            visitor.element(index);
            self.visit(&class.element, visitor)?;
        }
        visitor.end(Compound::Array);
        Some(())
    }

    /// Visits an array of integers, the most common kind.
    fn visit_integers<V: Visitor<'a>>(
        &mut self,
        class: &'a FieldClass,
        integer: &'a IntegerClass,
        length: u64,
        visitor: &mut V,
    ) -> Option<()> {
        if let Some(bytes) = self.whole_bytes(integer, length) {
            let elements = bytes.chunks_exact(usize::from(integer.size / 8));
            let order = integer.byte_order;
            let values = elements.map(|element| of_bytes(element, order));
            if !integer.signed && integer.base == Base::Decimal {
                visitor.decimals(class, integer, values);
            } else {
                for (index, bits) in (0..).zip(values) {
                    visitor.element(index);
                    visitor.integer(class, integer, bits);
                }
            }
        } else {
            for index in 0..length {
                visitor.element(index);
                let bits = self.integer(integer)?;
                visitor.integer(class, integer, bits);
            }
        }
        visitor.end(Compound::Array);
        Some(())
    }

    /// The bytes of `length` integers, if each is a whole number of bytes and there is no padding
    /// between them. Advances past them.
    fn whole_bytes(&mut self, class: &IntegerClass, length: u64) -> Option<&'a [u8]> {
        let is_whole = matches!(class.size, 8 | 16 | 32 | 64)
            && u32::from(class.size).is_multiple_of(class.alignment.max(1));
        if !is_whole
            || !is_natural(class)
            || class.slot != NO_SLOT
            || !self.position.is_multiple_of(8)
        {
            return None;
        }
        let end = length
            .checked_mul(class.size.into())?
            .checked_add(self.position)
            .filter(|end| *end <= self.limit)?;
        let range = usize::try_from(self.position / 8).ok()?..usize::try_from(end / 8).ok()?;
        let bytes = self.bytes.get(range)?;
        self.position = end;
        Some(bytes)
    }
}

/// The unsigned integer in 1, 2, 4 or 8 bytes.
#[inline]
fn of_bytes(bytes: &[u8], order: ByteOrder) -> u64 {
    let little = match *bytes {
        [a] => return a.into(),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    };
    match order {
        ByteOrder::Little => little,
        ByteOrder::Big => little.swap_bytes() >> (64 - 8 * bytes.len().clamp(1, 8)),
    }
}
