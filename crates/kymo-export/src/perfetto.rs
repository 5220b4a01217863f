//! Perfetto's trace file: a protobuf message `Trace` of `TracePacket`s.
//!
//! Field numbers are those of the published schema,
//! <https://github.com/google/perfetto/tree/main/protos/perfetto/trace>: `trace_packet.proto`,
//! `interned_data/interned_data.proto` and, under `track_event/`, `track_event.proto`,
//! `track_descriptor.proto`, `process_descriptor.proto`, `thread_descriptor.proto`,
//! `debug_annotation.proto`. The PyPI package `perfetto` carries the same schema;
//! `cargo xtask test export` holds what is written here against that.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};

use kymo_profile::Profile;

use crate::canvas::FileCanvas;
use crate::profile::perfetto::Packets;
use crate::profile::timed;
use crate::proto::Message;
use kymo_timeline::{Canvas, Flow, Label, Name, Note, Track, TrackId, TrackKind};

const TRACE_PACKET: u32 = 1;

/// `TracePacket`.
mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const SEQ_INCREMENTAL_STATE_CLEARED: u64 = 1;
    pub(super) const SEQ_NEEDS_INCREMENTAL_STATE: u64 = 2;
}

/// `TrackDescriptor`, and the messages in it.
mod track {
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const THREAD: u32 = 4;
    pub(super) const PARENT_UUID: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
    pub(super) const CHILD_ORDERING: u32 = 11;
    pub(super) const SIBLING_ORDER_RANK: u32 = 12;
    pub(super) const SIBLING_MERGE_BEHAVIOR: u32 = 15;
    pub(super) const EXPLICIT: u64 = 3;
    pub(super) const BY_TRACK_NAME: u64 = 1;
    pub(super) const MERGE_NONE: u64 = 2;
    /// Of `ProcessDescriptor` and `ThreadDescriptor`.
    pub(super) const PID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;
    pub(super) const TID: u32 = 2;
    pub(super) const THREAD_NAME: u32 = 5;
}

/// `TrackEvent`.
mod event {
    pub(super) const CATEGORY_IIDS: u32 = 3;
    pub(super) const DEBUG_ANNOTATIONS: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK_UUID: u32 = 11;
    pub(super) const COUNTER_VALUE: u32 = 30;
    pub(super) const FLOW_IDS: u32 = 47;
    pub(super) const TERMINATING_FLOW_IDS: u32 = 48;
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const COUNTER: u64 = 4;
}

/// `DebugAnnotation`.
mod annotation {
    pub(super) const NAME_IID: u32 = 1;
    pub(super) const UINT: u32 = 3;
    pub(super) const INT: u32 = 4;
    pub(super) const DOUBLE: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const POINTER: u32 = 7;
}

/// Fields of `InternedData`, one a kind of text; each entry has a number and the text.
#[derive(Clone, Copy)]
enum Table {
    Categories = 1,
    EventNames = 2,
    AnnotationNames = 3,
}

const IID: u32 = 1;
const TEXT: u32 = 2;

/// All packets of events are of one sequence.
const SEQUENCE: u64 = 1;
/// Texts after which the tables begin anew, so that memory has a limit.
const MAX_TEXTS: usize = 1 << 14;

/// Bytes that are written at once.
const BLOCK: usize = 1 << 16;

/// Numbers for texts; what is new since the last packet goes with the next one.
#[derive(Debug, Default)]
struct Interned {
    tables: [HashMap<Box<str>, u64, FastHash>; 3],
    /// Entries of all tables.
    count: usize,
    /// By the name's own number.
    known: Vec<Numbers>,
    new: Message,
}

/// The numbers of a name and its category, from 1; 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    category: u64,
    text: u64,
}

impl Interned {
    #[inline]
    fn numbers(&mut self, table: Table, name: &Name<'_>) -> Numbers {
        match self.known.get(name.number) {
            Some(known) if known.text > 0 => *known,
            _ => self.find(table, name),
        }
    }

    #[inline(never)]
    fn find(&mut self, table: Table, name: &Name<'_>) -> Numbers {
        let numbers = Numbers {
            category: match name.category {
                "" => 0,
                category => self.number(Table::Categories, category),
            },
            text: match (table, name.text) {
                (Table::EventNames, "") => 0,
                (_, text) => self.number(table, text),
            },
        };
        if name.number > 0 {
            let length = self.known.len().max(name.number + 1);
            self.known.resize(length, Numbers::default());
            if let Some(known) = self.known.get_mut(name.number) {
                *known = numbers;
            }
        }
        numbers
    }

    #[inline]
    fn number(&mut self, table: Table, text: &str) -> u64 {
        let field = table as u32;
        let Some(numbers) = self.tables.get_mut(field as usize - 1) else {
            return 0;
        };
        if let Some(&number) = numbers.get(text) {
            return number;
        }
        let number = numbers.len() as u64 + 1;
        numbers.insert(text.into(), number);
        self.count += 1;
        self.new.message(field, |entry| {
            entry.unsigned(IID, number);
            entry.text(TEXT, text);
        });
        number
    }
}

/// Hashes short texts, eight bytes at a time. There are at most [`MAX_TEXTS`] in a table, so that a
/// trace whose names are made to collide is slow and no more.
#[derive(Debug, Default, Clone, Copy)]
struct FastHash(u64);

impl BuildHasher for FastHash {
    type Hasher = FastHash;

    #[inline]
    fn build_hasher(&self) -> FastHash {
        FastHash(0)
    }
}

impl Hasher for FastHash {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let rest = rest
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.write_u64(rest);
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // The multiplier is 2^64 divided by the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table takes the lowest bits and the highest.
        self.0 ^ self.0 >> 32
    }
}

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Perfetto<W> {
    out: W,
    /// Packets that are not written yet.
    packets: Message,
    interned: Interned,
    has_begun: bool,
    /// Numbers of the names of the annotations of an event.
    names: Vec<u64>,
}

/// What an event's message has besides its type and track.
enum Content<'a> {
    Label {
        numbers: Numbers,
        label: &'a Label<'a>,
    },
    Value(i64),
}

impl<W: Write> Perfetto<W> {
    pub(crate) fn new(out: W) -> Perfetto<W> {
        Perfetto {
            out,
            packets: Message::default(),
            interned: Interned::default(),
            has_begun: false,
            names: Vec::new(),
        }
    }

    /// Behind a packet: writes those that there are if they are many.
    #[inline]
    fn sent(&mut self) -> io::Result<()> {
        match self.packets.bytes().len() {
            BLOCK.. => self.write(),
            _ => Ok(()),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.out.write_all(self.packets.bytes())?;
        self.packets.clear();
        Ok(())
    }

    fn event(
        &mut self,
        at: u64,
        kind: u64,
        track: TrackId,
        content: &Content<'_>,
    ) -> io::Result<()> {
        let Perfetto {
            packets,
            interned,
            has_begun,
            names,
            ..
        } = self;
        packets.message(TRACE_PACKET, |packet| {
            packet.unsigned(packet::TIMESTAMP, at);
            let mut flags = packet::SEQ_NEEDS_INCREMENTAL_STATE;
            if !std::mem::replace(has_begun, true) {
                flags |= packet::SEQ_INCREMENTAL_STATE_CLEARED;
            }
            packet.unsigned(packet::SEQUENCE_FLAGS, flags);
            if !interned.new.bytes().is_empty() {
                packet.message(packet::INTERNED_DATA, |data| data.append(&interned.new));
                interned.new.clear();
            }
            packet.message(packet::TRACK_EVENT, |event| {
                content.write(names, event);
                event.unsigned(event::TYPE, kind);
                event.unsigned(event::TRACK_UUID, track);
            });
            packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        });
        self.sent()
    }

    fn labelled(
        &mut self,
        at: u64,
        kind: u64,
        track: TrackId,
        label: &Label<'_>,
    ) -> io::Result<()> {
        if self.interned.count >= MAX_TEXTS {
            self.interned = Interned::default();
            self.has_begun = false;
        }
        let numbers = self.interned.numbers(Table::EventNames, &label.name);
        self.names.clear();
        for noted in label.notes {
            let numbers = self.interned.numbers(Table::AnnotationNames, &noted.name);
            self.names.push(numbers.text);
        }
        let content = Content::Label { numbers, label };
        self.event(at, kind, track, &content)
    }
}

impl Content<'_> {
    #[inline]
    fn write(&self, names: &[u64], event: &mut Message) {
        let (numbers, label) = match self {
            Content::Value(value) => return event.signed(event::COUNTER_VALUE, *value),
            Content::Label { numbers, label } => (numbers, label),
        };
        if numbers.category != 0 {
            event.unsigned(event::CATEGORY_IIDS, numbers.category);
        }
        if numbers.text != 0 {
            event.unsigned(event::NAME_IID, numbers.text);
        }
        for (noted, name) in label.notes.iter().zip(names) {
            event.message(event::DEBUG_ANNOTATIONS, |part| {
                part.unsigned(annotation::NAME_IID, *name);
                match &noted.note {
                    Note::Unsigned(value) => part.unsigned(annotation::UINT, *value),
                    Note::Address(value) => part.unsigned(annotation::POINTER, *value),
                    Note::Signed(value) => part.signed(annotation::INT, *value),
                    Note::Float(value) => part.double(annotation::DOUBLE, *value),
                    Note::Text(text) => part.text(annotation::STRING, text),
                }
            });
        }
        match label.flow {
            Flow::None => {}
            Flow::Begins(flow) => event.fixed(event::FLOW_IDS, flow),
            Flow::Ends(flow) => event.fixed(event::TERMINATING_FLOW_IDS, flow),
        }
    }
}

fn describe(of: &Track<'_>, descriptor: &mut Message) {
    descriptor.unsigned(track::UUID, of.id);
    if let Some(parent) = of.parent {
        descriptor.unsigned(track::PARENT_UUID, parent);
        let rank = i32::try_from(of.rank).unwrap_or(i32::MAX);
        descriptor.signed(track::SIBLING_ORDER_RANK, rank.into());
    }
    match of.kind {
        TrackKind::Process { pid } => descriptor.message(track::PROCESS, |part| {
            part.unsigned(track::PID, pid);
            part.text(track::PROCESS_NAME, of.name);
        }),
        TrackKind::Thread { pid, tid } => descriptor.message(track::THREAD, |part| {
            part.unsigned(track::PID, pid);
            part.unsigned(track::TID, tid);
            part.text(track::THREAD_NAME, of.name);
        }),
        TrackKind::Group => {
            descriptor.text(track::NAME, of.name);
            descriptor.unsigned(track::CHILD_ORDERING, track::EXPLICIT);
        }
        TrackKind::Counter => {
            descriptor.text(track::NAME, of.name);
            descriptor.message(track::COUNTER, |_| ());
            descriptor.unsigned(track::SIBLING_MERGE_BEHAVIOR, track::MERGE_NONE);
        }
        TrackKind::Lane | TrackKind::OneOfSeveral => {
            descriptor.text(track::NAME, of.name);
            let several = of.kind == TrackKind::OneOfSeveral;
            let merge = if several {
                track::BY_TRACK_NAME
            } else {
                track::MERGE_NONE
            };
            descriptor.unsigned(track::SIBLING_MERGE_BEHAVIOR, merge);
        }
    }
}

impl<W: Write> Canvas for Perfetto<W> {
    fn track(&mut self, of: &Track<'_>) -> io::Result<()> {
        self.packets.message(TRACE_PACKET, |packet| {
            packet.message(packet::TRACK_DESCRIPTOR, |descriptor| {
                describe(of, descriptor);
            });
            packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        });
        self.sent()
    }

    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.labelled(at, event::SLICE_BEGIN, track, label)
    }

    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.labelled(at, event::SLICE_END, track, label)
    }

    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.labelled(at, event::INSTANT, track, label)
    }

    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()> {
        self.event(at, event::COUNTER, track, &Content::Value(value))
    }
}

impl<W: Write> FileCanvas for Perfetto<W> {
    fn samples(&mut self, profile: &Profile, base: i128) -> io::Result<()> {
        let mut packets = Packets::new(profile);
        for timed in timed(profile, base) {
            packets.add(&timed, &mut self.packets);
            self.sent()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write()?;
        self.out.flush()
    }
}
