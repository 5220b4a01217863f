//! The record that was read last, as values.

use std::sync::Arc;

use super::Stream;
use crate::clock::Ticks;
use crate::header::Header;
use crate::item::Event;
use crate::metadata::EventClass;
use crate::packet::Packet;
use crate::source::Source;
use crate::state::Slots;
use crate::value::Fields;
use crate::value_ref::StructRef;

impl<S: Source> Stream<S> {
    /// The record's common context, own context and fields; `class` is its class.
    pub(crate) fn parts<'a>(&'a self, class: &'a EventClass) -> [Option<StructRef<'a>>; 3] {
        let mut slots = self.slots_at_body();
        let mut at = self.record.body;
        let common = self.plan.as_ref().and_then(|plan| plan.class.event_context.as_deref());
        [common, class.context.as_deref(), class.fields.as_deref()].map(|part| {
            let (part, end) = StructRef::measured(part?, self.source.bytes(), at, self.position, &mut slots);
            at = end;
            Some(part)
        })
    }

    /// What fields before the record's contexts have left behind.
    pub(crate) fn slots_at_body(&self) -> Slots {
        let mut slots = self.slots.clone();
        if let Some(Header::Switch(_, switch)) = self.plan.as_ref().map(|plan| &plan.header) {
            slots.set(switch.slot, self.record.tag.into());
        }
        slots
    }

    /// The record as a value of its own.
    pub(crate) fn to_event(&self, packet: Arc<Packet>, class: &Arc<EventClass>) -> Event {
        let parts = self.parts(class).map(|part| part.map_or_else(Fields::default, |part| part.to_fields()));
        let [stream_context, context, fields] = parts;
        let time = packet.class.clock.is_some().then_some(Ticks(self.clock));
        Event { time, packet, class: Arc::clone(class), stream_context, context, fields }
    }
}
