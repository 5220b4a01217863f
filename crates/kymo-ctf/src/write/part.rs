//! One trace of the source: the metadata to write, and how to write its packets and events.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Format;
use super::framing::{Context, EventHeader, NAMES, PacketHeader};
use super::lower::Lowering;
use super::names::{Names, word};
use super::value::{StructWrite, Unwritten};
use super::{metadata_json, metadata_tsdl};
use crate::class::{ByteOrder, FieldClass, Role, Scope, StructClass};
use crate::error::DecodeError;
use crate::metadata::clock::ClockClass;
use crate::metadata::{EnvValue, EventClass, Metadata, StreamClass, TraceClass};
use crate::stream::Stream;
use crate::stream::packet::Head;
use crate::stream::source::{Slice, Source as _};

/// One trace of the source.
#[derive(Debug)]
pub(super) struct Part {
    /// The metadata to write, without what only a reader needs.
    target: Metadata,
    classes: BTreeMap<u64, Arc<ClassWrite>>,
}

/// How to write the packets and events of one stream class.
#[derive(Debug)]
pub(super) struct ClassWrite {
    pub(super) id: u64,
    pub(super) header: PacketHeader,
    pub(super) context: Context,
    pub(super) event_header: EventHeader,
    /// The packet context's own fields.
    own: Option<StructWrite>,
    pub(super) event_context: Option<StructWrite>,
    /// The events by id, as in the reader's plans.
    pub(super) events: Vec<EventWrite>,
}

/// How to write the events of one class.
#[derive(Debug)]
pub(super) struct EventWrite {
    pub(super) id: u64,
    pub(super) context: Option<StructWrite>,
    pub(super) fields: Option<StructWrite>,
}

/// A packet of the source.
#[derive(Debug, Clone)]
pub(super) struct SourcePacket {
    pub(super) class: Arc<ClassWrite>,
    pub(super) begin: Option<u64>,
    pub(super) end: Option<u64>,
    pub(super) cpu: u64,
    pub(super) instance: u64,
    pub(super) sequence: Option<u64>,
    pub(super) discarded: Option<u64>,
    /// The packet context's own fields, encoded.
    pub(super) own: Vec<u8>,
}

/// Clocks of the source, with the clocks to write.
type Clocks = Vec<(Arc<ClockClass>, Arc<ClockClass>)>;

impl Part {
    pub(super) fn new(source: &Metadata, format: Format) -> Part {
        let clocks = clocks(source, format);
        let header = PacketHeader {
            uuid: source.trace.uuid,
            class_bytes: if source.streams.keys().all(|id| u32::try_from(*id).is_ok()) {
                4
            } else {
                8
            },
            instance: source
                .trace
                .packet_header
                .as_deref()
                .is_some_and(|class| find(class, Role::StreamId).is_some()),
        };
        let mut streams = BTreeMap::new();
        let mut classes = BTreeMap::new();
        for (id, class) in &source.streams {
            let clock = class
                .clock
                .as_ref()
                .and_then(|clock| clocks.iter().find(|(from, _)| from.id == clock.id));
            let (target, write) =
                stream_class(source, class, header, clock.map(|(_, to)| to), format);
            streams.insert(*id, Arc::new(target));
            classes.insert(*id, Arc::new(write));
        }
        let major = source.trace.major;
        let target = Metadata {
            trace: TraceClass {
                byte_order: ByteOrder::Little,
                packet_header: Some(Arc::new(header.class(format))),
                ..source.trace.clone()
            },
            env: env(&source.env, format, major >= 2),
            clocks: clocks.into_iter().map(|(_, to)| to).collect(),
            streams,
            slots: 0,
            event_classes: source.event_classes,
            warnings: Vec::new(),
        };
        Part { target, classes }
    }

    /// The metadata text.
    pub(super) fn text(&self, format: Format) -> String {
        match format {
            Format::Ctf18 => metadata_tsdl::text(&self.target),
            Format::Ctf2 => metadata_json::text(&self.target),
        }
    }

    /// The stream's current packet.
    pub(super) fn packet(
        &self,
        head: &Head,
        stream: &Stream<Slice<'_>>,
    ) -> Result<SourcePacket, Unwritten> {
        let id = head.plan.class.id;
        let class = Arc::clone(
            self.classes
                .get(&id)
                .ok_or(DecodeError::UnknownStream(id))?,
        );
        let mut own = Vec::new();
        if let Some(write) = &class.own {
            let context = head.context(stream.source.bytes(), stream.metadata());
            let (mut place, _) = context.ok_or(DecodeError::AbsentField)?;
            write.put(&mut place, &mut own)?;
        }
        Ok(SourcePacket {
            begin: stream.packet.begin,
            end: stream.packet.end,
            cpu: head.cpu.unwrap_or(0),
            instance: head.instance.unwrap_or(0),
            sequence: head.sequence.map(|(number, _)| number),
            discarded: head.discarded.map(|(count, _)| count),
            own,
            class,
        })
    }
}

fn stream_class(
    source: &Metadata,
    class: &StreamClass,
    header: PacketHeader,
    clock: Option<&Arc<ClockClass>>,
    format: Format,
) -> (StreamClass, ClassWrite) {
    let largest = class.events.keys().next_back().copied().unwrap_or(0);
    let id_bytes = match largest {
        0..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    let event_header = EventHeader {
        id_bytes,
        clock: clock.is_some(),
    };
    let cpu = class
        .packet_context
        .as_deref()
        .and_then(|context| find(context, Role::CpuId));
    let context = Context {
        clock: clock.is_some(),
        cpu_bytes: cpu.map(|bits| if bits > 32 { 8 } else { 4 }),
    };

    let mut lowering = Lowering::new(format, source.trace.major >= 2);
    if let Some(header) = &source.trace.packet_header {
        lowering.skip(header);
    }
    // With and without the underscore that CTF 1.8 puts before names.
    let taken: Vec<String> = NAMES
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("_{name}")])
        .collect();
    let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
    let own = class
        .packet_context
        .as_deref()
        .map(|class| lowering.part(Scope::PacketContext, class, &taken));
    let mut members = context.members(clock.map(|clock| &**clock));
    let (own_class, own) = own.unzip();
    let own_class = own_class.unwrap_or_default();
    members.extend(own_class.members);
    if let Some(header) = &class.event_header {
        lowering.skip(header);
    }
    let part = |lowering: &mut Lowering, scope, class: &Option<Arc<StructClass>>| {
        let part = class
            .as_deref()
            .map(|class| lowering.part(scope, class, &[]));
        let (class, write) = part.unzip();
        (class.map(Arc::new), write)
    };
    let (event_context, event_context_write) = part(
        &mut lowering,
        Scope::EventCommonContext,
        &class.event_context,
    );
    let (mut events, mut event_writes) = (BTreeMap::new(), Vec::new());
    for (id, event) in &class.events {
        let mut lowering = lowering.clone();
        let (context, context_write) = part(&mut lowering, Scope::EventContext, &event.context);
        let (fields, fields_write) = part(&mut lowering, Scope::EventFields, &event.fields);
        events.insert(
            *id,
            Arc::new(EventClass {
                context,
                fields,
                ..EventClass::clone(event)
            }),
        );
        event_writes.push(EventWrite {
            id: *id,
            context: context_write,
            fields: fields_write,
        });
    }
    let packet_context = StructClass {
        attributes: own_class.attributes,
        ..StructClass::new(members, 8)
    };
    let target = StreamClass {
        clock: clock.cloned(),
        packet_context: Some(Arc::new(packet_context)),
        event_header: Some(Arc::new(event_header.class(clock.map(|clock| &**clock)))),
        event_context,
        events,
        ..class.clone()
    };
    let write = ClassWrite {
        id: class.id,
        header,
        context,
        event_header,
        own,
        event_context: event_context_write,
        events: event_writes,
    };
    (target, write)
}

/// The size in bits of the first field of this role.
fn find(class: &StructClass, role: Role) -> Option<u8> {
    class.members.iter().find_map(|member| match &member.class {
        FieldClass::Struct(class) => find(class, role),
        FieldClass::VarInt(_) | FieldClass::Wide(_) => member.class.roles().has(role).then_some(64),
        class => class
            .storage()
            .filter(|integer| integer.roles.has(role))
            .map(|integer| integer.size),
    })
}

fn clocks(source: &Metadata, format: Format) -> Clocks {
    let used = source
        .streams
        .values()
        .filter_map(|stream| stream.clock.as_ref());
    let mut all: Vec<Arc<ClockClass>> = Vec::new();
    for clock in source.clocks.iter().chain(used) {
        if !all.iter().any(|have| have.id == clock.id) {
            all.push(Arc::clone(clock));
        }
    }
    let mut names = Names::default();
    let written = all.into_iter().map(|clock| {
        let mut to = ClockClass::clone(&clock);
        match format {
            Format::Ctf18 => {
                to.name = names.free(word(&clock.name));
                to.uuid = clock.uuid.or_else(|| uuid(clock.uid.as_deref()?));
            }
            Format::Ctf2 => {
                to.uid = clock
                    .uid
                    .clone()
                    .or_else(|| clock.uuid.map(metadata_tsdl::uuid));
                // In CTF 2, `cycles` must be less than a second. An offset that exceeds 64 bits is
                // left unchanged, and refused when the text is read.
                let frequency = clock.frequency.max(1);
                if let Ok(seconds) =
                    i64::try_from(i128::from(clock.offset_s) + i128::from(clock.offset / frequency))
                {
                    (to.offset_s, to.offset) = (seconds, clock.offset % frequency);
                }
            }
        }
        (clock, Arc::new(to))
    });
    written.collect()
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.split('-').collect();
    let is_one = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_one
        .then(|| u128::from_str_radix(&digits, 16).ok())
        .flatten()
        .map(u128::to_be_bytes)
}

fn env(source: &[(String, EnvValue)], format: Format, any_names: bool) -> Vec<(String, EnvValue)> {
    let mut names = Names::default();
    let written = source.iter().map(|(name, value)| {
        let name = if format == Format::Ctf18 && any_names {
            word(name)
        } else {
            name.clone()
        };
        let value = match value {
            EnvValue::Integer(number) if !(i64::MIN.into()..=u64::MAX.into()).contains(number) => {
                EnvValue::Text(number.to_string())
            }
            EnvValue::Wide(number) => EnvValue::Text(number.to_string()),
            value => value.clone(),
        };
        (names.free(name), value)
    });
    written.collect()
}
