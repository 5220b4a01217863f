//! Field access by a precomputed location, so that reading a field is usually one load.
//!
//! [`FieldAccess::find`] looks up the name and measures the preceding fields, once for each event
//! class. Fields at a fixed offset in the record are loaded from there; after a text, or if the
//! layout depends on other fields, the preceding fields are skipped for each record.

use std::borrow::Cow;

use crate::class::{
    ArrayClass, ByteOrder, FieldClass, IntegerClass, LinkedLength, Member, Scope, StructClass,
    sign_extend,
};
use crate::decode::bits::load_at_once;
use crate::decode::skip::{aligned, fixed_size, is_natural};
use crate::decode::text;
use crate::decode::value_ref::ValueRef;
use crate::metadata::{EventClass, StreamClass};
use crate::stream::event_ref::EventRef;
use crate::stream::source::Source as _;

/// Location of a field in the records of one event class. For records of other classes it gives an
/// arbitrary value or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldAccess {
    /// Index of the part of the record, and of the member in it.
    part: u8,
    index: u32,
    /// `None` if the preceding fields must be skipped.
    fixed: Option<Fixed>,
}

/// A location that is the same in every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fixed {
    /// An integer of `size` bits, `offset` bits from the start of the record's body, which is
    /// aligned to `mask + 1` bits.
    Integer {
        mask: u64,
        offset: u64,
        size: u8,
        signed: bool,
        order: ByteOrder,
    },
    /// Text in an array of `length` bytes; `mask` and `offset` as for integers.
    Characters { mask: u64, offset: u64, length: u64 },
    /// A sequence of unsigned little-endian integers of 64 bits without gaps, whose length is an
    /// integer of `size` bits at `length`; `mask` and `offset` as for integers.
    Words {
        mask: u64,
        offset: u64,
        length: u64,
        size: u8,
    },
}

/// The parts of a record after its header, in order.
const PARTS: [Scope; 3] = [
    Scope::EventCommonContext,
    Scope::EventContext,
    Scope::EventFields,
];

impl FieldAccess {
    /// Finds the field with the shown name `name` in a part of the event's records: its own fields,
    /// its context, or the common context of the stream's events. `None` if there is no such field,
    /// and for scopes outside event records.
    pub fn find(
        stream: &StreamClass,
        event: &EventClass,
        scope: Scope,
        name: &str,
    ) -> Option<FieldAccess> {
        let parts = [
            stream.event_context.as_deref(),
            event.context.as_deref(),
            event.fields.as_deref(),
        ];
        let part = PARTS.iter().position(|part| *part == scope)?;
        let class = (*parts.get(part)?)?;
        let index = class.members.iter().position(|m| &*m.name == name)?;
        let member = &class.members.get(index)?.class;
        Some(FieldAccess {
            part: part as u8,
            index: u32::try_from(index).ok()?,
            fixed: Offset::of(parts.get(..part)?, class, index).and_then(|at| match member {
                FieldClass::Array(array) if array.is_of_words() => {
                    at.words(parts.get(..part)?, class, index, array)
                }
                _ => at.place(member),
            }),
        })
    }

    /// Whether the field is an integer or enumeration at the same place in every record, so that
    /// reading it is one load.
    pub fn is_fixed_integer(&self) -> bool {
        matches!(self.fixed, Some(Fixed::Integer { .. }))
    }
}

/// An offset in a record's body that is the same in all records.
#[derive(Debug, Clone, Copy)]
struct Offset {
    /// Alignment of the body, in bits.
    alignment: u64,
    bits: u64,
}

impl Offset {
    /// Offset of the member at `index` of `class`, which follows the parts `before`.
    fn of(before: &[Option<&StructClass>], class: &StructClass, index: usize) -> Option<Offset> {
        let mut at = Offset {
            alignment: 1,
            bits: 0,
        };
        for class in before.iter().flatten() {
            at.align(class.alignment)?;
            at.step_over(class, class.members.len())?;
        }
        at.align(class.alignment)?;
        at.step_over(class, index)?;
        at.align(class.members.get(index)?.class.alignment())?;
        Some(at)
    }

    /// Aligns the offset. An alignment larger than the body's can only be applied at offset 0,
    /// where it becomes the body's.
    fn align(&mut self, to: u32) -> Option<()> {
        let to = u64::from(to.max(1));
        if to > self.alignment {
            if self.bits > 0 {
                return None;
            }
            self.alignment = to;
        }
        self.bits = self.bits.checked_next_multiple_of(to)?;
        Some(())
    }

    fn step_over(&mut self, class: &StructClass, members: usize) -> Option<()> {
        for member in class.members.get(..members)? {
            let size = match member.class.storage() {
                // Padding of C bit-fields depends on the position.
                Some(integer) if integer.unit.is_some() => return None,
                Some(integer) => u64::from(integer.size),
                None => fixed_size(&member.class)?,
            };
            self.align(member.class.alignment())?;
            self.bits = self.bits.checked_add(size)?;
        }
        Some(())
    }

    /// The place of a sequence of words, if its length has a fixed place too.
    fn words(
        self,
        before: &[Option<&StructClass>],
        class: &StructClass,
        index: usize,
        array: &ArrayClass,
    ) -> Option<Fixed> {
        let LinkedLength::Slot(slot) = array.linked_length() else {
            return None;
        };
        let mut members = class.members.get(..index)?.iter();
        let is_length = |member: &Member| match &member.class {
            FieldClass::Integer(integer) => integer.slot == slot,
            _ => false,
        };
        let of = members.position(is_length)?;
        let length = &class.members.get(of)?.class;
        match Offset::of(before, class, of)?.place(length)? {
            Fixed::Integer {
                mask,
                offset,
                size,
                signed: false,
                order: ByteOrder::Little,
            } if mask == self.alignment - 1 => Some(Fixed::Words {
                mask,
                offset: self.bits,
                length: offset,
                size,
            }),
            _ => None,
        }
    }

    fn place(self, class: &FieldClass) -> Option<Fixed> {
        let (mask, offset) = (self.alignment - 1, self.bits);
        match class {
            FieldClass::Integer(integer) => Fixed::integer(mask, offset, integer),
            FieldClass::Enum(class) => Fixed::integer(mask, offset, &class.integer),
            FieldClass::Array(class) if class.text && mask & 7 == 7 && offset % 8 == 0 => {
                let length = class.fixed_length()?;
                Some(Fixed::Characters {
                    mask,
                    offset,
                    length,
                })
            }
            _ => None,
        }
    }
}

impl Fixed {
    fn integer(mask: u64, offset: u64, class: &IntegerClass) -> Option<Fixed> {
        (is_natural(class) && class.unit.is_none()).then_some(Fixed::Integer {
            mask,
            offset,
            size: class.size,
            signed: class.signed,
            order: class.byte_order,
        })
    }
}

impl<'a> EventRef<'a> {
    /// The field's value as an unsigned integer, if it is an integer or enumeration and not
    /// negative.
    #[inline]
    pub fn unsigned(&self, field: &FieldAccess) -> Option<u64> {
        match self.load(field) {
            Some((raw, size, true)) => u64::try_from(sign_extend(raw, size)).ok(),
            Some((raw, ..)) => Some(raw),
            None => self.unsigned_slowly(field),
        }
    }

    /// The field's value as a signed integer, if it is an integer or enumeration that fits.
    #[inline]
    pub fn signed(&self, field: &FieldAccess) -> Option<i64> {
        match self.load(field) {
            Some((raw, size, true)) => Some(sign_extend(raw, size)),
            Some((raw, ..)) => i64::try_from(raw).ok(),
            None => self.signed_slowly(field),
        }
    }

    // Calls of their own, so that the fast paths need not save a register.
    #[inline(never)]
    fn unsigned_slowly(&self, field: &FieldAccess) -> Option<u64> {
        self.value(field)?.as_u64()
    }

    #[inline(never)]
    fn signed_slowly(&self, field: &FieldAccess) -> Option<i64> {
        self.value(field)?.as_i64()
    }

    /// The field's text, if it is text. Invalid bytes become U+FFFD.
    pub fn text(&self, field: &FieldAccess) -> Option<Cow<'a, str>> {
        if let Some(Fixed::Characters {
            mask,
            offset,
            length,
        }) = field.fixed
        {
            let begin = aligned(self.stream.record.body, mask).checked_add(offset)? / 8;
            let end = begin.checked_add(length)?;
            let range = usize::try_from(begin).ok()?..usize::try_from(end).ok()?;
            return Some(text::characters(self.stream.source.bytes().get(range)?));
        }
        match self.value(field)? {
            ValueRef::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The field's value, found by skipping the preceding fields.
    #[inline(never)]
    pub fn value(&self, field: &FieldAccess) -> Option<ValueRef<'a>> {
        self.part(field.part.into()).member(field.index as usize)
    }

    /// Appends the field's elements to `to`, if it is an array of unsigned integers.
    #[inline]
    pub fn append_unsigned(&self, field: &FieldAccess, to: &mut Vec<u64>) {
        match self.words(field) {
            Some(words) => to.extend(words.iter().map(|word| u64::from_le_bytes(*word))),
            None => self.append_slowly(field, to),
        }
    }

    /// The elements of a sequence of words at a fixed location.
    #[inline]
    fn words(&self, field: &FieldAccess) -> Option<&'a [[u8; 8]]> {
        let Some(Fixed::Words {
            mask,
            offset,
            length,
            size,
        }) = field.fixed
        else {
            return None;
        };
        let body = aligned(self.stream.record.body, mask);
        let bytes = self.stream.source.bytes();
        let length = load_at_once(bytes, body.checked_add(length)?, size, ByteOrder::Little)?;
        let begin = body.checked_add(offset)?;
        if !begin.is_multiple_of(8) {
            return None;
        }
        let begin = usize::try_from(begin / 8).ok()?;
        let end = begin.checked_add(usize::try_from(length.checked_mul(8)?).ok()?)?;
        Some(bytes.get(begin..end)?.as_chunks::<8>().0)
    }

    #[inline(never)]
    fn append_slowly(&self, field: &FieldAccess, to: &mut Vec<u64>) {
        if let Some(ValueRef::Array(array)) = self.value(field) {
            array.append_unsigned(to);
        }
    }

    /// The bits of an integer at a fixed location, its size, and whether it is signed; `None` where
    /// it takes more than one load.
    #[inline]
    fn load(&self, field: &FieldAccess) -> Option<(u64, u8, bool)> {
        let Some(Fixed::Integer {
            mask,
            offset,
            size,
            signed,
            order,
        }) = field.fixed
        else {
            return None;
        };
        let at = aligned(self.stream.record.body, mask).checked_add(offset)?;
        let raw = load_at_once(self.stream.source.bytes(), at, size, order)?;
        Some((raw, size, signed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{ItemRef, Metadata, Reader};

    /// A context of the stream, one of the event, integers of several sizes, texts, a sequence.
    const METADATA: &str = "/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 16; align = 8; } := u16;
        typealias integer { size = 32; align = 8; signed = true; } := i32;
        typealias integer { size = 5; align = 1; } := u5;
        typealias integer { size = 32; align = 8; byte_order = be; } := be32;
        typealias integer { size = 8; align = 8; encoding = UTF8; } := char;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000; };
        stream {
            event.header := struct { integer { size = 8; map = clock.c.value; } t; };
            event.context := struct { u8 cpu; };
        };
        event {
            name = all;
            context := struct { u5 low; u5 high; };
            fields := struct {
                i32 tid; be32 big; char comm[4]; enum : u8 { A, B } state; string path; u16 behind;
                u8 length; u8 list[length]; u8 last;
            };
        };";

    /// A sequence of words behind its length, which is a part of a byte, as Kymo writes it.
    #[test]
    fn words_are_read_where_they_are() {
        const METADATA: &str = "/* CTF 1.8 */
            typealias integer { size = 8; align = 8; } := u8;
            typealias integer { size = 31; align = 32; } := length_t;
            typealias integer { size = 1; align = 1; } := flag_t;
            typealias integer { size = 64; align = 32; } := u64;
            typealias integer { size = 16; align = 8; } := u16;
            trace { major = 1; minor = 8; byte_order = le; };
            stream { event.header := struct { u8 zero; }; };
            event { name = words; fields := struct {
                u8 a; length_t n; flag_t cut; u64 list[n]; u8 m; u16 halves[m];
            }; };";
        let metadata = Arc::new(Metadata::parse(METADATA).unwrap());
        let mut record = vec![0, 0, 0, 0, 9, 0, 0, 0];
        record.extend((2 | 1u32 << 31).to_le_bytes());
        record.extend(7u64.to_le_bytes());
        record.extend(u64::MAX.to_le_bytes());
        record.extend([2, 1, 0, 2, 0]);
        let mut reader = Reader::new([(&metadata, "s", &record[..])]);
        let Some(ItemRef::Event(event)) = reader.next() else {
            panic!("there is one event");
        };
        let stream = metadata.streams().next().unwrap();
        let find = |name| FieldAccess::find(stream, event.class(), Scope::EventFields, name);
        let read = |access: FieldAccess| {
            let mut words = Vec::new();
            event.append_unsigned(&access, &mut words);
            words
        };
        let (list, halves) = (find("list").unwrap(), find("halves").unwrap());
        assert!(matches!(list.fixed, Some(Fixed::Words { size: 31, .. })));
        assert_eq!(read(list), [7, u64::MAX]);
        // Found by skipping, the same.
        assert_eq!(
            read(FieldAccess {
                fixed: None,
                ..list
            }),
            [7, u64::MAX]
        );
        assert_eq!(read(halves), [1, 2]);
    }

    #[test]
    fn a_field_reads_as_its_structure_gives_it() {
        let metadata = Arc::new(Metadata::parse(METADATA).unwrap());
        let mut record = vec![7, 9, 0b0110_0101, 0b01];
        record.extend((-5i32).to_le_bytes());
        record.extend(0x0102_0304u32.to_be_bytes());
        record.extend(*b"ab\0c");
        record.extend([1, b'/', b'x', 0]);
        record.extend(0x1234u16.to_le_bytes());
        record.extend([2, 40, 41, 42]);
        let mut reader = Reader::new([(&metadata, "s", &record[..])]);
        let Some(ItemRef::Event(event)) = reader.next() else {
            panic!("there is one event");
        };
        let stream = metadata.streams().next().unwrap();
        let find = |scope, name| FieldAccess::find(stream, event.class(), scope, name);
        let mut fixed = 0;
        for (scope, part) in [
            (Scope::EventCommonContext, event.stream_context()),
            (Scope::EventContext, event.context()),
            (Scope::EventFields, event.fields()),
        ] {
            for field in part.iter() {
                let access = find(scope, field.name).unwrap();
                fixed += usize::from(access.fixed.is_some());
                assert_eq!(
                    event.unsigned(&access),
                    field.value.as_u64(),
                    "{}",
                    field.name
                );
                assert_eq!(
                    event.signed(&access),
                    field.value.as_i64(),
                    "{}",
                    field.name
                );
                let text = event.text(&access);
                assert_eq!(text.as_deref(), field.value.as_str(), "{}", field.name);
            }
        }
        // cpu; low and high; tid, big, comm, state. The path ends where its zero byte is.
        assert_eq!(fixed, 1 + 2 + 4);
        assert_eq!(find(Scope::EventFields, "nothing"), None);
        assert_eq!(find(Scope::EventHeader, "t"), None);
        let tid = find(Scope::EventFields, "tid").unwrap();
        assert_eq!((event.unsigned(&tid), event.signed(&tid)), (None, Some(-5)));
    }
}
