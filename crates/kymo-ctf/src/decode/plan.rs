//! Decode plans: how to skip a record, compiled once for each event class.
//!
//! Most records need a few additions. The [header](crate::decode::header) has fixed offsets or
//! selects one of two or three such layouts; the rest is [steps](crate::decode::skip), in which all
//! fields of fixed size together are one addition. A plan only finds the end of the record; if it
//! cannot, [`crate::decode::check`] finds the error.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::class::{ByteOrder, FieldClass, StructClass};
use crate::decode::fixed::FixedFields;
use crate::decode::header::{Branch, Header, Id, Load};
use crate::decode::skip::{Layout, aligned};
use crate::error::DecodeError;
use crate::metadata::{EventClass, Metadata, StreamClass, TraceClass};

/// The plans of a trace, compiled by the reader and shared by all streams.
#[derive(Debug)]
pub(crate) struct Plans {
    pub(crate) metadata: Arc<Metadata>,
    /// The packet header, if all its fields have fixed offsets.
    pub(crate) packet_header: Option<FixedFields>,
    streams: BTreeMap<u64, Arc<StreamPlan>>,
}

impl Plans {
    /// Compiles the plans for a trace with this metadata.
    pub(crate) fn of(metadata: &Arc<Metadata>) -> Arc<Plans> {
        let trace = &metadata.trace;
        let packet_header = FixedFields::of(trace.packet_header.as_deref(), 0);
        let behind_header = packet_header.as_ref().map(|header| header.end);
        let plan = |class| Arc::new(StreamPlan::new(class, metadata.slots, trace, behind_header));
        let streams = metadata.streams.iter();
        Arc::new(Plans {
            streams: streams.map(|(id, class)| (*id, plan(class))).collect(),
            packet_header,
            metadata: Arc::clone(metadata),
        })
    }

    /// The plan of packets whose header has this stream id.
    pub(crate) fn stream(&self, id: Option<u64>) -> Result<&Arc<StreamPlan>, DecodeError> {
        let plan = match id {
            // In CTF 1.8 the packets of a single stream class need no id; in CTF 2 the default id
            // is 0.
            None if self.streams.len() == 1 && self.metadata.trace.major == 1 => {
                self.streams.values().next()
            }
            id => self.streams.get(&id.unwrap_or(0)),
        };
        plan.ok_or(DecodeError::UnknownStream(id.unwrap_or(0)))
    }
}

/// Stands for the id of records whose header has none. An event class that really has this id is
/// read with every check at first.
pub(crate) const NAMELESS: u64 = u64::MAX;

/// How to read the records of one stream class.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) class: Arc<StreamClass>,
    /// The packet context, if all its fields have fixed offsets.
    pub(crate) packet_context: Option<FixedFields>,
    pub(crate) header: Header,
    /// How to skip most records, if the header is compiled.
    pub(crate) fixed: Option<FixedRecords>,
    pub(crate) events: Vec<EventPlan>,
    /// Index of the first event class among all of the trace; the others follow.
    pub(crate) first_index: usize,
    /// Events by id, for ids below [`DENSE`]; all others are in `sparse`.
    dense: Vec<Known>,
    sparse: HashMap<u64, Known>,
    /// The event of records whose header has no id.
    nameless: Known,
    /// Slots that a reader needs.
    pub(crate) slots: u32,
}

/// How to read one event's record after its header.
#[derive(Debug)]
pub(crate) struct EventPlan {
    pub(crate) class: Arc<EventClass>,
    pub(crate) layout: Layout,
}

/// An event and the size of its record, if fixed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// The record's body is aligned to `mask + 1` bits.
    pub(crate) mask: u64,
    /// Size of the body in bits; [`Known::VARIES`] if it is not fixed.
    pub(crate) bits: u64,
    /// Index among the plan's events; [`Known::NONE`] if there is no such event.
    pub(crate) event: u32,
}

impl Known {
    pub(crate) const NONE: u32 = u32::MAX;
    pub(crate) const VARIES: u64 = u64::MAX;
    pub(crate) const UNKNOWN: Known = Known {
        mask: 0,
        bits: Known::VARIES,
        event: Known::NONE,
    };
}

/// The records of fixed size whose header has the most common layout.
#[derive(Debug)]
pub(crate) struct FixedRecords {
    /// Loads of the event class id and the time; of no bits if there is none.
    pub(crate) id: Load,
    pub(crate) time: Load,
    pub(crate) shape: Shape,
    /// Range of the tags of this layout.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Size of the header in bits.
    pub(crate) header: u64,
    /// Sizes by id; a single one if headers have no id.
    pub(crate) sizes: Box<[FixedSize]>,
}

/// How to check that a header has this layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The id implies the layout, and the time is in the same eight bytes.
    OneWord,
    /// The id implies the layout.
    Plain,
    /// The tag implies the layout.
    Tagged,
}

/// A record of fixed size, header included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedSize {
    pub(crate) bits: u32,
    /// Index among the plan's events; [`Known::NONE`] if the size is not fixed or there is no such
    /// event.
    pub(crate) event: u32,
}

impl FixedSize {
    const NONE: FixedSize = FixedSize {
        bits: 0,
        event: Known::NONE,
    };

    /// The size of a record of this class whose header begins at a multiple of `mask + 1` bits.
    fn of(known: &Known, header: u64, mask: u64) -> FixedSize {
        // The header's alignment must determine where the body begins.
        let is_fixed = known.event != Known::NONE && known.mask <= mask;
        let bits = aligned(header, known.mask).saturating_add(known.bits);
        match u32::try_from(bits) {
            Ok(bits) if is_fixed && bits > 0 => FixedSize {
                bits,
                event: known.event,
            },
            _ => FixedSize::NONE,
        }
    }
}

impl FixedRecords {
    fn of(plan: &StreamPlan) -> Option<FixedRecords> {
        let Header::Compiled(word, switch) = &plan.header else {
            return None;
        };
        let Branch { low, high, part } = switch.main()?;
        let size = |known: &Known| FixedSize::of(known, part.end, word.mask);
        let of_tag = |(tag, known): (u64, &Known)| match *low <= tag && tag <= *high {
            true => size(known),
            false => FixedSize::NONE,
        };
        let (id, sizes): (_, Box<[_]>) = match part.id {
            Id::None => (Load::NOTHING, [size(&plan.nameless)].into()),
            Id::Tag => (switch.tag, (0..).zip(&plan.dense).map(of_tag).collect()),
            Id::At(load) => (load, plan.dense.iter().map(size).collect()),
        };
        let time = part.time.unwrap_or(Load::NOTHING);
        let shape = match part.id {
            Id::None | Id::At(_) if switch.has_tag() => Shape::Tagged,
            _ if id.shares_bytes(time) => Shape::OneWord,
            _ => Shape::Plain,
        };
        Some(FixedRecords {
            id,
            time,
            shape,
            low: *low,
            high: *high,
            header: part.end,
            sizes,
        })
    }

    /// Whether a record has this layout, by its tag and id.
    #[inline(always)]
    pub(crate) fn holds(&self, tag: u64, id: u64) -> bool {
        let place = if id == NAMELESS { 0 } else { id };
        let size = usize::try_from(place)
            .ok()
            .and_then(|place| self.sizes.get(place));
        self.low <= tag && tag <= self.high && size.is_some_and(|size| size.event != Known::NONE)
    }
}

/// Whether fields of two byte orders may share a byte, which is an error. To detect it, the byte
/// order must be tracked from field to field and record to record, which only the walker does.
fn mingles(class: &StreamClass, trace: &TraceClass) -> bool {
    let header = match Header::of(class.event_header.as_deref()) {
        Header::Walk => class.event_header.as_deref(),
        // A compiled header has one byte order, which is checked below.
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
    let inside = orders.inside;
    class
        .event_header
        .iter()
        .for_each(|class| orders.structure(class));
    inside && orders.little && orders.big
}

/// The byte orders of a set of fields, and whether any field may begin or end inside a byte.
#[derive(Debug, Default)]
struct Orders {
    little: bool,
    big: bool,
    inside: bool,
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
        self.inside |= !size.is_multiple_of(8) || alignment < 8;
    }
}

/// Ids below this limit are looked up in a table.
const DENSE: u64 = 1 << 12;

impl StreamPlan {
    /// Compiles the plan of a stream class of `trace`.
    ///
    /// `behind_header` is the bit position of the packet context in the packet, if fixed.
    fn new(
        class: &Arc<StreamClass>,
        slots: u32,
        trace: &TraceClass,
        behind_header: Option<u64>,
    ) -> Self {
        let packet_context = class.packet_context.as_deref();
        let common = class.event_context.as_deref();
        let plans = class.events.values().map(|event| EventPlan {
            class: Arc::clone(event),
            layout: Layout::of([common, event.context.as_deref(), event.fields.as_deref()]),
        });
        let events: Vec<EventPlan> = plans.collect();
        let last = class.events.range(..DENSE).next_back();
        let mut dense = vec![Known::UNKNOWN; last.map_or(0, |(id, _)| *id as usize + 1)];
        let mut sparse = HashMap::new();
        for (place, event) in (0..).zip(&events) {
            let known = match event.layout {
                Layout::Fixed { mask, bits } => Known {
                    mask,
                    bits,
                    event: place,
                },
                Layout::Texts { .. } | Layout::Steps(_) => Known {
                    mask: 0,
                    bits: Known::VARIES,
                    event: place,
                },
            };
            match dense.get_mut(usize::try_from(event.class.id).unwrap_or(usize::MAX)) {
                Some(entry) => *entry = known,
                None => drop(sparse.insert(event.class.id, known)),
            }
        }
        let mut plan = StreamPlan {
            packet_context: behind_header.and_then(|begin| FixedFields::of(packet_context, begin)),
            header: if mingles(class, trace) {
                Header::Walk
            } else {
                Header::of(class.event_header.as_deref())
            },
            fixed: None,
            first_index: events.first().map_or(0, |event| event.class.index()),
            events,
            dense,
            sparse,
            nameless: Known::UNKNOWN,
            slots,
            class: Arc::clone(class),
        };
        // In CTF 1.8 the records of a stream with a single event class need no id; in CTF 2 the
        // default id is 0.
        let only = plan
            .events
            .first()
            .filter(|_| plan.events.len() == 1 && trace.major == 1);
        let only = only.map_or(0, |event| event.class.id);
        plan.nameless = *plan.event(Some(only));
        plan.fixed = FixedRecords::of(&plan);
        plan
    }

    /// The event class of this id; `None` for a header without an id.
    #[inline(always)]
    pub(crate) fn event(&self, id: Option<u64>) -> &Known {
        let Some(id) = id else { return &self.nameless };
        match self.dense.get(usize::try_from(id).unwrap_or(usize::MAX)) {
            Some(known) => known,
            None => self.sparse_event(id),
        }
    }

    #[inline(never)]
    fn sparse_event(&self, id: u64) -> &Known {
        self.sparse.get(&id).unwrap_or(&Known::UNKNOWN)
    }
}
