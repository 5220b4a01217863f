//! Perfetto's trace file: a protobuf message `Trace` of `TracePacket`s.
//!
//! Field numbers are those of the published schema,
//! <https://github.com/google/perfetto/tree/main/protos/perfetto/trace>: `trace_packet.proto`,
//! `interned_data/interned_data.proto` and, under `track_event/`, `track_event.proto`,
//! `track_descriptor.proto`, `process_descriptor.proto`, `thread_descriptor.proto`,
//! `debug_annotation.proto`. The PyPI package `perfetto` carries the same schema;
//! `cargo xtask test export` holds what is written here against that.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::proto::Message;
use crate::timeline::{Canvas, Flow, Label, Track, TrackId, TrackKind};
use crate::value::Note;

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

/// All packets are of one sequence.
const SEQUENCE: u64 = 1;
/// Texts after which the tables begin anew, so that memory has a limit.
const MAX_TEXTS: usize = 1 << 14;

/// Numbers for texts; what is new since the last packet goes with the next one.
#[derive(Debug, Default)]
struct Interned {
    tables: [HashMap<String, u64>; 3],
    new: Message,
    entry: Message,
}

impl Interned {
    fn number(&mut self, table: Table, text: &str) -> u64 {
        let field = table as u32;
        let Some(numbers) = self.tables.get_mut(field as usize - 1) else {
            return 0;
        };
        if let Some(&number) = numbers.get(text) {
            return number;
        }
        let number = numbers.len() as u64 + 1;
        numbers.insert(text.to_owned(), number);
        self.entry.clear();
        self.entry.unsigned(IID, number);
        self.entry.text(TEXT, text);
        self.new.message(field, &self.entry);
        number
    }

    fn len(&self) -> usize {
        self.tables.iter().map(HashMap::len).sum()
    }
}

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Perfetto<W> {
    out: W,
    interned: Interned,
    has_begun: bool,
    event: Message,
    part: Message,
    packet: Message,
    frame: Message,
}

impl<W: Write> Perfetto<W> {
    pub(crate) fn new(out: W) -> Perfetto<W> {
        Perfetto {
            out,
            interned: Interned::default(),
            has_begun: false,
            event: Message::default(),
            part: Message::default(),
            packet: Message::default(),
            frame: Message::default(),
        }
    }

    /// Writes the packet that has everything but what every packet has.
    fn send(&mut self) -> io::Result<()> {
        self.packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        self.frame.clear();
        self.frame.message(TRACE_PACKET, &self.packet);
        self.out.write_all(self.frame.bytes())
    }

    /// Writes an event, whose message has everything but its type and track.
    fn event(&mut self, at: u64, kind: u64, track: TrackId) -> io::Result<()> {
        self.event.unsigned(event::TYPE, kind);
        self.event.unsigned(event::TRACK_UUID, track);
        self.packet.clear();
        self.packet.unsigned(packet::TIMESTAMP, at);
        let mut flags = packet::SEQ_NEEDS_INCREMENTAL_STATE;
        if !std::mem::replace(&mut self.has_begun, true) {
            flags |= packet::SEQ_INCREMENTAL_STATE_CLEARED;
        }
        self.packet.unsigned(packet::SEQUENCE_FLAGS, flags);
        if !self.interned.new.bytes().is_empty() {
            self.packet
                .message(packet::INTERNED_DATA, &self.interned.new);
            self.interned.new.clear();
        }
        self.packet.message(packet::TRACK_EVENT, &self.event);
        self.send()
    }

    fn labelled(
        &mut self,
        at: u64,
        kind: u64,
        track: TrackId,
        label: &Label<'_>,
    ) -> io::Result<()> {
        if self.interned.len() >= MAX_TEXTS {
            self.interned = Interned::default();
            self.has_begun = false;
        }
        self.event.clear();
        if !label.category.is_empty() {
            self.event.unsigned(
                event::CATEGORY_IIDS,
                self.interned.number(Table::Categories, label.category),
            );
        }
        if !label.name.is_empty() {
            self.event.unsigned(
                event::NAME_IID,
                self.interned.number(Table::EventNames, label.name),
            );
        }
        for (name, note) in label.notes {
            self.part.clear();
            self.part.unsigned(
                annotation::NAME_IID,
                self.interned.number(Table::AnnotationNames, name),
            );
            match note {
                Note::Unsigned(value) => self.part.unsigned(annotation::UINT, *value),
                Note::Address(value) => self.part.unsigned(annotation::POINTER, *value),
                Note::Signed(value) => self.part.signed(annotation::INT, *value),
                Note::Float(value) => self.part.double(annotation::DOUBLE, *value),
                Note::Text(text) => self.part.text(annotation::STRING, text),
            }
            self.event.message(event::DEBUG_ANNOTATIONS, &self.part);
        }
        match label.flow {
            Flow::None => {}
            Flow::Begins(flow) => self.event.fixed(event::FLOW_IDS, flow),
            Flow::Ends(flow) => self.event.fixed(event::TERMINATING_FLOW_IDS, flow),
        }
        self.event(at, kind, track)
    }
}

impl<W: Write> Canvas for Perfetto<W> {
    fn track(&mut self, of: &Track<'_>) -> io::Result<()> {
        let descriptor = &mut self.event;
        descriptor.clear();
        self.part.clear();
        descriptor.unsigned(track::UUID, of.id);
        if let Some(parent) = of.parent {
            descriptor.unsigned(track::PARENT_UUID, parent);
            let rank = i32::try_from(of.rank).unwrap_or(i32::MAX);
            descriptor.signed(track::SIBLING_ORDER_RANK, rank.into());
        }
        match of.kind {
            TrackKind::Process { pid } => {
                self.part.unsigned(track::PID, pid);
                self.part.text(track::PROCESS_NAME, of.name);
                descriptor.message(track::PROCESS, &self.part);
            }
            TrackKind::Thread { pid, tid } => {
                self.part.unsigned(track::PID, pid);
                self.part.unsigned(track::TID, tid);
                self.part.text(track::THREAD_NAME, of.name);
                descriptor.message(track::THREAD, &self.part);
            }
            TrackKind::Group => {
                descriptor.text(track::NAME, of.name);
                descriptor.unsigned(track::CHILD_ORDERING, track::EXPLICIT);
            }
            TrackKind::Counter => {
                descriptor.text(track::NAME, of.name);
                descriptor.message(track::COUNTER, &self.part);
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
        self.packet.clear();
        self.packet.message(packet::TRACK_DESCRIPTOR, &self.event);
        self.send()
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
        self.event.clear();
        self.event.signed(event::COUNTER_VALUE, value);
        self.event(at, event::COUNTER, track)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
