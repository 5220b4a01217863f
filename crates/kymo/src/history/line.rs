//! One record as a line of text.

use core::fmt::{self, Write};

use super::known::Known;
use super::merge::{Found, Merge};
use super::{names, who};
use crate::event::{FieldType, LENGTH_MASK};
use crate::ring::source::Source;
use crate::text::{Out, write_hex, write_number, write_seconds};

/// Words of a payload that are shown; what is longer is shown cut, with its size.
pub(super) const WORDS: usize = 64;

/// Prints the record with this payload, or with the beginning of it.
pub(super) fn print<S: Source, K: Known>(
    merge: &Merge<'_, S, K>,
    out: &mut Out<'_>,
    found: &Found,
    payload: &[u32],
) -> fmt::Result {
    let frequency = merge.region.header().clock.frequency_hz;
    write_seconds(out, found.key.time, frequency)?;
    out.write_str(" cpu")?;
    write_number(out, found.key.cpu.into())?;
    out.write_str(" ")?;
    print_event(merge, out, found, payload)?;
    out.write_str("\n")
}

/// Prints what stands behind the time and the CPU: the thread that ran, the event and its fields.
pub(super) fn print_event<S: Source, K: Known>(
    merge: &Merge<'_, S, K>,
    out: &mut Out<'_>,
    found: &Found,
    payload: &[u32],
) -> fmt::Result {
    if let Some(thread) = who::ran(merge, found) {
        let name = names::find(merge, names::Subject::Thread, u64::from(thread.0));
        out.write_str("[")?;
        write_number(out, thread.0.into())?;
        if let Some(name) = name {
            out.write_str(" ")?;
            name_text(out, &name)?;
        }
        out.write_str("] ")?;
    }
    let (id, whole) = (found.place.id, found.place.bytes);
    let Some(event) = merge.known.event(id) else {
        out.write_str("event ")?;
        write_number(out, id.into())?;
        return size(out, " (", whole);
    };
    out.write_str(event.name)?;
    let mut bytes = [0; 4 * WORDS];
    for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(payload) {
        *to = word.to_le_bytes();
    }
    let shown = whole.min(4 * payload.len());
    let mut payload = Payload {
        bytes: bytes.get(..shown).unwrap_or(&bytes),
        at: 0,
    };
    let fields = (0..).map_while(|index| merge.known.field(id, index));
    for (field, ty) in fields {
        for part in [" ", field, "="] {
            out.write_str(part)?;
        }
        let Shown::Whole(value) = payload.print(out, &ty)? else {
            return size(out, "... (", whole);
        };
        let name =
            value.and_then(|value| names::find(merge, names::Subject::of(&event, field)?, value));
        if let Some(name) = name {
            out.write_str(" (")?;
            name_text(out, &name)?;
            out.write_str(")")?;
        }
    }
    Ok(())
}

fn size(out: &mut Out<'_>, before: &str, bytes: usize) -> fmt::Result {
    out.write_str(before)?;
    write_number(out, bytes as u64)?;
    out.write_str(" bytes)")
}

fn name_text(out: &mut Out<'_>, name: &names::Name) -> fmt::Result {
    text(out, name.as_bytes())?;
    out.write_str(if name.is_cut() { "..." } else { "" })
}

/// How much of a field was shown.
enum Shown {
    /// All of it was shown; the value is given where it is an unsigned integer.
    Whole(Option<u64>),
    /// The copy of the payload ends before the field does.
    Cut,
}

/// A payload, field by field. Its byte order is that of this machine, which has recorded it.
struct Payload<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Payload<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    /// An unsigned integer, at its alignment.
    fn integer(&mut self, ty: &FieldType, bits: u8) -> Option<u64> {
        // A power of two: as a division this would have a panic for an alignment of 0.
        let align = ty.align();
        self.at = (self.at + align - 1) & !(align - 1);
        let bytes = self.take(usize::from(bits / 8))?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
        )
    }

    fn print_elements(
        &mut self,
        out: &mut Out<'_>,
        element: &FieldType,
        len: usize,
    ) -> Result<Shown, fmt::Error> {
        out.write_str("[")?;
        for index in 0..len {
            if index > 0 {
                out.write_str(", ")?;
            }
            if let Shown::Cut = self.print(out, element)? {
                return Ok(Shown::Cut);
            }
        }
        out.write_str("]")?;
        Ok(Shown::Whole(None))
    }

    fn print(&mut self, out: &mut Out<'_>, ty: &FieldType) -> Result<Shown, fmt::Error> {
        match *ty {
            FieldType::Unsigned { bits, base } => {
                let Some(value) = self.integer(ty, bits) else {
                    return Ok(Shown::Cut);
                };
                if base == 16 {
                    out.write_str("0x")?;
                    write_hex(out, value, 1)?;
                } else {
                    write_number(out, value)?;
                }
                return Ok(Shown::Whole(Some(value)));
            }
            FieldType::Signed { bits } => {
                let Some(value) = self.integer(ty, bits) else {
                    return Ok(Shown::Cut);
                };
                let value = match bits {
                    8 => i64::from(value as i8),
                    16 => i64::from(value as i16),
                    32 => i64::from(value as i32),
                    _ => value as i64,
                };
                out.write_str(if value < 0 { "-" } else { "" })?;
                write_number(out, value.unsigned_abs())?;
            }
            FieldType::Enumeration { bits, labels } => {
                let Some(value) = self.integer(ty, bits) else {
                    return Ok(Shown::Cut);
                };
                match labels.iter().find(|(_, labelled)| *labelled == value) {
                    Some((label, _)) => out.write_str(label)?,
                    None => write_number(out, value)?,
                }
            }
            FieldType::Array { element, len } => return self.print_elements(out, element, len),
            FieldType::Sequence { element, .. } => {
                let Some(head) = self.integer(ty, 32) else {
                    return Ok(Shown::Cut);
                };
                let shown =
                    self.print_elements(out, element, (head as u32 & LENGTH_MASK) as usize)?;
                if head as u32 > LENGTH_MASK && matches!(shown, Shown::Whole(_)) {
                    out.write_str("...")?;
                }
                return Ok(shown);
            }
            FieldType::Text { .. } => {
                let Some(head) = self.integer(ty, 32) else {
                    return Ok(Shown::Cut);
                };
                let len = (head as u32 & LENGTH_MASK) as usize;
                let left = self.bytes.len().saturating_sub(self.at);
                out.write_str("\"")?;
                text(out, self.take(len.min(left)).unwrap_or(&[]))?;
                if len > left {
                    return Ok(Shown::Cut);
                }
                out.write_str(if head as u32 > LENGTH_MASK {
                    "\"..."
                } else {
                    "\""
                })?;
                self.at = self.at.next_multiple_of(4);
            }
        }
        Ok(Shown::Whole(None))
    }
}

/// A text that cannot play tricks on a terminal: control characters, quotes and what is not UTF-8
/// are escaped.
fn text(out: &mut Out<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => out.write_str("\\")?,
                _ if character.is_control() => {
                    character
                        .escape_default()
                        .try_for_each(|part| out.write_char(part))?;
                    continue;
                }
                _ => {}
            }
            out.write_char(character)?;
        }
        for &byte in chunk.invalid() {
            out.write_str("\\x")?;
            write_hex(out, byte.into(), 2)?;
        }
    }
    Ok(())
}
