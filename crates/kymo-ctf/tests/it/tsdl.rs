//! The effect of TSDL on decoding: scopes, alignment, clocks, and rarely used constructs.

use std::sync::Arc;

use crate::writer::{Bits, Order, events};
use kymo_ctf::{Metadata, Value};

/// Decodes an event that consists of these fields.
fn fields(order: &str, declarations: &str, fields: &str, bytes: &[u8]) -> String {
    let metadata = format!(
        "/* CTF 1.8 */ typealias integer {{ size = 8; }} := u8; typealias integer {{ size = 16; align = 16; }} := u16;
        typealias integer {{ size = 32; align = 32; }} := u32; trace {{ major = 1; minor = 8; byte_order = {order}; }};
        {declarations} event {{ name = e; fields := struct {{ {fields} }}; }};"
    );
    let events = events(&metadata, bytes);
    assert_eq!(events.len(), 1, "{fields}");
    show(&Value::Struct(events[0].fields.clone()))
}

fn show(value: &Value) -> String {
    match value {
        Value::UInt(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Str(text) => format!("{text:?}"),
        Value::Enum { value, labels } => format!(
            "{value}{}",
            labels
                .iter()
                .map(|label| format!("/{label}"))
                .collect::<String>()
        ),
        Value::Array(values) => format!(
            "[{}]",
            values.iter().map(show).collect::<Vec<_>>().join(" ")
        ),
        Value::Struct(fields) => {
            format!(
                "{{{}}}",
                fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", show(value)))
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        }
        Value::Variant { option, value } => format!("{option}:{}", show(value)),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_tag_is_looked_up_where_the_type_was_written() {
    // The specification's own example, section 4.2.2.
    let text = "enum : u8 { a, b } x;
        typedef variant <x> { u8 a; u16 b; } example_variant;
        struct { enum : u8 { p, q } x; example_variant v; } rows[2];";
    assert_eq!(
        fields("le", "", text, &[0, 1, 7, 1, 8]),
        "{x=0/a rows=[{x=1/q v=a:7} {x=1/q v=a:8}]}"
    );
    // Likewise for lengths.
    let text = "u8 n; typedef u8 bytes[n]; struct { u8 n; bytes b; u8 own[n]; } in;";
    assert_eq!(
        fields("le", "", text, &[2, 1, 5, 6, 7]),
        "{n=2 in={n=1 b=[5 6] own=[7]}}"
    );
}

#[test]
fn lengths_may_be_in_the_environment() {
    assert_eq!(
        fields(
            "le",
            "env { cpus = 3; };",
            "u8 per_cpu[env.cpus];",
            &[1, 2, 3]
        ),
        "{per_cpu=[1 2 3]}"
    );
}

#[test]
fn bit_fields_and_pointers() {
    let declared = "typealias integer { size = 32; align = 8; signed = false; } := struct page *;";
    assert_eq!(
        fields(
            "le",
            declared,
            "u8 a : 3, b : 5; struct page *p;",
            &[0b10_101_011, 1, 2, 0, 0]
        ),
        "{a=3 b=21 p=513}"
    );
}

/// Section 4.2.3: arrays have the alignment of their elements, even if empty; structures that of
/// their largest member.
#[test]
fn what_is_empty_is_aligned_too() {
    assert_eq!(
        fields("le", "", "u8 n; u32 none[n]; u8 end;", &[0, 9, 9, 9, 4]),
        "{n=0 none=[] end=4}"
    );
    assert_eq!(
        fields("le", "", "u8 a; u32 none[0]; u8 end;", &[1, 9, 9, 9, 4]),
        "{a=1 none=[] end=4}"
    );
    assert_eq!(
        fields(
            "le",
            "",
            "u8 a; struct { } align(32) none; u8 end;",
            &[1, 9, 9, 9, 4]
        ),
        "{a=1 none={} end=4}"
    );
    assert_eq!(
        fields(
            "le",
            "",
            "u8 a; struct { } many[3]; u8 n; struct { u8 x[n]; } some[2]; u8 end;",
            &[1, 0, 4]
        ),
        "{a=1 many=[{} {} {}] n=0 some=[{x=[]} {x=[]}] end=4}"
    );
    // A variant has the alignment of the selected option, which does not affect the enclosing
    // structure.
    let text = "u8 lead; struct { enum : u8 { small, large } t; variant <t> { u8 small; u32 large; } v; } s; u8 end;";
    assert_eq!(
        fields("le", "", text, &[1, 0, 7, 4]),
        "{lead=1 s={t=0/small v=small:7} end=4}"
    );
    assert_eq!(
        fields("le", "", text, &[1, 1, 0, 0, 5, 0, 0, 0, 4]),
        "{lead=1 s={t=1/large v=large:5} end=4}"
    );
}

#[test]
fn elements_without_bits_cannot_cost_much() {
    let metadata =
        "trace { major = 1; minor = 8; byte_order = le; }; typealias integer { size = 64; } := u64;
        event { name = e; fields := struct { u64 n; struct { } none[n]; }; };";
    let of = |n: u64| crate::writer::read(metadata, &n.to_le_bytes());
    assert_eq!(of(65_536).0.len(), 1);
    assert!(matches!(
        crate::writer::reason(of(65_537).1),
        kymo_ctf::DecodeError::LengthTooLarge { length: 65_537, .. }
    ));
}

#[test]
fn bits_in_both_orders() {
    // The 26 bits of the example in section 4.1.5: 10, 5, 4 and 7.
    let text = "integer { size = 10; } a; integer { size = 5; } b; integer { size = 4; } c; integer { size = 7; } d; integer { size = 6; } rest;";
    for (name, order) in [("le", Order::Le), ("be", Order::Be)] {
        let mut bits = Bits::new(order);
        bits.put(10, 0x2aa)
            .put(5, 0x13)
            .put(4, 0x9)
            .put(7, 0x55)
            .put(6, 0);
        assert_eq!(
            fields(name, "", text, &bits.bytes),
            "{a=682 b=19 c=9 d=85 rest=0}"
        );
    }
}

#[test]
fn floats_of_16_and_128_bits() {
    let text = "floating_point { exp_dig = 5; mant_dig = 11; align = 8; } h; floating_point { exp_dig = 15; mant_dig = 113; align = 8; } q;";
    let bytes = [&[0x00, 0xc0][..], &(0x3fff_8000_u128 << 96).to_le_bytes()].concat();
    assert_eq!(
        fields("le", "", text, &bytes),
        "{h=Float(-2.0) q=Float(1.5)}"
    );
}

#[test]
fn clocks_and_where_there_are_none() {
    let text = |clock: &str, map: &str| {
        format!(
            "trace {{ major = 1; minor = 8; byte_order = le; }}; {clock}
            stream {{ event.header := struct {{ integer {{ size = 8; {map} }} timestamp; }}; }}; event {{ name = e; }};"
        )
    };
    let nanos = |text: &str| events(text, &[250, 4])[1].nanos();
    // Section 8: without a clock description, times are nanoseconds.
    assert_eq!(nanos(&text("", "")), Some(260));
    assert_eq!(
        nanos(&text("clock { name = c; };", "map = clock.c.value;")),
        Some(260)
    );
    assert_eq!(nanos(&text("clock { name = c; };", "")), None);
    assert_eq!(
        nanos(&text(
            "clock { name = c; freq = 1000; offset_s = -1; offset = -500; };",
            "map = clock.c.value;"
        )),
        Some(-1_240_000_000)
    );
    let two = text(
        "clock { name = b; }; clock { name = c; freq = 100; };",
        "map = clock.c.value;",
    );
    assert_eq!(nanos(&two), Some(2_600_000_000));
}

#[test]
fn ends_of_packets_by_any_name() {
    let metadata = "trace { major = 1; minor = 8; byte_order = le; }; clock { name = c; };
        typealias integer { size = 8; map = clock.c.value; } := t8;
        stream { packet.context := struct { t8 ccnt_begin; t8 ccnt_end; integer { size = 8; } packet_size; }; event.header := struct { t8 t; }; };
        event { name = e; };";
    let events = events(metadata, &[10, 20, 32, 15]);
    let packet = &events[0].packet;
    assert_eq!(
        (
            packet.begin.unwrap().0,
            packet.end.unwrap().0,
            events[0].time.unwrap().0
        ),
        (10, 20, 15)
    );
}

/// Unusual but valid text gives a warning with its position.
#[test]
fn unknown_attributes_of_blocks_are_warned_of() {
    let text = "trace { major = 1; minor = 8; byte_order = le; colour = red; };\nevent { name = e; origin.x = \"y\"; };";
    let metadata = Metadata::parse(text).unwrap();
    let warnings: Vec<String> = metadata
        .warnings()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        warnings,
        [
            "metadata, line 1, column 48: `colour` is not a known attribute of a `trace` block; it \
             is ignored",
            "metadata, line 2, column 19: `origin.x` is not a known attribute of an `event` block; \
             it is ignored",
        ]
    );
}

/// Packets and records without the necessary ids cannot be distinguished.
#[test]
fn streams_and_events_that_cannot_be_told_apart_are_warned_of() {
    const U8: &str = "typealias integer { size = 8; } := u8;";
    let warnings = |header: &str, text: &str| {
        let trace = format!("{U8} trace {{ major = 1; minor = 8; byte_order = le; {header} }};\n");
        let metadata = Metadata::parse(&(trace + text)).unwrap();
        metadata
            .warnings()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let streams = "stream { id = 1; };\nstream { id = 0; };";
    let wanted = "metadata, line 3, column 1: there are several streams, and no `stream_id` in the packet header to tell their packets apart";
    assert_eq!(warnings("", streams), [wanted]);
    assert_eq!(
        warnings("packet.header := struct { u8 stream_id; };", streams),
        [""; 0]
    );
    let events = "event { name = a; id = 1; };\nevent { name = b; id = 2; };";
    let wanted = "metadata, line 3, column 24: stream 0 has several events, and no `id` in its event header to tell them apart";
    assert_eq!(warnings("", &format!("stream {{ }}; {events}")), [wanted]);
    let inside = "enum : u8 { x } t; variant <t> { struct { u8 id; } x; } v;";
    assert_eq!(
        warnings(
            "",
            &format!("stream {{ event.header := struct {{ {inside} }}; }}; {events}")
        ),
        [""; 0]
    );
}

fn in_packets(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in text.as_bytes().chunks(40) {
        let size = (37 + piece.len()) as u32 * 8;
        bytes.extend(0x75d1_1d57_u32.to_be_bytes());
        bytes.extend([1; 16]);
        [0, size, size + 64]
            .into_iter()
            .for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(piece);
        bytes.extend([0; 8]);
    }
    bytes
}

#[test]
fn metadata_in_packets_is_read() {
    let text = "trace { major = 1; minor = 8; byte_order = be; }; event { name = e; fields := struct { integer { size = 8; } x; }; };";
    let bytes = in_packets(text);
    assert_eq!(
        (
            &*Metadata::text(&bytes).unwrap(),
            &*Metadata::text(b"abc").unwrap()
        ),
        (text.as_bytes(), &b"abc"[..])
    );
    let metadata = Arc::new(Metadata::from_bytes(&bytes).unwrap());
    assert_eq!(
        kymo_ctf::StreamReader::new(metadata, "s", &[1, 2, 3][..]).count(),
        3
    );
}

#[test]
fn metadata_in_packets_of_another_uuid_is_warned_of() {
    for (digit, warnings) in [("1", 0), ("2", 1)] {
        let uuid = format!("0{digit}").repeat(16);
        let text =
            format!("trace {{ major = 1; minor = 8; byte_order = be; uuid = \"{uuid}\"; }};");
        let metadata = Metadata::from_bytes(&in_packets(&text)).unwrap();
        assert_eq!(
            metadata.warnings().len(),
            warnings,
            "{:?}",
            metadata.warnings()
        );
    }
}

#[test]
fn metadata_in_packets_of_another_byte_order_is_refused() {
    let text = |order| format!("trace {{ major = 1; minor = 8; byte_order = {order}; }};");
    assert!(Metadata::from_bytes(&in_packets(&text("be"))).is_ok());
    let refused = Metadata::from_bytes(&in_packets(&text("le"))).unwrap_err();
    assert!(
        refused.to_string().contains("another byte order"),
        "{refused}"
    );
}

#[test]
fn members_of_another_type_than_their_role_are_warned_of() {
    let text = "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { string magic; string uuid; }; };\n\
                stream { packet.context := struct { string packet_size; }; event.header := struct { string id; }; };";
    let metadata = Metadata::parse(text).unwrap();
    let warnings: Vec<String> = metadata
        .warnings()
        .iter()
        .map(ToString::to_string)
        .collect();
    let wanted = [
        "metadata, line 1, column 81: `magic` is no integer",
        "metadata, line 1, column 95: `uuid` is no array",
        "metadata, line 2, column 44: `packet_size` is no integer",
        "metadata, line 2, column 92: the event header's `id` is no integer",
    ];
    assert_eq!(warnings.len(), wanted.len(), "{warnings:#?}");
    for (warning, wanted) in warnings.iter().zip(wanted) {
        assert!(warning.starts_with(wanted), "{warning}");
    }
}
