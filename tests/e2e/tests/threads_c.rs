//! kernels/threads-c, a kernel in C for several processors: what it counted itself is in its
//! trace, and its samples show who called what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kymo_ctf::{Item, Trace, Value};
use kymo_e2e::{babeltrace, built, kymo, patience, run, scratch};

/// The number before this word in what the kernel prints.
fn said(console: &str, what: &str) -> u64 {
    let words: Vec<&str> = console.split([' ', ',', '\n']).collect();
    let at = words.iter().position(|word| *word == what).unwrap();
    words[..at]
        .iter()
        .rev()
        .find_map(|word| word.parse().ok())
        .unwrap()
}

fn counted(trace: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => *counts.entry(event.name().to_owned()).or_default() += 1,
            Item::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    counts
}

/// What a machine of these takes: QEMU, and its options.
const I386: [&str; 3] = ["qemu-system-i386", "-M", "pc"];
const X86_64: [&str; 3] = ["qemu-system-x86_64", "-M", "pc"];
const AARCH64: [&str; 5] = [
    "qemu-system-aarch64",
    "-M",
    "virt,gic-version=2",
    "-cpu",
    "cortex-a72",
];
const RISCV64: [&str; 3] = ["qemu-system-riscv64", "-M", "virt"];
const CORTEX_M: [&str; 4] = ["qemu-system-arm", "-M", "mps2-an386", "-semihosting"];

/// Records the kernel, and compares what it has counted with the trace. Returns the trace, and what
/// the kernel has printed.
fn compared(image: &str, machine: &[&str]) -> (PathBuf, String) {
    let (trace, image) = (scratch(&image.to_lowercase()).join("trace"), built(image));
    let mut record = kymo(["record", "--timeout", patience(), "--out"]);
    record.arg(&trace).arg("--").args(machine);
    record.args(["-m", "16M", "-display", "none", "-serial", "stdio"]);
    record.args(["-no-reboot", "-icount", "shift=0,sleep=off", "-kernel"]);
    let output = run(record.arg(&image), 0);
    let console = String::from_utf8(output.stdout).unwrap();
    let counts = counted(&trace);
    let interrupts = said(&console, "interrupts") + said(&console, "nmis");
    for (event, count) in [
        ("sched_switch", said(&console, "switches")),
        ("irq_handler_entry", interrupts),
        ("irq_handler_exit", interrupts),
        ("sample", said(&console, "samples")),
        ("step", said(&console, "steps")),
        ("kymo_clock_back", 0),
    ] {
        let events = counts.get(event).copied().unwrap_or(0);
        assert_eq!(events, count, "{event}\n{console}");
    }
    assert!(counts["sched_switch"] > 200, "{counts:?}");
    assert_eq!(counts["thread_exit"], 3);
    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
    babeltrace::compare(&trace);
    shares_are_those_of_the_work(&trace);
    callers_are_those_of_the_source(&trace);
    (trace, console)
}

/// in C, on processors that have little in common but the kernel's source.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_processor_records_and_samples() {
    compared("KYMO_THREADS_C_I386", &I386);
    for (image, machine) in [
        ("KYMO_THREADS_C_AARCH64", &AARCH64[..]),
        ("KYMO_THREADS_C_RISCV64", &RISCV64),
    ] {
        let (trace, _) = compared(image, machine);
        counts_are_those_of_the_clock(&trace);
    }
    compared("KYMO_THREADS_C_CORTEX_M4", &CORTEX_M);
    // A Cortex-M4 executes it as well.
    compared("KYMO_THREADS_C_CORTEX_M0", &CORTEX_M);
}

/// V-14 in C, by the library's drivers: with the deterministic clock, a nanosecond is an
/// instruction and a cycle. Events with counts have those of their time.
fn counts_are_those_of_the_clock(trace: &Path) {
    let (mut switches, mut last, mut events, mut latest) = (0, None, 0, 0);
    for item in Trace::open(trace).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            continue;
        };
        match event.name() {
            "sched_switch" if last.is_some() => switches += 1,
            of @ ("group_count" | "event_count") => {
                let number = |name| event.fields.get(name).unwrap().as_u64().unwrap();
                let Some(Value::Array(counts)) = event.fields.get("counts") else {
                    panic!("{:?}", event.fields);
                };
                let counts: Vec<u64> = counts.iter().map(|count| count.as_u64().unwrap()).collect();
                assert_eq!(counts[2], switches, "{of}");
                if of == "event_count" {
                    let (before, _, _) = last.unwrap();
                    assert!(counts[0] > before, "{} after {before}", counts[0]);
                    (events, latest) = (events + 1, counts[0]);
                } else {
                    assert!(
                        counts[0] > latest || events == 0,
                        "{} before {latest}",
                        counts[0]
                    );
                    last = Some((counts[0], counts[1], number("time_running")));
                }
            }
            _ => {}
        }
    }
    assert_eq!(events, 400);
    let (cycles, instructions, running) = last.unwrap();
    assert!(running > 100_000_000, "{running} ns");
    for count in [cycles, instructions] {
        assert!(
            count.abs_diff(running) < running / 100,
            "{count} in {running} ns"
        );
    }
}

/// V-06 in C: NMIs record, wherever they come, and what they interrupt loses nothing.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn nmis_record_while_a_record_is_made() {
    let (trace, console) = compared("KYMO_THREADS_C_X86_64", &X86_64);
    // All that was recorded while NMIs came is there, in its order.
    let mut steps = 0;
    for item in Trace::open(&trace).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            continue;
        };
        match event.name() {
            "step" => {
                assert_eq!(event.fields.get("number"), Some(&Value::UInt(steps)));
                steps += 1;
            }
            "sampling" => {
                let driver = event.fields.get("driver");
                let is_nmi = |label: &dyn ToString| label.to_string() == "Nmi";
                assert!(
                    matches!(driver, Some(Value::Enum { labels, .. }) if is_nmi(&labels[0])),
                    "{driver:?}"
                );
            }
            _ => {}
        }
    }
    assert_eq!(steps, said(&console, "steps"));
    // Those that say whom they hit have callers, too.
    let flame = ["flame", "--format", "folded", "--event", "hit"];
    let text = String::from_utf8(run(kymo(flame).arg(&trace), 0).stdout).unwrap();
    let mut hits = 0;
    for line in text.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        assert!(stack.contains(";nmi;trace_hit_masked"), "{text}");
        hits += count.parse::<u64>().unwrap();
    }
    assert_eq!(hits, said(&console, "nmis") / 100);
    // NMIs came while the kernel was in a call that records.
    assert!(said(&console, "nested") > 50, "{console}");
}

/// P-54 in C: each piece of work that records it shows who called for it.
fn callers_are_those_of_the_source(trace: &Path) {
    let flame = ["flame", "--format", "folded", "--event", "done"];
    let text = String::from_utf8(run(kymo(flame).arg(trace), 0).stdout).unwrap();
    let mut callers: Vec<(&str, &str)> = text
        .lines()
        .map(|line| {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            // Functions of the header may be inlined there.
            let (callers, _) = stack.split_once(";trace_done").unwrap_or((stack, ""));
            (callers, count)
        })
        .collect();
    callers.sort_unstable();
    let expected = [
        ("thread_begin;is_heavy;more_work;work", "200"),
        ("thread_begin;is_light;work", "200"),
    ];
    assert_eq!(callers, expected);
}

fn shares_are_those_of_the_work(trace: &Path) {
    let flame = run(kymo(["flame", "--format", "folded"]).arg(trace), 0);
    let text = String::from_utf8(flame.stdout).unwrap();
    let of = |stack: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(stack));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    // Two threads do half of what the third one does.
    let heavy = of("thread_begin;is_heavy;more_work;work ");
    let light = of("thread_begin;is_light;work ");
    assert!(heavy + light > 150, "{text}");
    assert!(heavy.abs_diff(light) < (heavy + light) / 5, "{text}");
}
