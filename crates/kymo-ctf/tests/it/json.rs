//! Metadata of CTF 2: its meaning, and robustness against any text.

use std::fmt::Write as _;
use std::sync::Arc;

use kymo_ctf::{
    AttributeValue, Base, BitOrder, ByteOrder, ClockOrigin, EnvValue, FieldClass, Item, Length,
    Metadata, Origin, Role, Scope, StreamReader, StringLength, TextEncoding, Ticks, Value,
};

const PREAMBLE: &str = "\u{1e}{\"type\": \"preamble\", \"version\": 2}\n";

/// Every kind of fragment and field class.
const WHOLE: &str = r#"␞{"type": "preamble", "version": 2, "uuid": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]}
␞{"type": "field-class-alias", "name": "u8", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}}
␞{"type": "field-class-alias", "name": "head", "field-class": {"type": "structure", "minimum-alignment": 8, "member-classes": [
  {"name": "id", "field-class": {"type": "fixed-length-unsigned-integer", "length": 16, "byte-order": "big-endian", "roles": ["event-record-class-id"]}},
  {"name": "time", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["default-clock-timestamp"]}}]}}
␞{"type": "trace-class", "namespace": "n", "name": "t", "uid": "u", "attributes": {"a.b": {"x": [1, 2.5, null, true, "é"]}, "": -1},
  "environment": {"host": "h", "pid": -7}, "packet-header-field-class": {"type": "structure", "member-classes": [
  {"name": "uuid", "field-class": {"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]}},
  {"name": "which", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "big-endian", "roles": ["data-stream-class-id"]}}]}}
␞{"type": "clock-class", "id": "c", "namespace": "n", "name": "mono", "uid": "u", "frequency": 1000, "precision": 2, "accuracy": 3,
  "offset-from-origin": {"seconds": -5, "cycles": 999}, "origin": {"namespace": "n", "name": "boot", "uid": "42"}, "description": "d"}
␞{"type": "clock-class", "id": "e", "frequency": 1, "origin": "unix-epoch"}
␞{"type": "data-stream-class", "id": 5, "namespace": "n", "name": "s", "uid": "u", "default-clock-class-id": "c", "attributes": {"s": 1},
  "packet-context-field-class": {"type": "structure", "member-classes": [{"name": "cpu_id", "field-class": "u8"}]},
  "event-record-header-field-class": "head",
  "event-record-common-context-field-class": {"type": "structure", "member-classes": [{"name": "n", "field-class": "u8"}]}}
␞{"type": "event-record-class", "id": 300, "data-stream-class-id": 5, "namespace": "n", "name": "e", "uid": "u", "attributes": {"lttng.org,2009": {"emf-uri": "x", "log-level": "debug:line"}},
  "specific-context-field-class": {"type": "structure", "member-classes": [{"name": "s", "field-class": "u8"}]},
  "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "_array", "attributes": {"m": 1}, "field-class": {"type": "dynamic-length-array", "minimum-alignment": 16, "length-field-location": {"origin": "event-record-common-context", "path": ["n"]}, "element-field-class": "u8"}},
  {"name": "text", "field-class": {"type": "static-length-string", "length": 4, "encoding": "utf-16be"}},
  {"name": "signed", "field-class": {"type": "fixed-length-signed-integer", "length": 8, "byte-order": "little-endian", "bit-order": "last-to-first", "preferred-display-base": 16, "mappings": {"low": [[-128, -1]]}, "attributes": {"f": 1}}},
  {"name": "v", "field-class": {"type": "variant", "selector-field-location": {"origin": "event-record-specific-context", "path": ["s"]}, "options": [
    {"name": "one", "selector-field-ranges": [[1, 1]], "field-class": {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian"}},
    {"selector-field-ranges": [[2, 9]], "field-class": {"type": "null-terminated-string"}}]}},
  {"name": "o", "field-class": {"type": "optional", "selector-field-location": {"origin": "event-record-specific-context", "path": ["s"]}, "selector-field-ranges": [[1, 1]], "field-class": "u8"}}]}}
"#;

fn whole() -> String {
    WHOLE.replace('␞', "\u{1e}")
}

fn parse(text: &str) -> Metadata {
    Metadata::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> String {
    match Metadata::parse(text) {
        Ok(_) => panic!(
            "is not refused: {}",
            text.chars().take(2000).collect::<String>()
        ),
        Err(error) => error.to_string(),
    }
}

/// The metadata of one event with these members.
fn event(members: &str) -> String {
    let event = "{\"type\": \"event-record-class\", \"payload-field-class\": {\"type\": \"structure\", \"member-classes\": [";
    format!("{PREAMBLE}\u{1e}{{\"type\": \"data-stream-class\"}}\n\u{1e}{event}{members}]}}}}")
}

fn unsigned(name: &str) -> String {
    format!(
        "{{\"name\": \"{name}\", \"field-class\": {{\"type\": \"variable-length-unsigned-integer\"}}}}"
    )
}

#[test]
fn the_whole_model_is_there() {
    let metadata = parse(&whole());
    let trace = metadata.trace();
    let mut uuid: [u8; 16] = std::array::from_fn(|i| i as u8);
    uuid[15] = 255;
    assert_eq!((trace.major, trace.minor, trace.uuid), (2, 0, Some(uuid)));
    let names = (
        trace.namespace.as_deref(),
        trace.name.as_deref(),
        trace.uid.as_deref(),
    );
    assert_eq!(names, (Some("n"), Some("t"), Some("u")));
    assert_eq!(
        metadata.env(),
        [
            ("host".into(), EnvValue::Text("h".into())),
            ("pid".into(), EnvValue::Integer(-7))
        ]
    );
    let Some(AttributeValue::Map(attributes)) = trace.attributes.get("a.b") else {
        panic!()
    };
    let AttributeValue::List(values) = &attributes[0].1 else {
        panic!()
    };
    let text = AttributeValue::Text("é".into());
    assert_eq!(
        *values,
        [
            AttributeValue::Integer(1),
            AttributeValue::Real(2.5),
            AttributeValue::Null,
            AttributeValue::Bool(true),
            text
        ]
    );
    assert_eq!(trace.attributes.get(""), Some(&AttributeValue::Integer(-1)));
    let header = trace.packet_header.as_ref().unwrap();
    assert!(
        matches!(header.member("uuid"), Some(FieldClass::Blob(blob)) if blob.roles.has(Role::MetadataUuid))
    );

    let clock = &metadata.clocks()[0];
    assert_eq!(
        (
            clock.id.as_str(),
            clock.name.as_str(),
            clock.frequency,
            clock.precision
        ),
        ("c", "mono", 1000, 2)
    );
    assert_eq!(
        (clock.accuracy, clock.offset_s, clock.offset, clock.absolute),
        (Some(3), -5, 999, false)
    );
    let origin = ClockOrigin {
        namespace: Some("n".into()),
        name: "boot".into(),
        uid: "42".into(),
    };
    assert_eq!(
        (&clock.origin, clock.description.as_deref()),
        (&Some(origin), Some("d"))
    );
    let epoch = &metadata.clocks()[1];
    assert_eq!(
        (epoch.name.as_str(), epoch.absolute, &epoch.origin),
        ("e", true, &None)
    );

    let stream = metadata.stream(5).unwrap();
    assert_eq!(
        (stream.name.as_deref(), stream.clock.as_ref()),
        (Some("s"), Some(clock))
    );
    assert!(!stream.attributes.is_empty());
    let cpu = stream
        .packet_context
        .as_ref()
        .unwrap()
        .member("cpu_id")
        .unwrap()
        .as_integer()
        .unwrap();
    assert!(cpu.roles.has(Role::CpuId));
    let header = stream.event_header.as_ref().unwrap();
    assert_eq!(header.alignment, 8);
    let id = header.member("id").unwrap().as_integer().unwrap();
    assert!(
        id.roles.has(Role::EventClassId)
            && id.byte_order == ByteOrder::Big
            && id.bit_order == BitOrder::Natural
    );
    assert!(
        matches!(header.member("time"), Some(FieldClass::VarInt(time)) if time.roles.has(Role::Timestamp) && !time.signed)
    );

    let event = &stream.events[&300];
    assert_eq!(
        (
            &*event.name,
            event.stream_id,
            event.uid.as_deref(),
            event.log_level
        ),
        ("e", 5, Some("u"), Some(13))
    );
    let fields = event.fields.as_ref().unwrap();
    // An underscore is part of the name.
    let array = &fields.members[0];
    assert_eq!((&*array.name, &*array.declared_name), ("_array", "_array"));
    assert!(!array.attributes.is_empty());
    let FieldClass::Array(array) = &array.class else {
        panic!()
    };
    let Length::Dynamic(location) = &array.length else {
        panic!()
    };
    assert_eq!(
        (array.minimum_alignment, location.origin),
        (16, Origin::Scope(Scope::EventCommonContext))
    );
    let Some(FieldClass::String(text)) = fields.member("text") else {
        panic!()
    };
    assert!(
        text.encoding == TextEncoding::Utf16Be && matches!(text.length, StringLength::Static(4))
    );
    let Some(FieldClass::Enum(signed)) = fields.member("signed") else {
        panic!()
    };
    assert_eq!(
        (
            signed.integer.signed,
            signed.integer.base,
            signed.integer.bit_order
        ),
        (true, Base::Hexadecimal, BitOrder::Reversed)
    );
    assert!(!signed.integer.attributes.is_empty());
    let Some(FieldClass::Variant(variant)) = fields.member("v") else {
        panic!()
    };
    assert_eq!(
        (&*variant.options[0].name, &*variant.options[1].name),
        ("one", "")
    );
}

#[test]
fn a_stream_is_read_by_it() {
    let uuid = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255, 5];
    // cpu; id, time; n; s; the array at a multiple of 16 bits; text; signed; a boolean; the
    // optional.
    let record = [3, 1, 44, 10, 2, 1, 0, 7, 8, 0, 98, 0, 0, 0b1000_0001, 4, 9];
    let stream = [&uuid[..], &record].concat();
    let metadata = Arc::new(parse(&whole()));
    let items: Vec<_> = StreamReader::new(metadata, "s", &stream[..])
        .collect::<Result<_, _>>()
        .unwrap();
    let Some(Item::Event(event)) = items.first() else {
        panic!("{items:?}")
    };
    assert_eq!((event.time, event.cpu()), (Some(Ticks(10)), Some(3)));
    let fields: Vec<_> = event
        .fields
        .iter()
        .map(|(_, value)| value.clone())
        .collect();
    let array = Value::Array(vec![Value::UInt(7), Value::UInt(8)]);
    let signed = Value::Enum {
        value: -127,
        labels: vec!["low".into()],
    };
    let variant = Value::Variant {
        option: "one".into(),
        value: Box::new(Value::Bool(true)),
    };
    assert_eq!(
        fields,
        [
            array,
            Value::Str("b".into()),
            signed,
            variant,
            Value::UInt(9)
        ]
    );
}

/// Lengths in a variant's options, in structures inside them, and in an optional field.
#[test]
fn lengths_are_found_in_what_may_be_there() {
    let integer = |length: u32, order: &str| {
        format!(
            "{{\"type\": \"fixed-length-unsigned-integer\", \"length\": {length}, \"byte-order\": \"{order}-endian\"}}"
        )
    };
    let inside = |class: &str| {
        format!(
            "{{\"type\": \"structure\", \"member-classes\": [{{\"name\": \"n\", \"field-class\": \
             {class}}}]}}"
        )
    };
    let small = inside(&integer(8, "little"));
    let large = inside(&format!(
        "{{\"type\": \"optional\", \"selector-field-location\": {{\"path\": [null, \"s\"]}}, \"selector-field-ranges\": [[1, 1]], \"field-class\": {}}}",
        integer(16, "big")
    ));
    let members = format!(
        "{}, {{\"name\": \"v\", \"field-class\": {{\"type\": \"variant\", \"selector-field-location\": {{\"path\": [\"s\"]}}, \"options\": [
         {{\"selector-field-ranges\": [[0, 0]], \"field-class\": {small}}}, {{\"selector-field-ranges\": [[1, 2]], \"field-class\": {large}}}]}}}},
         {{\"name\": \"a\", \"field-class\": {{\"type\": \"dynamic-length-blob\", \"length-field-location\": {{\"path\": [\"v\", \"n\"]}}}}}}",
        unsigned("s")
    );
    let metadata = Arc::new(parse(&event(&members)));
    let stream = [0, 2, 10, 11, 1, 0, 1, 12, 0, 0];
    let items: Vec<_> = StreamReader::new(metadata, "s", &stream[..])
        .collect::<Result<_, _>>()
        .unwrap();
    let blobs = items.iter().map(|item| match item {
        Item::Event(event) => event.fields.get("a").cloned(),
        other => panic!("{other:?}"),
    });
    let blobs: Vec<_> = blobs.map(Option::unwrap).collect();
    assert_eq!(
        blobs,
        [
            Value::Bytes(vec![10, 11]),
            Value::Bytes(vec![12]),
            Value::Bytes(vec![])
        ]
    );
}

/// Short texts that describe exponentially many fields, and long ones that could take unbounded
/// time.
#[test]
fn metadata_cannot_ask_for_more_than_there_is() {
    let alias = |i: usize, members: &[String]| {
        let members = members.join(", ");
        format!(
            "\u{1e}{{\"type\": \"field-class-alias\", \"name\": \"a{i}\", \"field-class\": \
             {{\"type\": \"structure\", \"member-classes\": [{members}]}}}}\n"
        )
    };
    let member =
        |name: &str, i: usize| format!("{{\"name\": \"{name}\", \"field-class\": \"a{i}\"}}");
    let (mut doubling, mut deep) = (
        PREAMBLE.to_owned() + &alias(0, &[]),
        PREAMBLE.to_owned() + &alias(0, &[]),
    );
    for i in 1..60 {
        doubling += &alias(i, &[member("x", i - 1), member("y", i - 1)]);
    }
    assert!(refused(&doubling).contains("more than 524288 fields"));
    for i in 1..10_000 {
        deep += &alias(i, &[member("x", i - 1)]);
    }
    assert!(refused(&deep).contains("nested more than 64 deep"));
    let array = "{\"type\": \"static-length-array\", \"length\": 1, \"element-field-class\": ";
    assert!(
        refused(&event(&format!(
            "{{\"name\": \"a\", \"field-class\": {}",
            array.repeat(100_000)
        )))
        .contains("nested")
    );

    // A length before each of many strings takes linear time.
    let member = |i: usize| {
        format!(
            "{}, {{\"name\": \"t{i}\", \"field-class\": {{\"type\": \"dynamic-length-string\", \"length-field-location\": {{\"path\": [\"n{i}\"]}}}}}}",
            unsigned(&format!("n{i}"))
        )
    };
    let members: Vec<String> = (0..30_000).map(member).collect();
    assert_eq!(parse(&event(&members.join(", "))).event_class_count(), 1);

    // Each of many arrays has its length in each of many options.
    let mut members = unsigned("s")
        + ", {\"name\": \"v\", \"field-class\": {\"type\": \"variant\", \"selector-field-location\": {\"path\": [\"s\"]}, \"options\": [";
    for i in 0..3000 {
        let comma = if i == 0 { "" } else { ", " };
        write!(members, "{comma}{{\"selector-field-ranges\": [[{i}, {i}]], \"field-class\": {{\"type\": \"variable-length-unsigned-integer\"}}}}").unwrap();
    }
    members += "]}}";
    for i in 0..3000 {
        write!(members, ", {{\"name\": \"b{i}\", \"field-class\": {{\"type\": \"dynamic-length-blob\", \"length-field-location\": {{\"path\": [\"v\"]}}}}}}").unwrap();
    }
    assert!(refused(&event(&members)).contains("the locations of fields mean more than"));
}

/// Fields larger than any packet: an error of the record, without an allocation of that size.
#[test]
fn fields_of_any_length_are_measured_before_they_are_read() {
    let wide = |length: u64, kind: &str, alignment: u64| {
        format!(
            "{{\"type\": \"fixed-length-{kind}\", \"length\": {length}, \"byte-order\": \"big-endian\", \"alignment\": {alignment}}}"
        )
    };
    let array = |length: u64, element: &str| {
        format!(
            "{{\"type\": \"static-length-array\", \"length\": {length}, \"element-field-class\": \
             {element}}}"
        )
    };
    for class in [
        wide(u64::MAX, "signed-integer", 64),
        wide(u64::MAX - 63, "boolean", 1),
        wide(1 << 50, "bit-array", 8),
        array(1 << 60, &wide(1 << 40, "unsigned-integer", 1)),
        array(3, &wide(u64::MAX - 1, "unsigned-integer", 1 << 31)),
        array(u64::MAX, &wide(65, "unsigned-integer", 1)),
    ] {
        let member = format!("{{\"name\": \"a\", \"field-class\": {class}}}");
        let metadata = Arc::new(parse(&event(&member)));
        let items: Vec<_> = StreamReader::new(metadata, "s", &[0xff; 100][..]).collect();
        assert!(
            !items.is_empty() && !items.iter().any(|item| matches!(item, Ok(Item::Event(_)))),
            "{class}: {items:?}"
        );
    }
}

/// Truncated and changed texts are read, or refused with a position inside the text.
#[test]
fn broken_texts_are_refused_in_their_place() {
    let text = whole();
    let lines = text.lines().count();
    let check = |text: &str| {
        if let Err(error) = Metadata::from_bytes(text.as_bytes()) {
            let kymo_ctf::Error::Metadata(error) = error else {
                panic!("{error}")
            };
            let line = text
                .split('\n')
                .nth(error.position.line as usize - 1)
                .expect("the place is in the text");
            assert!(
                error.position.column as usize <= line.chars().count() + 1,
                "{error}"
            );
        }
    };
    assert!(lines > 20);
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    for (round, &place) in places.iter().enumerate() {
        let (before, rest) = text.split_at(place);
        let after = &rest[rest.chars().next().unwrap().len_utf8()..];
        check(before);
        check(&format!("{before}{after}"));
        let new = ["\u{1e}", "\"", "{", "]", "9", "-", "\\", ",", "é", " "];
        check(&format!("{before}{}{after}", new[round % new.len()]));
    }
}
