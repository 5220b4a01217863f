//! kernels/smp-c, a kernel in C for four harts with programs: what each hart has counted itself is
//! in its trace, one for one.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_ctf::{Item, Trace, Value};
use kymo_e2e::{babeltrace, built, kymo, patience, recording, run, scratch};

use crate::ten_steps::blocks_are_code_of;

/// The kernel's words for what it counts, and the events that are recorded there.
const COUNTED: [(&str, &str); 5] = [
    ("switches", "sched_switch"),
    ("wakeups", "sched_wakeup"),
    ("interrupts", "irq_handler_entry"),
    ("syscalls", "sys_enter"),
    ("waits", "lock_wait"),
];
const HARTS: usize = 4;

type Counts = [BTreeMap<String, u64>; HARTS];

/// What the kernel says at its end: `hart 0: 56 switches, 58 wakeups, ...`.
fn said(console: &str) -> Counts {
    let mut counts = Counts::default();
    let lines = console
        .lines()
        .filter_map(|line| line.strip_prefix("hart "));
    for line in lines {
        let (hart, numbers) = line.split_once(": ").unwrap();
        for number in numbers.split(", ") {
            let (count, what) = number.trim().split_once(' ').unwrap();
            let hart: usize = hart.parse().unwrap();
            counts[hart].insert(what.to_owned(), count.parse().unwrap());
        }
    }
    counts
}

/// How many events of each name each hart has recorded; none may be lost.
fn recorded(trace: &Path) -> Counts {
    let mut counts = Counts::default();
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                let Some(cpu) = event.cpu() else { continue };
                let of_hart = &mut counts[cpu as usize];
                *of_hart.entry(event.name().to_owned()).or_default() += 1;
            }
            Item::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    counts
}

/// The last value of a field of an event about this counter, for each hart that it is about.
fn last_values(trace: &Path, name: &str, counter: &str, field: &str) -> [Option<u64>; HARTS] {
    let mut last = [None; HARTS];
    for item in Trace::open(trace).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            continue;
        };
        if event.name() != name {
            continue;
        }
        let number = |name| match event.fields.get(name) {
            Some(Value::UInt(number)) => *number,
            other => panic!("{name}: {other:?}"),
        };
        let Some(Value::Enum { labels, .. }) = event.fields.get("counter") else {
            panic!("{:?}", event.fields);
        };
        if labels.iter().any(|label| **label == *counter) {
            last[number("cpu") as usize] = Some(number(field));
        }
    }
    last
}

/// Records the kernel, and compares; gives the events of all harts.
fn compared(trace: &Path, more: &[&str]) -> BTreeMap<String, u64> {
    let mut command = recording(&built("KYMO_SMP_C"), trace);
    command.args(["--cpus", "4", "--timeout", patience()]);
    let output = run(command.args(more), 0);
    let console = String::from_utf8(output.stdout).unwrap();
    let (said, recorded) = (said(&console), recorded(trace));
    for (hart, counts) in said.iter().enumerate() {
        for (what, event) in COUNTED {
            let events = recorded[hart].get(event).copied().unwrap_or(0);
            assert_eq!(events, counts[what], "hart {hart}, {what}\n{console}");
        }
    }
    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
    babeltrace::compare(trace);
    let mut all = BTreeMap::new();
    for (event, count) in recorded.into_iter().flatten() {
        *all.entry(event).or_default() += count;
    }
    all
}

/// Two programs ask for 50 sums each, sleep after every tenth, and end; four workers take the mutex
/// 100 times each.
fn check_the_work(events: &BTreeMap<String, u64>) {
    assert_eq!(events["sys_enter"], 2 * (50 + 5 + 1));
    assert_eq!(events["sys_exit"], 2 * (50 + 5));
    assert_eq!(
        (events["lock_acquired"], events["lock_release"]),
        (400, 400)
    );
    assert_eq!(events["irq_handler_entry"], events["irq_handler_exit"]);
    // The first thread stops the recording, and does not end.
    assert_eq!((events["thread_create"], events["thread_exit"]), (8, 7));
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_hart_has_recorded_what_it_counted() {
    let trace = scratch("smp-c").join("trace");
    let events = compared(&trace, &["--deterministic"]);
    check_the_work(&events);
    assert!(events["lock_wait"] > 100, "{events:?}");

    // N-15 in C: the counter of each hart's switches ends with the number of the hart's switches in
    // the trace, and the calls' times are those of all calls that returned.
    let switches = last_values(&trace, "kymo_counter", "switches", "value");
    let recorded_events = recorded(&trace);
    for (hart, last) in switches.iter().enumerate() {
        let events = recorded_events[hart]["sched_switch"];
        assert_eq!(*last, Some(events), "hart {hart}");
    }
    let sums = last_values(&trace, "kymo_histogram", "call_time", "sum");
    assert!(sums.iter().flatten().sum::<u64>() > 0, "{sums:?}");
    let report = run(kymo(["report"]).arg(&trace), 0);
    let report = String::from_utf8(report.stdout).unwrap();
    let calls = format!("call_time: {} values of ticks", events["sys_exit"]);
    assert!(report.contains(&calls), "{report}");

    check_the_counts(&trace);

    // in C, on several harts: samples of threads, of programs, and of the kernel that
    // works for them.
    let mut flame = kymo(["flame", "--format", "folded"]);
    let output = run(flame.arg(&trace), 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let has = |stack: &str| text.lines().any(|line| line.starts_with(stack));
    assert!(has("thread_begin;is_worker;compute "), "{text}");
    // Programs' functions are addresses here: the main function and its `crunch`, or its call and
    // what the kernel does for it.
    let depth = |line: &str| line.matches(";0x").count();
    assert!(
        text.lines()
            .any(|line| line.starts_with("0x") && depth(line) == 1),
        "{text}"
    );
    let working = |line: &&str| line.contains(";trap_entry;trap;syscall ");
    let working: Vec<&str> = text.lines().filter(working).collect();
    assert!(!working.is_empty(), "{text}");
    assert!(working.iter().all(|line| depth(line) == 1), "{text}");
}

/// V-14 in C: each hart's last counts are those since its first ones. With the deterministic clock
/// a hart has as many cycles as instructions.
fn check_the_counts(trace: &Path) {
    let (mut last, mut switches) = ([None; HARTS], [0; HARTS]);
    for item in Trace::open(trace).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            continue;
        };
        let Some(hart) = event.cpu().map(|cpu| cpu as usize) else {
            continue;
        };
        match event.name() {
            // Of those behind the last counts nothing is known.
            "sched_switch" if last[hart].is_some() => switches[hart] += 1,
            "group_count" => {
                let Some(Value::Array(counts)) = event.fields.get("counts") else {
                    panic!("{:?}", event.fields);
                };
                let counts: Vec<u64> = counts.iter().map(|count| count.as_u64().unwrap()).collect();
                assert_eq!(counts[2], switches[hart], "hart {hart}");
                assert!(counts[0].abs_diff(counts[1]) < 100, "{counts:?}");
                last[hart] = Some(counts[1]);
            }
            _ => {}
        }
    }
    assert!(last.iter().all(|last| *last > Some(10_000)), "{last:?}");
    let mut report = kymo(["report", "--section", "counters"]);
    let report = String::from_utf8(run(report.arg(trace), 0).stdout).unwrap();
    assert!(report.contains("context-switches"), "{report}");
}

#[test]
fn every_block_of_the_page_is_code_of_the_kernel() {
    let files = ["port.c", "thread.c", "trap.c", "program.c"];
    let files = files.map(|file| format!("kernels/smp-c/{file}"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    blocks_are_code_of("c-cpus.md", 16, &files);
}

/// All harts at once, as they are on a real machine.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn harts_that_run_at_once_have_recorded_what_they_counted() {
    let trace = scratch("smp-c-at-once").join("trace");
    check_the_work(&compared(&trace, &[]));
}
