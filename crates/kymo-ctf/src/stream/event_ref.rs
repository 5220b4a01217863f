//! Event records where they are: borrowed from the trace, fields read when they are asked for.

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

/// What reading a trace gives, borrowed until the next is asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum ItemRef<'a> {
    /// An event record.
    Event(EventRef<'a>),
    /// Something that is not in the trace, and is known not to be.
    Loss(&'a Loss),
    /// Something that cannot be right.
    Problem(&'a Problem),
}

/// One event record, not decoded yet but for its header.
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

    /// The clock that its time is of.
    pub fn clock(&self) -> Option<&'a Arc<ClockClass>> {
        self.class_of_stream.clock.as_ref()
    }

    /// What its trace says about itself.
    pub fn metadata(&self) -> &'a Arc<Metadata> {
        self.stream.metadata()
    }

    /// What the metadata says about this kind of event.
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

    /// The stream's place among those read, from 0.
    pub fn stream_index(&self) -> usize {
        self.index
    }

    /// The CPU, if the packet says which.
    #[inline]
    pub fn cpu(&self) -> Option<u64> {
        self.stream.packet.head.as_ref()?.cpu
    }

    /// The packet's place in its file, from 0.
    pub fn packet_number(&self) -> u64 {
        self.stream.packet.number
    }

    /// Offset of the packet's first byte in the file.
    pub fn packet_offset(&self) -> u64 {
        self.stream.packet.offset
    }

    /// The packet that the record is in, with its header and context decoded.
    pub fn packet(&self) -> Option<Packet> {
        self.stream.packet()
    }

    /// The context that every event of the stream has; empty if there is none.
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

    /// The field that is shown as `name`.
    pub fn field(&self, name: &str) -> Option<ValueRef<'a>> {
        self.fields().get(name)
    }

    /// All of it, owned, in `packet`.
    pub fn to_event(&self, packet: Arc<Packet>) -> Event {
        self.stream.to_event(packet, &self.plan.class)
    }

    /// Gives the record's contexts and fields to `visitor`: those that its class has.
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
                // Records are handed out only after they were stepped over without an error.
                let _ = place.visit_structure(class, visitor);
            }
        }
    }

    /// Gives the context of the record's packet to `visitor`, if there is one.
    pub fn visit_packet_context<V: Visitor<'a>>(&self, visitor: &mut V) {
        let head = self.stream.packet.head.as_ref();
        if let Some((mut place, class)) =
            head.and_then(|head| head.context(self.stream.source.bytes(), self.stream.metadata()))
        {
            visitor.scope(Scope::PacketContext);
            let _ = place.visit_structure(class, visitor);
        }
    }

    /// Counts packets of the stream as they are read: events of the same stream and count are in
    /// the same packet.
    pub fn packet_count(&self) -> u64 {
        self.stream.packet.count
    }

    /// What the metadata says about the stream.
    pub fn stream_class(&self) -> &'a StreamClass {
        self.class_of_stream
    }

    pub(crate) fn part(&self, place: usize) -> StructRef<'a> {
        self.stream.part(&self.plan.class, place)
    }
}
