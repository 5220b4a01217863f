//! Decode plans: how to step over a record, compiled once for every event class.
//!
//! Most records need a few additions. The [header](crate::header) is at fixed offsets or chooses between two or three such layouts;
//! what follows is [steps](crate::steps), in which everything of fixed size has become one addition. A plan answers only where the
//! record ends; if it cannot, [`crate::walk`] finds out why.

use std::collections::HashMap;
use std::sync::Arc;

use crate::header::Header;
use crate::metadata::{EventClass, StreamClass};
use crate::steps::Layout;

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
    pub(crate) const UNKNOWN: Quick = Quick { mask: 0, bits: Quick::VARIES, event: Quick::NONE };
}

/// Ids below this are looked up in a table.
const DENSE: u64 = 1 << 12;

impl StreamPlan {
    pub(crate) fn new(class: &Arc<StreamClass>, slots: u32) -> Self {
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
                Layout::Fixed { mask, bits } => Quick { mask, bits, event: place },
                Layout::Steps(_) => Quick { mask: 0, bits: Quick::VARIES, event: place },
            };
            match dense.get_mut(usize::try_from(event.class.id).unwrap_or(usize::MAX)) {
                Some(entry) => *entry = quick,
                None => drop(sparse.insert(event.class.id, quick)),
            }
        }
        let mut plan = StreamPlan {
            header: Header::of(class.event_header.as_deref()),
            first_index: events.first().map_or(0, |event| event.class.index()),
            events,
            dense,
            sparse,
            nameless: Quick::UNKNOWN,
            slots,
            class: Arc::clone(class),
        };
        // A stream with one kind of event need not say which.
        let only = plan.events.first().filter(|_| plan.events.len() == 1).map_or(0, |event| event.class.id);
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
