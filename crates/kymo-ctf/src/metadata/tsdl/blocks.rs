//! The blocks of a metadata text: `trace`, `env`, `clock`, `stream`, `event`.
//!
//! Blocks are first read in the order of the text, in which type names become known; then the field
//! classes are built in the order of a packet, in which fields become known.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Assignment, At, Expression, Item, Statement, TypeSpec};
use super::attributes;
use super::instantiate::Instantiator;
use super::parser;
use super::types::{Scopes, Type};
use crate::class::attribute::{AttributeValue, Attributes, BABELTRACE, EMF_URI};
use crate::class::{ByteOrder, Role, Scope, StructClass};
use crate::error::{MetadataError, Position};
use crate::metadata::clock::ClockClass;
use crate::metadata::draft::{Draft, DraftEvent, DraftStream};
use crate::metadata::roles::{self, WrongMember};
use crate::metadata::{EnvValue, Metadata, TraceClass};

type Checked<T> = Result<T, MetadataError>;
type Part = Option<At<Rc<Type>>>;

/// Reads a metadata text.
pub(crate) fn read(text: &str) -> Checked<Metadata> {
    let mut blocks = Blocks::default();
    let mut scopes = Scopes::new();
    for item in parser::parse(text)? {
        match item {
            Item::Declaration(declaration) => scopes.declare(&declaration)?,
            Item::Callsite => {}
            Item::Trace(block) => blocks.trace(&block, &mut scopes)?,
            Item::Env(block) => blocks.env(&block, &mut scopes)?,
            Item::Clock(block) => blocks.clock(&block, &mut scopes)?,
            Item::Stream(block) => blocks.stream(&block, &mut scopes)?,
            Item::Event(block) => blocks.event(&block, &mut scopes)?,
        }
    }
    let draft = blocks.finish(scopes.clocks())?;
    // Fields that are read are looked up more exactly.
    let metadata = draft.link()?;
    scopes.check_paths()?;
    Ok(metadata)
}

#[derive(Default)]
struct Blocks {
    trace: Option<TraceBlock>,
    env: Vec<(String, EnvValue)>,
    clocks: Vec<Arc<ClockClass>>,
    streams: BTreeMap<u64, StreamBlock>,
    events: Vec<EventBlock>,
    warnings: Vec<MetadataError>,
}

struct TraceBlock {
    uuid: Option<[u8; 16]>,
    byte_order: ByteOrder,
    packet_header: Part,
}

#[derive(Default)]
struct StreamBlock {
    position: Position,
    packet_context: Part,
    event_header: Part,
    event_context: Part,
}

struct EventBlock {
    position: Position,
    id: u64,
    id_at: Position,
    name: Arc<str>,
    stream_id: Option<At<u64>>,
    log_level: Option<i64>,
    emf_uri: Option<String>,
    context: Part,
    fields: Part,
}

/// The entries of a block other than its declarations, which are put into its scope.
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
    Ok(At {
        position: of.position,
        value: scopes.resolve(of)?,
    })
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
            return Err(MetadataError::new(
                block.position,
                "there are two `trace` blocks",
            ));
        }
        let entries = entries(block, scopes)?;
        let (mut major, mut minor, mut uuid, mut byte_order) = (None, None, None, None);
        for attribute in entries.values {
            match attribute.name.value.as_str() {
                "major" => {
                    major = Some((attributes::unsigned(attribute)?, attribute.value.position))
                }
                "minor" => {
                    minor = Some((attributes::unsigned(attribute)?, attribute.value.position))
                }
                "uuid" => uuid = Some(attributes::uuid(attribute)?),
                "byte_order" => {
                    byte_order = Some(attributes::byte_order_of_trace(attribute)?);
                }
                "packet.header" => return attributes::no_type(attribute),
                _ => self.warnings.push(attributes::ignored(attribute, OF)),
            }
        }
        let mut packet_header = None;
        for (name, of) in entries.types {
            match name.value.as_str() {
                "packet.header" => packet_header = Some(of),
                _ => return unknown_part(name, OF),
            }
        }
        let (wanted_major, wanted_minor) = (1, 8);
        for (version, wanted, name) in [
            (major, wanted_major, "major"),
            (minor, wanted_minor, "minor"),
        ] {
            match version {
                None => return missing(block, name, OF),
                Some((version, _)) if version == wanted => {}
                Some((version, position)) => {
                    let message =
                        format!("`{name}` is {version}; only version 1.8 of CTF is supported");
                    return Err(MetadataError::new(position, message));
                }
            }
        }
        let Some(byte_order) = byte_order else {
            return missing(block, "byte_order", OF);
        };
        self.trace = Some(TraceBlock {
            uuid,
            byte_order,
            packet_header,
        });
        Ok(())
    }

    fn env(&mut self, block: &At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<()> {
        for attribute in plain(block, "an `env` block", scopes)? {
            let value = match &attribute.value.value {
                Expression::Text(text) => EnvValue::Text(text.clone()),
                Expression::Number(number) => EnvValue::Integer(*number),
                Expression::Path(path) => {
                    let message = format!(
                        "`{}` is neither a string nor an integer",
                        attributes::dotted(path)
                    );
                    return Err(MetadataError::new(attribute.value.position, message));
                }
            };
            self.env.push((attribute.name.value.clone(), value));
        }
        Ok(())
    }

    fn clock(&mut self, block: &At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<()> {
        const OF: &str = "a `clock` block";
        let mut clock = ClockClass::new(String::new());
        let (mut offset, mut named) = (0, block.position);
        for attribute in plain(block, OF, scopes)? {
            match attribute.name.value.as_str() {
                "name" => {
                    (clock.name, named) = (attributes::name(attribute)?, attribute.value.position)
                }
                "uuid" => clock.uuid = Some(attributes::uuid(attribute)?),
                "description" => clock.description = Some(attributes::text(attribute)?),
                "freq" => clock.frequency = attributes::unsigned(attribute)?,
                "precision" => clock.precision = attributes::unsigned(attribute)?,
                "offset_s" => clock.offset_s = attributes::signed(attribute)?,
                "offset" => offset = attributes::number(attribute)?,
                "absolute" => clock.absolute = attributes::boolean(attribute)?,
                _ => self.warnings.push(attributes::ignored(attribute, OF)),
            }
            if clock.frequency == 0 {
                let message = "a clock cannot have a frequency of 0";
                return Err(MetadataError::new(attribute.value.position, message));
            }
        }
        clock.set_offset(offset);
        clock.id = clock.name.clone();
        if clock.name.is_empty() {
            return missing(block, "name", OF);
        }
        if self.clocks.iter().any(|other| other.name == clock.name) {
            let message = format!("there are two clocks `{}`", clock.name);
            return Err(MetadataError::new(named, message));
        }
        self.clocks.push(Arc::new(clock));
        Ok(())
    }

    fn stream(&mut self, block: &At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<()> {
        const OF: &str = "a `stream` block";
        let entries = entries(block, scopes)?;
        let (mut id, mut id_at) = (0, block.position);
        for attribute in entries.values {
            match attribute.name.value.as_str() {
                "id" => (id, id_at) = (attributes::unsigned(attribute)?, attribute.value.position),
                "packet.context" | "event.header" | "event.context" => {
                    return attributes::no_type(attribute);
                }
                _ => self.warnings.push(attributes::ignored(attribute, OF)),
            }
        }
        let mut stream = StreamBlock {
            position: block.position,
            ..StreamBlock::default()
        };
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
            return Err(MetadataError::new(id_at, message));
        }
        Ok(())
    }

    fn event(&mut self, block: &At<Vec<Statement>>, scopes: &mut Scopes) -> Checked<()> {
        const OF: &str = "an `event` block";
        let entries = entries(block, scopes)?;
        let mut event = EventBlock {
            position: block.position,
            id: 0,
            id_at: block.position,
            name: Arc::from(""),
            stream_id: None,
            log_level: None,
            emf_uri: None,
            context: None,
            fields: None,
        };
        for attribute in entries.values {
            match attribute.name.value.as_str() {
                "id" => {
                    (event.id, event.id_at) =
                        (attributes::unsigned(attribute)?, attribute.value.position)
                }
                "name" => event.name = attributes::name(attribute)?.into(),
                "stream_id" => {
                    let value = attributes::unsigned(attribute)?;
                    event.stream_id = Some(At {
                        position: attribute.value.position,
                        value,
                    });
                }
                "loglevel" => event.log_level = Some(attributes::signed(attribute)?),
                // A link to a model of the event, which does not affect the layout.
                "model.emf.uri" => event.emf_uri = Some(attributes::text(attribute)?),
                "context" | "fields" => return attributes::no_type(attribute),
                _ => self.warnings.push(attributes::ignored(attribute, OF)),
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

    fn finish(mut self, mapped: &[At<Arc<str>>]) -> Checked<Draft> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let Some(trace) = self.trace else {
            return Err(MetadataError::new(
                Position::START,
                "there is no `trace` block",
            ));
        };
        // Clocks of unused types are checked, too.
        if let Some(clock) = mapped
            .iter()
            .find(|clock| !self.clocks.iter().any(|have| *have.name == *clock.value))
        {
            return Err(MetadataError::new(
                clock.position,
                format!("there is no clock `{}`", clock.value),
            ));
        }
        let mut instantiator = Instantiator::new(trace.byte_order, &self.env);
        let packet_header = part(
            &mut instantiator,
            Scope::PacketHeader,
            trace.packet_header.as_ref(),
        )?;
        let packet_header = with_roles(
            Scope::PacketHeader,
            packet_header,
            None,
            trace.packet_header.as_ref(),
            &mut warnings,
        )?;

        let mut events: BTreeMap<u64, Vec<EventBlock>> = BTreeMap::new();
        let mut streams = self.streams;
        if streams.is_empty() && !self.events.is_empty() {
            // Events without any stream block belong to a default one.
            streams.insert(0, StreamBlock::default());
        }
        for event in self.events {
            let id = match (&event.stream_id, streams.len(), streams.keys().next()) {
                (Some(id), ..) => id.value,
                (None, 1, Some(id)) => *id,
                _ => {
                    let message =
                        "there are several streams, so an `event` block needs `stream_id`";
                    return Err(MetadataError::new(event.position, message));
                }
            };
            if !streams.contains_key(&id) {
                let at = event.stream_id.map_or(event.position, |id| id.position);
                return Err(MetadataError::new(
                    at,
                    format!("there is no stream with id {id}"),
                ));
            }
            events.entry(id).or_default().push(event);
        }

        let mut drafts = Vec::new();
        for (id, block) in streams {
            let packet_context = part(
                &mut instantiator,
                Scope::PacketContext,
                block.packet_context.as_ref(),
            )?;
            let mut event_header = part(
                &mut instantiator,
                Scope::EventHeader,
                block.event_header.as_ref(),
            )?;
            let event_context = part(
                &mut instantiator,
                Scope::EventCommonContext,
                block.event_context.as_ref(),
            )?;
            let clock = roles::default_clock(packet_context.as_ref(), event_header.as_ref());
            let clock = clock.and_then(|name| {
                self.clocks
                    .iter()
                    .find(|clock| clock.name == *name)
                    .cloned()
            });
            let clock = match (clock, &mut event_header) {
                (None, Some(header)) if self.clocks.is_empty() => {
                    roles::clockless_timestamp(header)
                }
                (clock, _) => clock,
            };
            let name = clock.as_ref().map(|clock| clock.name.as_str());
            let mut stream = DraftStream {
                position: block.position,
                id,
                packet_context: with_roles(
                    Scope::PacketContext,
                    packet_context,
                    name,
                    block.packet_context.as_ref(),
                    &mut warnings,
                )?,
                event_header: with_roles(
                    Scope::EventHeader,
                    event_header,
                    name,
                    block.event_header.as_ref(),
                    &mut warnings,
                )?,
                clock,
                event_context,
                ..DraftStream::default()
            };
            for event in events.remove(&id).unwrap_or_default() {
                stream.events.push(DraftEvent {
                    position: event.id_at,
                    id: event.id,
                    name: event.name,
                    namespace: None,
                    uid: None,
                    log_level: event.log_level,
                    context: part(
                        &mut instantiator,
                        Scope::EventContext,
                        event.context.as_ref(),
                    )?,
                    fields: part(&mut instantiator, Scope::EventFields, event.fields.as_ref())?,
                    attributes: emf(event.emf_uri),
                });
            }
            drafts.push(stream);
        }
        warnings.extend(not_told_apart(packet_header.as_ref(), &drafts));
        let mut clocks = self.clocks;
        if clocks.is_empty() {
            clocks.extend(drafts.iter().find_map(|stream| stream.clock.clone()));
        }
        Ok(Draft {
            trace: TraceClass {
                major: 1,
                minor: 8,
                uuid: trace.uuid,
                byte_order: trace.byte_order,
                name: None,
                namespace: None,
                uid: None,
                attributes: Attributes::default(),
                packet_header: None,
            },
            packet_header,
            env: self.env,
            clocks,
            streams: drafts,
            warnings,
        })
    }
}

/// Checks that packets name their stream if there are several (CTF 1.8.3, section 5), and likewise
/// events their class.
fn not_told_apart(
    packet_header: Option<&StructClass>,
    streams: &[DraftStream],
) -> Vec<MetadataError> {
    let says = |role, header: Option<&StructClass>| {
        header.is_some_and(|header| roles::is_given(role, header))
    };
    let mut warnings = Vec::new();
    if let [first, second, ..] = streams
        && !says(Role::StreamClassId, packet_header)
    {
        let message = "there are several streams, and no `stream_id` in the packet header to tell their packets apart";
        warnings.push(MetadataError::new(
            first.position.max(second.position),
            message,
        ));
    }
    for stream in streams {
        if let [_, second, ..] = stream.events.as_slice()
            && !says(Role::EventClassId, stream.event_header.as_ref())
        {
            let id = stream.id;
            let message = format!(
                "stream {id} has several events, and no `id` in its event header to tell them apart"
            );
            warnings.push(MetadataError::new(second.position, message));
        }
    }
    warnings
}

/// The link to a model, as the attribute that CTF 2 would use.
fn emf(uri: Option<String>) -> Attributes {
    let of = |uri| {
        vec![(
            BABELTRACE.to_owned(),
            AttributeValue::Map(vec![(EMF_URI.to_owned(), AttributeValue::Text(uri))]),
        )]
    };
    Attributes(uri.map(|uri| Arc::new(of(uri))))
}

/// Assigns roles to the members; errors and warnings have the position of the member that cannot
/// have its role.
fn with_roles(
    scope: Scope,
    class: Option<StructClass>,
    clock: Option<&str>,
    of: Option<&At<Rc<Type>>>,
    warnings: &mut Vec<MetadataError>,
) -> Checked<Option<StructClass>> {
    let Some(mut class) = class else {
        return Ok(None);
    };
    let at = |wrong: WrongMember| {
        let position = of.and_then(|of| of.value.member_position(wrong.name).or(Some(of.position)));
        MetadataError::new(position.unwrap_or(Position::START), wrong.message)
    };
    let mut ordinary = Vec::new();
    roles::assign(scope, &mut class, clock, &mut ordinary).map_err(at)?;
    warnings.extend(ordinary.into_iter().map(at));
    Ok(Some(class))
}

/// A block of plain attributes.
fn plain<'a>(
    block: &'a At<Vec<Statement>>,
    of: &str,
    scopes: &mut Scopes,
) -> Checked<Vec<&'a Assignment>> {
    let entries = entries(block, scopes)?;
    match entries.types.first() {
        Some((name, _)) => unknown_part(name, of),
        None => Ok(entries.values),
    }
}

fn part(
    instantiator: &mut Instantiator,
    scope: Scope,
    of: Option<&At<Rc<Type>>>,
) -> Checked<Option<StructClass>> {
    of.map(|of| instantiator.scope(scope, of)).transpose()
}
