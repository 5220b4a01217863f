//! Items of a trace: events, losses and problems.

use std::sync::Arc;

use crate::decode::value::Fields;
use crate::error::{DecodeError, Error};
use crate::metadata::EventClass;
use crate::metadata::clock::Ticks;
use crate::stream::packet::Packet;

/// One item of a stream or of a whole trace.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// An event record.
    Event(Event),
    /// A loss of events or packets that the trace reports.
    Loss(Loss),
    /// An error after which reading continued in the same packet.
    Problem(Problem),
}

impl Item {
    /// Name of the stream file that the item is from.
    pub fn stream(&self) -> &Arc<str> {
        match self {
            Item::Event(event) => event.stream(),
            Item::Loss(loss) => &loss.stream,
            Item::Problem(problem) => &problem.stream,
        }
    }

    /// The time by which items are ordered: an event's time, or the beginning of a loss.
    pub fn time(&self) -> Option<Ticks> {
        match self {
            Item::Event(event) => event.time,
            Item::Loss(loss) => loss.begin,
            Item::Problem(_) => None,
        }
    }
}

/// One event record.
#[derive(Debug, Clone)]
pub struct Event {
    /// The clock's value, or `None` in a stream without a clock.
    pub time: Option<Ticks>,
    /// The packet that the record is in.
    pub packet: Arc<Packet>,
    /// The event's class: its name, id and fields.
    pub class: Arc<EventClass>,
    /// The common context of the stream's events; empty if there is none.
    pub stream_context: Fields,
    /// The event's own context; empty if there is none.
    pub context: Fields,
    /// The event's fields.
    pub fields: Fields,
}

impl Event {
    /// Name of the stream file.
    pub fn stream(&self) -> &Arc<str> {
        &self.packet.stream
    }

    /// Name of the event.
    pub fn name(&self) -> &str {
        &self.class.name
    }

    /// The CPU, if the packet records it (`cpu_id` in its context).
    pub fn cpu(&self) -> Option<u64> {
        self.packet.cpu
    }

    /// Nanoseconds from the clock's origin, or `None` in a stream without a clock.
    pub fn nanos(&self) -> Option<i128> {
        self.packet.nanos(self.time?)
    }
}

/// Events are equal if class, time and values are equal; the packet does not matter.
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        let key = |event: &Event| (event.time, event.class.stream_id, event.class.id);
        key(self) == key(other)
            && self.class.name == other.class.name
            && self.stream_context == other.stream_context
            && self.context == other.context
            && self.fields == other.fields
    }
}

/// What was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossKind {
    /// Event records that the tracer counted but did not store (`events_discarded`).
    Events,
    /// Packets missing between two others (`packet_seq_num`). The number of their events is
    /// unknown.
    Packets,
}

/// A loss that the trace reports. It happened somewhere between two times; the trace has no more
/// detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Name of the stream file.
    pub stream: Arc<str>,
    /// The CPU, if the packet after the loss records it.
    pub cpu: Option<u64>,
    /// What was lost.
    pub kind: LossKind,
    /// Number of lost events or packets, never 0.
    pub count: u64,
    /// The end of the previous packet.
    pub begin: Option<Ticks>,
    /// For events, the end of the packet that reports the loss; for packets, its beginning.
    pub end: Option<Ticks>,
    /// `begin` in nanoseconds from the clock's origin.
    pub begin_nanos: Option<i128>,
    /// `end` in nanoseconds from the clock's origin.
    pub end_nanos: Option<i128>,
}

/// An error in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the stream file.
    pub stream: Arc<str>,
    /// Index of the packet in its file, from 0.
    pub packet: u64,
    /// File offset of the byte that could not be decoded.
    pub offset: u64,
    /// What is wrong there.
    pub reason: DecodeError,
    /// How reading continued.
    pub consequence: Consequence,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Problem {
            stream,
            packet,
            offset,
            reason,
            ..
        } = self;
        write!(f, "{stream}, packet {packet}, byte {offset}: {reason}")
    }
}

/// How reading continued after a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// Reading continued in place; a time that stepped back was clamped to the previous one.
    Clamped,
    /// The rest of the packet was skipped, up to another packet or the end of the file.
    PacketLost {
        /// File offset at which reading resumes; may be the end of the file.
        resumes: u64,
    },
    /// The rest of the stream is not read.
    StreamEnds,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Stream {
            file: problem.stream.to_string(),
            packet: problem.packet,
            offset: problem.offset,
            reason: problem.reason,
            resumes: match problem.consequence {
                Consequence::PacketLost { resumes } => Some(resumes),
                Consequence::Clamped | Consequence::StreamEnds => None,
            },
        }
    }
}
