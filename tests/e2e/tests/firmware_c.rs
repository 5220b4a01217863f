//! kernels/firmware-c, an RTOS in C: what it has counted itself is in its trace, one for one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kymo_ctf::{Item, Trace};
use kymo_e2e::{babeltrace, built, kymo, patience, recording, run, scratch};
use object::{Object, ObjectSymbol};

/// Records an image; returns its console too.
fn recorded(variable: &str, folder: &str) -> (PathBuf, String) {
    let out = scratch(folder).join("trace");
    let output = run(
        recording(&built(variable), &out).args(["--deterministic", "--timeout", patience()]),
        0,
    );
    (out, String::from_utf8(output.stdout).unwrap())
}

/// The number before this word in a line of the firmware.
fn number(console: &str, what: &str) -> u64 {
    let words: Vec<&str> = console.split([' ', ',', '\n', '\r']).collect();
    let at = words.iter().position(|word| *word == what);
    let at = at.unwrap_or_else(|| panic!("no {what} in {console}"));
    words[at - 1].parse().unwrap()
}

/// How many events of each name, and how many bytes went through pipes.
fn counted(trace: &Path) -> (BTreeMap<String, u64>, u64) {
    let (mut counts, mut read) = (BTreeMap::<String, u64>::new(), 0);
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                *counts.entry(event.name().to_owned()).or_default() += 1;
                if event.name() == "pipe_read" {
                    read += event.fields.get("len").unwrap().as_u64().unwrap();
                }
            }
            Item::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    (counts, read)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_trace_has_what_the_firmware_did() {
    let (trace, console) = recorded("KYMO_FIRMWARE_C", "firmware-c");
    let (counts, bytes_read) = counted(&trace);
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    for (what, events) in [
        ("switches", "sched_switch"),
        ("interrupts", "irq_handler_entry"),
        ("interrupts", "irq_handler_exit"),
        ("exceptions", "exception"),
        ("wakeups", "sched_wakeup"),
        ("messages", "queue_send"),
        ("messages", "queue_receive"),
    ] {
        assert_eq!(count(events), number(&console, what), "{events}\n{console}");
    }
    assert_eq!(bytes_read, number(&console, "bytes"));
    // The application takes 40 samples, and raises an alarm whenever their sum is divisible by 7.
    let sums = (0..40).scan(0, |sum, i| {
        *sum += i * i % 50;
        Some(*sum)
    });
    let alarms = sums.filter(|sum| sum % 7 == 0).count() as u64;
    assert_eq!((count("sample_taken"), count("alarm")), (40, alarms));
    // The first task's end is not recorded: it stops the recording.
    assert_eq!((count("thread_create"), count("thread_exit")), (7, 6));
    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
    babeltrace::compare(&trace);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_check_of_the_event_log_passes_in_c() {
    let (trace, console) = recorded("KYMO_FIRMWARE_C_TRACE_SCHED", "firmware-c-sched");
    assert!(number(&console, "overwritten") > 0, "{console}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations/firmware_c.toml");
    let arguments = ["check".as_ref(), "--expect".as_ref(), file.as_os_str()];
    let output = run(kymo(arguments).arg(&trace), 0);
    let text = String::from_utf8(output.stdout).unwrap();
    for number in 1..=15 {
        let holds = format!("holds  L{number}: ");
        assert_eq!(text.matches(&holds).count(), 1, "{number}\n{text}");
    }
}

/// R-01 in C: the shares of three functions are those of their work, beside the events of the same
/// session; an idle processor is seen as idle.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn shares_of_functions_in_c_are_those_of_their_work() {
    let (trace, _) = recorded("KYMO_FIRMWARE_C_SAMPLE", "firmware-c-sample");
    let (counts, _) = counted(&trace);
    assert!(counts["sched_switch"] > 100, "{counts:?}");
    let folded = |more: &[&str]| {
        let mut command = kymo(["flame", "--format", "folded"]);
        let output = run(command.args(more).arg(&trace), 0);
        String::from_utf8(output.stdout).unwrap()
    };
    let text = folded(&[]);
    let of = |text: &str, function: &str| -> f64 {
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let own = lines.filter(|(stack, _)| stack.rsplit(';').next() == Some(function));
        own.map(|(_, count)| count.parse::<f64>().unwrap()).sum()
    };
    let parts = ["one_part", "two_parts", "three_parts"].map(|name| of(&text, name));
    let all: f64 = parts.iter().sum();
    assert!(all > 2_000.0, "{text}");
    for (part, expected) in parts.into_iter().zip([1.0, 2.0, 3.0]) {
        let off = 100.0 * (part / all - expected / 6.0);
        assert!(off.abs() < 2.0, "{off} of {expected} sixths\n{text}");
    }
    // gcc 12 stores no return address in these functions: the link register leads to the caller.
    let called = text.matches("is_worker;three_parts ").count();
    assert_eq!(called, text.matches(";three_parts ").count(), "{text}");
    let hot = run(kymo(["hot"]).arg(&trace), 0);
    let says = String::from_utf8(hot.stderr).unwrap();
    assert!(
        says.contains("none missed") && !says.contains("callers may be missing"),
        "{says}"
    );
    let with_idle = folded(&["--include-idle"]);
    assert!(with_idle.len() > text.len(), "{with_idle}");
    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
}

/// L-08: with `KYMO_OFF` the firmware does the same, and nothing of Kymo is in it.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_firmware_runs_without_kymo() {
    let image = built("KYMO_FIRMWARE_C_OFF");
    let bytes = fs::read(&image).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let names: Vec<&str> = file.symbols().filter_map(|one| one.name().ok()).collect();
    assert!(names.contains(&"task_create"), "{names:?}");
    // The five functions of the port are the firmware's own.
    let left = names.iter().filter(|name| name.contains("kymo_"));
    let left: Vec<_> = left
        .filter(|name| !name.starts_with("kymo_port_"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let mut qemu = std::process::Command::new("qemu-system-riscv32");
    qemu.args(["-M", "virt", "-bios", "none", "-display", "none"]);
    qemu.args(["-monitor", "none", "-serial", "stdio", "-kernel"]);
    let output = run(qemu.arg(&image), 0);
    let console = String::from_utf8(output.stdout).unwrap();
    assert_eq!(number(&console, "messages"), 40);
    assert_eq!(number(&console, "bytes"), 320);
}
