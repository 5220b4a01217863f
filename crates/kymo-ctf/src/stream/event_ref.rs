//! Event records borrowed from the trace; fields are decoded on access.

use std::sync::Arc;

use crate::class::Scope;
use crate::decode::plan::EventPlan;
use crate::decode::value_ref::{StructRef, ValueRef};
use crate::decode::visitor::Visitor;
use crate::metadata::clock::{ClockClass, Ticks};
use crate::metadata::{EventClass, Metadata, StreamClass};
use crate::stream::Stream;
use crate::stream::item::{Event, Loss, Problem};
use crate::stream::packet::Packet;
use crate::stream::source::{Slice, Source as _};

/// An item of a trace, borrowed until the next one is read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ItemRef<'a> {
    /// An event record.
    Event(EventRef<'a>),
    /// A loss of events or packets that the trace reports.
    Loss(&'a Loss),
    /// An error in the trace.
    Problem(&'a Problem),
}

/// An event record of which only the header has been decoded.
#[derive(Debug, Clone, Copy)]
pub struct EventRef<'a> {
    pub(crate) stream: &'a Stream<Slice<'a>>,
    pub(crate) index: usize,
    pub(crate) plan: &'a EventPlan,
    pub(crate) class_of_stream: &'a StreamClass,
}

impl<'a> EventRef<'a> {
    /// The clock's value, or `None` in a stream without a clock.
    #[inline]
    pub fn time(&self) -> Option<Ticks> {
        self.stream_class().clock.as_ref()?;
        Some(Ticks(self.stream.clock.now))
    }

    /// Nanoseconds from the clock's origin, or `None` in a stream without a clock.
    #[inline]
    pub fn nanos(&self) -> Option<i128> {
        let clock = self.stream_class().clock.as_ref()?;
        Some(clock.nanos_from_origin(Ticks(self.stream.clock.now)))
    }

    /// The clock of the event's time.
    pub fn clock(&self) -> Option<&'a Arc<ClockClass>> {
        self.class_of_stream.clock.as_ref()
    }

    /// The metadata of the event's trace.
    pub fn metadata(&self) -> &'a Arc<Metadata> {
        self.stream.metadata()
    }

    /// The event's class.
    pub fn class(&self) -> &'a Arc<EventClass> {
        &self.plan.class
    }

    /// Name of the event.
    pub fn name(&self) -> &'a str {
        &self.plan.class.name
    }

    /// Name of the stream file.
    pub fn stream(&self) -> &'a Arc<str> {
        &self.stream.name
    }

    /// Index of the stream among those read, from 0.
    pub fn stream_index(&self) -> usize {
        self.index
    }

    /// The CPU, if the packet records it.
    #[inline]
    pub fn cpu(&self) -> Option<u64> {
        self.stream.packet.head.as_ref()?.cpu
    }

    /// Index of the packet in its file, from 0.
    pub fn packet_number(&self) -> u64 {
        self.stream.packet.number
    }

    /// File offset of the packet.
    pub fn packet_offset(&self) -> u64 {
        self.stream.packet.offset
    }

    /// The packet that the record is in, with its header and context decoded.
    pub fn packet(&self) -> Option<Packet> {
        self.stream.packet()
    }

    /// The common context of the stream's events; empty if there is none.
    pub fn stream_context(&self) -> StructRef<'a> {
        self.part(0)
    }

    /// The event's own context; empty if there is none.
    pub fn context(&self) -> StructRef<'a> {
        self.part(1)
    }

    /// The event's fields.
    pub fn fields(&self) -> StructRef<'a> {
        self.part(2)
    }

    /// The field with the shown name `name`.
    pub fn field(&self, name: &str) -> Option<ValueRef<'a>> {
        self.fields().get(name)
    }

    /// An owned copy of the event, in `packet`.
    pub fn to_event(&self, packet: Arc<Packet>) -> Event {
        self.stream.to_event(packet, &self.plan.class)
    }

    /// Passes the record's contexts and fields to `visitor`.
    pub fn visit<V: Visitor<'a>>(&self, visitor: &mut V) {
        let (mut place, parts) = self.stream.body(&self.plan.class);
        let scopes = [
            Scope::EventCommonContext,
            Scope::EventContext,
            Scope::EventFields,
        ];
        for (part, scope) in parts.into_iter().zip(scopes) {
            if let Some(class) = part {
                visitor.scope(scope);
                // Cannot fail: records are given out only after they were skipped without an error.
                let _ = place.visit_structure(class, visitor);
            }
        }
    }

    /// Passes the packet context to `visitor`, if there is one.
    pub fn visit_packet_context<V: Visitor<'a>>(&self, visitor: &mut V) {
        let head = self.stream.packet.head.as_ref();
        if let Some((mut place, class)) =
            head.and_then(|head| head.context(self.stream.source.bytes(), self.stream.metadata()))
        {
            visitor.scope(Scope::PacketContext);
            let _ = place.visit_structure(class, visitor);
        }
    }

    /// Number of packets of the stream read so far: events of the same stream and count are in the
    /// same packet.
    pub fn packet_count(&self) -> u64 {
        self.stream.packet.count
    }

    /// The class of the stream.
    pub fn stream_class(&self) -> &'a StreamClass {
        self.class_of_stream
    }

    pub(crate) fn part(&self, place: usize) -> StructRef<'a> {
        self.stream.part(&self.plan.class, place)
    }
}
