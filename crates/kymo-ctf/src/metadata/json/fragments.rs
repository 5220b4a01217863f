//! The fragments of a metadata stream, read in order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Checked;
use super::classes::Classes;
use super::object::{Object, integer, list, map, text, unsigned, wrong};
use super::roles;
use super::syntax::{Json, Node, Sequence};
use crate::class::attribute::{AttributeValue, Attributes, BABELTRACE};
use crate::class::{ByteOrder, FieldClass, Scope, StructClass};
use crate::error::{MetadataError, Position};
use crate::metadata::clock::{ClockClass, ClockOrigin};
use crate::metadata::draft::{Draft, DraftEvent, DraftStream};
use crate::metadata::{EnvValue, Metadata, TraceClass};

/// Reads a metadata text of CTF 2.
pub(crate) fn read(text: &str) -> Checked<Metadata> {
    let mut fragments = Fragments::default();
    let mut sequence = Sequence::new(text);
    while let Some(node) = sequence.next()? {
        fragments.fragment(&node)?;
    }
    fragments.finish()?.link()
}

#[derive(Debug, Default)]
struct Fragments {
    preamble: Option<Preamble>,
    trace: Option<Trace>,
    classes: Classes,
    /// Clock classes in the order of the text, and by their ids.
    clocks: Vec<Arc<ClockClass>>,
    clock_ids: HashMap<String, usize>,
    /// Properties of clocks so far, by namespace, name and unique id.
    identities: HashMap<(Option<String>, String, String), Said>,
    /// Data stream classes in the order of the text, and by their ids.
    streams: Vec<DraftStream>,
    stream_ids: HashMap<u64, usize>,
    /// Stream class and id of every event record class.
    event_ids: HashSet<(usize, u64)>,
}

#[derive(Debug, Default)]
struct Preamble {
    uuid: Option<[u8; 16]>,
}

/// Properties that must agree between clock classes of the same clock, as far as they are given.
#[derive(Debug)]
struct Said {
    frequency: u64,
    precision: Option<u64>,
    accuracy: Option<u64>,
    /// `Some(None)` is the Unix epoch.
    origin: Option<Option<ClockOrigin>>,
}

impl Said {
    /// The first property in which the two differ.
    fn differs(&self, other: &Said) -> Option<&'static str> {
        fn differ<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
            matches!((a, b), (Some(a), Some(b)) if a != b)
        }
        let properties = [
            ("frequency", self.frequency != other.frequency),
            (
                "precision",
                differ(self.precision.as_ref(), other.precision.as_ref()),
            ),
            (
                "accuracy",
                differ(self.accuracy.as_ref(), other.accuracy.as_ref()),
            ),
            (
                "origin",
                differ(self.origin.as_ref(), other.origin.as_ref()),
            ),
        ];
        properties
            .into_iter()
            .find(|(_, differ)| *differ)
            .map(|(property, _)| property)
    }
}

#[derive(Debug)]
struct Trace {
    class: TraceClass,
    packet_header: Option<StructClass>,
    env: Vec<(String, EnvValue)>,
}

/// Properties of data stream classes.
const OF_DATA_STREAM_CLASSES: [&str; 10] = [
    "type",
    "id",
    "namespace",
    "name",
    "uid",
    "default-clock-class-id",
    // Of drafts.
    "default-clock-class-name",
    "packet-context-field-class",
    "event-record-header-field-class",
    "event-record-common-context-field-class",
];

/// Properties of event record classes.
const OF_EVENT_RECORD_CLASSES: [&str; 8] = [
    "type",
    "id",
    "data-stream-class-id",
    "namespace",
    "name",
    "uid",
    "specific-context-field-class",
    "payload-field-class",
];

impl Fragments {
    fn fragment(&mut self, node: &Node) -> Checked<()> {
        let object = Object::new(node, "a fragment")?;
        let kind = object.need_text("type")?;
        match (kind, self.preamble.is_some()) {
            ("preamble", false) => self.preamble(object.named("the preamble")),
            ("preamble", true) => wrong(node, "there are two fragments of type `preamble`"),
            (_, false) => wrong(node, "the first fragment must be of type `preamble`"),
            ("field-class-alias", true) => self.alias(object.named("a field class alias")),
            ("trace-class", true) => self.trace_class(object.named("the trace class")),
            ("clock-class", true) => self.clock_class(object.named("a clock class")),
            ("data-stream-class", true) => {
                self.data_stream_class(object.named("a data stream class"))
            }
            ("event-record-class", true) => {
                self.event_record_class(object.named("an event record class"))
            }
            _ => wrong(
                object.need("type")?,
                format!("`{kind}` is no type of fragment"),
            ),
        }
    }

    fn preamble(&mut self, object: Object) -> Checked<()> {
        let version = object.need("version")?;
        let found = integer(version, "`version`", i128::MIN..=i128::MAX)?;
        if found != 2 {
            return wrong(
                version,
                format!(
                    "`version` is {found}, but a JSON text sequence is the metadata of version 2 \
                     of CTF"
                ),
            );
        }
        let object = object
            .extensions("declared, and unknown to this reader")?
            .known(&["type", "version", "uuid"])?;
        let uuid = object.get("uuid").map(uuid).transpose()?;
        object.attributes()?;
        self.preamble = Some(Preamble { uuid });
        Ok(())
    }

    fn alias(&mut self, object: Object) -> Checked<()> {
        let object = object.known(&["type", "name", "field-class"])?;
        object.attributes()?;
        let name = object.need_text("name")?;
        let made = self.classes.make(object.need("field-class")?)?;
        self.classes.alias(object.need("name")?, name, made)
    }

    fn trace_class(&mut self, object: Object) -> Checked<()> {
        let refused = if self.trace.is_some() {
            Some("there are two fragments of type `trace-class`")
        } else if !self.streams.is_empty() {
            Some(
                "a fragment of type `trace-class` must come before those of type \
                 `data-stream-class`",
            )
        } else {
            None
        };
        if let Some(message) = refused {
            return Err(MetadataError::new(object.at, message));
        }
        let known = [
            "type",
            "namespace",
            "name",
            "uid",
            "environment",
            "packet-header-field-class",
            // Of drafts.
            "uuid",
        ];
        let object = object.known(&known)?;
        if let Some(node) = object.get("uuid") {
            let uuid = uuid(node)?;
            let preamble = self.preamble.get_or_insert(Preamble { uuid: None });
            preamble.uuid.get_or_insert(uuid);
        }
        let class = TraceClass {
            name: object.text("name")?,
            namespace: object.text("namespace")?,
            uid: object.text("uid")?,
            attributes: object.attributes()?,
            ..self.bare_trace()
        };
        let env = object
            .get("environment")
            .map(environment)
            .transpose()?
            .unwrap_or_default();
        let packet_header = self.scope(
            &object,
            "packet-header-field-class",
            Scope::PacketHeader,
            false,
        )?;
        self.trace = Some(Trace {
            class,
            packet_header,
            env,
        });
        Ok(())
    }

    /// The trace class with default properties.
    fn bare_trace(&self) -> TraceClass {
        TraceClass {
            major: 2,
            minor: 0,
            uuid: self.preamble.as_ref().and_then(|preamble| preamble.uuid),
            byte_order: ByteOrder::Little,
            name: None,
            namespace: None,
            uid: None,
            attributes: Attributes::default(),
            packet_header: None,
        }
    }

    /// Builds a part of a packet or event record, if the fragment has it.
    fn scope(
        &mut self,
        object: &Object,
        name: &str,
        of: Scope,
        has_clock: bool,
    ) -> Checked<Option<StructClass>> {
        let Some(node) = object.get(name) else {
            return Ok(None);
        };
        let made = self.classes.make(node)?;
        let FieldClass::Struct(class) = made.class else {
            return wrong(node, format!("`{name}` must be a structure"));
        };
        let has_uuid = self
            .preamble
            .as_ref()
            .is_some_and(|preamble| preamble.uuid.is_some());
        roles::check(&class, &made.roles, of, has_clock, has_uuid)?;
        Ok(Some(class))
    }

    fn clock_class(&mut self, object: Object) -> Checked<()> {
        let known = [
            "type",
            "id",
            "namespace",
            "name",
            "uid",
            "frequency",
            "origin",
            "offset-from-origin",
            "precision",
            "accuracy",
            "description",
            // Of drafts.
            "offset",
            "origin-is-unix-epoch",
            "uuid",
        ];
        let object = object.known(&known)?;
        let is_draft = object.get("id").is_none() && object.get("name").is_some();
        let id = object.need_text(if is_draft { "name" } else { "id" })?;
        if self
            .clock_ids
            .insert(id.to_owned(), self.clocks.len())
            .is_some()
        {
            return wrong(
                object.need(if is_draft { "name" } else { "id" })?,
                format!("there are two clock classes with id `{id}`"),
            );
        }
        let mut clock = ClockClass {
            id: id.to_owned(),
            namespace: object.text("namespace")?,
            uid: object.text("uid")?,
            description: object.text("description")?,
            frequency: object.need_unsigned("frequency", 1)?,
            precision: object.unsigned("precision", 0)?.unwrap_or(0),
            accuracy: object.unsigned("accuracy", 0)?,
            attributes: object.attributes()?,
            ..ClockClass::new(object.text("name")?.unwrap_or_else(|| id.to_owned()))
        };
        if let Some(origin) = object.get("origin") {
            clock.origin = clock_origin(origin)?;
            clock.absolute = clock.origin.is_none();
        }
        if is_draft {
            // The Unix epoch was the origin, unless said otherwise.
            let is_epoch = object.get("origin-is-unix-epoch");
            clock.absolute = is_epoch.is_none_or(|node| !matches!(node.value, Json::Bool(false)));
        }
        if let Some(offset) = object.either("offset-from-origin", "offset") {
            let offset =
                Object::new(offset, "`offset-from-origin`")?.only(&["seconds", "cycles"])?;
            if let Some(seconds) = offset.get("seconds") {
                clock.offset_s = i64::try_from(integer(
                    seconds,
                    "`seconds`",
                    i64::MIN.into()..=i64::MAX.into(),
                )?)
                .unwrap_or(0);
            }
            if let Some(node) = offset.get("cycles") {
                clock.offset = unsigned(node, "`cycles`", 0)?;
                if clock.offset >= clock.frequency {
                    let message = format!(
                        "`cycles` is {}, which is not less than the clock's frequency",
                        clock.offset
                    );
                    return wrong(node, message);
                }
            }
        }
        self.same_clock(&object, &clock)?;
        self.clocks.push(Arc::new(clock));
        Ok(())
    }

    /// Checks that clock classes of the same name and unique id, which are the same clock, have the
    /// same properties.
    fn same_clock(&mut self, object: &Object, clock: &ClockClass) -> Checked<()> {
        let (Some(name), Some(uid)) = (object.text("name")?, &clock.uid) else {
            return Ok(());
        };
        let identity = (clock.namespace.clone(), name, uid.clone());
        let said = Said {
            frequency: clock.frequency,
            precision: object.unsigned("precision", 0)?,
            accuracy: clock.accuracy,
            origin: object.get("origin").map(|_| clock.origin.clone()),
        };
        match self.identities.entry(identity) {
            Entry::Vacant(entry) => drop(entry.insert(said)),
            Entry::Occupied(entry) => {
                if let Some(property) = entry.get().differs(&said) {
                    let message = format!(
                        "another clock class of the same name and `uid` has another `{property}`"
                    );
                    return Err(MetadataError::new(object.place(property), message));
                }
            }
        }
        Ok(())
    }

    fn data_stream_class(&mut self, object: Object) -> Checked<()> {
        let object = object.known(&OF_DATA_STREAM_CLASSES)?;
        let id = object.unsigned("id", 0)?.unwrap_or(0);
        if self.stream_ids.insert(id, self.streams.len()).is_some() {
            return Err(MetadataError::new(
                object.place("id"),
                format!("there are two data stream classes with id {id}"),
            ));
        }
        let clock = match object.either("default-clock-class-id", "default-clock-class-name") {
            None => None,
            Some(node) => {
                let id = text(node, "`default-clock-class-id`")?;
                let clock = self
                    .clock_ids
                    .get(id)
                    .and_then(|index| self.clocks.get(*index));
                match clock {
                    Some(clock) => Some(Arc::clone(clock)),
                    None => {
                        return wrong(
                            node,
                            format!(
                                "no clock class with id `{id}` comes before this data stream class"
                            ),
                        );
                    }
                }
            }
        };
        let has_clock = clock.is_some();
        let mut packet_context = self.scope(
            &object,
            "packet-context-field-class",
            Scope::PacketContext,
            has_clock,
        )?;
        packet_context.iter_mut().for_each(roles::give_cpu);
        let stream = DraftStream {
            position: object.at,
            id,
            name: object.text("name")?,
            namespace: object.text("namespace")?,
            uid: object.text("uid")?,
            clock,
            packet_context,
            event_header: self.scope(
                &object,
                "event-record-header-field-class",
                Scope::EventHeader,
                has_clock,
            )?,
            event_context: self.scope(
                &object,
                "event-record-common-context-field-class",
                Scope::EventCommonContext,
                false,
            )?,
            events: Vec::new(),
            attributes: object.attributes()?,
        };
        self.streams.push(stream);
        Ok(())
    }

    fn event_record_class(&mut self, object: Object) -> Checked<()> {
        let object = object.known(&OF_EVENT_RECORD_CLASSES)?;
        let stream_id = object.unsigned("data-stream-class-id", 0)?.unwrap_or(0);
        let Some(stream) = self.stream_ids.get(&stream_id).copied() else {
            let message = format!(
                "no data stream class with id {stream_id} comes before this event record class"
            );
            return Err(MetadataError::new(
                object.place("data-stream-class-id"),
                message,
            ));
        };
        let id = object.unsigned("id", 0)?.unwrap_or(0);
        if !self.event_ids.insert((stream, id)) {
            let message = format!(
                "there are two event record classes with id {id} in data stream class {stream_id}"
            );
            return Err(MetadataError::new(object.place("id"), message));
        }
        let attributes = object.attributes()?;
        let event = DraftEvent {
            position: object.at,
            id,
            name: object.text("name")?.unwrap_or_default().into(),
            namespace: object.text("namespace")?,
            uid: object.text("uid")?,
            log_level: log_level(&attributes),
            context: self.scope(
                &object,
                "specific-context-field-class",
                Scope::EventContext,
                false,
            )?,
            fields: self.scope(&object, "payload-field-class", Scope::EventFields, false)?,
            attributes,
        };
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.events.push(event);
        }
        Ok(())
    }

    fn finish(self) -> Checked<Draft> {
        let missing = match (&self.preamble, self.streams.is_empty()) {
            (None, _) => Some("there is no fragment; the first must be of type `preamble`"),
            (_, true) => Some(
                "there is no fragment of type `data-stream-class`, of which one at least is needed",
            ),
            _ => None,
        };
        if let Some(message) = missing {
            return Err(MetadataError::new(Position::START, message));
        }
        let bare = self.bare_trace();
        let trace = self.trace.unwrap_or(Trace {
            class: bare,
            packet_header: None,
            env: Vec::new(),
        });
        Ok(Draft {
            trace: trace.class,
            packet_header: trace.packet_header,
            env: trace.env,
            clocks: self.clocks,
            streams: self.streams,
            warnings: Vec::new(),
        })
    }
}

/// The log levels of CTF 1.8, by number.
pub(crate) const LOG_LEVELS: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug:system",
    "debug:program",
    "debug:process",
    "debug:module",
    "debug:unit",
    "debug:function",
    "debug:line",
    "debug",
];

/// The log level in the attributes of LTTng or babeltrace2.
pub(crate) fn log_level(attributes: &Attributes) -> Option<i64> {
    let of = ["lttng.org,2009", BABELTRACE]
        .into_iter()
        .find_map(|namespace| attributes.get(namespace))?;
    let AttributeValue::Map(properties) = of else {
        return None;
    };
    let (_, AttributeValue::Text(word)) =
        properties.iter().find(|(name, _)| name == "log-level")?
    else {
        return None;
    };
    LOG_LEVELS
        .iter()
        .zip(0..)
        .find(|(level, _)| *level == word)
        .map(|(_, number)| number)
}

fn uuid(node: &Node) -> Checked<[u8; 16]> {
    const WHAT: &str = "`uuid`";
    let elements = list(node, WHAT)?;
    let bytes = elements.iter().map(|element| {
        let byte = integer(element, "a byte of `uuid`", 0..=255)?;
        Ok(u8::try_from(byte).unwrap_or(0))
    });
    let bytes: Vec<u8> = bytes.collect::<Checked<_>>()?;
    match <[u8; 16]>::try_from(bytes) {
        Ok(uuid) => Ok(uuid),
        Err(bytes) => wrong(
            node,
            format!("{WHAT} has {} bytes; it must have 16", bytes.len()),
        ),
    }
}

fn environment(node: &Node) -> Checked<Vec<(String, EnvValue)>> {
    let entries = map(node, "`environment`")?.iter();
    let entries = entries.map(|(name, node)| match &node.value {
        Json::Text(text) => Ok((name.text.clone(), EnvValue::Text(text.clone()))),
        Json::Integer(value) => Ok((name.text.clone(), EnvValue::Integer(*value))),
        Json::Wide(value) => Ok((name.text.clone(), EnvValue::Wide(value.clone()))),
        _ => {
            let message = format!(
                "`{}` of the `environment` must be a string or an integer, not {}",
                name.text,
                node.kind()
            );
            wrong(node, message)
        }
    });
    entries.collect()
}

/// Reads a clock's origin; `None` is the Unix epoch.
fn clock_origin(node: &Node) -> Checked<Option<ClockOrigin>> {
    match &node.value {
        Json::Text(word) if word == "unix-epoch" => Ok(None),
        Json::Text(word) => wrong(
            node,
            format!("`origin` is `{word}`; it can be `unix-epoch` or an object"),
        ),
        _ => {
            let origin =
                Object::new(node, "a clock's `origin`")?.only(&["namespace", "name", "uid"])?;
            Ok(Some(ClockOrigin {
                namespace: origin.text("namespace")?,
                name: origin.need_text("name")?.to_owned(),
                uid: origin.need_text("uid")?.to_owned(),
            }))
        }
    }
}
