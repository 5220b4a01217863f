//! Programs in C and C++ that record with the library on this machine; their traces are read back.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod build;
mod generator;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use build::{C, CPP, compiler, here, library, library_for_nmis, run, scratch};
use generator::Expected;
use kymo_capture::receive::{Ending, Line, Options, receive};
use kymo_ctf::{Item, Trace, Value};

/// Compiles and runs tests/c/record.c in a language. Returns its trace.
fn recorded(name: &str, language: &[&str]) -> PathBuf {
    recorded_by("record", name, language)
}

/// Compiles and runs a program of tests/c that writes a trace.
fn recorded_by(program: &str, name: &str, language: &[&str]) -> PathBuf {
    recorded_with(library(), &[], program, name, language)
}

fn recorded_with(
    library: &Path,
    flags: &[&str],
    program: &str,
    name: &str,
    language: &[&str],
) -> PathBuf {
    let file = here(&format!("tests/c/{program}.c"));
    let folder = scratch(name);
    let trace = folder.join("trace");
    fs::create_dir(&trace).unwrap();
    fs::write(folder.join("calls.h"), generator::calls().0).unwrap();
    let program = folder.join("record");
    let mut compile = compiler(language, &["-Wno-missing-field-initializers"]);
    compile.arg("-I").arg(&folder).args(flags).arg(file);
    // The library is no C++.
    compile
        .args(["-x", "none"])
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"]);
    run(compile.arg(&program));
    run(Command::new(&program).arg(&trace));
    trace
}

/// What the program's own events have, in their order.
fn own() -> Vec<Expected> {
    let event = |name: &str, fields: &[(&str, &str)]| Expected {
        name: name.to_owned(),
        names: false,
        fields: fields
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect(),
    };
    let everything = |m: &str, n: &str, o: &str| {
        event(
            "everything",
            &[
                ("a", "1"),
                ("b", "2"),
                ("c", "3"),
                ("d", "4"),
                ("e", "-1"),
                ("f", "-2"),
                ("g", "-3"),
                ("h", "-4"),
                ("i", "241"),
                ("j", "62194"),
                ("k", "4092851187"),
                ("l", "17651002172490708212"),
                ("m", m),
                ("_n_cut", "0"),
                ("n", n),
                ("_o_cut", "0"),
                ("o", o),
            ],
        )
    };
    let sensor = |value| event("sensor", &[("value", value)]);
    vec![
        event(
            "block_done",
            &[("sector", "1311768467463790320"), ("error", "-5")],
        ),
        event("block_done", &[("sector", "1"), ("error", "2")]),
        everything("true", "caf\u{e9}", ""),
        everything("false", "abc", ""),
        sensor("42"),
        sensor("43"),
        event("watchdog", &[]),
        event("watchdog", &[]),
        event("rare_watchdog", &[]),
        event("rare_watchdog", &[]),
    ]
}

fn text(value: &Value) -> String {
    match value {
        Value::UInt(number) => number.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Enum { labels, .. } => labels[0].to_string(),
        Value::Str(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// The trace has all that was recorded, on each CPU, in order and with its values.
fn has_everything(trace: &Path) {
    let mut seen: [Vec<Expected>; 4] = Default::default();
    let (mut end, mut lost) = (None, 0);
    for item in Trace::open(trace).unwrap().events() {
        let event = match item.unwrap() {
            Item::Event(event) => event,
            Item::Loss(loss) => {
                lost += loss.count;
                continue;
            }
            _ => continue,
        };
        let stream = event.stream().to_string();
        let names = stream.starts_with("names");
        // Whether a text was cut is compared.
        let fields = event
            .fields
            .iter()
            .filter(|(name, _)| !name.ends_with("_length"));
        let fields = fields
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        let event = Expected {
            name: event.name().to_owned(),
            names,
            fields,
        };
        if event.name == "kymo_session_end" {
            end = Some(event);
            continue;
        }
        let cpu = usize::from(stream.ends_with("_1"));
        seen[2 * cpu + usize::from(names)].push(event);
    }
    let (_, calls) = generator::calls();
    let dumped = Expected {
        name: "thread_name".to_owned(),
        names: true,
        fields: vec![
            ("tid".to_owned(), "7".to_owned()),
            ("_name_cut".to_owned(), "0".to_owned()),
            ("name".to_owned(), "dumped".to_owned()),
        ],
    };
    for (index, seen) in seen.iter().enumerate() {
        let (cpu, names) = (index / 2, index % 2 == 1);
        let mut expected: Vec<_> = calls
            .iter()
            .filter(|call| call.names == names)
            .cloned()
            .collect();
        match (cpu, names) {
            (_, false) => expected.extend(own()),
            (0, true) => {
                expected.insert(0, dumped.clone());
                expected.push(dumped.clone());
            }
            _ => {}
        }
        if (cpu, names) == (0, false) {
            let enter = calls
                .iter()
                .find(|call| call.name == "sched_enter")
                .unwrap();
            expected.push(enter.clone());
        }
        for (seen, expected) in seen.iter().zip(&expected) {
            assert_eq!(seen, expected, "CPU {cpu}");
        }
        assert_eq!(seen.len(), expected.len(), "CPU {cpu}, names: {names}");
    }
    let end = end.expect("the session's end is recorded").fields;
    let without_ring = end.iter().find(|(name, _)| name == "without_ring").unwrap();
    assert_eq!(without_ring.1, "1", "that of the third CPU");
    assert_eq!(lost, 1, "no other");
}

#[test]
fn what_c_records_is_in_the_trace() {
    has_everything(&recorded("c", &C));
}

/// V-06 in C: the same where records nest.
#[test]
fn what_c_records_with_nmis_is_in_the_trace() {
    let flags = ["-DKYMO_NMI"];
    let trace = recorded_with(library_for_nmis(), &flags, "record", "c_nmi", &C);
    has_everything(&trace);
}

#[test]
fn what_cpp_records_is_in_the_trace() {
    has_everything(&recorded("c++", &CPP));
}

/// An event's name and fields, in one line.
fn line(event: &kymo_ctf::Event) -> String {
    let fields = event.fields.iter();
    let fields = fields.filter(|(name, _)| !name.ends_with("_length"));
    let fields: Vec<String> = fields
        .map(|(name, value)| match value {
            Value::Array(all) => {
                let all: Vec<String> = all.iter().map(text).collect();
                format!("{name}=[{}]", all.join(" "))
            }
            value => format!("{name}={}", text(value)),
        })
        .collect();
    format!("{} {} {}", event.stream(), event.name(), fields.join(" "))
}

/// All events but the session's end, one a line. Nothing may be lost.
fn lines(trace: &Trace) -> Vec<String> {
    let events = trace.events().filter_map(|item| match item.unwrap() {
        Item::Event(event) => Some(line(&event)),
        Item::Loss(loss) => panic!("{loss:?}"),
        _ => None,
    });
    events
        .filter(|line| !line.contains("kymo_session_end"))
        .collect()
}

/// Samples have the callers that frame pointers lead to, and say why there are no more; they stand
/// beside the events of the session.
#[test]
fn what_c_samples_is_in_the_trace() {
    let trace = recorded_by("sample", "sample", &C);
    let lines = lines(&Trace::open(&trace).unwrap());
    let expected = [
        "events_0 thread_yield tid=1",
        "names_0 sampling period=1000 depth=127 driver=Timer",
        "samples_0 sample ip=4096 tid=7 period=1000 missed=0 mode=Kernel \
         kernel_callers=2 kernel_end=Complete user_end=Absent _callchain_cut=0 \
         callchain=[4104 4112]",
        "samples_0 sample ip=4096 tid=7 period=1000 missed=3 mode=Kernel \
         kernel_callers=2 kernel_end=Complete user_end=Complete _callchain_cut=0 \
         callchain=[4104 4112 20480 20488]",
        "samples_0 sample ip=20484 tid=7 period=1000 missed=3 mode=User \
         kernel_callers=0 kernel_end=Absent user_end=Complete _callchain_cut=0 \
         callchain=[20488]",
        "samples_0 sample ip=20484 tid=7 period=1000 missed=3 mode=Kernel \
         kernel_callers=0 kernel_end=Unmapped user_end=Absent _callchain_cut=0 \
         callchain=[]",
        "samples_1 sample ip=20484 tid=7 period=1000 missed=3 mode=Kernel \
         kernel_callers=0 kernel_end=Unmapped user_end=Absent _callchain_cut=0 \
         callchain=[]",
        "events_0 thread_yield tid=2",
    ];
    assert_eq!(lines, expected);
}

/// N-15 in C: counters, gauges and histograms are recorded at their period and at the end, as each
/// CPU has counted, whether a session ran or not; and the metadata names them.
#[test]
fn what_c_counts_is_in_the_trace() {
    for (folder, language) in [("counters", &C[..]), ("counters_cpp", &CPP)] {
        let trace = Trace::open(&recorded_by("counters", folder, language)).unwrap();
        let lines = lines(&trace);
        let sizes = |cpu: u32, rest: &str| {
            format!("events_0 kymo_histogram cpu={cpu} counter=request_size {rest}")
        };
        let none = |cpu: u32| {
            format!(
                "events_0 kymo_histogram cpu={cpu} counter=reply_size sum=0 first=0 \
                 _buckets_cut=0 buckets=[]"
            )
        };
        let of_0 = |packets: u32| {
            let sum = "sum=1099511629276";
            [
                format!("events_0 kymo_counter cpu=0 counter=packets_sent value={packets}"),
                sizes(
                    0,
                    &format!("{sum} first=0 _buckets_cut=0 buckets=[1 0 0 0 0 0 0 0 0 0 0 1]"),
                ),
                sizes(0, &format!("{sum} first=41 _buckets_cut=0 buckets=[1]")),
                "events_0 kymo_gauge cpu=0 counter=buffers_used value=5".to_owned(),
                none(0),
            ]
        };
        let of_1 = [
            // One less than nothing: words wrap around.
            format!(
                "events_0 kymo_counter cpu=1 counter=packets_sent value={}",
                u64::MAX
            ),
            sizes(1, "sum=1 first=1 _buckets_cut=0 buckets=[1]"),
            "events_0 kymo_gauge cpu=1 counter=buffers_used value=-2".to_owned(),
            none(1),
        ];
        assert_eq!(lines, [&of_0(6)[..], &of_0(16), &of_1].concat());
        let declared: Vec<String> = trace
            .metadata()
            .env()
            .iter()
            .filter(|(name, _)| name.starts_with("kymo_counter_"))
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(
            declared,
            [
                "kymo_counter_0: packets_sent: counter of 64 bits, packets:",
                "kymo_counter_1: request_size: histogram of 64 bits, bytes:",
                "kymo_counter_67: buffers_used: gauge of 64 bits, buffers:",
                "kymo_counter_68: reply_size: histogram of 64 bits, bytes:",
            ]
        );
    }
}

/// The mode `count` in C: each CPU's groups by a driver of the kernel's, with their own times.
#[test]
fn what_processors_count_for_c_is_in_the_trace() {
    for (folder, language) in [("counting", &C[..]), ("counting_cpp", &CPP)] {
        let trace = Trace::open(&recorded_by("counting", folder, language)).unwrap();
        let lines = lines(&trace);
        let of = |stream: &str| -> Vec<&str> {
            let lines = lines.iter();
            lines.filter_map(|line| line.strip_prefix(stream)).collect()
        };
        let names = [
            (0, 0, "cycles"),
            (0, 1, "page-faults:u"),
            (1, 0, "r7:u"),
            (1, 1, "instructions:k"),
            (1, 2, "page-faults:k"),
        ];
        let names = names.map(|(group, place, name)| {
            format!(
                "counted_event group={group} groups=2 place={place} events={} _name_cut=0 \
                 name={name}",
                group + 2
            )
        });
        assert_eq!(of("names_0 "), names);
        for (cpu, cycles) in [(0, 40_000), (1, 41_000)] {
            // The groups have a turn each millisecond.
            let counts = |times: u64| {
                let times_enabled = format!("time_enabled={}", 2_000_000 * times);
                let each = [
                    format!("{} {}", cycles * times, 2 * times),
                    // What happens in programs only is not counted in the kernel.
                    format!("{} 0 {times}", 3 * times),
                ];
                each.into_iter().zip(0..).map(move |(counts, group)| {
                    format!(
                        "group_count {times_enabled} time_running={} group={group} _counts_cut=0 \
                         counts=[{counts}]",
                        1_000_000 * times
                    )
                })
            };
            // The last ones when the mode stops.
            let expected: Vec<String> = [0, 1, 2, 3, 4, 4].into_iter().flat_map(counts).collect();
            assert_eq!(of(&format!("events_{cpu} ")), expected);
        }
    }
}

/// Names what an address is in, of the functions that the trace names by where they begin; what
/// stands in front of all or far behind is `?`.
fn functions(lines: &[String], names: &[&'static str]) -> impl Fn(&str) -> &'static str {
    let begins = lines.iter().filter_map(|line| {
        let (_, begin) = line.split_once(" function begin=")?;
        Some(begin.parse::<u64>().unwrap())
    });
    let all: Vec<(u64, &str)> = begins.zip(names.iter().copied()).collect();
    assert_eq!(all.len(), names.len());
    move |address| {
        let address: u64 = address.parse().unwrap();
        let before = all.iter().filter(|(begin, _)| *begin < address);
        let last = before.max().filter(|(begin, _)| address - begin < 16384);
        last.map_or("?", |(_, name)| name)
    }
}

/// Each event of the trace as its stream, its name and its number, each stack as its event, its
/// thread and its functions, and each count as its event and its counts.
fn shown(lines: &[String], names: &[&'static str]) -> Vec<String> {
    let function = functions(lines, names);
    let field = |line: &str, name: &str| -> String {
        let found = line.split_once(&format!(" {name}=")).unwrap().1;
        found.split(' ').next().unwrap().to_owned()
    };
    let show = |line: &String| {
        let event = line.split(' ').nth(1).unwrap();
        let list = || line.rsplit_once('[').unwrap().1.trim_end_matches(']');
        match event {
            "event_stack" => {
                let first = function(&field(line, "ip"));
                let list = list().split(' ').filter(|address| !address.is_empty());
                let callers: Vec<&str> = list.map(&function).collect();
                assert_eq!(field(line, "kernel_callers"), callers.len().to_string());
                let (id, tid) = (field(line, "event"), field(line, "tid"));
                [&[&*format!("{id} by {tid}: {first}")], &callers[..]]
                    .concat()
                    .join(" < ")
            }
            "event_count" => format!("{} {}", field(line, "event"), list()),
            _ => line.clone(),
        }
    };
    let is_shown = |line: &&String| {
        !["function", "_0 counted_event", "group_count"]
            .iter()
            .any(|event| line.contains(&format!("{event} ")))
    };
    lines.iter().filter(is_shown).map(show).collect()
}

/// P-54 and N-05 in C: events record who called them, in all forms that an event has and however
/// the kernel is optimized, and what their CPU has counted; as long as that is asked for.
#[test]
fn events_of_c_record_their_callers_and_counts() {
    let kernel = ["-DKYMO_WITH_CONTEXTS", "-fno-omit-frame-pointer"];
    let names = [
        "is_done",
        "is_done_masked",
        "is_rare",
        "is_large",
        "yields",
        "wakes",
        "outer",
        "record",
    ];
    for (folder, language, level) in [
        ("contexts_0", &C[..], "-O0"),
        ("contexts_1", &C, "-O1"),
        ("contexts_2", &C, "-O2"),
        ("contexts_s", &C, "-Os"),
        ("contexts_cpp", &CPP, "-O2"),
    ] {
        let flags = [&kernel[..], &[level]].concat();
        let trace = recorded_with(library(), &flags, "contexts", folder, language);
        let lines = lines(&Trace::open(&trace).unwrap());
        let expected = [
            "events_0 done number=1",
            "events_0 done number=2",
            "21 by 7: is_done < outer < record",
            "events_0 done number=3",
            "21 by 7: is_done_masked < outer < record",
            "events_0 rare ",
            "1000 by 7: is_rare < outer < record",
            "events_0 large a=4 b=2 c=3",
            "22 by 7: is_large < outer < record",
            "events_0 thread_yield tid=5",
            "69 by 7: yields < outer < record",
            "events_0 sched_wakeup_new tid=6 waker_tid=0 target_cpu=0",
            "71 by 7: wakes < outer < record",
            "events_1 done number=7",
            "21 by 8: is_done < outer < record",
            "events_0 done number=8",
            "events_0 done number=9",
            "21 100 10",
            "events_0 done number=10",
            "21 by 7: is_done_masked < outer < record",
            "21 200 20",
            "events_1 done number=11",
            "21 by 8: is_done_masked < outer < record",
            "events_1 done number=12",
            "21 by 8: is_done_masked < outer < record",
            "21 100 10",
            "events_0 done number=13",
            "21 by 7: is_done < outer < record",
            "events_0 large a=0 b=0 c=0",
            "events_0 large a=1 b=0 c=0",
            "21 200 20",
            "events_0 done number=14",
            "21 by 7: is_done < outer < record",
            "events_0 done number=15",
            "21 by 7: is_done < outer < record",
        ];
        assert_eq!(shown(&lines, &names), expected, "{level}");
    }
}

/// The word `kymo=` asks for the same, and says how deep chains go.
#[test]
fn a_word_has_events_of_c_record_their_callers_and_counts() {
    for (depth, chains) in [
        (
            "127",
            ["is_done < outer < record", "is_rare < outer < record"],
        ),
        ("2", ["is_done < outer", "is_rare < outer"]),
        ("0", ["?", "?"]),
    ] {
        let word = format!("-DBY_WORD=\"{depth}\"");
        let flags = ["-DKYMO_WITH_CONTEXTS", "-fno-omit-frame-pointer", &word];
        let folder = format!("contexts_word_{depth}");
        let trace = recorded_with(library(), &flags, "contexts", &folder, &C);
        let lines = lines(&Trace::open(&trace).unwrap());
        let expected = [
            "events_0 done number=1",
            &format!("21 by 7: {}", chains[0]),
            "21 100",
            "events_0 rare ",
            &format!("1000 by 7: {}", chains[1]),
            "events_0 large a=2 b=2 c=3",
        ];
        assert_eq!(
            shown(&lines, &["is_done", "is_rare", "outer", "record"]),
            expected
        );
    }
}

/// P-27 in C: what is sent in frames is received, over a line that is slow and over an up-buffer;
/// what has no room is counted.
#[test]
fn what_c_sends_in_frames_is_received() {
    let sent = recorded_by("send", "send", &C);
    for name in ["line", "rtt"] {
        let out = sent.join(format!("{name}.trace"));
        fs::create_dir(&out).unwrap();
        let options = Options {
            line: Line::File(&sent.join(name)),
            out: &out,
            duration: None,
            timeout: None,
            grace: Duration::ZERO,
            interrupted: &AtomicBool::new(false),
        };
        let (received, ending) = receive(&options, |_| ()).unwrap();
        assert!(received.is_whole(), "{name}: {received:?}");
        assert_eq!((ending, received.cpus), (Ending::Closed, 2), "{name}");
        let (mut events, mut samples) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for item in Trace::open(&out).unwrap().events() {
            let event = match item.unwrap() {
                Item::Event(event) => event,
                Item::Loss(loss) => panic!("{name}: {loss:?}"),
                _ => continue,
            };
            let (of, field) = match event.name() {
                "sensor" => (&mut events, "value"),
                "sample" => (&mut samples, "ip"),
                _ => continue,
            };
            let cpu = usize::from(event.stream().to_string().ends_with("_1"));
            of[cpu].push(event.fields.get(field).unwrap().as_u64().unwrap());
        }
        for cpu in 0..2 {
            let expected: Vec<u64> = (0..500).map(|turn| 2 * turn + cpu).collect();
            assert_eq!(events[cpu as usize], expected, "{name}");
            let expected: Vec<u64> = (0..500).map(|turn| 0x1000 + turn).collect();
            assert_eq!(samples[cpu as usize], expected, "{name}");
        }
    }
}

#[test]
#[ignore = "needs babeltrace2: cargo xtask test babeltrace2"]
fn babeltrace2_reads_what_c_records() {
    let trace = recorded("babeltrace2", &C);
    let output = run(Command::new("babeltrace2").arg("--no-delta").arg(&trace));
    // The event of a CPU that has no ring.
    let errors = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<&str> = errors.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        matches!(warnings[..], [line] if line.contains("discarded 1 event")),
        "{errors}"
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    let calls = generator::calls().1.len() + own().len();
    // Both CPUs, two dumped names, an event more, and the end.
    assert_eq!(lines.lines().count(), 2 * calls + 2 + 1 + 1);
    let line = "block_done: { cpu_id = 1 }, { sector = 1311768467463790320, error = -5 }";
    assert!(lines.contains(line), "{lines}");
    assert!(lines.contains("n = \"caf\u{e9}\""), "{lines}");
}

/// Compiles and runs tests/c/NAME.c, which checks everything itself.
fn check(name: &str) {
    printed(name, &[]);
}

/// Compiles tests/c/NAME.c with these definitions, and runs it; returns what it prints.
fn printed(name: &str, definitions: &[String]) -> String {
    let program = scratch(name).join(name);
    let mut compile = compiler(&C, &["-Wno-missing-field-initializers"]);
    compile
        .args(definitions)
        .arg(here(&format!("tests/c/{name}.c")))
        .arg(library());
    run(compile
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    let output = Command::new(&program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

#[test]
fn what_is_left_is_told_taken_up_and_guarded() {
    let trace = recorded_by("again", "again", &C);
    let (mut yields, mut steps, mut lost) = (Vec::new(), Vec::new(), 0);
    for item in Trace::open(&trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) if event.name() == "thread_yield" => {
                yields.push(event.fields.get("tid").unwrap().as_u64().unwrap());
            }
            Item::Event(event) if event.name().starts_with("kymo_clock") => {
                steps.push(event.name().to_owned());
            }
            Item::Loss(loss) => lost += loss.count,
            _ => {}
        }
    }
    // Those for which there was room, and some behind the loss.
    assert!(lost > 0, "{yields:?}");
    let expected: Vec<u64> = (0..2000 - lost).chain(2000..2004).collect();
    assert_eq!(yields, expected);
    // What is recorded behind its window is put where that begins: a step for readers, too.
    let expected = ["kymo_clock_step", "kymo_clock_back", "kymo_clock_step"];
    assert_eq!(steps, expected);
}

/// L-03, L-04, L-07 in C: the lines are those of kernels in Rust, with the kernel's own events.
#[test]
fn a_kernel_shows_what_it_has_recorded() {
    assert_eq!(printed("dump", &[]), include_str!("c/dump.txt"));
}

#[test]
fn the_word_of_a_command_line_says_what_is_recorded() {
    check("boot");
}

#[test]
fn a_thing_is_named_as_often_as_its_name_would_be_lost() {
    check("named");
}

#[test]
fn events_and_names_are_counted_and_cut_exactly() {
    check("counts");
}

#[test]
fn as_much_memory_as_is_needed_is_enough() {
    // The streams of 200 CPUs alone do not fit into what is tried first.
    for cpus in [1, 2, 5, 200] {
        let start = |size: usize| -> (i32, usize) {
            let text = printed(
                "needed",
                &[format!("-DCPUS={cpus}"), format!("-DSIZE={size}")],
            );
            let (started, needed) = text.trim().split_once(' ').unwrap();
            (started.parse().unwrap(), needed.parse().unwrap())
        };
        let (refused, needed) = start(16384);
        assert!(refused < 0 && needed > 16384, "{cpus}: {refused} {needed}");
        // Two channels for each CPU, and the declarations.
        assert_eq!(start(needed).0, 2 * cpus + 1, "{cpus} in {needed} bytes");
        assert_eq!(start(needed - 64), (refused, needed), "{cpus}");
    }
    // As many CPUs as there can be have too little memory; one more cannot be.
    for (cpus, error) in [(4096, "-12 "), (4097, "-22 ")] {
        let text = printed("needed", &[format!("-DCPUS={cpus}"), "-DSIZE=16384".into()]);
        assert!(text.starts_with(error), "{cpus}: {text}");
    }
}

#[test]
fn sixteen_kilobytes_are_enough_for_few_events() {
    check("small");
}

#[test]
fn a_call_that_comes_while_another_is_at_work_is_refused() {
    check("busy");
}

/// P-42, P-44: the command `perf` in C.
#[test]
fn a_shell_records_and_gathers() {
    let folder = scratch("perf");
    let program = folder.join("program");
    let mut compile = compiler(
        &C,
        &[
            "-Wno-missing-field-initializers",
            "-D_POSIX_C_SOURCE=200809L",
        ],
    );
    compile.arg(here("tests/c/perf.c")).arg(library());
    run(compile
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    run(Command::new(&program).arg(&folder));
    for (trace, expected) in [("recorded", 5), ("gathered", 2), ("subject", 3)] {
        let items = Trace::open(&folder.join(trace)).unwrap().events();
        let names: Vec<String> = items
            .map(|item| match item.unwrap() {
                Item::Event(event) => event.name().to_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        let switches = names.iter().filter(|name| *name == "sched_switch").count();
        assert_eq!(switches, expected, "{trace}: {names:?}");
        assert_eq!(names.len(), expected + 1, "{trace}: and the session's end");
    }
}
