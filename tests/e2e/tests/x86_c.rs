//! kernels/x86-c, a kernel in C for x86 of 32 and 64 bits: what it counted itself is in its trace, and its
//! samples show who called what.

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

/// Records the kernel, and compares what it has counted with the trace. Returns the trace, and the
/// number of its events by name.
fn compared(
    folder: &str,
    image: &str,
    qemu: &str,
    counted_by: &[(&str, &[&str])],
) -> (PathBuf, BTreeMap<String, u64>) {
    let (trace, image) = (scratch(folder).join("trace"), built(image));
    let mut record = kymo(["record", "--timeout", patience(), "--out"]);
    record.arg(&trace).args(["--", qemu, "-M", "pc"]);
    record.args(["-m", "32M", "-display", "none", "-serial", "stdio"]);
    record.args(["-no-reboot", "-icount", "shift=0,sleep=off", "-kernel"]);
    let output = run(record.arg(&image), 0);
    let console = String::from_utf8(output.stdout).unwrap();
    let counts = counted(&trace);
    for (event, whats) in counted_by {
        let said: u64 = whats.iter().map(|what| said(&console, what)).sum();
        assert_eq!(counts[*event], said, "{event}\n{console}");
    }
    assert!(counts["sched_switch"] > 200, "{counts:?}");
    assert_eq!(counts["thread_exit"], 3);
    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
    babeltrace::compare(&trace);
    (trace, counts)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_kernel_for_32_bits_of_x86_records_and_samples() {
    let (trace, _) = compared(
        "x86-c",
        "KYMO_X86_C",
        "qemu-system-i386",
        &[
            ("sched_switch", &["switches"]),
            ("irq_handler_entry", &["interrupts"]),
            ("irq_handler_exit", &["interrupts"]),
            ("sample", &["samples"]),
        ],
    );
    shares_are_those_of_the_work(&trace);
}

/// V-06 in C: NMIs record, wherever they come, and what they interrupt loses nothing.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn nmis_of_a_kernel_for_64_bits_record_while_a_record_is_made() {
    let (trace, counts) = compared(
        "x86-c-64",
        "KYMO_X86_C_64",
        "qemu-system-x86_64",
        &[
            ("sched_switch", &["switches"]),
            ("irq_handler_entry", &["interrupts", "nmis"]),
            ("irq_handler_exit", &["interrupts", "nmis"]),
            ("sample", &["samples"]),
        ],
    );
    // All that was recorded while NMIs came is there, in its order.
    let (mut steps, mut nmis) = (0, 0);
    for item in Trace::open(&trace).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            continue;
        };
        match event.name() {
            "step" => {
                assert_eq!(event.fields.get("number"), Some(&Value::UInt(steps)));
                steps += 1;
            }
            "irq_handler_entry" if (1..20_000).contains(&steps) => nmis += 1,
            _ => {}
        }
    }
    assert_eq!((steps, counts.get("kymo_clock_back")), (20_000, None));
    assert!(nmis > 50, "{nmis} NMIs while it recorded");
    shares_are_those_of_the_work(&trace);
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
