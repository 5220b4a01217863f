//! The blocks of a metadata text: `trace`, `env`, `clock`, `stream`, `event`.
//!
//! Blocks are first read in the order of the text, since that is the order in which type names become known; then the field classes
//! are made in the order of a packet, since that is the order in which fields become known.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Assignment, At, Expression, Item, Statement, TypeSpec};
use super::attributes;
use super::instantiate::{Before, Instantiator, Root};
use super::parser;
use super::types::{Scopes, Type};
use crate::class::{ByteOrder, Encoding, FieldClass, StructClass};
use crate::clock::ClockClass;
use crate::error::{MetadataError, Position};
use crate::metadata::{EnvValue, EventClass, Metadata, StreamClass, TraceClass};

type Checked<T> = Result<T, MetadataError>;
type Part = Option<At<Rc<Type>>>;

/// Reads a metadata text.
pub(crate) fn read(text: &str) -> Checked<Metadata> {
    let mut blocks = Blocks::default();
    let mut scopes = Scopes::new();
    for item in parser::parse(text)? {
        match item {
            Item::Declaration(declaration) => scopes.declare(&declaration)?,
            Item::Trace(block) => blocks.trace(&block, &mut scopes)?,
            Item::Env(block) => blocks.env(&block)?,
            Item::Clock(block) => blocks.clock(&block)?,
            Item::Stream(block) => blocks.stream(&block, &mut scopes)?,
            Item::Event(block) => blocks.event(&block, &mut scopes)?,
        }
    }
    blocks.finish()
}

#[derive(Default)]
struct Blocks {
    trace: Option<TraceBlock>,
    env: Vec<(String, EnvValue)>,
    clocks: Vec<Arc<ClockClass>>,
    streams: BTreeMap<u64, StreamBlock>,
    events: Vec<EventBlock>,
}

struct TraceBlock {
    major: u64,
    minor: u64,
    uuid: Option<[u8; 16]>,
    byte_order: ByteOrder,
    packet_header: Part,
}

#[derive(Default)]
struct StreamBlock {
    packet_context: Part,
    event_header: Part,
    event_context: Part,
}

struct EventBlock {
    position: Position,
    id: u64,
    name: Arc<str>,
    stream_id: Option<u64>,
    log_level: Option<i64>,
    context: Part,
    fields: Part,
}

/// The two kinds of entry that a block has left once its declarations are in its scope.
struct Entries<'a> {
    values: Vec<&'a Assignment>,
    types: Vec<(&'a At<String>, At<Rc<Type>>)>,
}

fn entries<'a>(block: &'a At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<Entries<'a>> {
    scopes.nested(|scopes| {
        let mut values = Vec::new();
        let mut types: Vec<(&At<String>, At<Rc<Type>>)> = Vec::new();
        for statement in &block.value {
            match statement {
                Statement::Declaration(declaration) => scopes.declare(declaration)?,
                Statement::Assign(assignment) => values.push(assignment),
                Statement::AssignType { name, of } => {
                    if types.iter().any(|(other, _)| other.value == name.value) {
                        let message = format!("`{}` is given twice", name.value);
                        return Err(MetadataError::new(name.position, message));
                    }
                    let value = resolve(of, scopes)?;
                    types.push((name, value));
                }
            }
        }
        attributes::refuse_repeated(&values)?;
        Ok(Entries { values, types })
    })
}

fn resolve(of: &At<TypeSpec>, scopes: &mut Scopes) -> Checked<At<Rc<Type>>> {
    Ok(At { position: of.position, value: scopes.resolve(of)? })
}

fn unknown_part<T>(name: &At<String>, of: &str) -> Checked<T> {
    let message = format!("`{}` is not a known part of {of}", name.value);
    Err(MetadataError::new(name.position, message))
}

fn missing<T>(block: &At<Vec<Statement>>, attribute: &str, of: &str) -> Checked<T> {
    let message = format!("{of} needs `{attribute}`");
    Err(MetadataError::new(block.position, message))
}

impl Blocks {
    fn trace(&mut self, block: &At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<()> {
        const OF: &str = "a `trace` block";
        if self.trace.is_some() {
            return Err(MetadataError::new(block.position, "there are two `trace` blocks"));
        }
        let entries = entries(block, scopes)?;
        let (mut major, mut minor, mut uuid, mut byte_order) = (None, None, None, None);
        for attribute in entries.values {
            match attribute.name.value.as_str() {
                "major" => major = Some((attributes::unsigned(attribute)?, attribute.value.position)),
                "minor" => minor = Some((attributes::unsigned(attribute)?, attribute.value.position)),
                "uuid" => uuid = Some(attributes::uuid(attribute)?),
                "byte_order" => {
                    byte_order = attributes::byte_order(attribute)?;
                    if byte_order.is_none() {
                        let message = "the trace's own byte order cannot be `native`";
                        return Err(MetadataError::new(attribute.value.position, message));
                    }
                }
                _ => return attributes::unknown(attribute, OF),
            }
        }
        let mut packet_header = None;
        for (name, of) in entries.types {
            match name.value.as_str() {
                "packet.header" => packet_header = Some(of),
                _ => return unknown_part(name, OF),
            }
        }
        for (version, wanted, name) in [(major, 1, "major"), (minor, 8, "minor")] {
            match version {
                None => return missing(block, name, OF),
                Some((version, _)) if version == wanted => {}
                Some((version, position)) => {
                    let message = format!("`{name}` is {version}; only version 1.8 of CTF is supported");
                    return Err(MetadataError::new(position, message));
                }
            }
        }
        let Some(byte_order) = byte_order else {
            return missing(block, "byte_order", OF);
        };
        self.trace = Some(TraceBlock { major: 1, minor: 8, uuid, byte_order, packet_header });
        Ok(())
    }

    fn env(&mut self, block: &At<Vec<Statement>>) -> Checked<()> {
        for attribute in plain(block, "an `env` block")? {
            let value = match &attribute.value.value {
                Expression::Text(text) => EnvValue::Text(text.clone()),
                Expression::Number(number) => EnvValue::Integer(*number),
                Expression::Path(path) => {
                    let message = format!("`{}` is neither a string nor an integer", attributes::dotted(path));
                    return Err(MetadataError::new(attribute.value.position, message));
                }
            };
            self.env.push((attribute.name.value.clone(), value));
        }
        Ok(())
    }

    fn clock(&mut self, block: &At<Vec<Statement>>) -> Checked<()> {
        const OF: &str = "a `clock` block";
        let mut clock = ClockClass {
            name: String::new(),
            uuid: None,
            description: None,
            frequency: 1_000_000_000,
            precision: 0,
            offset_s: 0,
            offset: 0,
            absolute: false,
        };
        for attribute in plain(block, OF)? {
            match attribute.name.value.as_str() {
                "name" => clock.name = attributes::name(attribute)?,
                "uuid" => clock.uuid = Some(attributes::uuid(attribute)?),
                "description" => clock.description = Some(attributes::text(attribute)?),
                "freq" => clock.frequency = attributes::unsigned(attribute)?,
                "precision" => clock.precision = attributes::unsigned(attribute)?,
                "offset_s" => clock.offset_s = attributes::signed(attribute)?,
                "offset" => clock.offset = attributes::unsigned(attribute)?,
                "absolute" => clock.absolute = attributes::boolean(attribute)?,
                _ => return attributes::unknown(attribute, OF),
            }
            if clock.frequency == 0 {
                let message = "a clock cannot have a frequency of 0";
                return Err(MetadataError::new(attribute.value.position, message));
            }
        }
        if clock.name.is_empty() {
            return missing(block, "name", OF);
        }
        if self.clocks.iter().any(|other| other.name == clock.name) {
            let message = format!("there are two clocks `{}`", clock.name);
            return Err(MetadataError::new(block.position, message));
        }
        self.clocks.push(Arc::new(clock));
        Ok(())
    }

    fn stream(&mut self, block: &At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<()> {
        const OF: &str = "a `stream` block";
        let entries = entries(block, scopes)?;
        let mut id = 0;
        for attribute in entries.values {
            match attribute.name.value.as_str() {
                "id" => id = attributes::unsigned(attribute)?,
                _ => return attributes::unknown(attribute, OF),
            }
        }
        let mut stream = StreamBlock::default();
        for (name, of) in entries.types {
            match name.value.as_str() {
                "packet.context" => stream.packet_context = Some(of),
                "event.header" => stream.event_header = Some(of),
                "event.context" => stream.event_context = Some(of),
                _ => return unknown_part(name, OF),
            }
        }
        if self.streams.insert(id, stream).is_some() {
            let message = format!("there are two streams with id {id}");
            return Err(MetadataError::new(block.position, message));
        }
        Ok(())
    }

    fn event(&mut self, block: &At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<()> {
        const OF: &str = "an `event` block";
        let entries = entries(block, scopes)?;
        let mut event = EventBlock {
            position: block.position,
            id: 0,
            name: Arc::from(""),
            stream_id: None,
            log_level: None,
            context: None,
            fields: None,
        };
        for attribute in entries.values {
            match attribute.name.value.as_str() {
                "id" => event.id = attributes::unsigned(attribute)?,
                "name" => event.name = attributes::name(attribute)?.into(),
                "stream_id" => event.stream_id = Some(attributes::unsigned(attribute)?),
                "loglevel" => event.log_level = Some(attributes::signed(attribute)?),
                // A link to a model of the event; it says nothing about its bytes.
                "model.emf.uri" => attributes::text(attribute).map(drop)?,
                _ => return attributes::unknown(attribute, OF),
            }
        }
        for (name, of) in entries.types {
            match name.value.as_str() {
                "context" => event.context = Some(of),
                "fields" => event.fields = Some(of),
                _ => return unknown_part(name, OF),
            }
        }
        if event.name.is_empty() {
            return missing(block, "name", OF);
        }
        self.events.push(event);
        Ok(())
    }

    fn finish(self) -> Checked<Metadata> {
        let Some(trace) = self.trace else {
            return Err(MetadataError::new(Position::START, "there is no `trace` block"));
        };
        let names = self.clocks.iter().map(|clock| clock.name.clone()).collect();
        let mut instantiator = Instantiator::new(trace.byte_order, names);
        let mut before = Before::new();
        let packet_header = part(&mut instantiator, Root::PacketHeader, trace.packet_header.as_ref(), &mut before)?;
        if let (Some(class), Some(at)) = (&packet_header, &trace.packet_header) {
            check_integers(class, &["magic", "stream_id", "stream_instance_id"], at.position)?;
            check_uuid(class, at.position)?;
        }

        let mut events: BTreeMap<u64, Vec<EventBlock>> = BTreeMap::new();
        let mut streams = self.streams;
        if streams.is_empty() && !self.events.is_empty() {
            // Events without any stream block belong to one that says nothing.
            streams.insert(0, StreamBlock::default());
        }
        for event in self.events {
            let id = match (event.stream_id, streams.len(), streams.keys().next()) {
                (Some(id), ..) => id,
                (None, 1, Some(id)) => *id,
                _ => {
                    let message = "there are several streams, so an `event` block needs `stream_id`";
                    return Err(MetadataError::new(event.position, message));
                }
            };
            if !streams.contains_key(&id) {
                return Err(MetadataError::new(event.position, format!("there is no stream with id {id}")));
            }
            events.entry(id).or_default().push(event);
        }

        let mut classes = BTreeMap::new();
        for (id, block) in streams {
            let mut before = before.clone();
            let packet_context = part(&mut instantiator, Root::PacketContext, block.packet_context.as_ref(), &mut before)?;
            if let (Some(class), Some(at)) = (&packet_context, &block.packet_context) {
                check_integers(class, &PACKET_CONTEXT_COUNTERS, at.position)?;
            }
            let event_header = part(&mut instantiator, Root::EventHeader, block.event_header.as_ref(), &mut before)?;
            let event_context = part(&mut instantiator, Root::StreamEventContext, block.event_context.as_ref(), &mut before)?;
            let mut stream = StreamClass { id, clock: None, packet_context, event_header, event_context, events: BTreeMap::new() };
            let at = [&block.packet_context, &block.event_header].into_iter().flatten().next();
            stream.clock = clock_of(&self.clocks, &stream, at.map_or(Position::START, |at| at.position))?;
            for event in events.remove(&id).unwrap_or_default() {
                let mut before = before.clone();
                let context = part(&mut instantiator, Root::EventContext, event.context.as_ref(), &mut before)?;
                let fields = part(&mut instantiator, Root::EventFields, event.fields.as_ref(), &mut before)?;
                let class =
                    EventClass { id: event.id, name: event.name, stream_id: id, log_level: event.log_level, context, fields };
                if stream.events.insert(class.id, Arc::new(class)).is_some() {
                    let message = format!("there are two events with id {} in stream {id}", event.id);
                    return Err(MetadataError::new(event.position, message));
                }
            }
            classes.insert(id, Arc::new(stream));
        }
        Ok(Metadata {
            trace: TraceClass {
                major: trace.major,
                minor: trace.minor,
                uuid: trace.uuid,
                byte_order: trace.byte_order,
                packet_header,
            },
            env: self.env,
            clocks: self.clocks,
            streams: classes,
            slots: instantiator.slots(),
        })
    }
}

/// Members of the packet context that have a meaning of their own.
const PACKET_CONTEXT_COUNTERS: [&str; 6] =
    ["timestamp_begin", "timestamp_end", "content_size", "packet_size", "packet_seq_num", "events_discarded"];

/// A block of plain attributes.
fn plain<'a>(block: &'a At<Vec<Statement>>, of: &str) -> Checked<Vec<&'a Assignment>> {
    let entries = entries(block, &mut Scopes::new())?;
    match entries.types.first() {
        Some((name, _)) => unknown_part(name, of),
        None => Ok(entries.values),
    }
}

fn part(
    instantiator: &mut Instantiator,
    root: Root,
    of: Option<&At<Rc<Type>>>,
    before: &mut Before,
) -> Checked<Option<Arc<StructClass>>> {
    let Some(of) = of else {
        return Ok(None);
    };
    let class = instantiator.root(root, of, before)?;
    before.push((root, Arc::clone(&class)));
    Ok(Some(class))
}

/// The one clock that a stream's packet context and event header are mapped to.
fn clock_of(clocks: &[Arc<ClockClass>], stream: &StreamClass, at: Position) -> Checked<Option<Arc<ClockClass>>> {
    let mut names = Vec::new();
    for class in [&stream.packet_context, &stream.event_header].into_iter().flatten() {
        for member in &class.members {
            clock_names(&member.class, &mut names);
        }
    }
    names.sort();
    names.dedup();
    match names.as_slice() {
        [] => Ok(None),
        [name] => Ok(clocks.iter().find(|clock| clock.name == **name).cloned()),
        _ => {
            let message = format!("stream {} is mapped to more than one clock, which is not supported", stream.id);
            Err(MetadataError::new(at, message))
        }
    }
}

fn clock_names(class: &FieldClass, names: &mut Vec<Arc<str>>) {
    match class {
        FieldClass::Struct(class) => class.members.iter().for_each(|member| clock_names(&member.class, names)),
        FieldClass::Variant(class) => class.options.iter().for_each(|option| clock_names(&option.class, names)),
        FieldClass::Array(class) => clock_names(&class.element, names),
        FieldClass::String | FieldClass::Float(_) => {}
        FieldClass::Integer(_) | FieldClass::Enum(_) => {
            names.extend(class.as_integer().and_then(|integer| integer.clock.clone()));
        }
    }
}

fn check_integers(class: &StructClass, names: &[&str], at: Position) -> Checked<()> {
    for name in names {
        if class.member(name).is_some_and(|class| class.as_integer().is_none_or(|integer| integer.signed)) {
            return Err(MetadataError::new(at, format!("`{name}` must be an unsigned integer")));
        }
    }
    Ok(())
}

fn check_uuid(class: &StructClass, at: Position) -> Checked<()> {
    let good = match class.member("uuid") {
        None => true,
        Some(FieldClass::Array(array)) => {
            array.fixed_length() == Some(16)
                && matches!(&*array.element, FieldClass::Integer(integer)
                    if integer.size == 8 && !integer.signed && integer.encoding == Encoding::None)
        }
        Some(_) => false,
    };
    if good {
        return Ok(());
    }
    Err(MetadataError::new(at, "the packet header's `uuid` must be an array of 16 unsigned integers of 8 bits"))
}
