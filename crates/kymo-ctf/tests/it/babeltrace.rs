//! Compares this crate with babeltrace2 on the same traces: names, times, contexts, fields and
//! losses.

use std::process::Command;

use crate::writer::{Directory, Order, close, compact, event, extended, medium, open, preamble};
use kymo_ctf::{Fields, Item, LossKind, Trace, Value};

/// A value as in babeltrace2's text output.
fn show(value: &Value) -> String {
    match value {
        Value::UInt(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Enum { value, labels } => {
            let labels: Vec<String> = labels.iter().map(|label| format!("\"{label}\"")).collect();
            let labels = match labels.as_slice() {
                [] => "<unknown>".to_owned(),
                [one] => one.clone(),
                more => format!("{{ {} }}", more.join(", ")),
            };
            format!("( {labels} : container = {value} )")
        }
        Value::Float(value) => value.to_string(),
        Value::Str(text) => format!("\"{text}\""),
        Value::Array(values) if values.is_empty() => "[ ]".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values
                .iter()
                .enumerate()
                .map(|(i, value)| format!("[{i}] = {}", show(value)))
                .collect();
            format!("[ {} ]", values.join(", "))
        }
        Value::Struct(fields) => show_fields(fields),
        Value::Variant { value, .. } => format!("{{ {} }}", show(value)),
        other => panic!("{other:?}"),
    }
}

fn show_fields(fields: &Fields) -> String {
    if fields.is_empty() {
        return "{ }".to_owned();
    }
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name} = {}", show(value)))
        .collect();
    format!("{{ {} }}", fields.join(", "))
}

/// Events as babeltrace2 would print them, and losses by their counts.
fn ours(directory: &Directory) -> (Vec<String>, Vec<String>) {
    let (mut events, mut losses) = (Vec::new(), Vec::new());
    for item in Trace::open(directory.path()).unwrap().events() {
        match item.unwrap_or_else(|error| panic!("{error}")) {
            Item::Event(event) => {
                let context = event
                    .cpu()
                    .map_or(String::new(), |cpu| format!("{{ cpu_id = {cpu} }}, "));
                let contexts: String = [&event.stream_context, &event.context]
                    .iter()
                    .filter(|fields| !fields.is_empty())
                    .map(|fields| format!("{}, ", show_fields(fields)))
                    .collect();
                let time = event.time.map_or(0, |time| time.0);
                let fields = show_fields(&event.fields);
                events.push(format!(
                    "[{time:020}] {}: {context}{contexts}{fields}",
                    event.name()
                ));
            }
            Item::Loss(loss) => {
                let what = match loss.kind {
                    LossKind::Events => "event",
                    LossKind::Packets => "packet",
                };
                let s = if loss.count == 1 { "" } else { "s" };
                losses.push(format!(
                    "Tracer discarded {} {what}{s} between {} and {}",
                    loss.count,
                    clock_time(loss.begin_nanos.unwrap()),
                    clock_time(loss.end_nanos.unwrap())
                ));
            }
            other => panic!("{other:?}"),
        }
    }
    (events, losses)
}

/// babeltrace2 prints the times of losses as times of day, even if cycles are requested.
fn clock_time(nanos: i128) -> String {
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!(
        "[{hours:02}:{minutes:02}:{:02}.{:09}]",
        seconds % 60,
        nanos % 1_000_000_000
    )
}

fn theirs(directory: &Directory) -> (Vec<String>, Vec<String>) {
    let output = Command::new("babeltrace2")
        .args([
            "--clock-cycles",
            "--clock-gmt",
            "--no-delta",
            "--color=never",
        ])
        .arg(directory.path())
        .output()
        .expect("babeltrace2 is installed");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let losses = errors.lines().filter_map(|line| {
        let from = line.find("Tracer discarded")?;
        let to = line.find(" in trace ")?;
        Some(line[from..to].to_owned())
    });
    let events = String::from_utf8(output.stdout).unwrap();
    (
        events.lines().map(str::to_owned).collect(),
        losses.collect(),
    )
}

fn compare(name: &str, files: &[(&str, &[u8])], events: usize, losses: usize) {
    let directory = Directory::new(name, files);
    let (ours, theirs) = (ours(&directory), theirs(&directory));
    for (ours, theirs) in ours.0.iter().zip(&theirs.0) {
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(ours, theirs, "{name}");
    assert_eq!(
        (ours.0.len(), ours.1.len()),
        (events, losses),
        "{name}: as many as were written"
    );
}

const ALL_FIELDS: &str = r#"
    uint8_t _a; int32_t b; uint64_t c;
    integer { size = 3; align = 1; signed = true; } d;
    integer { size = 61; align = 1; signed = false; } e;
    integer { size = 7; align = 4; signed = false; } f;
    string s;
    floating_point { exp_dig = 8; mant_dig = 24; align = 8; } g;
    floating_point { exp_dig = 11; mant_dig = 53; align = 8; } h;
    integer { size = 8; align = 8; signed = false; encoding = UTF8; } text[6];
    uint8_t text_len;
    integer { size = 8; align = 8; signed = false; encoding = ASCII; } seqtext[text_len];
    uint8_t len;
    uint16_t seq[len];
    integer { size = 5; align = 1; signed = false; } small[3];
    struct { uint8_t x; struct { uint16_t y; } align(32) inner; } nested;
    enum : uint8_t { ZERO, "one thing" = 1, many = 2 ... 200, TOP } state;
    variant <state> { uint32_t ZERO; string many; struct { uint8_t p; uint8_t q; } TOP; } v;
    struct { uint8_t n; uint8_t d[n]; } rows[2];
    uint16_t grid[2][3];
    floating_point { exp_dig = 8; mant_dig = 24; } packed;
"#;

/// Appends a payload with the layout of [`ALL_FIELDS`]; `seed` varies it.
fn all_fields(bits: &mut crate::writer::Bits, seed: u64) {
    bits.u8(seed as u8)
        .u32((seed as u32).wrapping_neg())
        .u64(seed.wrapping_mul(0x0123_4567_89ab_cdef));
    bits.put(3, seed)
        .put(61, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .align(4)
        .put(7, seed * 5);
    // Never empty: babeltrace2 2.0.4 prints an empty string as the field's previous string.
    bits.text(["b", "a", "kymo draws"][seed as usize % 3]);
    bits.align(8)
        .put(32, f32::to_bits(0.5 + seed as f32).into());
    bits.align(8).put(64, f64::to_bits(-0.25 * seed as f64));
    for byte in *b"ab\0cd\0" {
        bits.u8(byte);
    }
    // Never 0, for the same reason.
    let len = 1 + seed % 3;
    bits.u8(len as u8);
    for i in 0..len {
        bits.u8(b'x' + i as u8);
    }
    let len = seed % 4;
    bits.u8(len as u8).align(8);
    for i in 0..len {
        bits.align(8).put(16, i * 1000);
    }
    for i in 0..3 {
        bits.put(5, seed + i);
    }
    bits.align(32).u8(7).align(32).align(8).put(16, seed);
    match seed % 4 {
        0 => bits.u8(0).u32(99),
        1 => bits.u8(100).text("option"),
        2 => bits.u8(201).u8(1).u8(2),
        _ => bits.u8(2).text("low"),
    };
    for n in 0..2 {
        bits.u8(n);
        for i in 0..n {
            bits.u8(i);
        }
    }
    for i in 0..6 {
        bits.align(8).put(16, i);
    }
    bits.put(32, f32::to_bits(1.5).into());
}

#[test]
#[ignore = "needs babeltrace2: cargo xtask test runs it"]
fn every_kind_of_field_in_both_byte_orders() {
    for order in [Order::Le, Order::Be] {
        let metadata = preamble(order, 1_000_000_000, 0, 0)
            + &event(1, "all", ALL_FIELDS)
            + &event(2, "none", "");
        let mut packet = open(order, 0, 1000, 9000, 0, 0, 3);
        for seed in 0..12 {
            all_fields(compact(&mut packet, 1, 1000 + seed * 10), seed);
            compact(&mut packet, 2, 1005 + seed * 10);
        }
        compare(
            &format!("fields-{order:?}"),
            &[("metadata", metadata.as_bytes()), ("s", &close(packet, 8))],
            24,
            0,
        );
    }
}

#[test]
#[ignore = "needs babeltrace2: cargo xtask test runs it"]
fn every_event_header_and_wrapping_time() {
    for order in [Order::Le, Order::Be] {
        let text = preamble(order, 3_000_000_001, 1_700_000_000, 12_345);
        let metadata = text
            + &event(1, "one", "uint32_t n;")
            + &event(1000, "far", "uint8_t n;")
            + &event(29, "last", "uint8_t n;");
        let window = 1 << 27;
        let mut time = 5 * window - 3;
        let mut packet = open(order, 0, time, 99 * window, 0, 0, 0);
        for n in 0..20 {
            compact(&mut packet, 1, time).u32(n);
            time += 1;
            medium(&mut packet, 1000, time).u8(n as u8);
            time += window - 1;
            compact(&mut packet, 29, time).u8(n as u8);
            time += 2 * window + 17;
            extended(&mut packet, 1000, time).u8(n as u8);
        }
        compare(
            &format!("headers-{order:?}"),
            &[("metadata", metadata.as_bytes()), ("s", &close(packet, 0))],
            80,
            0,
        );
    }
}

#[test]
#[ignore = "needs babeltrace2: cargo xtask test runs it"]
fn streams_are_merged_and_losses_have_the_same_interval() {
    let metadata = preamble(Order::Le, 10_000_000, 0, 0) + &event(1, "tick", "uint32_t n;");
    let stream = |cpu: u32, step: u64| {
        // The empty first packet of every Kymo stream, then losses of both kinds, then an empty
        // last packet.
        let mut bytes = close(open(Order::Le, cpu.into(), 50, 50, 0, 0, cpu), 0);
        let (mut time, mut last, mut lost, mut seq) = (100 + u64::from(cpu), 50, 0, 0);
        for number in 0..6 {
            let begin = last;
            lost += number % 3 * 4;
            seq += 1 + u64::from(number == 2) + 3 * u64::from(number == 4);
            let mut records = open(Order::Le, cpu.into(), begin, 0, seq, lost, cpu);
            for n in 0..50 {
                compact(&mut records, 1, time).u32(n);
                last = time;
                time += step;
            }
            records.set((32 + 8) * 8, 64, last);
            bytes.extend(close(records, number));
        }
        bytes.extend(close(
            open(
                Order::Le,
                cpu.into(),
                last,
                last + 5,
                seq + 1,
                lost + 1,
                cpu,
            ),
            0,
        ));
        bytes
    };
    let streams = [stream(0, 7), stream(1, 11), stream(2, 13)];
    let files: [(&str, &[u8]); 5] = [
        ("metadata", metadata.as_bytes()),
        ("a", &streams[0]),
        ("b", &streams[1]),
        ("c", &streams[2]),
        ("empty", &[]),
    ];
    let directory = Directory::new("merge", &files);
    let (ours, theirs) = (ours(&directory), theirs(&directory));
    assert_eq!((ours.0.len(), ours.1.len()), (900, 21));
    // babeltrace2 orders items of the same time by trace and stream properties, this crate by file
    // name.
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(ours.0), sorted(theirs.0));
    assert_eq!(sorted(ours.1), sorted(theirs.1));
}

#[test]
#[ignore = "needs babeltrace2: cargo xtask test runs it"]
fn contexts_and_references_across_them() {
    let metadata = preamble(Order::Le, 1_000_000_000, 0, 0).replace(
        "event.header := struct event_header;",
        "event.header := struct event_header; event.context := struct { uint8_t _depth; uint32_t \
         tid; };",
    ) + r#"
        event {
            id = 1; name = "calls"; stream_id = 0; loglevel = 13;
            context := struct { uint8_t kind; };
            fields := struct {
                uint32_t stack[stream.event.context._depth];
                uint8_t again[stream.event.context._depth];
                struct { uint16_t deeper[event.context.kind]; } in;
            };
        };
    "#;
    let mut packet = open(Order::Le, 0, 0, 1000, 0, 0, 0);
    for depth in 0..4 {
        let kind = depth % 2;
        compact(&mut packet, 1, depth)
            .u8(depth as u8)
            .u32(42)
            .u8(kind as u8)
            .align(8);
        for i in 0..depth {
            packet.u32(i as u32);
        }
        for i in 0..depth {
            packet.u8(i as u8);
        }
        for _ in 0..kind {
            packet.put(16, 7);
        }
    }
    compare(
        "contexts",
        &[("metadata", metadata.as_bytes()), ("s", &close(packet, 0))],
        4,
        0,
    );
}
