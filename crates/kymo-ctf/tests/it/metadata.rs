//! Metadata: its meaning, and its errors.

use crate::writer::{Order, event, preamble};
use kymo_ctf::{Base, ByteOrder, EnvValue, Error, FieldClass, Metadata, Position};

#[test]
fn the_whole_model_is_there() {
    let text = preamble(Order::Be, 10_000_000, 17, 3)
        + &event(7, "seven", "integer { size = 32; base = hex; } address;");
    let metadata = Metadata::parse(&text).unwrap();
    let trace = metadata.trace();
    assert_eq!(
        (trace.major, trace.minor, trace.byte_order),
        (1, 8, ByteOrder::Big)
    );
    assert_eq!(trace.uuid, Some(crate::writer::UUID));
    assert_eq!(
        metadata.env()[0],
        ("domain".into(), EnvValue::Text("bare".into()))
    );
    assert_eq!(
        metadata.env()[2],
        ("tracer_major".into(), EnvValue::Integer(0))
    );
    let clock = &metadata.clocks()[0];
    assert_eq!(
        (
            clock.name.as_str(),
            clock.frequency,
            clock.offset_s,
            clock.offset,
            clock.absolute
        ),
        ("kymo", 10_000_000, 17, 3, false)
    );
    let stream = metadata.stream(0).unwrap();
    assert_eq!(stream.clock.as_ref(), Some(clock));
    assert_eq!(stream.event_header.as_ref().unwrap().alignment, 32);
    let event = &stream.events[&7];
    assert_eq!((&*event.name, event.id, event.stream_id), ("seven", 7, 0));
    let Some(FieldClass::Integer(address)) = event.fields.as_ref().unwrap().member("address")
    else {
        panic!()
    };
    assert_eq!(
        (address.size, address.base, address.byte_order),
        (32, Base::Hexadecimal, ByteOrder::Big)
    );
}

const TRACE: &str = "trace { major = 1; minor = 8; byte_order = le; };\n";

#[test]
fn what_the_grammar_allows() {
    for text in [
        "",
        "/* CTF 1.8 */\n// a comment\n;;",
        "clock { name = a; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; offset_s = -5; \
         absolute = 1; description = \"x\\ty\"; };",
        "typealias integer { size = 8; } := unsigned long int; event { name = a; fields := struct \
         { unsigned long int x; const unsigned long int y; }; };",
        "typedef integer { size = 8; } a, b[3]; struct s { a x, y[2]; b z; }; event { name = a; \
         fields := struct s; };",
        "struct outer { struct inner { integer { size = 1; } bit; }; struct inner a; struct inner \
         b[2]; }; event { name = a; fields := struct outer; };",
        "enum e : integer { size = 3; } { A, B = 0x2 ... 03, \"c d\" }; event { name = a; fields \
         := struct { enum e x; enum e y; }; };",
        "variant v { string a; string b; }; event { name = a; fields := struct { enum : integer { \
         size = 8; } { a, b } t; variant v <t> x; variant <t> { string a; } y; }; };",
        "event { name = a; loglevel = -1; model.emf.uri = \"http://x\"; };",
        "stream { id = 3; typealias integer { size = 8; } := u8; event.context := struct { u8 a; \
         }; }; event { name = \"a\"; };",
        "stream { id = 3; }; stream { id = 4; }; event { id = 1; name = a; stream_id = 4; }; event \
         { id = 1; name = a; stream_id = 3; };",
        "event { id = 0xFFFFFFFFFFFFFFFF; name = a; };",
        "callsite { name = a; func = \"f\"; line = 3; };",
        "typealias integer { size = 64; base = hex; } := struct page *; struct page { string x; }; \
         event { name = a; fields := struct { struct page *p; }; };",
        "typealias integer { size = 32; } := const unsigned int * const *; event { name = a; \
         fields := struct { unsigned int **p; }; };",
        "env { n = (3); }; event { name = a; fields := struct { string x[env.n]; integer { size = \
         8; } bit : 3; }; };",
        "struct s { string x; }; event { name = a; fields := struct s align(64); };",
        "event { name = a; fields := struct { enum : integer { size = 8; } { event, \"b\" = 'c' \
         ... 'd' } x; }; };",
    ] {
        if let Err(error) = Metadata::parse(&format!("{text}\n{TRACE}")) {
            panic!("{error}\n{text}");
        }
    }
}

/// Each text is refused with this line, column and message.
#[test]
fn refusals_say_where_and_why() {
    let cases: &[(&str, u32, u32, &str)] = &[
        ("", 1, 1, "there is no `trace` block"),
        ("/* CTF 2.0 */", 1, 8, "names version 2.0 of CTF"),
        ("\u{1e}{}", 1, 2, "a fragment needs `type`"),
        (
            "{\"type\": \"preamble\", \"version\": 2}",
            1,
            1,
            "begins with the separator 0x1e",
        ),
        (
            "trace { major = 1; minor = 9; byte_order = le; };",
            1,
            28,
            "`minor` is 9; only version 1.8",
        ),
        (
            "trace { major = 1; minor = 8; };",
            1,
            1,
            "a `trace` block needs `byte_order`",
        ),
        (
            "trace { major = 1; minor = 8; byte_order = native; };",
            1,
            44,
            "cannot be `native`",
        ),
        (
            "trace { major = 1; major = 1; };",
            1,
            20,
            "`major` is given twice",
        ),
        (
            "trace { colour = 1; };",
            1,
            1,
            "a `trace` block needs `major`",
        ),
        (
            "trace { uuid = \"12\"; };",
            1,
            16,
            "`uuid` must be a UUID of 32 hexadecimal digits",
        ),
        ("TRACE trace { };", 2, 1, "there are two `trace` blocks"),
        ("TRACE trace.packet := x;", 2, 6, "expected `{`"),
        (
            "TRACE clock { freq = 1; };",
            2,
            1,
            "a `clock` block needs `name`",
        ),
        (
            "TRACE clock { name = a; freq = 0; };",
            2,
            26,
            "a frequency of 0",
        ),
        (
            "TRACE clock { name = a; }; clock { name = a; };",
            2,
            37,
            "there are two clocks `a`",
        ),
        (
            "TRACE env { a = b.c; };",
            2,
            11,
            "`b.c` is neither a string nor an integer",
        ),
        (
            "TRACE stream { }; stream { id = 0; };",
            2,
            27,
            "there are two streams with id 0",
        ),
        (
            "TRACE event { name = a; }; event { name = b; };",
            2,
            22,
            "there are two events with id 0 in stream 0",
        ),
        (
            "TRACE event { name = a; stream_id = 1; };",
            2,
            31,
            "there is no stream with id 1",
        ),
        (
            "TRACE stream { id = 1; }; stream { id = 2; }; event { name = a; };",
            2,
            41,
            "needs `stream_id`",
        ),
        (
            "TRACE event { id = 1; };",
            2,
            1,
            "an `event` block needs `name`",
        ),
        (
            "FIELDS integer { align = 8; } a;",
            2,
            38,
            "an integer needs a `size`",
        ),
        (
            "FIELDS integer { size = 65; } a;",
            2,
            55,
            "integers of 1 to 64 bits",
        ),
        (
            "FIELDS integer { size = 0; } a;",
            2,
            55,
            "integers of 1 to 64 bits",
        ),
        (
            "FIELDS integer { size = 8; align = 3; } a;",
            2,
            66,
            "an alignment must be a power of two",
        ),
        (
            "FIELDS integer { size = 8; signed = maybe; } a;",
            2,
            67,
            "`signed` must be true or false",
        ),
        (
            "FIELDS integer { size = 8; byte_order = middle; } a;",
            2,
            71,
            "`byte_order` must be one of",
        ),
        (
            "FIELDS integer { size = 8; base = 7; } a;",
            2,
            65,
            "`7` is not a base",
        ),
        (
            "FIELDS integer { size = 8; encoding = UTF16; } a;",
            2,
            69,
            "the encoding `UTF16` is not supported",
        ),
        (
            "FIELDS integer { size = 8; map = clock.x.value; } a;",
            2,
            64,
            "there is no clock `x`",
        ),
        (
            "FIELDS integer { size = 8; map = x; } a;",
            2,
            64,
            "`map` must be of the form",
        ),
        (
            "FIELDS integer { size = 8; width = 9; } a;",
            2,
            58,
            "`width` is not a known attribute of an integer",
        ),
        (
            "FIELDS floating_point { exp_dig = 5; mant_dig = 12; } a;",
            2,
            79,
            "16 bits (exp_dig 5, mant_dig 11)",
        ),
        (
            "FIELDS string { encoding = latin; } a;",
            2,
            58,
            "the encoding `latin` is not supported",
        ),
        ("FIELDS u8 a;", 2, 38, "no type `u8` is defined before this"),
        (
            "FIELDS struct s a;",
            2,
            45,
            "no struct `s` is defined before this",
        ),
        (
            "FIELDS string a; string a;",
            2,
            55,
            "there are two fields `a`",
        ),
        (
            "FIELDS string a[b];",
            2,
            47,
            "no field `b` is read before this one",
        ),
        (
            "FIELDS string b; string a[b];",
            2,
            57,
            "must be an unsigned integer",
        ),
        (
            "FIELDS struct { integer { size = 8; } n; } b; string a[b.m];",
            2,
            86,
            "no field `b.m`",
        ),
        (
            "FIELDS string a[-1];",
            2,
            47,
            "cannot have a negative length",
        ),
        (
            "FIELDS variant { string a; } v;",
            2,
            60,
            "used without a tag",
        ),
        (
            "FIELDS integer { size = 8; } t; variant <t> { string a; } v;",
            2,
            72,
            "it must be an enumeration",
        ),
        (
            "FIELDS enum { a } x;",
            2,
            38,
            "no type `int` is defined before this",
        ),
        (
            "FIELDS enum : struct { } { a } x;",
            2,
            45,
            "must be stored as an integer",
        ),
        (
            "FIELDS enum : integer { size = 8; } { a = 3 ... 1 } x;",
            2,
            73,
            "the range 3 ... 1 is empty",
        ),
        ("FIELDS u8 *a;", 2, 38, "no type `u8 *` is defined"),
        (
            "FIELDS string *a;",
            2,
            38,
            "a pointer to a type without a name",
        ),
        (
            "FIELDS string a : 2;",
            2,
            49,
            "a bit-field must be an integer",
        ),
        (
            "FIELDS integer { size = 8; } a : 9;",
            2,
            64,
            "this bit-field can have 1 to 8 bits",
        ),
        ("FIELDS string a[env.n];", 2, 47, "`env.n` gives a length"),
        (
            "FIELDS enum : integer { size = 8; } { } x;",
            2,
            69,
            "needs at least one label",
        ),
        (
            "TRACE struct s { string a; }; struct s { string a; };",
            2,
            32,
            "the struct `s` is defined twice",
        ),
        (
            "TRACE stream { event.header := struct { integer { size = 8; signed = true; } id; }; };",
            2,
            72,
            "the event header's `id`",
        ),
        (
            "TRACE stream { packet.context := struct { integer { size = 8; signed = true; } packet_size; }; };",
            2,
            74,
            "`packet_size` must be an unsigned integer",
        ),
        (
            "TRACE stream { packet.context := string; };",
            2,
            28,
            "`stream.packet.context` must be a structure",
        ),
    ];
    for (text, line, column, words) in cases {
        let text = if let Some(rest) = text.strip_prefix("TRACE ") {
            format!("{TRACE}{rest}")
        } else if let Some(fields) = text.strip_prefix("FIELDS ") {
            format!("{TRACE}event {{ name = a; fields := struct {{ {fields} }}; }};")
        } else {
            (*text).to_owned()
        };
        match Metadata::parse(&text) {
            Err(Error::Metadata(error)) => {
                assert!(error.message.contains(words), "{error}\n{text}");
                let wanted = Position {
                    line: *line,
                    column: *column,
                };
                assert_eq!(error.position, wanted, "{error}\n{text}");
                assert!(
                    error
                        .to_string()
                        .starts_with(&format!("metadata, line {line}, column {column}: "))
                );
            }
            other => panic!("{other:?}\n{text}"),
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let refused = |bytes: &[u8]| Metadata::from_bytes(bytes).unwrap_err().to_string();
    assert!(
        refused(b"ab\ncd\xff").starts_with("metadata, line 2, column 3: the metadata is not UTF-8")
    );
    for packet in [[0x57, 0x1d, 0xd1, 0x75, 0], [0x75, 0xd1, 0x1d, 0x57, 0]] {
        assert!(refused(&packet).contains(
            "metadata packet 0, byte 0 of the file: the file ends inside the packet's header"
        ));
    }
}

/// Short texts that describe exponentially many fields.
#[test]
fn metadata_cannot_ask_for_more_than_there_is() {
    let mut doubling = TRACE.to_owned() + "struct s0 { string a; };\n";
    for i in 1..60 {
        doubling += &format!("struct s{i} {{ struct s{} a, b; }};\n", i - 1);
    }
    let refused = |text: String| Metadata::parse(&text).unwrap_err().to_string();
    assert!(
        refused(doubling + "event { name = a; fields := struct s59; };")
            .contains("more than 524288 fields")
    );

    let mut deep = TRACE.to_owned() + "struct s0 { string a; };\n";
    for i in 1..100_000 {
        deep += &format!("struct s{i} {{ struct s{} a; }};\n", i - 1);
    }
    assert!(refused(deep).contains("nested more than 64 deep"));
    assert!(
        refused(TRACE.to_owned() + &"struct a { ".repeat(100_000))
            .contains("nested more than 48 deep")
    );
    assert!(
        refused(
            TRACE.to_owned()
                + "event { name = a; fields := struct { string a"
                + &"[1]".repeat(100_000)
                + "; }; };"
        )
        .contains("nested")
    );
}
