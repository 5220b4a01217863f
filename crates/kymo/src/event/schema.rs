//! What a declaration says about an event: the source of the metadata and of a record's size.

use super::FieldType;
use crate::ring::layout::{COMPACT_IDS, ChannelKind};

/// One field of an event.
#[derive(Clone, Copy, Debug)]
pub struct FieldSchema {
    /// The name, as in the declaration.
    pub name: &'static str,
    /// The wire type.
    pub ty: FieldType,
    /// The doc comment of the field.
    pub doc: &'static str,
}

/// One event as declared.
#[derive(Clone, Copy, Debug)]
pub struct EventSchema {
    /// 1 to 29 travel in a one-word header, larger ones in a two-word header; 0, 30 and 31 are reserved.
    pub id: u32,
    /// The name in the trace.
    pub name: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// The channel it is written to.
    pub channel: ChannelKind,
    /// The fields, in the order in which they are written.
    pub fields: &'static [FieldSchema],
}

/// Most texts in one event.
pub const MAX_TEXTS: usize = 4;

/// The size of a record's payload: known before, but for the texts, which stand last and say their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Shape {
    /// Bytes before the first text; where texts follow, a multiple of 4.
    pub fixed_bytes: u16,
    /// How many texts follow.
    pub texts: u16,
}

impl Shape {
    /// Words before the first text.
    pub const fn fixed_words(&self) -> usize {
        (self.fixed_bytes as usize).div_ceil(4)
    }

    /// Bytes of the payload that starts at `payload`, without the padding of its last word; `None` where it is longer than what is there.
    pub fn payload_bytes(&self, payload: &[u32]) -> Option<usize> {
        self.payload_bytes_of(payload.len(), |index| payload.get(index).copied())
    }

    /// [`payload_bytes`](Self::payload_bytes) of `len` words, of which `word` gives those that are asked for.
    pub(crate) fn payload_bytes_of(&self, len: usize, word: impl Fn(usize) -> Option<u32>) -> Option<usize> {
        let mut bytes = usize::from(self.fixed_bytes);
        for _ in 0..self.texts {
            let at = bytes.div_ceil(4);
            let length = word(at)? & super::TEXT_LENGTH_MASK;
            bytes = (4 * at + 4).checked_add(length as usize)?;
        }
        (bytes.div_ceil(4) <= len).then_some(bytes)
    }
}

impl EventSchema {
    /// The payload's shape.
    ///
    /// # Panics
    /// At compile time (it is evaluated in constants only) where a fixed-size field stands after a text.
    pub const fn shape(&self) -> Shape {
        let mut bytes = 0usize;
        let mut texts = 0;
        let mut i = 0;
        while i < self.fields.len() {
            let ty = self.fields[i].ty;
            match ty.fixed_size() {
                Some(size) => {
                    assert!(texts == 0, "texts stand last in an event: move the fixed-size fields before them");
                    bytes = bytes.next_multiple_of(ty.align()) + size;
                }
                None => texts += 1,
            }
            i += 1;
        }
        assert!(texts as usize <= MAX_TEXTS, "an event has at most four texts");
        assert!(bytes < 16 << 10, "an event's fixed fields take less than 16 KiB");
        if texts > 0 {
            bytes = bytes.next_multiple_of(4);
        }
        Shape { fixed_bytes: bytes as u16, texts }
    }

    /// Most words that the payload can take.
    pub const fn max_payload_words(&self) -> usize {
        let mut words = self.shape().fixed_words();
        let mut i = 0;
        while i < self.fields.len() {
            if self.fields[i].ty.fixed_size().is_none() {
                words += self.fields[i].ty.max_words();
            }
            i += 1;
        }
        words
    }

    /// Words of the header in the usual case: one for a compact id, two for the others.
    pub const fn header_words(&self) -> usize {
        if self.id < COMPACT_IDS { 1 } else { 2 }
    }
}

/// Every event that a kernel may record, put together by [`vocabulary!`](crate::vocabulary!).
#[derive(Debug)]
pub struct Vocabulary {
    events: &'static [&'static EventSchema],
}

impl Vocabulary {
    /// Checks the declarations against each other.
    ///
    /// # Panics
    /// At compile time, where two events claim one id or one name, or an id is reserved.
    pub const fn new(events: &'static [&'static EventSchema]) -> Self {
        let mut i = 0;
        while i < events.len() {
            let id = events[i].id;
            assert!(is_name(events[i].name), "an event's name has letters, digits and _ only");
            let mut field = 0;
            while field < events[i].fields.len() {
                assert!(
                    is_name(events[i].fields[field].name),
                    "a field's name has letters, digits and _ only (no raw identifiers)"
                );
                field += 1;
            }
            assert!(id != 0 && id != 30 && id != 31, "event ids 0, 30 and 31 are reserved");
            let mut j = 0;
            while j < i {
                assert!(events[j].id != id, "two events of the vocabulary claim the same id");
                assert!(!same(events[j].name, events[i].name), "two events of the vocabulary have the same name");
                assert!(
                    !(id >= 32 && events[j].id >= 32 && id % 1024 == events[j].id % 1024),
                    "two events of the vocabulary share a switch: their ids differ by a multiple of 1024"
                );
                j += 1;
            }
            // Evaluates the checks of the shape as well.
            let _ = events[i].max_payload_words();
            i += 1;
        }
        Vocabulary { events }
    }

    /// The declarations.
    pub const fn events(&self) -> &'static [&'static EventSchema] {
        self.events
    }

    /// The declaration of the event with this id.
    pub fn event(&self, id: u32) -> Option<&'static EventSchema> {
        self.events.iter().find(|event| event.id == id).copied()
    }

    /// The shape of the event with this id.
    pub fn shape(&self, id: u32) -> Option<Shape> {
        self.event(id).map(EventSchema::shape)
    }

    /// The longest record of all, header included, in words.
    pub fn max_record_words(&self) -> usize {
        self.events.iter().map(|event| event.header_words() + event.max_payload_words()).max().unwrap_or(0)
    }
}

/// Whether it can stand in the metadata as it is.
const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !bytes[i].is_ascii_alphanumeric() && bytes[i] != b'_' {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_finds_the_end_of_a_record_or_says_that_it_is_cut() {
        let shape = Shape { fixed_bytes: 4, texts: 2 };
        // tid, "abcde" (cut), "x"
        let payload = [7, 0x8000_0005, 0, 0, 1, 99];
        assert_eq!(shape.payload_bytes(&payload), Some(21));
        assert_eq!(shape.payload_bytes(&payload[..5]), None);
        assert_eq!(shape.payload_bytes(&payload[..4]), None);
        assert_eq!(shape.payload_bytes(&[7, u32::MAX, 0]), None);
        assert_eq!(Shape { fixed_bytes: 7, texts: 0 }.payload_bytes(&[1]), None);
        assert_eq!(Shape { fixed_bytes: 7, texts: 0 }.payload_bytes(&[1, 2]), Some(7));
    }
}
