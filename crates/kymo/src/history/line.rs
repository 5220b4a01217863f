//! One record as a line of text.

use core::fmt::{self, Write};

use super::merge::{Found, Merge};
use super::{names, who};
use crate::event::{FieldType, LENGTH_MASK};
use crate::ring::source::Source;

/// Words of a payload that are shown; what is longer is shown cut, with its size.
pub(super) const WORDS: usize = 64;

/// Prints the record with this payload, or with the beginning of it.
pub(super) fn print<S: Source>(
    merge: &Merge<'_, S>,
    out: &mut dyn Write,
    found: &Found,
    payload: &[u32],
) -> fmt::Result {
    let Some(event) = merge.vocabulary.event(found.place.id) else {
        return Ok(());
    };
    time(
        out,
        found.key.time,
        merge.region.header().clock.frequency_hz,
    )?;
    write!(out, " cpu{} ", found.key.cpu)?;
    if let Some(thread) = who::ran(merge, found) {
        let name = names::find(merge, names::Subject::Thread, u64::from(thread.0));
        write!(out, "[{}", thread.0)?;
        if let Some(name) = name {
            out.write_str(" ")?;
            name_text(out, &name)?;
        }
        out.write_str("] ")?;
    }
    out.write_str(event.name)?;
    let mut bytes = [0; 4 * WORDS];
    for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(payload) {
        *to = word.to_le_bytes();
    }
    let whole = found.place.bytes;
    let mut payload = Payload {
        bytes: bytes.get(..whole).unwrap_or(&bytes),
        at: 0,
    };
    for field in event.fields {
        write!(out, " {}=", field.name)?;
        let value = payload.print(out, &field.ty)?;
        let Shown::Whole(value) = value else {
            write!(out, "... ({whole} bytes)")?;
            break;
        };
        let name = value
            .and_then(|value| names::find(merge, names::Subject::of(event, field.name)?, value));
        if let Some(name) = name {
            out.write_str(" (")?;
            name_text(out, &name)?;
            out.write_str(")")?;
        }
    }
    out.write_str("\n")
}

fn name_text(out: &mut dyn Write, name: &names::Name) -> fmt::Result {
    text(out, name.as_bytes())?;
    out.write_str(if name.is_cut() { "..." } else { "" })
}

/// Ticks as seconds, with as many digits as the clock is worth, nine at most.
fn time(out: &mut dyn Write, ticks: u64, frequency: u64) -> fmt::Result {
    let frequency = frequency.max(1);
    let (mut digits, mut scale) = (0, 1u64);
    while digits < 9 && scale < frequency {
        (digits, scale) = (digits + 1, scale * 10);
    }
    let (seconds, rest) = (ticks / frequency, ticks % frequency);
    let fraction = u128::from(rest) * u128::from(scale) / u128::from(frequency);
    if digits == 0 {
        write!(out, "{seconds:>5}")
    } else {
        write!(out, "{seconds:>5}.{fraction:0digits$}")
    }
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
        self.at = self.at.next_multiple_of(ty.align());
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
        out: &mut dyn Write,
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

    fn print(&mut self, out: &mut dyn Write, ty: &FieldType) -> Result<Shown, fmt::Error> {
        match *ty {
            FieldType::Unsigned { bits, base } => {
                let Some(value) = self.integer(ty, bits) else {
                    return Ok(Shown::Cut);
                };
                if base == 16 {
                    write!(out, "{value:#x}")?
                } else {
                    write!(out, "{value}")?
                }
                return Ok(Shown::Whole(Some(value)));
            }
            FieldType::Signed { bits } => {
                let Some(value) = self.integer(ty, bits) else {
                    return Ok(Shown::Cut);
                };
                let shift = 64 - u32::from(bits).clamp(1, 64);
                write!(out, "{}", (value << shift) as i64 >> shift)?;
            }
            FieldType::Enumeration { bits, labels } => {
                let Some(value) = self.integer(ty, bits) else {
                    return Ok(Shown::Cut);
                };
                match labels.iter().find(|(_, labelled)| *labelled == value) {
                    Some((label, _)) => out.write_str(label)?,
                    None => write!(out, "{value}")?,
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
fn text(out: &mut dyn Write, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => write!(out, "\\{character}")?,
                _ if character.is_control() => write!(out, "{}", character.escape_default())?,
                _ => out.write_char(character)?,
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}
