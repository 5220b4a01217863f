//! The exact output of `kymo dump` for small traces.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kymo_ctf::Trace;
use kymo_made::case;

use super::{Counts, Format, Outcome, Zone};
use crate::select::Select;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; } := u8;
typealias integer { size = 16; } := u16;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000; offset_s = 5; };
typealias integer { size = 64; map = clock.c.value; } := stamp;
stream {
    packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u16 packet_size; u16 content_size; u8 packet_seq_num; u8 events_discarded; u8 cpu_id; };
    event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; };
};
event { id = 1; name = "named"; fields := struct { u8 _n; string name; enum : u8 { idle, busy = 1 ... 9 } state; }; };
event { id = 2; name = "list"; context := struct { u8 depth; }; fields := struct { u8 len; u8 list[len]; struct { floating_point { exp_dig = 8; mant_dig = 24; } f; } in; }; };
event { id = 3; name = "empty"; };
event { id = 4; name = "based"; fields := struct { integer { size = 8; base = hex; } __list_length; integer { size = 8; base = hex; } _list[__list_length]; u8 __cut_length; string cut; }; };
"#;

fn packet(begin: u64, end: u64, seq: u8, discarded: u8, cpu: u8, records: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(begin.to_le_bytes());
    bytes.extend(end.to_le_bytes());
    let records = records.concat();
    let size = ((16 + 7 + records.len()) * 8) as u16;
    bytes.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
    bytes.extend([seq, discarded, cpu]);
    bytes.extend(records);
    bytes
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kymo-dump-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("index")).unwrap();
        let list = [&[2, 4, 7, 2, 30, 31][..], &1.5f32.to_le_bytes()].concat();
        let mut one = packet(2, 2, 0, 0, 0, &[]);
        one.extend(packet(
            2,
            9,
            1,
            3,
            0,
            &[b"\x01\x03\x05a\"b\0\x04", &list, &[3, 9]],
        ));
        let two = packet(2, 2, 0, 0, 1, &[]);
        let two = [two, packet(5, 9, 3, 0, 1, &[b"\x01\x06\x05\x1b\0\x63"])].concat();
        for (file, bytes) in [
            ("metadata", METADATA.as_bytes()),
            ("cpu_a", &one),
            ("b", &two),
            (".hidden", b"x"),
            ("index/a.idx", b"x"),
        ] {
            std::fs::write(path.join(file), bytes).unwrap();
        }
        Directory(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn open(&self) -> Trace {
        Trace::open(&self.0).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn dump(trace: &Directory, format: Format, out: &mut impl Write) -> anyhow::Result<Outcome> {
    super::run(
        &trace.open(),
        format,
        Zone::Utc,
        false,
        &mut Select::default(),
        out,
        &mut io::sink(),
    )
}

const OUTCOME: Outcome = Outcome {
    events: 4,
    lost_events: 3,
    lost_packets: 2,
};

#[test]
fn text_has_a_line_for_every_event_and_loss() {
    let trace = Directory::new("text");
    let mut out = Vec::new();
    assert_eq!(dump(&trace, Format::Kymo, &mut out).unwrap(), OUTCOME);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"-- 2 packets lost on b between 0.000000000 and 0.003000000
-- 3 events lost on cpu_a between 0.000000000 and 0.007000000
   0.001000000  cpu0   cpu_a  named { n = 5, name = "a\"b", state = busy (4) }
   0.002000000  cpu0   cpu_a  list { depth = 7 } { len = 2, list = [30, 31], in = { f = 1.5 } }
   0.004000000  cpu1   b      named { n = 5, name = "\u{1b}", state = 99 }
   0.007000000  cpu0   cpu_a  empty { }
"#
    );
}

#[test]
fn json_has_an_object_for_every_event_and_loss() {
    let trace = Directory::new("json");
    let mut out = Vec::new();
    assert_eq!(dump(&trace, Format::Json, &mut out).unwrap(), OUTCOME);
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(
        lines,
        [
            r#"{"type":"loss","kind":"packets","count":2,"stream":"b","cpu":1,"begin_ns":5002000000,"begin_cycles":2,"end_ns":5005000000,"end_cycles":5}"#,
            r#"{"type":"loss","kind":"events","count":3,"stream":"cpu_a","cpu":0,"begin_ns":5002000000,"begin_cycles":2,"end_ns":5009000000,"end_cycles":9}"#,
            r#"{"type":"event","time_ns":5003000000,"cycles":3,"cpu":0,"stream":"cpu_a","name":"named","fields":{"n":5,"name":"a\"b","state":{"value":4,"labels":["busy"]}}}"#,
            r#"{"type":"event","time_ns":5004000000,"cycles":4,"cpu":0,"stream":"cpu_a","name":"list","context":{"depth":7},"fields":{"len":2,"list":[30,31],"in":{"f":1.5}}}"#,
            r#"{"type":"event","time_ns":5006000000,"cycles":6,"cpu":1,"stream":"b","name":"named","fields":{"n":5,"name":"\u001b","state":{"value":99,"labels":[]}}}"#,
            r#"{"type":"event","time_ns":5009000000,"cycles":9,"cpu":0,"stream":"cpu_a","name":"empty","fields":{}}"#,
        ]
    );
}

#[test]
fn counts_are_by_event_cpu_and_stream() {
    let trace = Directory::new("count");
    let mut out = Vec::new();
    assert_eq!(
        super::count(&trace.open(), false, &mut Select::default(), &mut out).unwrap(),
        OUTCOME
    );
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "event  cpu0  cpu1  total\n\
         empty     1     0      1\n\
         list      1     0      1\n\
         named     1     1      2\n\
         \n\
         stream  events  lost events  lost packets\n\
         b            1            0             2\n\
         cpu_a        3            3             0\n\
         total        4            3             2\n"
    );
    let (counts, damage) = Counts::of(&trace.open(), &mut Select::default());
    assert!(damage.is_none());
    let json: serde_json::Value = serde_json::from_str(&counts.to_json()).unwrap();
    assert_eq!(
        json["events"][3],
        serde_json::json!({ "name": "named", "cpu": 1, "count": 1 })
    );
    assert_eq!(json["streams"]["b"]["lost_packets"], 2);
}

#[test]
fn damage_is_told_in_its_place_and_returned_after_the_rest() {
    let trace = Directory::new("damage");
    let file = trace.path().join("b");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    for format in [Format::Kymo, Format::Json] {
        let mut out = Vec::new();
        let error = dump(&trace, format, &mut out).unwrap_err();
        assert!(
            matches!(
                error.downcast_ref(),
                Some(kymo_ctf::Error::Stream { packet: 1, .. })
            ),
            "{error}"
        );
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.contains("b, packet 1, byte 51: the file ends inside this packet"),
            "{out}"
        );
        assert!(out.lines().last().unwrap().contains("empty"), "{out}");
    }
}

#[test]
fn a_directory_that_is_no_trace_is_an_error() {
    assert!(matches!(
        Trace::open(Path::new("/nonexistent/trace")),
        Err(kymo_ctf::Error::Io { .. })
    ));
}

/// Text leaves out a length that is visible from its sequence, and prints others.
#[test]
fn text_shows_integers_in_their_base_and_lengths_once() {
    let trace = Directory::new("base");
    let record = b"\x04\x03\x02\x10\xff\x09cut\0";
    std::fs::write(trace.path().join("b"), packet(2, 9, 0, 0, 0, &[record])).unwrap();
    std::fs::write(trace.path().join("cpu_a"), b"").unwrap();
    let mut out = Vec::new();
    dump(&trace, Format::Kymo, &mut out).unwrap();
    let expected = "   0.001000000  cpu0   b      based { list = [0x10, 0xff], _cut_length = 9, cut = \"cut\" }\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// Values that only CTF 2 has.
#[test]
fn every_kind_of_value_of_ctf_2_is_shown() {
    const CTF_2: &str = r#"␞{"type": "preamble", "version": 2}
␞{"type": "field-class-alias", "name": "leb", "field-class": {"type": "variable-length-unsigned-integer", "preferred-display-base": 16}}
␞{"type": "data-stream-class"}
␞{"type": "event-record-class", "name": "e", "payload-field-class": {"type": "structure", "member-classes": [
 {"name": "there", "field-class": {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian"}},
 {"name": "bits", "field-class": {"type": "fixed-length-bit-array", "length": 8, "byte-order": "little-endian"}},
 {"name": "map", "field-class": {"type": "fixed-length-bit-map", "length": 8, "byte-order": "little-endian", "flags": {"LOW": [[0, 3]], "HIGH": [[4, 7]]}}},
 {"name": "blob", "field-class": {"type": "static-length-blob", "length": 2}},
 {"name": "maybe", "field-class": {"type": "optional", "selector-field-location": {"path": ["there"]}, "field-class": "leb"}},
 {"name": "s", "field-class": "leb"},
 {"name": "v", "field-class": {"type": "variant", "selector-field-location": {"path": ["s"]}, "options": [
  {"selector-field-ranges": [[0, 0]], "field-class": "leb"}, {"name": "named", "selector-field-ranges": [[1, 1]], "field-class": "leb"}]}}]}}
"#;
    let trace = Directory::new("ctf-2");
    std::fs::write(trace.path().join("metadata"), CTF_2.replace('␞', "\u{1e}")).unwrap();
    std::fs::write(
        trace.path().join("b"),
        [
            1, 0x2a, 0x81, 0, 0xff, 0x0b, 0, 0x0c, 0, 0, 0, 1, 2, 1, 0x0d,
        ],
    )
    .unwrap();
    std::fs::write(trace.path().join("cpu_a"), b"").unwrap();
    let dumped = |format| {
        let mut out = Vec::new();
        dump(&trace, format, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let events = text.lines().map(|line| {
            line.split_once(if format == Format::Json {
                "\"fields\":"
            } else {
                "e {"
            })
            .unwrap()
            .1
            .to_owned()
        });
        events.collect::<Vec<_>>()
    };
    let expected = [
        " there = true, bits = 0x2a, map = LOW|HIGH (0x81), blob = <00 ff>, maybe = 0xb, s = 0x0, \
         v = 0xc }",
        " there = false, bits = 0x0, map = 0x0, blob = <01 02>, maybe = none, s = 0x1, v = named: \
         0xd }",
    ];
    assert_eq!(dumped(Format::Kymo), expected);
    let expected = [
        r#"{"there":true,"bits":42,"map":{"value":129,"labels":["LOW","HIGH"]},"blob":[0,255],"maybe":11,"s":0,"v":{"":12}}}"#,
        r#"{"there":false,"bits":0,"map":{"value":0,"labels":[]},"blob":[1,2],"maybe":null,"s":1,"v":{"named":13}}}"#,
    ];
    assert_eq!(dumped(Format::Json), expected);
}

/// Numbers are exact, in the preferred base; in JSON they are text, because readers keep at most 64
/// bits of a number.
#[test]
fn numbers_of_more_than_64_bits_are_exact() {
    const METADATA: &str = r#"␞{"type": "preamble", "version": 2}
␞{"type": "data-stream-class"}
␞{"type": "event-record-class", "name": "e", "payload-field-class": {"type": "structure", "member-classes": [
 {"name": "n", "field-class": {"type": "fixed-length-signed-integer", "length": 72, "byte-order": "little-endian"}},
 {"name": "hex", "field-class": {"type": "fixed-length-signed-integer", "length": 72, "byte-order": "little-endian", "preferred-display-base": 16}},
 {"name": "oct", "field-class": {"type": "fixed-length-unsigned-integer", "length": 72, "byte-order": "little-endian", "preferred-display-base": 8}},
 {"name": "bin", "field-class": {"type": "fixed-length-unsigned-integer", "length": 72, "byte-order": "little-endian", "preferred-display-base": 2}},
 {"name": "bits", "field-class": {"type": "fixed-length-bit-array", "length": 72, "byte-order": "little-endian"}},
 {"name": "map", "field-class": {"type": "fixed-length-bit-map", "length": 72, "byte-order": "little-endian", "flags": {"LOW": [[0, 3]], "HIGH": [[64, 71]]}}},
 {"name": "yes", "field-class": {"type": "fixed-length-boolean", "length": 72, "byte-order": "little-endian"}},
 {"name": "leb", "field-class": {"type": "variable-length-unsigned-integer", "mappings": {"SOME": [[1, 5]], "MANY": [[18446744073709551616, 340282366920938463463374607431768211456]]}}}]}}
"#;
    let trace = Directory::new("wide");
    std::fs::write(
        trace.path().join("metadata"),
        METADATA.replace('␞', "\u{1e}"),
    )
    .unwrap();
    let (large, small) = ([0, 0, 0, 0, 0, 0, 0, 0, 0xff], [9, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut bytes = large.repeat(7);
    bytes.extend([[0x80; 18].as_slice(), &[4]].concat());
    bytes.extend(small.repeat(7));
    bytes.push(1);
    std::fs::write(trace.path().join("b"), bytes).unwrap();
    std::fs::write(trace.path().join("cpu_a"), b"").unwrap();
    let dumped = |format| {
        let mut out = Vec::new();
        dump(&trace, format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = dumped(Format::Kymo);
    let fields: Vec<&str> = text
        .lines()
        .map(|line| line.split_once("e {").unwrap().1)
        .collect();
    let binary = format!("0b11111111{}", "0".repeat(64));
    let expected = [
        &format!(
            " n = -18446744073709551616, hex = -0x10000000000000000, oct = 0o776000000000000000000000, bin = {binary}, \
             bits = 0xff0000000000000000, map = HIGH (0xff0000000000000000), yes = true, \
             leb = MANY (340282366920938463463374607431768211456) }}"
        ),
        " n = 9, hex = 9, oct = 0o11, bin = 0b1001, bits = 0x9, map = LOW (0x9), yes = true, leb = \
         SOME (1) }",
    ];
    assert_eq!(fields, expected);
    let json = dumped(Format::Json);
    let fields: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].clone())
        .collect();
    let high = "4703919738795935662080";
    let expected = [
        serde_json::json!({
            "n": "-18446744073709551616", "hex": "-18446744073709551616", "oct": high, "bin": high, "bits": high,
            "map": {"value": high, "labels": ["HIGH"]}, "yes": true,
            "leb": {"value": "340282366920938463463374607431768211456", "labels": ["MANY"]},
        }),
        serde_json::json!({
            "n": 9, "hex": 9, "oct": 9, "bin": 9, "bits": 9, "map": {"value": 9, "labels": ["LOW"]}, "yes": true,
            "leb": {"value": 1, "labels": ["SOME"]},
        }),
    ];
    assert_eq!(fields, expected);
    let lines = dumped(Format::Babeltrace);
    let fields: Vec<&str> = lines
        .lines()
        .map(|line| line.split_once(": { ").unwrap().1)
        .collect();
    let high = "FF0000000000000000";
    let expected = [
        &format!(
            "n = -18446744073709551616, hex = 0x{high}, oct = 0776000000000000000000000, bin = {binary}, bits = 0x{high}, \
             map = ( \"HIGH\" : container = 0x{high} ), yes = true, \
             leb = ( \"MANY\" : container = 340282366920938463463374607431768211456 ) }}"
        ),
        &format!(
            "n = 9, hex = 0x9, oct = 011, bin = 0b{}1001, bits = 0x9, map = ( \"LOW\" : container = 0x9 ), yes = true, \
             leb = ( \"SOME\" : container = 1 ) }}",
            "0".repeat(68)
        ),
    ];
    assert_eq!(fields, expected);
}

/// Borrowed and owned events give the same text and JSON.
#[test]
fn borrowed_and_owned_events_look_the_same() {
    let mut events = 0;
    for case in case::streams() {
        for metadata in [case.metadata("metadata"), case.metadata("metadata 2")]
            .into_iter()
            .flatten()
        {
            let trace = Directory::new("owned");
            let mut files = case.streams();
            files.push(("metadata".to_owned(), metadata));
            let _ = std::fs::remove_dir_all(trace.path());
            std::fs::create_dir_all(trace.path()).unwrap();
            files
                .iter()
                .for_each(|(file, bytes)| std::fs::write(trace.path().join(file), bytes).unwrap());
            let Ok(opened) = Trace::open(trace.path()) else {
                continue;
            };
            let [text, json] = [Format::Kymo, Format::Json].map(|format| {
                let mut out = Vec::new();
                // Damage is reported in its place.
                let _ = dump(&trace, format, &mut out);
                String::from_utf8(out).unwrap()
            });
            let mut lines = text.lines().zip(json.lines());
            for item in opened.events() {
                let (line, object) = lines.next().unwrap();
                let Ok(kymo_ctf::Item::Event(event)) = item else {
                    assert!(
                        line.starts_with("-- ") && !object.starts_with(r#"{"type":"event""#),
                        "{}: {line}",
                        case.name
                    );
                    continue;
                };
                let mut fields = super::fields_text(&event);
                super::escape_controls(&mut fields);
                assert!(
                    line.ends_with(&fields),
                    "{}: {line} has not {fields}",
                    case.name
                );
                let fields = format!(r#","fields":{}}}"#, super::fields_json(&event));
                assert!(
                    object.ends_with(&fields),
                    "{}: {object} has not {fields}",
                    case.name
                );
                events += 1;
            }
            assert_eq!(lines.next(), None, "{}", case.name);
        }
    }
    assert!(events > 100, "{events}");
}

/// Like babeltrace2, the standard output has neither losses nor damage.
#[test]
fn babeltrace_lines_are_events_alone() {
    let trace = Directory::new("babeltrace");
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let outcome = super::run(
        &trace.open(),
        Format::Babeltrace,
        Zone::Utc,
        false,
        &mut Select::default(),
        &mut out,
        &mut messages,
    );
    assert_eq!(outcome.unwrap(), OUTCOME);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"[00:00:05.003000000] (+?.?????????) named: { cpu_id = 0 }, { n = 5, name = "a\"b", state = ( "busy" : container = 4 ) }
[00:00:05.004000000] (+0.001000000) list: { cpu_id = 0 }, { depth = 7 }, { len = 2, list = [ [0] = 30, [1] = 31 ], in = { f = 1.5 } }
[00:00:05.006000000] (+0.002000000) named: { cpu_id = 1 }, { n = 5, name = "\e", state = ( <unknown> : container = 99 ) }
[00:00:05.009000000] (+0.003000000) empty: { cpu_id = 0 }
"#
    );
    assert_eq!(
        String::from_utf8(messages).unwrap(),
        "kymo: 2 packets lost on b between [00:00:05.002000000] and [00:00:05.005000000]\n\
         kymo: 3 events lost on cpu_a between [00:00:05.002000000] and [00:00:05.009000000]\n"
    );
}

struct Gone(io::ErrorKind);

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

#[test]
fn a_reader_that_left_is_no_error_and_a_full_disk_is() {
    let trace = Directory::new("pipe");
    for format in [Format::Kymo, Format::Json, Format::Babeltrace] {
        assert!(dump(&trace, format, &mut Gone(io::ErrorKind::BrokenPipe)).is_ok());
        assert!(dump(&trace, format, &mut Gone(io::ErrorKind::StorageFull)).is_err());
        assert!(
            super::count(
                &trace.open(),
                format == Format::Json,
                &mut Select::default(),
                &mut Gone(io::ErrorKind::BrokenPipe)
            )
            .is_ok()
        );
    }
}
