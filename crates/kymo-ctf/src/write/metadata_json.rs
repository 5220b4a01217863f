//! Prints metadata as a JSON text sequence of CTF 2.

use std::fmt::Write as _;
use std::sync::Arc;

use super::lower::possible;
use crate::class::attribute::{AttributeValue as Json, Attributes, BABELTRACE};
use crate::class::{
    Base, BitOrder, ByteOrder, FieldClass, FieldLocation, IntRange, IntegerClass, Length, Mapping,
    Member, Origin, Role, Roles, StringLength, StructClass, TextEncoding, WideClass, WideKind,
};
use crate::metadata::clock::ClockClass;
use crate::metadata::json::{ENCODINGS, LOG_LEVELS, OF_BLOBS, OF_INTEGERS, log_level};
use crate::metadata::{EnvValue, EventClass, Metadata, StreamClass};

/// The metadata text.
pub(super) fn text(metadata: &Metadata) -> String {
    let mut out = String::new();
    let mut fragment = |object: Object| {
        out.push('\u{1e}');
        print(&Json::Map(object.0), &mut out);
        out.push('\n');
    };
    fragment(preamble(metadata));
    fragment(trace(metadata));
    metadata
        .clocks()
        .iter()
        .for_each(|clock| fragment(clock_class(clock)));
    for stream in metadata.streams() {
        fragment(stream_class(stream));
        stream
            .events
            .values()
            .for_each(|event| fragment(event_class(event)));
    }
    out
}

/// A JSON object under construction.
#[derive(Debug, Default)]
struct Object(Vec<(String, Json)>);

impl Object {
    fn of(kind: &str) -> Object {
        Object::default().with("type", kind)
    }

    fn with(mut self, name: &str, value: impl Into<Json>) -> Object {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    fn maybe(self, name: &str, value: Option<impl Into<Json>>) -> Object {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn attributes(self, attributes: &Attributes) -> Object {
        let all: Vec<(String, Json)> = attributes
            .iter()
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        self.maybe("attributes", (!all.is_empty()).then_some(Json::Map(all)))
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Json {
        Json::Map(object.0)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Json {
        Json::Integer(number.into())
    }
}

impl From<Vec<Json>> for Json {
    fn from(list: Vec<Json>) -> Json {
        Json::List(list)
    }
}

fn preamble(metadata: &Metadata) -> Object {
    let uuid = metadata.trace.uuid.map(|uuid| {
        uuid.iter()
            .map(|byte| Json::from(u64::from(*byte)))
            .collect::<Vec<_>>()
    });
    Object::of("preamble")
        .with("version", 2)
        .maybe("uuid", uuid)
}

fn trace(metadata: &Metadata) -> Object {
    let trace = metadata.trace();
    let env = metadata.env().iter().map(|(name, value)| {
        let value = match value {
            EnvValue::Text(text) => Json::Text(text.clone()),
            EnvValue::Integer(number) => Json::Integer(*number),
            EnvValue::Wide(number) => Json::Wide(number.clone()),
        };
        (name.clone(), value)
    });
    let env: Vec<(String, Json)> = env.collect();
    Object::of("trace-class")
        .maybe("namespace", trace.namespace.as_deref())
        .maybe("name", trace.name.as_deref())
        .maybe("uid", trace.uid.as_deref())
        .maybe("environment", (!env.is_empty()).then_some(Json::Map(env)))
        .maybe(
            "packet-header-field-class",
            trace.packet_header.as_deref().map(structure),
        )
        .attributes(&trace.attributes)
}

fn clock_class(clock: &ClockClass) -> Object {
    let origin = match &clock.origin {
        Some(origin) => Some(Json::from(
            Object::default()
                .maybe("namespace", origin.namespace.as_deref())
                .with("name", origin.name.as_str())
                .with("uid", origin.uid.as_str()),
        )),
        None => clock.absolute.then(|| Json::from("unix-epoch")),
    };
    let offset = Object::default()
        .with("seconds", Json::Integer(clock.offset_s.into()))
        .with("cycles", clock.offset);
    Object::of("clock-class")
        .with("id", clock.id.as_str())
        .maybe("namespace", clock.namespace.as_deref())
        .with("name", clock.name.as_str())
        .maybe("uid", clock.uid.as_deref())
        .with("frequency", clock.frequency)
        .maybe("origin", origin)
        .with("offset-from-origin", offset)
        .maybe(
            "precision",
            (clock.precision > 0).then_some(clock.precision),
        )
        .maybe("accuracy", clock.accuracy)
        .maybe("description", clock.description.as_deref())
        .attributes(&clock.attributes)
}

fn stream_class(stream: &StreamClass) -> Object {
    Object::of("data-stream-class")
        .with("id", stream.id)
        .maybe("namespace", stream.namespace.as_deref())
        .maybe("name", stream.name.as_deref())
        .maybe("uid", stream.uid.as_deref())
        .maybe(
            "default-clock-class-id",
            stream.clock.as_ref().map(|clock| clock.id.as_str()),
        )
        .maybe(
            "packet-context-field-class",
            stream.packet_context.as_deref().map(structure),
        )
        .maybe(
            "event-record-header-field-class",
            stream.event_header.as_deref().map(structure),
        )
        .maybe(
            "event-record-common-context-field-class",
            stream.event_context.as_deref().map(structure),
        )
        .attributes(&stream.attributes)
}

fn event_class(event: &EventClass) -> Object {
    Object::of("event-record-class")
        .with("id", event.id)
        .with("data-stream-class-id", event.stream_id)
        .maybe("namespace", event.namespace.as_deref())
        .maybe("name", (!event.name.is_empty()).then_some(&*event.name))
        .maybe("uid", event.uid.as_deref())
        .maybe(
            "specific-context-field-class",
            event.context.as_deref().map(structure),
        )
        .maybe(
            "payload-field-class",
            event.fields.as_deref().map(structure),
        )
        .attributes(&with_log_level(event))
}

/// The log level is an attribute in CTF 2, under babeltrace2's name.
fn with_log_level(event: &EventClass) -> Attributes {
    if log_level(&event.attributes) == event.log_level {
        return event.attributes.clone();
    }
    let word = LOG_LEVELS
        .iter()
        .zip(0..)
        .find(|(_, number)| Some(*number) == event.log_level)
        .map(|(word, _)| *word);
    let Some(word) = word else {
        return event.attributes.clone();
    };
    let mut all: Vec<(String, Json)> = event
        .attributes
        .iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    let entry = ("log-level".to_owned(), Json::from(word));
    match all.iter_mut().find(|(name, _)| name == BABELTRACE) {
        Some((_, Json::Map(more))) => more.push(entry),
        _ => all.push((BABELTRACE.to_owned(), Json::Map(vec![entry]))),
    }
    Attributes(Some(Arc::new(all)))
}

fn structure(class: &StructClass) -> Object {
    let members = class
        .members
        .iter()
        .map(|member| named(member).into())
        .collect::<Vec<Json>>();
    let members = (!members.is_empty()).then_some(members);
    Object::of("structure")
        .maybe("member-classes", members)
        .attributes(&class.attributes)
}

fn named(member: &Member) -> Object {
    Object::default()
        .maybe(
            "name",
            (!member.declared_name.is_empty()).then_some(&*member.declared_name),
        )
        .with("field-class", field(&member.class))
        .attributes(&member.attributes)
}

fn field(class: &FieldClass) -> Object {
    match class {
        FieldClass::Integer(class) => whole(class, None),
        FieldClass::Enum(class) => whole(&class.integer, Some(&class.mappings)),
        FieldClass::BitArray(class) => {
            bits("fixed-length-bit-array", class).attributes(&class.attributes)
        }
        FieldClass::Bool(class) => {
            bits("fixed-length-boolean", class).attributes(&class.attributes)
        }
        FieldClass::BitMap(class) => bits("fixed-length-bit-map", &class.integer)
            .with("flags", labelled(&class.flags))
            .attributes(&class.integer.attributes),
        FieldClass::VarInt(class) => {
            let kind = if class.signed {
                "variable-length-signed-integer"
            } else {
                "variable-length-unsigned-integer"
            };
            shown(Object::of(kind), class.base, class.mappings.as_deref())
                .attributes(&class.attributes)
        }
        FieldClass::Wide(class) => wide(class),
        FieldClass::Float(class) => Object::of("fixed-length-floating-point-number")
            .with("length", u64::from(class.size))
            .with("byte-order", "little-endian")
            .with("alignment", 8)
            .attributes(&class.attributes),
        FieldClass::String(class) => {
            let encoding = ENCODINGS
                .iter()
                .find(|(_, encoding)| *encoding == class.encoding);
            let encoding = encoding
                .filter(|(_, encoding)| *encoding != TextEncoding::Utf8)
                .map(|(word, _)| *word);
            let kinds = [
                "null-terminated-string",
                "static-length-string",
                "dynamic-length-string",
            ];
            bytes(kinds, &class.length)
                .maybe("encoding", encoding)
                .attributes(&class.attributes)
        }
        FieldClass::Blob(class) => bytes(
            ["", "static-length-blob", "dynamic-length-blob"],
            &class.length,
        )
        .with("media-type", &*class.media_type)
        .maybe("roles", roles(class.roles))
        .attributes(&class.attributes),
        FieldClass::Struct(class) => structure(class),
        FieldClass::Array(class) => match &class.length {
            Length::Static(length) => Object::of("static-length-array").with("length", *length),
            Length::Dynamic(at) => {
                Object::of("dynamic-length-array").with("length-field-location", location(at))
            }
        }
        .with("element-field-class", field(&class.element))
        .attributes(&class.attributes),
        FieldClass::Variant(class) => {
            let all = class.ranges.as_deref().unwrap_or(&[]);
            let options = class.options.iter().zip(all);
            let options = options.map(|(option, of)| named(option).with(RANGES, ranges(of)).into());
            Object::of("variant")
                .with("selector-field-location", location(&class.selector))
                .with("options", options.collect::<Vec<Json>>())
                .attributes(&class.attributes)
        }
        FieldClass::Optional(class) => Object::of("optional")
            .with("selector-field-location", location(&class.selector))
            .maybe(RANGES, class.ranges.as_deref().map(ranges))
            .with("field-class", field(&class.class))
            .attributes(&class.attributes),
    }
}

const RANGES: &str = "selector-field-ranges";

/// A class of more than 64 bits.
fn wide(class: &WideClass) -> Object {
    let of = |kind| {
        Object::of(kind)
            .with("length", class.size)
            .with("byte-order", "little-endian")
            .with("alignment", 8)
    };
    let number = if class.signed {
        "fixed-length-signed-integer"
    } else {
        "fixed-length-unsigned-integer"
    };
    let object = match &class.kind {
        WideKind::Integer => shown(of(number), class.base, None),
        WideKind::Enum(mappings) => shown(of(number), class.base, Some(mappings)),
        WideKind::BitArray => of("fixed-length-bit-array"),
        WideKind::BitMap(flags) => of("fixed-length-bit-map").with("flags", labelled(flags)),
        WideKind::Bool => of("fixed-length-boolean"),
    };
    object.attributes(&class.attributes)
}

fn bits(kind: &str, class: &IntegerClass) -> Object {
    debug_assert!(class.byte_order == ByteOrder::Little && class.bit_order == BitOrder::Natural);
    Object::of(kind)
        .with("length", u64::from(class.size))
        .with("byte-order", "little-endian")
        .with("alignment", 8)
}

fn whole(class: &IntegerClass, mappings: Option<&[Mapping]>) -> Object {
    let kind = if class.signed {
        "fixed-length-signed-integer"
    } else {
        "fixed-length-unsigned-integer"
    };
    let mappings: Option<Vec<Mapping>> = mappings.map(|mappings| {
        mappings
            .iter()
            .filter_map(|mapping| possible(mapping, class.signed))
            .collect()
    });
    shown(bits(kind, class), class.base, mappings.as_deref())
        .maybe("roles", roles(class.roles))
        .attributes(&class.attributes)
}

fn shown(object: Object, base: Base, mappings: Option<&[Mapping]>) -> Object {
    let base = match base {
        Base::Binary => Some(2),
        Base::Octal => Some(8),
        Base::Decimal => None,
        Base::Hexadecimal => Some(16),
    };
    object
        .maybe("preferred-display-base", base)
        .maybe("mappings", mappings.map(labelled))
}

fn roles(roles: Roles) -> Option<Vec<Json>> {
    // The CPU number has no role in CTF 2; its name identifies it.
    let known = OF_INTEGERS
        .iter()
        .chain(&OF_BLOBS)
        .filter(|(_, role)| *role != Role::CpuId && roles.has(*role));
    let words: Vec<Json> = known.map(|(word, _)| Json::from(*word)).collect();
    (!words.is_empty()).then_some(words)
}

/// Labels with all their ranges, in the order of the first mapping of each.
fn labelled(mappings: &[Mapping]) -> Json {
    let mut places = std::collections::HashMap::new();
    let mut all: Vec<(String, Vec<IntRange>)> = Vec::new();
    for Mapping { label, range } in mappings {
        let place = *places.entry(label).or_insert_with(|| {
            all.push((label.to_string(), Vec::new()));
            all.len() - 1
        });
        if let Some((_, of)) = all.get_mut(place) {
            of.push(range.clone());
        }
    }
    Json::Map(
        all.into_iter()
            .map(|(label, of)| (label, ranges(&of)))
            .collect(),
    )
}

fn ranges(of: &[IntRange]) -> Json {
    let pairs = of
        .iter()
        .map(|range| Json::List(vec![Json::Wide(range.low()), Json::Wide(range.high())]));
    Json::List(pairs.collect())
}

fn bytes([terminated, fixed, dynamic]: [&str; 3], length: &StringLength) -> Object {
    match length {
        StringLength::Terminated => Object::of(terminated),
        StringLength::Static(length) => Object::of(fixed).with("length", *length),
        StringLength::Dynamic(at) => {
            Object::of(dynamic).with("length-field-location", location(at))
        }
    }
}

fn location(of: &FieldLocation) -> Object {
    let origin = match of.origin {
        Origin::Scope(scope) => Some(scope.json()),
        Origin::Here | Origin::Nearest => None,
    };
    let path = of
        .path
        .iter()
        .map(|name| name.as_deref().map_or(Json::Null, Json::from));
    Object::default()
        .maybe("origin", origin)
        .with("path", path.collect::<Vec<Json>>())
}

// Writing to a `String` cannot fail; the results of `write!` are dropped below.
fn print(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Json::Integer(value) => {
            let _ = write!(out, "{value}");
        }
        Json::Wide(value) => {
            let _ = write!(out, "{value}");
        }
        // Print a point or an exponent, so that the number stays real.
        Json::Real(value) => {
            let _ = write!(out, "{value:?}");
        }
        Json::Text(text) => print_text(text, out),
        Json::List(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                print(value, out);
            }
            out.push(']');
        }
        Json::Map(entries) => {
            out.push('{');
            for (index, (name, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                print_text(name, out);
                out.push(':');
                print(value, out);
            }
            out.push('}');
        }
    }
}

fn print_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
