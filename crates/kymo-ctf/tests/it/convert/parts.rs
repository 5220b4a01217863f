//! Trimming, filtering and repairing, on generated traces.

use std::fmt::Write as _;
use std::fs;

use kymo_ctf::{Extent, Format, ItemRef, Keep, Loss, Trace, convert};

use super::same::read;
use super::{Folder, bytes, whole, write};

/// Packets with all fields that have roles, and one more; two event classes.
const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 32; align = 32; } := u32;
typealias integer { size = 64; align = 64; map = clock.c.value; } := time;
trace { major = 1; minor = 8; byte_order = be; uuid = \"00112233-4455-6677-8899-aabbccddeeff\";
  packet.header := struct { u32 magic; integer { size = 8; } uuid[16]; u32 stream_id; }; };
env { hostname = \"a \\\"host\\\"\"; answer = -42; };
clock { name = c; freq = 1000000; offset_s = -5; offset = 77; precision = 3; description = \"ticks\"; absolute = TRUE;
  uuid = \"ffeeddcc-bbaa-9988-7766-554433221100\"; };
stream { id = 7;
  packet.context := struct { time timestamp_begin; time timestamp_end; u32 packet_size; u32 content_size; u32 packet_seq_num;
    u32 events_discarded; u32 cpu_id; u32 mark; };
  event.header := struct { u32 id; time t; }; };
event { name = \"small\"; id = 1; stream_id = 7; loglevel = 4; model.emf.uri = \"http://example.org/small\";
  fields := struct { u32 n; integer { size = 5; signed = true; base = 16; } x; string text; }; };
event { name = \"other\"; id = 70000; stream_id = 7; loglevel = 7; fields := struct { enum : u32 { A = 0, B = 1 ... 3 } e; u32 n[stream.packet.context.mark]; }; };
";

/// One packet of the stream; each event is a time and its payload.
#[derive(Clone, Default)]
struct Packet {
    begin: u64,
    end: u64,
    sequence: u32,
    discarded: u32,
    events: Vec<u64>,
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let word = |out: &mut Vec<u8>, value: u32| out.extend(value.to_be_bytes());
        word(&mut out, 0xc1fc_1fc1);
        out.extend([
            0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
            0xff,
        ]);
        word(&mut out, 7);
        out.extend(self.begin.to_be_bytes());
        out.extend(self.end.to_be_bytes());
        [0, 0, self.sequence, self.discarded, 3, 2]
            .into_iter()
            .for_each(|value| word(&mut out, value));
        for time in &self.events {
            out.resize(out.len().next_multiple_of(8), 0);
            let small = time % 3 != 0;
            word(&mut out, if small { 1 } else { 70000 });
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend(time.to_be_bytes());
            word(&mut out, *time as u32);
            if small {
                out.push((*time as u8) << 3);
                out.extend(b"text\0");
            } else {
                [5, 6].into_iter().for_each(|value| word(&mut out, value));
            }
        }
        let content = u32::try_from(out.len() * 8).unwrap();
        out.resize(out.len().next_multiple_of(64), 0);
        let size = u32::try_from(out.len() * 8).unwrap();
        out[40..44].copy_from_slice(&size.to_be_bytes());
        out[44..48].copy_from_slice(&content.to_be_bytes());
        out
    }
}

/// Ten packets of ten events each, 100 ticks long; before the fifth two packets are missing, and
/// the eighth reports 5 lost events.
fn packets() -> Vec<Packet> {
    (0..10u32)
        .map(|number| Packet {
            begin: u64::from(number) * 100,
            end: u64::from(number) * 100 + 99,
            sequence: 3 + number + if number >= 5 { 2 } else { 0 },
            discarded: 11 + if number >= 8 { 5 } else { 0 },
            events: (0..10)
                .map(|event| u64::from(number) * 100 + event * 10 + 1)
                .collect(),
        })
        .collect()
}

fn stream(packets: &[Packet]) -> Vec<u8> {
    packets.iter().flat_map(Packet::bytes).collect()
}

fn source(folder: &Folder, name: &str, bytes: Vec<u8>) -> std::path::PathBuf {
    let path = folder.join(name);
    write(&path, METADATA.as_bytes(), &[("s".to_owned(), bytes)]);
    path
}

/// Keeps events in this interval, and losses whose intervals overlap it.
fn between(from: u64, to: u64) -> impl FnMut(&ItemRef<'_>) -> Keep {
    move |item| {
        let (begin, end) = match item {
            ItemRef::Event(event) => (event.time(), event.time()),
            ItemRef::Loss(Loss { begin, end, .. }) => (*begin, *end),
            _ => return Keep::Take,
        };
        let (begin, end) = (begin.unwrap().0, end.unwrap().0);
        match (end < from, begin > to) {
            (true, _) => Keep::Leave,
            (_, true) => Keep::End,
            _ => Keep::Take,
        }
    }
}

#[test]
fn everything_the_metadata_says_is_kept() {
    let folder = Folder::new("says");
    let input = source(&folder, "in", stream(&packets()));
    whole(&input, &folder.join("one"), Format::Ctf18);
    whole(&input, &folder.join("two"), Format::Ctf2);
    whole(&folder.join("two"), &folder.join("back"), Format::Ctf18);
    let text = fs::read_to_string(folder.join("one").join("metadata")).unwrap();
    for part in [
        "/* CTF 1.8 */\n",
        "uuid = \"00112233-4455-6677-8899-aabbccddeeff\";",
        "hostname = \"a \\\"host\\\"\";",
        "answer = -42;",
        "freq = 1000000;",
        "offset_s = -5;",
        "offset = 77;",
        "precision = 3;",
        "description = \"ticks\";",
        "absolute = TRUE;",
        "uuid = \"ffeeddcc-bbaa-9988-7766-554433221100\";",
        "loglevel = 4;",
        "model.emf.uri = \"http://example.org/small\";",
        "integer { size = 8; align = 8; signed = true; base = 16; } x;",
        "\"B\" = 1 ... 3",
        "[stream.packet.context._mark]",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    // A round trip changes only the underscores of names, which CTF 2 does not need.
    let back = fs::read_to_string(folder.join("back").join("metadata")).unwrap();
    assert_eq!(text.replace('_', ""), back.replace('_', ""));
}

#[test]
fn a_part_has_its_events_and_the_losses_around_them() {
    let folder = Folder::new("part");
    let input = source(&folder, "in", stream(&packets()));
    // A part does not include streams without packets.
    fs::write(input.join("empty"), "").unwrap();
    let all = read(&input);
    assert_eq!((all.events.len(), all.losses.len()), (100, 2));
    for (number, (from, to)) in [
        (0, 2000),
        (250, 260),
        (450, 460),
        (499, 505),
        (720, 890),
        (795, 796),
        (0, 0),
        (1500, 1600),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.join(&format!("out-{number}"));
        fs::create_dir(&out).unwrap();
        convert(
            &Trace::open(&input).unwrap(),
            &out,
            Format::Ctf18,
            Extent::Part,
            between(from, to),
        )
        .unwrap();
        let mut expected = all.clone();
        expected
            .events
            .retain(|event| (from..=to).contains(&event.time.unwrap()));
        expected.losses.retain(|loss| loss.touches(from, to));
        assert_eq!(expected.differs(&read(&out)), None, "{from} to {to}");
        if expected.events.is_empty() && expected.losses.is_empty() {
            assert_eq!(bytes(&out).len(), 1, "only metadata");
        }
    }
}

#[test]
fn what_is_left_out_between_is_no_loss() {
    let folder = Folder::new("filter");
    let input = source(&folder, "in", stream(&packets()));
    let out = folder.join("out");
    fs::create_dir(&out).unwrap();
    let few = |item: &ItemRef<'_>| match item {
        ItemRef::Event(event) if event.time().unwrap().0 % 300 != 1 => Keep::Leave,
        _ => Keep::Take,
    };
    convert(
        &Trace::open(&input).unwrap(),
        &out,
        Format::Ctf18,
        Extent::Part,
        few,
    )
    .unwrap();
    let mut expected = read(&input);
    expected
        .events
        .retain(|event| event.time.unwrap() % 300 == 1);
    assert_eq!(expected.events.len(), 4);
    assert_eq!(expected.differs(&read(&out)), None);
}

#[test]
fn damage_is_mended() {
    let folder = Folder::new("damage");
    // A time that steps back, a packet that was never closed, a counter that steps back.
    let mut packets = packets();
    packets[1].events[5] = 101;
    packets[6].discarded = 2;
    let mut bytes = stream(&packets);
    let last = bytes.len() - packets[9].bytes().len();
    bytes[last + 40..last + 48].fill(0);
    let input = source(&folder, "in", bytes);
    let out = folder.join("out");
    let converted = whole(&input, &out, Format::Ctf18);
    assert_eq!(
        (converted.clamped, converted.closed, converted.events),
        (1, 1, 100)
    );
    assert!(
        converted.counters >= 1 && converted.damage.is_none(),
        "{converted:?}"
    );
    let (before, after) = (read(&input), read(&out));
    assert!(!before.problems.is_empty());
    assert_eq!(before.differs(&after), None);
}

#[test]
fn of_a_damaged_stream_everything_that_is_read_is_written() {
    let folder = Folder::new("cut");
    let whole_stream = stream(&packets());
    let mut cases = vec![
        whole_stream[..whole_stream.len() - 30].to_vec(),
        whole_stream[..200].to_vec(),
        whole_stream[..20].to_vec(),
        vec![7; 500],
    ];
    for at in (0..whole_stream.len()).step_by(97) {
        let mut bytes = whole_stream.clone();
        bytes[at] ^= 0xff;
        cases.push(bytes);
    }
    let mut damaged = 0;
    for (number, bytes) in cases.into_iter().enumerate() {
        let input = source(&folder, &format!("in-{number}"), bytes);
        for (what, format) in [("1.8", Format::Ctf18), ("2", Format::Ctf2)] {
            let out = folder.join(&format!("out-{number}-{what}"));
            let converted = whole(&input, &out, format);
            damaged += usize::from(converted.damage.is_some());
            let (before, after) = (read(&input), read(&out));
            assert_eq!(
                converted.damage.is_some(),
                before
                    .problems
                    .iter()
                    .any(|problem| is_error(&input, problem)),
                "{number}"
            );
            let difference = before.differs(&after);
            assert_eq!(difference, None, "case {number} in {what}");
        }
    }
    assert!(damaged > 20, "only {damaged} were damaged");
}

/// Whether the reader reports this problem as an error.
fn is_error(folder: &std::path::Path, problem: &str) -> bool {
    Trace::open(folder)
        .unwrap()
        .events()
        .any(|item| item.is_err_and(|error| error.to_string() == problem))
}

/// A stream that is one long packet is split, with full times.
#[test]
fn long_packets_are_split() {
    let folder = Folder::new("long");
    let metadata = "/* CTF 1.8 */
        typealias integer { size = 8; } := u8; typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
        trace { major = 1; minor = 8; byte_order = le; }; clock { name = c; };
        stream { event.header := struct { time t; }; };
        event { name = e; fields := struct { u8 n; integer { size = 8; align = 8; encoding = UTF8; } text[10000]; }; };";
    let mut bytes = Vec::new();
    for event in 0..400u64 {
        bytes.extend((event * 10).to_le_bytes());
        bytes.extend([event as u8 | 64; 10001]);
    }
    write(
        &folder.join("in"),
        metadata.as_bytes(),
        &[("s".to_owned(), bytes)],
    );
    let converted = whole(&folder.join("in"), &folder.join("out"), Format::Ctf18);
    assert_eq!((converted.events, converted.packets), (400, 4));
    assert_eq!(
        read(&folder.join("in")).differs(&read(&folder.join("out"))),
        None
    );
    whole(&folder.join("out"), &folder.join("again"), Format::Ctf18);
    assert!(super::bytes(&folder.join("out")) == super::bytes(&folder.join("again")));
}

/// The end of a packet that reports lost events is the end of the loss interval, however long the
/// packet is.
#[test]
fn long_packets_that_tell_of_losses_stay_whole() {
    let folder = Folder::new("long-losses");
    let metadata = "/* CTF 1.8 */
        typealias integer { size = 64; align = 8; } := u64; typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
        trace { major = 1; minor = 8; byte_order = le; }; clock { name = c; };
        stream { packet.context := struct { time timestamp_begin; time timestamp_end; u64 packet_size; u64 events_discarded; };
          event.header := struct { time t; }; };
        event { name = e; fields := struct { integer { size = 8; align = 8; encoding = UTF8; } text[10000]; }; };";
    let packet = |begin: u64, count: u64, discarded: u64| {
        let size = (32 + count * 10_008) * 8;
        let mut bytes: Vec<u8> = [begin, begin + 9999, size, discarded]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        for event in 0..count {
            bytes.extend((begin + event).to_le_bytes());
            bytes.extend([b'x'; 10_000]);
        }
        bytes
    };
    let bytes = [
        packet(0, 1, 0),
        packet(10_000, 300, 5),
        packet(20_000, 300, 5),
    ]
    .concat();
    write(
        &folder.join("in"),
        metadata.as_bytes(),
        &[("s".to_owned(), bytes)],
    );
    let converted = whole(&folder.join("in"), &folder.join("out"), Format::Ctf18);
    assert_eq!((converted.events, converted.packets), (601, 1 + 1 + 3));
    let source = read(&folder.join("in"));
    assert_eq!(
        (
            source.losses.len(),
            source.differs(&read(&folder.join("out")))
        ),
        (1, None)
    );
}

/// A packet that claims to end after the next one begins does not shift the next one's events.
#[test]
fn packets_that_end_late_move_no_event() {
    let folder = Folder::new("late");
    let mut packets = packets();
    packets[2].end = 650;
    let bytes = stream(&packets);
    let mut damaged = bytes.clone();
    // Damage the id of its second event, so that the rest, including its end, is not read.
    let at = stream(&packets[..2]).len() + 96;
    damaged[at..at + 4].fill(0xff);
    for (name, bytes, events) in [("whole", bytes, 100), ("damaged", damaged, 91)] {
        let input = source(&folder, name, bytes);
        let out = folder.join(&format!("{name}-out"));
        whole(&input, &out, Format::Ctf18);
        let before = read(&input);
        assert_eq!(
            (before.events.len(), before.differs(&read(&out))),
            (events, None),
            "{name}"
        );
    }
}

#[test]
fn ids_of_more_than_32_bits_are_kept() {
    let folder = Folder::new("ids");
    let metadata = "/* CTF 1.8 */
        typealias integer { size = 64; align = 8; } := u64;
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u64 stream_id; }; };
        stream { id = 0x10000000001; packet.context := struct { u64 cpu_id; }; event.header := struct { u64 id; }; };
        event { name = e; id = 0x20000000002; stream_id = 0x10000000001; };";
    let bytes = [0x100_0000_0001_u64, 0x300_0000_0003, 0x200_0000_0002]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    write(
        &folder.join("in"),
        metadata.as_bytes(),
        &[("s".to_owned(), bytes)],
    );
    let source = read(&folder.join("in"));
    assert_eq!(
        (source.events.len(), source.events[0].cpu),
        (1, Some(0x300_0000_0003))
    );
    for (name, format) in [("1.8", Format::Ctf18), ("2", Format::Ctf2)] {
        whole(&folder.join("in"), &folder.join(name), format);
        assert_eq!(source.differs(&read(&folder.join(name))), None, "{name}");
    }
}

/// Rare cases: numbers with reversed bits, and integers of the environment that do not fit into CTF
/// 1.8.
#[test]
fn reversed_bits_and_large_numbers_are_kept() {
    let folder = Folder::new("reversed");
    let float = |length: u64| {
        format!(
            r#"{{"name": "f{length}", "field-class": {{"type": "fixed-length-floating-point-number", "length": {length},
              "byte-order": "little-endian", "bit-order": "last-to-first", "alignment": 8}}}}"#
        )
    };
    let metadata = format!(
        "\u{1e}{}\u{1e}{}\u{1e}{}\u{1e}{}",
        r#"{"type": "preamble", "version": 2}"#,
        r#"{"type": "trace-class", "environment": {"large": 1180591620717411303424}}"#,
        r#"{"type": "data-stream-class"}"#,
        format_args!(
            r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {{"type": "structure", "member-classes": [{}, {}]}}}}"#,
            float(32),
            float(64)
        ),
    );
    let reversed = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .map(|byte| byte.reverse_bits())
            .collect::<Vec<u8>>()
    };
    let bytes = [
        reversed(&1.25f32.to_le_bytes()),
        reversed(&(-2.5e9f64).to_le_bytes()),
    ]
    .concat();
    write(
        &folder.join("in"),
        metadata.as_bytes(),
        &[("s".to_owned(), bytes)],
    );
    let source = read(&folder.join("in"));
    assert!(
        format!("{source:?}").contains("Float(1.25)")
            && format!("{source:?}").contains("Float(-2500000000.0)"),
        "{source:?}"
    );
    for (name, format) in [("1.8", Format::Ctf18), ("2", Format::Ctf2)] {
        whole(&folder.join("in"), &folder.join(name), format);
        assert_eq!(source.differs(&read(&folder.join(name))), None, "{name}");
        let text = fs::read_to_string(folder.join(name).join("metadata")).unwrap();
        assert!(text.contains("\"1180591620717411303424\""), "{text}");
    }
}

/// A length does not refer to a nearer field whose name differs only by the underscore that CTF 1.8
/// puts before names.
#[test]
fn names_that_differ_by_an_underscore_are_told_apart() {
    let folder = Folder::new("underscore");
    let byte = |name: &str| {
        format!(
            r#"{{"name": "{name}", "field-class": {{"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}}}}"#
        )
    };
    let array = r#"{"name": "a", "field-class": {"type": "dynamic-length-blob", "length-field-location": {"origin": "event-record-payload", "path": ["n"]}}}"#;
    let metadata = format!(
        "\u{1e}{}\u{1e}{}\u{1e}{}\u{1e}{}",
        r#"{"type": "preamble", "version": 2}"#,
        r#"{"type": "trace-class"}"#,
        r#"{"type": "data-stream-class"}"#,
        format_args!(
            r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {{"type": "structure", "member-classes": [{},
              {{"name": "s", "field-class": {{"type": "structure", "member-classes": [{}, {array}]}}}}]}}}}"#,
            byte("n"),
            byte("_n")
        ),
    );
    write(
        &folder.join("in"),
        metadata.as_bytes(),
        &[("s".to_owned(), vec![2, 1, 7, 8, 1, 3, 9])],
    );
    let source = read(&folder.join("in"));
    assert_eq!((source.events.len(), source.problems.len()), (2, 0));
    whole(&folder.join("in"), &folder.join("out"), Format::Ctf18);
    assert_eq!(source.lowered().differs(&read(&folder.join("out"))), None);
}

/// Lengths and tags that cannot keep their places: in the packet header and in an event header.
#[test]
fn what_depends_on_headers_is_written_again() {
    let folder = Folder::new("headers");
    let metadata = "/* CTF 1.8 */
        typealias integer { size = 8; } := u8;
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u8 n; enum : u8 { small = 0, large = 1 ... 9 } tag; }; };
        stream { packet.context := struct { u8 packet_size; u8 m; }; event.header := struct { u8 k; }; };
        event { name = e; fields := struct {
          u8 a[trace.packet.header.n];
          struct { u8 b[stream.event.header.k]; variant <trace.packet.header.tag> { u8 small; struct { u8 x; u8 y; } large; } v; } s[2];
          u8 c[stream.packet.context.m];
        }; };";
    let packet = |tag: u8, v: &[u8]| {
        let event = [&[1, 10, 11, 20][..], v, &[21], v, &[30, 31, 32]].concat();
        let head = [2, tag, ((4 + event.len()) * 8) as u8, 3];
        [&head[..], &event].concat()
    };
    let bytes = [packet(0, &[7]), packet(5, &[8, 9])].concat();
    write(
        &folder.join("in"),
        metadata.as_bytes(),
        &[("s".to_owned(), bytes)],
    );
    let before = read(&folder.join("in"));
    assert_eq!(
        (before.events.len(), before.problems.len()),
        (2, 0),
        "{:?}",
        before.problems
    );
    for (what, format) in [("one", Format::Ctf18), ("two", Format::Ctf2)] {
        whole(&folder.join("in"), &folder.join(what), format);
        assert_eq!(before.differs(&read(&folder.join(what))), None, "{what}");
    }
    let text = fs::read_to_string(folder.join("one").join("metadata")).unwrap();
    for part in [
        "__a_length;",
        "a[__a_length]",
        "__b_length;",
        "__v_tag;",
        "variant <__v_tag>",
        "c[stream.packet.context._m]",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

/// In CTF 2 the ticks of an offset are less than a second: whole seconds move to the seconds.
#[test]
fn offsets_keep_their_sum_or_are_refused() {
    let folder = Folder::new("offsets");
    let text = |seconds: i64, ticks: u64| {
        let offsets = format!("offset_s = {seconds}; offset = {ticks};");
        METADATA.replace("offset_s = -5; offset = 77;", &offsets)
    };
    let at = |name: &str| folder.join(name);
    for (number, (seconds, ticks)) in [(-5, 77), (i64::MIN, u64::MAX), (i64::MAX - 3, 3_999_999)]
        .into_iter()
        .enumerate()
    {
        let (input, out) = (at(&format!("in-{number}")), at(&format!("out-{number}")));
        write(
            &input,
            text(seconds, ticks).as_bytes(),
            &[("s".to_owned(), stream(&packets()))],
        );
        whole(&input, &out, Format::Ctf2);
        assert_eq!(
            read(&input).differs(&read(&out)),
            None,
            "{seconds} s and {ticks}"
        );
    }
    write(
        &at("in"),
        text(i64::MAX, 1_000_000).as_bytes(),
        &[("s".to_owned(), stream(&packets()))],
    );
    fs::create_dir(at("out")).unwrap();
    let error = convert(
        &Trace::open(&at("in")).unwrap(),
        &at("out"),
        Format::Ctf2,
        Extent::Whole,
        |_| Keep::Take,
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("not less than the clock's frequency"),
        "{error}"
    );
    assert!(bytes(&at("out")).is_empty());
}

/// A tree remains a tree; after an error nothing is left behind.
#[test]
fn trees_and_what_cannot_be_written() {
    let folder = Folder::new("tree");
    source(&folder, "in/kernel/a", stream(&packets()));
    source(&folder, "in/user/b", stream(&packets()));
    let input = folder.join("in");
    whole(&input, &folder.join("out"), Format::Ctf18);
    assert_eq!(read(&input).differs(&read(&folder.join("out"))), None);
    let mut names = String::new();
    bytes(&folder.join("out"))
        .keys()
        .for_each(|path| writeln!(names, "{}", path.display()).unwrap());
    assert_eq!(
        names,
        "kernel/a/index/s.idx\nkernel/a/metadata\nkernel/a/s\nuser/b/index/s.idx\nuser/b/metadata\nuser/b/s\n"
    );
    // A file is in place of a directory.
    let out = folder.join("other");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("user"), "mine").unwrap();
    let error = convert(
        &Trace::open(&input).unwrap(),
        &out,
        Format::Ctf18,
        Extent::Whole,
        |_| Keep::Take,
    )
    .unwrap_err();
    assert!(
        !error.is_full() && error.to_string().starts_with("cannot write the trace to"),
        "{error}"
    );
    assert_eq!(
        bytes(&out).into_iter().collect::<Vec<_>>(),
        [("user".into(), b"mine".to_vec())]
    );
}
