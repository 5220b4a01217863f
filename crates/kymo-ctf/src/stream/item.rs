//! What reading a trace gives, one after the other.

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
    /// Something that is not in the trace, and is known not to be.
    Loss(Loss),
    /// Something that cannot be right, and after which reading went on in the same packet.
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

    /// The time by which items are put in order: an event's own, a loss's beginning.
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
    /// What the metadata says about this kind of event: its name, its id, its fields.
    pub class: Arc<EventClass>,
    /// The context that every event of the stream has; empty if there is none.
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

    /// The CPU, if the packet says which (`cpu_id` in its context).
    pub fn cpu(&self) -> Option<u64> {
        self.packet.cpu
    }

    /// Nanoseconds from the clock's origin, or `None` in a stream without a clock.
    pub fn nanos(&self) -> Option<i128> {
        self.packet.nanos(self.time?)
    }
}

/// Two events are equal if the same class has the same time and values; where they were stored does
/// not matter.
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
    /// Event records that the tracer counted and did not store (`events_discarded`).
    Events,
    /// Packets that are missing between two that are there (`packet_seq_num`). How many events they
    /// had is not known.
    Packets,
}

/// A known loss. It lies somewhere between two times; where exactly, no tracer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Name of the stream file.
    pub stream: Arc<str>,
    /// The CPU, if the packet after the loss says which.
    pub cpu: Option<u64>,
    /// What was lost.
    pub kind: LossKind,
    /// How many, never 0.
    pub count: u64,
    /// The end of the packet before.
    pub begin: Option<Ticks>,
    /// For events, the end of the packet that reports the loss; for packets, its beginning.
    pub end: Option<Ticks>,
    /// `begin` in nanoseconds from the clock's origin.
    pub begin_nanos: Option<i128>,
    /// `end` in nanoseconds from the clock's origin.
    pub end_nanos: Option<i128>,
}

/// Something in a stream that cannot be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the stream file.
    pub stream: Arc<str>,
    /// The packet's place in its file, from 0.
    pub packet: u64,
    /// Offset in the file of the byte that could not be read as what it should be.
    pub offset: u64,
    /// What is wrong there.
    pub reason: DecodeError,
    /// What became of it.
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

/// How reading went on after a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// Right there; a time that stepped back was given as the one before it.
    Clamped,
    /// The rest of the packet was given up; another one was found.
    PacketLost {
        /// Offset in the file where reading goes on, which may be its end.
        resumes: u64,
    },
    /// Nothing more is read from the stream.
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
