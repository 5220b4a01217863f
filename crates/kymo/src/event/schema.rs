//! What a declaration says about an event: the source of the metadata and of a record's size.

use super::{Event, FieldType};
use crate::channel::{ChannelKind, ChannelSet};
use crate::ring::layout::{COMPACT_IDS, MAX_IDS};
use crate::ring::reader::Shapes;
use crate::vocabulary::{ClockBack, ClockStep, SessionEnd};

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
    /// 1 to 29 travel in a one-word header, those from 32 to 2047 in a two-word header; 0, 30 and
    /// 31 are reserved.
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

/// Most texts and sequences in one event.
pub const MAX_TAILS: usize = 4;

/// The size of a record's payload: known before, but for the texts and sequences, which stand last
/// and say their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Shape {
    /// Bytes before the first text or sequence; where some follow, a multiple of 4.
    fixed_bytes: u16,
    /// Bits 0 to 2: how many follow. Then two bits for each of them, in their order: the size of
    /// its elements, as a power of two.
    tails: u16,
}

/// Bits of a tail's element size in a [`Shape`], and where the first one's stand.
const SHIFT_BITS: u32 = 2;
const SHIFTS_AT: u32 = 3;

impl Shape {
    /// `fixed_bytes` before texts and sequences with elements of these sizes, as powers of two: 0
    /// for a text, 0 to 3 for a sequence.
    pub const fn new(fixed_bytes: u16, tails: &[u32]) -> Shape {
        assert!(
            tails.len() <= MAX_TAILS,
            "an event has at most four texts and sequences"
        );
        let mut shape = Shape {
            fixed_bytes,
            tails: tails.len() as u16,
        };
        let mut i = 0;
        while i < tails.len() {
            shape.tails |= (tails[i] as u16 & 3) << (SHIFTS_AT + SHIFT_BITS * i as u32);
            i += 1;
        }
        shape
    }

    /// The shape as a word of the region's table of sizes.
    pub const fn to_word(self) -> u32 {
        self.fixed_bytes as u32 | (self.tails as u32) << 16
    }

    /// The shape that a word of that table stands for. In a damaged table it may be any shape.
    pub const fn from_word(word: u32) -> Shape {
        Shape {
            fixed_bytes: word as u16,
            tails: (word >> 16) as u16,
        }
    }

    /// How many texts and sequences there are.
    pub const fn tails(&self) -> usize {
        (self.tails & 7) as usize
    }

    /// Whether some of them have elements of more than a byte: then they are sequences, which older
    /// readers do not know.
    pub const fn is_wide(&self) -> bool {
        self.tails >> SHIFTS_AT != 0
    }

    /// Words before the first text or sequence.
    pub const fn fixed_words(&self) -> usize {
        (self.fixed_bytes as usize).div_ceil(4)
    }

    /// Bytes of the payload that starts at `payload`, without the padding of its last word; `None`
    /// where it is longer than what is there.
    pub fn payload_bytes(&self, payload: &[u32]) -> Option<usize> {
        self.payload_bytes_of(payload.len(), |index| payload.get(index).copied())
    }

    /// [`payload_bytes`](Self::payload_bytes) of `len` words, of which `word` gives those that are
    /// asked for.
    pub(crate) fn payload_bytes_of(
        &self,
        len: usize,
        word: impl Fn(usize) -> Option<u32>,
    ) -> Option<usize> {
        let mut bytes = usize::from(self.fixed_bytes);
        for tail in 0..self.tails() as u32 {
            let at = bytes.div_ceil(4);
            let length = (word(at)? & super::LENGTH_MASK) as usize;
            let shift = self
                .tails
                .checked_shr(SHIFTS_AT + SHIFT_BITS * tail)
                .unwrap_or(0)
                & 3;
            bytes = (4 * at + 4).checked_add(length.checked_mul(1 << shift)?)?;
        }
        (bytes.div_ceil(4) <= len).then_some(bytes)
    }
}

impl EventSchema {
    /// The payload's shape.
    ///
    /// # Panics
    /// At compile time (it is evaluated in constants only) where a fixed-size field stands after a
    /// text or a sequence.
    pub const fn shape(&self) -> Shape {
        let mut bytes = 0usize;
        let mut tails = [0; MAX_TAILS];
        let mut count = 0;
        let mut i = 0;
        while i < self.fields.len() {
            let ty = self.fields[i].ty;
            match ty.fixed_size() {
                Some(size) => {
                    assert!(
                        count == 0,
                        "texts and sequences stand last in an event: move the fixed-size fields \
                         before them"
                    );
                    bytes = bytes.next_multiple_of(ty.align()) + size;
                }
                None => {
                    assert!(
                        count < MAX_TAILS,
                        "an event has at most four texts and sequences"
                    );
                    tails[count] = ty.element_shift();
                    count += 1;
                }
            }
            i += 1;
        }
        assert!(
            bytes < 16 << 10,
            "an event's fixed fields take less than 16 KiB"
        );
        if count > 0 {
            bytes = bytes.next_multiple_of(4);
        }
        Shape::new(bytes as u16, tails.split_at(count).0)
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

/// What the library itself records or puts into a trace.
const DIAGNOSTICS: [&EventSchema; 3] = [RECORDED[0], RECORDED[1], &ClockStep::SCHEMA];

/// What the library itself records: a part of every vocabulary.
pub(super) const RECORDED: [&EventSchema; 2] = [&ClockBack::SCHEMA, &SessionEnd::SCHEMA];

/// Whether the event is one of [`RECORDED`].
pub(super) const fn is_recorded(event: &EventSchema) -> bool {
    let mut own = 0;
    while own < RECORDED.len() {
        if RECORDED[own].id == event.id && same(RECORDED[own].name, event.name) {
            return true;
        }
        own += 1;
    }
    false
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
    /// At compile time, where two events claim one id or one name, or an id is reserved, or that of
    /// one of the library's diagnostics.
    pub const fn new(events: &'static [&'static EventSchema]) -> Self {
        let mut i = 0;
        while i < events.len() {
            let id = events[i].id;
            assert!(
                is_name(events[i].name),
                "an event's name has letters, digits and _ only"
            );
            let mut field = 0;
            while field < events[i].fields.len() {
                assert!(
                    is_name(events[i].fields[field].name),
                    "a field's name has letters, digits and _ only (no raw identifiers)"
                );
                field += 1;
            }
            assert!(
                id != 0 && id != 30 && id != 31,
                "event ids 0, 30 and 31 are reserved"
            );
            assert!(id < MAX_IDS, "event ids are below 2048");
            let mut own = 0;
            while own < DIAGNOSTICS.len() {
                assert!(
                    DIAGNOSTICS[own].id != id || same(DIAGNOSTICS[own].name, events[i].name),
                    "an event claims the id of one of the library's own: see vocabulary/session.rs"
                );
                own += 1;
            }
            let mut j = 0;
            while j < i {
                assert!(
                    events[j].id != id,
                    "two events of the vocabulary claim the same id"
                );
                assert!(
                    !same(events[j].name, events[i].name),
                    "two events of the vocabulary have the same name"
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

    /// The declarations of the events that are recorded into these channels.
    pub fn events_of(
        &self,
        channels: ChannelSet,
    ) -> impl Iterator<Item = &'static EventSchema> + use<> {
        let events = self.events.iter().copied();
        events.filter(move |event| channels.has(event.channel))
    }

    /// The longest record in these channels, header included, in words.
    pub fn max_record_words(&self, channels: ChannelSet) -> usize {
        self.events_of(channels)
            .map(|event| event.header_words() + event.max_payload_words())
            .max()
            .unwrap_or(0)
    }
}

impl Shapes for Vocabulary {
    fn shape(&self, id: u32) -> Option<Shape> {
        Vocabulary::shape(self, id)
    }
}

/// Whether the name can stand in the metadata as it is.
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
    fn a_shape_is_one_word() {
        for shape in [
            Shape::new(0, &[]),
            Shape::new(0x3ffc, &[3, 2, 1, 0]),
            Shape::new(8, &[0, 3]),
        ] {
            assert_eq!(Shape::from_word(shape.to_word()), shape);
        }
        // With texts alone, the word is as it always was.
        assert_eq!(
            (
                Shape::new(8, &[0, 0]).to_word(),
                Shape::new(8, &[0, 0]).is_wide()
            ),
            (8 | 2 << 16, false)
        );
        assert!(Shape::new(8, &[0, 1]).is_wide());
    }

    #[test]
    fn a_shape_finds_the_end_of_a_record_or_says_that_it_is_cut() {
        let shape = Shape::new(4, &[0, 0]);
        // tid, "abcde" (cut), "x"
        let payload = [7, 0x8000_0005, 0, 0, 1, 99];
        assert_eq!(shape.payload_bytes(&payload), Some(21));
        assert_eq!(shape.payload_bytes(&payload[..5]), None);
        assert_eq!(shape.payload_bytes(&payload[..4]), None);
        assert_eq!(shape.payload_bytes(&[7, u32::MAX, 0]), None);
        assert_eq!(Shape::new(7, &[]).payload_bytes(&[1]), None);
        assert_eq!(Shape::new(7, &[]).payload_bytes(&[1, 2]), Some(7));
        // A length whose bytes are more than there can be.
        for shift in 0..4 {
            assert_eq!(Shape::new(0, &[shift]).payload_bytes(&[u32::MAX, 0]), None);
        }
        assert_eq!(Shape::new(0, &[3]).payload_bytes(&[0x2000_0000, 0]), None);
        assert_eq!(Shape::from_word(u32::MAX).payload_bytes(&[0; 8]), None);
    }
}
