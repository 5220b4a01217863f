//! kernels/x86-c, a kernel in C for 32-bit x86: what it counted itself is in its trace, and its
//! samples show who called what.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_ctf::{Item, Trace};
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

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_kernel_for_32_bits_of_x86_records_and_samples() {
    let (trace, image) = (scratch("x86-c").join("trace"), built("KYMO_X86_C"));
    let mut record = kymo(["record", "--timeout", patience(), "--out"]);
    record
        .arg(&trace)
        .args(["--", "qemu-system-i386", "-M", "pc"]);
    record.args(["-m", "32M", "-display", "none", "-serial", "stdio"]);
    record.args(["-no-reboot", "-icount", "shift=0,sleep=off", "-kernel"]);
    let output = run(record.arg(&image), 0);
    let console = String::from_utf8(output.stdout).unwrap();
    let counts = counted(&trace);
    for (what, event) in [
        ("switches", "sched_switch"),
        ("interrupts", "irq_handler_entry"),
        ("interrupts", "irq_handler_exit"),
        ("samples", "sample"),
    ] {
        assert_eq!(counts[event], said(&console, what), "{event}\n{console}");
    }
    assert!(counts["sched_switch"] > 200, "{counts:?}");
    assert_eq!(counts["thread_exit"], 3);
    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
    babeltrace::compare(&trace);

    let flame = run(kymo(["flame", "--format", "folded"]).arg(&trace), 0);
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
