//! Decode plans: how to step over a record, compiled once for every event class.
//!
//! Most records need a few additions. The [header](crate::decode::header) is at fixed offsets or chooses
//! between two or three such layouts; what follows is [steps](crate::decode::steps), in which everything of
//! fixed size has become one addition. A plan answers only where the record ends; if it cannot,
//! [`crate::decode::walk`] finds out why.

use std::collections::HashMap;
use std::sync::Arc;

use crate::class::{ByteOrder, FieldClass, StructClass};
use crate::decode::header::Header;
use crate::decode::steps::Layout;
use crate::metadata::{EventClass, StreamClass, TraceClass};

/// How the records of one stream class are read.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) class: Arc<StreamClass>,
    pub(crate) header: Header,
    pub(crate) events: Vec<EventPlan>,
    /// The place of the first event among all of the trace; the others follow.
    pub(crate) first_index: usize,
    /// By event id, for ids below [`DENSE`]; all others are in `sparse`.
    dense: Vec<Quick>,
    sparse: HashMap<u64, Quick>,
    /// The event of records whose header says no id.
    nameless: Quick,
    /// Slots that a reader needs.
    pub(crate) slots: u32,
}

/// How one event's record is read after its header.
#[derive(Debug)]
pub(crate) struct EventPlan {
    pub(crate) class: Arc<EventClass>,
    pub(crate) layout: Layout,
}

/// An event and the size of its record, if that is fixed: what most records need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quick {
    /// The record's body is aligned to `mask + 1` bits.
    pub(crate) mask: u64,
    /// And takes this many; [`Quick::VARIES`] if that is not fixed.
    pub(crate) bits: u64,
    /// Place among the plan's events; [`Quick::NONE`] if there is no such event.
    pub(crate) event: u32,
}

impl Quick {
    pub(crate) const NONE: u32 = u32::MAX;
    pub(crate) const VARIES: u64 = u64::MAX;
    pub(crate) const UNKNOWN: Quick = Quick {
        mask: 0,
        bits: Quick::VARIES,
        event: Quick::NONE,
    };
}

/// Whether fields of two byte orders may share a byte, which is an error: which field came before
/// must then be known everywhere, from one record to the next, and only the exact way knows it.
fn mingles(class: &StreamClass, trace: &TraceClass) -> bool {
    let header = match Header::of(class.event_header.as_deref()) {
        Header::Walk => class.event_header.as_deref(),
        // What is compiled has one byte order, which is looked at below.
        compiled if compiled.ends_on_byte() => None,
        _ => class.event_header.as_deref(),
    };
    let mut orders = Orders::default();
    let events = class
        .events
        .values()
        .flat_map(|event| [&event.context, &event.fields]);
    let parts = [
        &trace.packet_header,
        &class.packet_context,
        &class.event_context,
    ];
    parts
        .into_iter()
        .chain(events)
        .filter_map(Option::as_deref)
        .chain(header)
        .for_each(|class| orders.structure(class));
    let odd = orders.odd;
    class
        .event_header
        .iter()
        .for_each(|class| orders.structure(class));
    odd && orders.little && orders.big
}

/// The byte orders of some fields, and whether any of them may begin or end inside a byte.
#[derive(Debug, Default)]
struct Orders {
    little: bool,
    big: bool,
    odd: bool,
}

impl Orders {
    fn structure(&mut self, class: &StructClass) {
        class
            .members
            .iter()
            .for_each(|member| self.field(&member.class));
    }

    fn field(&mut self, class: &FieldClass) {
        match class {
            FieldClass::Struct(class) => self.structure(class),
            FieldClass::Array(class) => self.field(&class.element),
            FieldClass::Variant(class) => class
                .options
                .iter()
                .for_each(|option| self.field(&option.class)),
            FieldClass::Optional(class) => self.field(&class.class),
            FieldClass::Float(class) => {
                self.take(class.byte_order, class.size.into(), class.alignment)
            }
            FieldClass::Wide(class) => self.take(class.byte_order, class.size, class.alignment),
            _ => {
                if let Some(class) = class.storage() {
                    self.take(class.byte_order, class.size.into(), class.alignment);
                }
            }
        }
    }

    fn take(&mut self, order: ByteOrder, size: u64, alignment: u32) {
        match order {
            ByteOrder::Little => self.little = true,
            ByteOrder::Big => self.big = true,
        }
        self.odd |= !size.is_multiple_of(8) || alignment < 8;
    }
}

/// Ids below this are looked up in a table.
const DENSE: u64 = 1 << 12;

impl StreamPlan {
    /// The plan of a stream class of `trace`.
    pub(crate) fn new(class: &Arc<StreamClass>, slots: u32, trace: &TraceClass) -> Self {
        let common = class.event_context.as_deref();
        let plans = class.events.values().map(|event| EventPlan {
            class: Arc::clone(event),
            layout: Layout::of([common, event.context.as_deref(), event.fields.as_deref()]),
        });
        let events: Vec<EventPlan> = plans.collect();
        let last = class.events.range(..DENSE).next_back();
        let mut dense = vec![Quick::UNKNOWN; last.map_or(0, |(id, _)| *id as usize + 1)];
        let mut sparse = HashMap::new();
        for (place, event) in (0..).zip(&events) {
            let quick = match event.layout {
                Layout::Fixed { mask, bits } => Quick {
                    mask,
                    bits,
                    event: place,
                },
                Layout::Texts { .. } | Layout::Steps(_) => Quick {
                    mask: 0,
                    bits: Quick::VARIES,
                    event: place,
                },
            };
            match dense.get_mut(usize::try_from(event.class.id).unwrap_or(usize::MAX)) {
                Some(entry) => *entry = quick,
                None => drop(sparse.insert(event.class.id, quick)),
            }
        }
        let mut plan = StreamPlan {
            header: if mingles(class, trace) {
                Header::Walk
            } else {
                Header::of(class.event_header.as_deref())
            },
            first_index: events.first().map_or(0, |event| event.class.index()),
            events,
            dense,
            sparse,
            nameless: Quick::UNKNOWN,
            slots,
            class: Arc::clone(class),
        };
        // By CTF 1.8 a stream with one kind of event need not say which; by CTF 2 records that do
        // not say are of event 0.
        let only = plan
            .events
            .first()
            .filter(|_| plan.events.len() == 1 && trace.major == 1);
        let only = only.map_or(0, |event| event.class.id);
        plan.nameless = *plan.event(Some(only));
        plan
    }

    /// The event class of this id; `None` is a header that says no id.
    #[inline(always)]
    pub(crate) fn event(&self, id: Option<u64>) -> &Quick {
        let Some(id) = id else { return &self.nameless };
        match self.dense.get(usize::try_from(id).unwrap_or(usize::MAX)) {
            Some(quick) => quick,
            None => self.sparse_event(id),
        }
    }

    #[inline(never)]
    fn sparse_event(&self, id: u64) -> &Quick {
        self.sparse.get(&id).unwrap_or(&Quick::UNKNOWN)
    }
}
