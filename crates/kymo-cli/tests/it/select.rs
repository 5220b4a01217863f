//! Tests `kymo dump` with selections: the selected events, and messages for invalid selections.

use std::path::Path;
use std::process::Output;

use crate::run::kymo;
use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, LockKind, LockWait, Mark, Object, SchedEnter, SwitchReason, Syscall,
    SyscallEnter, ThreadName, ThreadState, Tid,
};
use kymo_made::{MS, Made};
use serde_json::Value;

fn dump(arguments: &[&str], trace: &Path) -> Output {
    kymo(&[&["dump"], arguments].concat(), trace)
}

/// The millisecond of each selected event, and `-` for a loss. Text and `--count` must agree.
fn selected(trace: &Path, arguments: &[&str]) -> Vec<String> {
    let with = |more| dump(&[arguments, more].concat(), trace);
    let json = with(&["--json"]);
    assert_eq!(
        json.status.code(),
        Some(0),
        "{arguments:?} {}",
        String::from_utf8_lossy(&json.stderr)
    );
    let lines = String::from_utf8(json.stdout).unwrap();
    let items: Vec<String> = lines
        .lines()
        .map(|line| moment(&serde_json::from_str(line).unwrap()))
        .collect();
    let events = items.iter().filter(|item| *item != "-").count();
    let told = String::from_utf8(json.stderr).unwrap();
    assert_eq!(
        told.contains("the selection matches no event of the trace"),
        events == 0,
        "{told}"
    );
    assert_eq!(
        String::from_utf8(with(&[]).stdout).unwrap().lines().count(),
        items.len(),
        "{arguments:?}"
    );
    let counts: Value = serde_json::from_slice(&with(&["--count", "--json"]).stdout).unwrap();
    assert_eq!(counts["total"]["events"], events, "{arguments:?}");
    let by_name: u64 = counts["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["count"].as_u64().unwrap())
        .sum();
    assert_eq!(by_name, events as u64);
    items
}

fn moment(item: &Value) -> String {
    match item["type"].as_str() {
        Some("event") => (item["time_ns"].as_u64().unwrap() / MS).to_string(),
        _ => "-".to_owned(),
    }
}

/// The message on the standard error.
fn refused(trace: &Path, arguments: &[&str]) -> String {
    let output = dump(arguments, trace);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?} {text}");
    // Losses may include events that the trace does not have.
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .all(|line| line.starts_with("-- ")),
        "{arguments:?}"
    );
    text
}

/// A trace of two CPUs. The tests name events by their milliseconds.
fn trace(name: &str) -> Made {
    let mut made = Made::new(name);
    let (ready, expired) = (ThreadState::Runnable, SwitchReason::Expired);
    for (time, tid, name) in [(0, 11, "worker/1"), (0, 12, "worker/2"), (0, 13, "shell")] {
        made.event(
            0,
            time,
            ThreadName {
                tid: Tid(tid),
                name: Text::new(name),
            },
        );
    }
    made.event(0, MS, SchedEnter {});
    made.switch(0, 2 * MS, (13, ready, expired), (11, 0));
    made.event(
        1,
        3 * MS,
        SyscallEnter {
            id: Syscall(1),
            arg0: 0,
        },
    );
    made.event(0, 4 * MS, IrqEnter { irq: Irq(5) });
    made.wake(1, 5 * MS, 11, 0);
    made.event(
        0,
        6 * MS,
        LockWait {
            lock: Object(1),
            owner_tid: Tid(0),
            kind: LockKind::Mutex,
        },
    );
    made.switch(0, 7 * MS, (11, ready, expired), (12, 0));
    made.event(0, 8 * MS, SchedEnter {});
    made.switch(1, 9 * MS, (0, ready, expired), (11, 0));
    made.lose(1, 5, 12 * MS);
    made.event(1, 13 * MS, SchedEnter {});
    made.event(0, 14 * MS, Mark { id: 1, value: 1 });
    made
}

const ALL: [&str; 16] = [
    "0", "0", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "-", "13", "14", "",
];

#[test]
fn everything_without_a_selection() {
    let mut made = trace("select-all");
    assert_eq!(selected(made.finish(), &[]), ALL[..15]);
    assert_eq!(selected(made.finish(), &["--cpu", "0-1"]), ALL[..15]);
    assert_eq!(selected(made.finish(), &["--event", "*"]), ALL[..15]);
    assert_eq!(selected(made.finish(), &["--from", "0"]), ALL[..15]);
}

#[test]
fn times_include_both_ends() {
    let mut made = trace("select-time");
    let trace = made.finish();
    for (from, to, expected) in [
        ("0.004", "0.006", &["4", "5", "6"][..]),
        ("4ms", "+2ms", &["4", "5", "6"]),
        ("4.000001ms", "5999us", &["5"]),
        ("@4000000", "@6000000", &["4", "5", "6"]),
        // The last event is that of millisecond 14; the loss lies between 9 and 13.
        ("-1ms", "1s", &["-", "13", "14"]),
        ("-999us", "1s", &["14"]),
        ("-5ms", "-3ms", &["9", "-"]),
        ("10ms", "11ms", &["-"]),
        ("12ms", "12.5ms", &["-"]),
        ("13.1ms", "13.5ms", &[]),
        ("1s", "2s", &[]),
    ] {
        assert_eq!(
            selected(trace, &["--from", from, "--to", to]),
            expected,
            "{from} {to}"
        );
    }
    assert_eq!(
        selected(trace, &["--to", "+1ms"]),
        ["0", "0", "0", "1"],
        "without --from, from the beginning"
    );
    assert!(refused(trace, &["--from", "5ms", "--to", "4ms"]).contains("before --from"));
    assert!(refused(trace, &["--from", "+5ms"]).contains("only --to"));
    assert!(refused(trace, &["--from", "soon"]).contains("expected a time"));
}

#[test]
fn cpus_and_events_by_name() {
    let mut made = trace("select-cpu");
    let trace = made.finish();
    assert_eq!(selected(trace, &["--cpu", "1"]), ["3", "5", "9", "-", "13"]);
    assert_eq!(
        selected(trace, &["--cpu", "0", "--event", "sched_*"]),
        ["1", "2", "7", "8"]
    );
    assert_eq!(
        selected(trace, &["--event", "sched_switch,irq_handler_entry"]),
        ["2", "4", "7", "9", "-"]
    );
    assert_eq!(
        selected(trace, &["--event", "sched_switch", "--event", "irq*"]),
        ["2", "4", "7", "9", "-"]
    );
    assert_eq!(
        selected(trace, &["--event", "page_fault", "--cpu", "0"]),
        [""; 0],
        "described, and there is none"
    );
    assert_eq!(
        selected(trace, &["--cpu", "1", "--to", "1ms"]),
        [""; 0],
        "CPU 1 comes later"
    );
    assert!(
        refused(trace, &["--cpu", "7"])
            .contains("no event from CPU 7; it has events from CPU 0, 1")
    );
    assert!(refused(trace, &["--count", "--cpu", "0,4-9"]).contains("no event from CPUs 4 to 9"));
    assert!(refused(trace, &["--cpu", "two"]).contains("0,2-3"));
    assert!(refused(trace, &["--event", "sched_swich"]).contains("did you mean \"sched_switch\"?"));
    assert!(refused(trace, &["--event", "no such thing"]).contains("--count"));
}

#[test]
fn threads_by_what_ran_and_by_what_names_them() {
    let mut made = trace("select-thread");
    let trace = made.finish();
    // Thread 11: its name, its switches, the events of CPU 0 while it ran, its wake-up; on CPU 1
    // nothing after the loss.
    assert_eq!(
        selected(trace, &["--tid", "11"]),
        ["0", "2", "4", "5", "6", "7", "9", "-"]
    );
    assert_eq!(
        selected(trace, &["--thread", "worker/1"]),
        ["0", "2", "4", "5", "6", "7", "9", "-"]
    );
    assert_eq!(
        selected(trace, &["--tid", "12"]),
        ["0", "7", "8", "-", "14"]
    );
    assert_eq!(
        selected(trace, &["--thread", "worker*", "--event", "sched_switch"]),
        ["2", "7", "9", "-"]
    );
    assert_eq!(
        selected(
            trace,
            &["--tid", "12", "--tid", "13", "--from", "1ms", "--cpu", "0"]
        ),
        ["2", "7", "8", "14"]
    );
    // The thread before CPU 0's first switch is unknown; 13 is named by the switch.
    assert_eq!(selected(trace, &["--thread", "shell"]), ["0", "2", "-"]);
    // The waker 0 and the owner 0 mean no thread; only the idle thread matches.
    assert_eq!(selected(trace, &["--tid", "0"]), ["9", "-"]);
    assert!(refused(trace, &["--tid", "99"]).contains("names thread 99; kymo report"));
    // The missing thread is reported even if the selection ends early.
    assert!(refused(trace, &["--tid", "99", "--to", "1us"]).contains("names thread 99"));
    assert_eq!(selected(trace, &["--tid", "11", "--to", "1ns"]), ["0"]);
    assert!(refused(trace, &["--thread", "worker/3"]).contains("did you mean \"worker/1\"?"));
    assert!(refused(trace, &["--thread", "init"]).contains("kymo report lists"));
}

#[test]
fn damage_is_told_rather_than_what_is_missing_behind_it() {
    let mut made = trace("select-damage");
    let trace = made.finish();
    let file = trace.join("events_1");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 4]).unwrap();
    let output = kymo(&["dump", "--cpu", "7"], trace);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("events_1, packet")
    );
}

/// The names are those that the trace has given so far; the thread is the one that ran when the
/// event was recorded.
#[test]
fn numbers_have_their_names_beside_them() {
    let mut made = Made::new("names");
    let thread = |tid, name| ThreadName {
        tid: Tid(tid),
        name: Text::new(name),
    };
    made.event(0, 0, thread(5, "A"));
    made.event(0, 0, thread(6, "B\x1b"));
    let (lock, kind) = (Object(0x10), LockKind::Mutex);
    let name = Text::new("table");
    made.event(0, 0, kymo::vocabulary::LockName { lock, kind, name });
    let waits = (5, ThreadState::Blocked, SwitchReason::Waits);
    made.switch(0, MS, waits, (6, 0));
    let owner_tid = Tid(0);
    made.event(
        0,
        2 * MS,
        LockWait {
            lock,
            owner_tid,
            kind,
        },
    );
    made.event(1, 3 * MS, IrqEnter { irq: Irq(7) });
    let trace = made.finish();
    let text = |arguments: &[&str]| String::from_utf8(dump(arguments, trace).stdout).unwrap();
    let plain = text(&[]);
    let named = text(&["--names"]);
    let added: Vec<(&str, &str)> = plain
        .lines()
        .zip(named.lines())
        .map(|(plain, named)| (plain, named.strip_prefix(plain).unwrap()))
        .collect();
    let added = |event: &str| {
        let lines = added.iter().filter(|(line, _)| line.contains(event));
        lines.map(|(_, added)| *added).collect::<Vec<_>>()
    };
    assert_eq!(
        added("sched_switch"),
        ["  # prev_tid = A, next_tid = B\\u{1b}"]
    );
    assert_eq!(added("lock_wait"), ["  # lock = table, in B\\u{1b} (6)"]);
    assert_eq!(added("irq_handler_entry"), [""]);
    // What is before the selection is known, too.
    let late = text(&["--names", "--from", "2ms", "--event", "lock_wait"]);
    assert!(late.ends_with("  # lock = table, in B\\u{1b} (6)\n") && late.lines().count() == 1);

    let json = text(&["--names", "--json", "--from", "1ms"]);
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0]["names"],
        serde_json::json!({ "prev_tid": "A", "next_tid": "B\x1b" })
    );
    assert_eq!(lines[1]["names"], serde_json::json!({ "lock": "table" }));
    let thread = serde_json::json!({ "tid": 6, "name": "B\x1b" });
    assert_eq!(
        (&lines[0]["thread"], &lines[1]["thread"]),
        (&Value::Null, &thread)
    );
    assert!(!text(&["--json"]).contains("\"names\""));
    let refused = dump(&["--names", "--format", "babeltrace"], trace);
    assert_eq!(refused.status.code(), Some(2));
}
