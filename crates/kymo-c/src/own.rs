//! The kernel's own events, as its list of macros declares them: a table of [`OwnEvent`], each with
//! its fields as text, `"u64 sector;i32 error;"`.
//!
//! `check` is asked once, before anything else uses the table.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};

use kymo::event::{Declared, FieldType, Shape};
use kymo::history::{KnownEvent, KnownField};
use kymo::ring::layout::COMPACT_IDS;
use kymo::text::write_number;
use kymo::{ChannelKind, vocabulary::NAME_BYTES};

use crate::error::Refusal;
use crate::vocabulary::VOCABULARY;

/// An event of the kernel's own: `struct kymo_event`.
#[derive(Debug)]
#[repr(C)]
pub struct OwnEvent {
    /// 21 to 29, or 1000 to 2047.
    pub id: u32,
    /// The name, and what it is called in C.
    pub name: *const c_char,
    /// The fields, each as its type, a blank, its name and a semicolon.
    pub fields: *const c_char,
}

/// Most fields of an event.
const MAX_FIELDS: usize = 64;
/// Most bytes before the texts.
const MAX_BYTES: usize = 1024;
/// Most texts.
const MAX_TEXTS: usize = kymo::event::MAX_TAILS;

/// A field's type: what it is called here and in the metadata, and its size in bytes, 0 for a text.
const TYPES: [(&str, &str, usize); 14] = [
    ("u8", "uint8_t", 1),
    ("u16", "uint16_t", 2),
    ("u32", "uint32_t", 4),
    ("u64", "uint64_t", 8),
    ("i8", "int8_t", 1),
    ("i16", "int16_t", 2),
    ("i32", "int32_t", 4),
    ("i64", "int64_t", 8),
    ("x8", "hex8_t", 1),
    ("x16", "hex16_t", 2),
    ("x32", "hex32_t", 4),
    ("x64", "hex64_t", 8),
    ("flag", "enum : uint8_t { \"false\" = 0, \"true\" = 1 }", 1),
    ("text", "", 0),
];

/// The bytes at a pointer up to a NUL; none where it is null. (No text: Rust's code for these takes
/// more room than all of this file.)
fn bytes<'a>(pointer: *const c_char) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: the header's macros give texts that end with a NUL, and live for ever.
    unsafe { CStr::from_ptr(pointer) }.to_bytes()
}

/// The name, if it is an identifier of C.
fn identifier(name: &[u8]) -> Option<&str> {
    let is_in = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if !name.iter().all(is_in) || name.first()?.is_ascii_digit() {
        return None;
    }
    // SAFETY: it is ASCII.
    Some(unsafe { core::str::from_utf8_unchecked(name) })
}

/// A field of an event.
struct Field<'a> {
    name: &'a str,
    /// The type as the kernel calls it, and in the metadata.
    own: &'static str,
    ty: &'static str,
    bytes: usize,
}

/// Splits before the first such byte, which goes.
fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let (before, rest) = text.split_at_checked(text.iter().position(|&byte| byte == at)?)?;
    let (_, behind) = rest.split_first()?;
    Some((before, behind))
}

/// The fields of an event; `None` for one that is not well-formed, which is the last.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let rest = core::mem::take(&mut self.0);
        Some(split(rest, b';').and_then(|(field, rest)| {
            let (ty, name) = split(field, b' ')?;
            let &(own, ty, bytes) = TYPES.iter().find(|(own, ..)| own.as_bytes() == ty)?;
            self.0 = rest;
            Some(Field {
                name: identifier(name)?,
                own,
                ty,
                bytes,
            })
        }))
    }
}

impl Field<'static> {
    fn known(&self) -> KnownField {
        let bits = 8 * self.bytes as u8;
        let ty = match self.own.as_bytes().first() {
            Some(b'u') => FieldType::Unsigned { bits, base: 10 },
            Some(b'x') => FieldType::Unsigned { bits, base: 16 },
            Some(b'i') => FieldType::Signed { bits },
            Some(b'f') => FieldType::Enumeration {
                bits,
                labels: &[("false", 0), ("true", 1)],
            },
            _ => FieldType::Text { max: NAME_BYTES },
        };
        (self.name, ty)
    }
}

impl OwnEvent {
    /// What is shown of the event.
    pub(crate) fn known(&self) -> Option<KnownEvent> {
        let Declared { name, channel, .. } = self.declared().ok()?;
        Some(KnownEvent { name, channel })
    }

    /// What is shown of its field `index`.
    pub(crate) fn field(&self, index: usize) -> Option<KnownField> {
        let mut fields = Fields(bytes(self.fields));
        Some(fields.nth(index)??.known())
    }

    /// Its name, if that is one.
    fn name(&self) -> Option<&'static str> {
        identifier(bytes(self.name))
    }

    fn fields(&self) -> Fields<'_> {
        Fields(bytes(self.fields))
    }

    /// What the ring must know, and the checks of the event by itself.
    pub(crate) fn declared(&self) -> Result<Declared, Refusal> {
        let name = self.name().ok_or(Refusal::Declaration)?;
        let (mut bytes, mut texts, mut count) = (0_usize, 0, 0);
        for field in self.fields() {
            let field = field.ok_or(Refusal::Declaration)?;
            count += 1;
            if field.bytes == 0 {
                texts += 1;
                continue;
            }
            if texts > 0 {
                return Err(Refusal::Declaration);
            }
            // To a multiple of 1, 2 or 4.
            let align = field.bytes.min(4);
            bytes = ((bytes + align - 1) & !(align - 1)) + field.bytes;
        }
        if count > MAX_FIELDS || bytes > MAX_BYTES || texts > MAX_TEXTS {
            return Err(Refusal::TooBig);
        }
        if texts > 0 {
            bytes = bytes.next_multiple_of(4);
        }
        let header = if self.id < COMPACT_IDS { 1 } else { 2 };
        Ok(Declared {
            id: self.id,
            name,
            channel: ChannelKind::Events,
            // `Shape::new`, without its panics: all elements are bytes.
            shape: Shape::from_word(bytes as u32 | (texts as u32) << 16),
            words: header + bytes.div_ceil(4) + texts * (1 + NAME_BYTES / 4),
        })
    }

    fn check(&self) -> Result<Declared, Refusal> {
        match self.id {
            21..=29 | 1000..=2047 => self.declared(),
            _ => Err(Refusal::Range),
        }
    }

    fn write(&self, out: &mut impl Write) -> fmt::Result {
        out.write_str("event {\n\tname = \"")?;
        out.write_str(self.name().unwrap_or_default())?;
        out.write_str("\";\n\tid = ")?;
        write_number(out, self.id.into())?;
        out.write_str(";\n\tstream_id = 0;\n\tfields := struct {\n")?;
        for field in self.fields().flatten() {
            out.write_str("\t\t")?;
            if field.bytes == 0 {
                for part in ["length_t __", "_length; flag_t __", "_cut; utf8_t _"] {
                    out.write_str(part)?;
                    out.write_str(field.name)?;
                }
                out.write_str("[__")?;
                out.write_str(field.name)?;
                out.write_str("_length]")?;
            } else {
                out.write_str(field.ty)?;
                out.write_str(" _")?;
                out.write_str(field.name)?;
            }
            out.write_str(";\n")?;
        }
        out.write_str("\t};\n};\n\n")
    }
}

/// The library's events of the mode `count` and of contexts, with which a kernel that has neither
/// is not linked.
const NOT_ALWAYS: [&str; 4] = ["counted_event", "group_count", "event_count", "event_stack"];

/// Whether the events can be recorded, beside those of the vocabulary.
///
/// # Errors
/// Why they cannot.
pub(crate) fn check(events: &[OwnEvent]) -> Result<(), Refusal> {
    for (index, event) in events.iter().enumerate() {
        let Declared { name, .. } = event.check()?;
        let (before, _) = events.split_at_checked(index).unwrap_or_default();
        let is_theirs = |other: &OwnEvent| other.id == event.id || other.name() == Some(name);
        // The library's own names begin so.
        if name.starts_with("kymo_")
            || NOT_ALWAYS.contains(&name)
            || before.iter().any(is_theirs)
            || VOCABULARY.iter().any(|other| other.name() == name)
        {
            return Err(Refusal::Exists);
        }
    }
    Ok(())
}

/// Writes their part of the metadata.
pub(crate) fn write(events: &[OwnEvent], out: &mut impl Write) -> fmt::Result {
    events.iter().try_for_each(|event| event.write(out))
}
