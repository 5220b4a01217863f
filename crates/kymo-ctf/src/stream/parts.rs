//! Access to the parts of the latest record.

use std::sync::Arc;

use super::Stream;
use crate::class::StructClass;
use crate::decode::header::Header;
use crate::decode::place::Place;
use crate::decode::state::Slots;
use crate::decode::value::Fields;
use crate::decode::value_ref::StructRef;
use crate::metadata::EventClass;
use crate::metadata::clock::Ticks;
use crate::stream::item::Event;
use crate::stream::packet::Packet;
use crate::stream::source::Source;

impl<S: Source> Stream<S> {
    /// Start of the record's contexts and fields, and their classes: common context, own context,
    /// fields.
    #[inline]
    pub(crate) fn body<'a>(
        &'a self,
        class: &'a EventClass,
    ) -> (Place<'a>, [Option<&'a StructClass>; 3]) {
        let common = self
            .plan()
            .and_then(|plan| plan.class.event_context.as_deref());
        (
            self.place_at_body(),
            [common, class.context.as_deref(), class.fields.as_deref()],
        )
    }

    /// One of the three parts, found by skipping those before it.
    pub(crate) fn part<'a>(&'a self, class: &'a EventClass, part: usize) -> StructRef<'a> {
        let (mut place, parts) = self.body(class);
        let Some((Some(wanted), before)) = parts.get(..=part).and_then(<[_]>::split_last) else {
            return StructRef::empty();
        };
        before
            .iter()
            .flatten()
            .for_each(|class| place.step_over(class));
        place.structure(wanted)
    }

    /// Where the record's contexts and fields begin.
    #[inline]
    pub(crate) fn place_at_body(&self) -> Place<'_> {
        Place {
            bytes: self.source.bytes(),
            position: self.record.body,
            limit: self.record.end,
            slots: self.slots_at_body(),
        }
    }

    /// Slots as the fields before the record's contexts left them.
    #[inline]
    fn slots_at_body(&self) -> Slots {
        let mut slots = self.slots.clone();
        if let Some(Header::Compiled(_, switch)) =
            self.packet.plan.as_ref().map(|plan| &plan.header)
        {
            slots.set(switch.slot, self.record.tag.into());
        }
        slots
    }

    /// The record as an owned value.
    pub(crate) fn to_event(&self, packet: Arc<Packet>, class: &Arc<EventClass>) -> Event {
        let (mut place, parts) = self.body(class);
        let [stream_context, context, fields] = parts.map(|part| {
            let Some(part) = part else {
                return Fields::default();
            };
            let fields = place.structure(part).to_fields();
            place.step_over(part);
            fields
        });
        let time = packet
            .class
            .clock
            .is_some()
            .then_some(Ticks(self.clock.now));
        Event {
            time,
            packet,
            class: Arc::clone(class),
            stream_context,
            context,
            fields,
        }
    }
}
