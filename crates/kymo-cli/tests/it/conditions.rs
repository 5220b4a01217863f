//! `--where`: conditions on one event, in the language of expectations.

use std::path::Path;

use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, IrqName, LockKind, LockWait, Object, SwitchReason, Syscall,
    SyscallExit, ThreadName, ThreadState, Tid,
};
use kymo_made::{MS, Made};
use serde_json::Value;

use crate::run::{kymo, printed};

/// Two CPUs with interrupts 5 and 9; thread A runs on CPU 0 from 2 ms, and B gets its name at the
/// end.
fn made(name: &str) -> Made {
    let mut made = Made::new(name);
    let called = |tid, name| ThreadName {
        tid: Tid(tid),
        name: Text::new(name),
    };
    made.event(0, 0, called(5, "A"));
    let (irq, name) = (Irq(5), Text::new("timer"));
    made.event(0, 0, IrqName { irq, name });
    made.event(0, MS, IrqEnter { irq: Irq(5) });
    made.event(0, MS + 1, IrqExit { irq: Irq(5) });
    let idle = (0, ThreadState::Runnable, SwitchReason::Idle);
    made.switch(0, 2 * MS, idle, (5, 0));
    made.event(0, 3 * MS, IrqEnter { irq: Irq(9) });
    made.event(0, 3 * MS + 1, IrqExit { irq: Irq(9) });
    let id = Syscall(1);
    made.event(0, 4 * MS, SyscallExit { id, ret: -2 });
    let waits = (5, ThreadState::Blocked, SwitchReason::Waits);
    made.switch(0, 5 * MS, waits, (6, 0));
    let (lock, kind) = (Object(0x10), LockKind::Mutex);
    let owner_tid = Tid(5);
    made.event(
        0,
        6 * MS,
        LockWait {
            lock,
            owner_tid,
            kind,
        },
    );
    made.event(1, 7 * MS, IrqEnter { irq: Irq(5) });
    made.event(1, 7 * MS + 1, IrqExit { irq: Irq(5) });
    made.event(0, 8 * MS, called(6, "B"));
    made
}

/// The millisecond and the name of each selected event.
fn selected(trace: &Path, arguments: &[&str]) -> Vec<String> {
    let (status, lines) = printed(&[&["dump", "--json"], arguments].concat(), trace);
    assert_eq!(status, Some(0), "{arguments:?}");
    let lines = lines
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    let lines = lines.map(|line| {
        let time = line["time_ns"].as_u64().unwrap() / MS;
        format!("{time} {}", line["name"].as_str().unwrap())
    });
    lines.collect()
}

#[test]
fn events_are_selected_by_their_fields() {
    let mut made = made("where");
    let trace = made.finish();
    let is = |conditions: &[&str], expected: &[&str]| {
        let arguments = conditions
            .iter()
            .flat_map(|condition| ["--where", condition]);
        let arguments: Vec<&str> = arguments.collect();
        assert_eq!(selected(trace, &arguments), expected, "{conditions:?}");
    };
    is(
        &["is = 'irq_handler_entry', irq = 5, on_cpu = 0"],
        &["1 irq_handler_entry"],
    );
    is(
        &["irq = 5, on_cpu = 0"],
        &["0 irq_name", "1 irq_handler_entry", "1 irq_handler_exit"],
    );
    is(
        &["{ is = 'irq_handler_entry', irq = [5, 9] }"],
        &[
            "1 irq_handler_entry",
            "3 irq_handler_entry",
            "7 irq_handler_entry",
        ],
    );
    is(
        &["is = ['irq_handler_entry', 'lock_wait'], irq = { at_least = 6 }"],
        &["3 irq_handler_entry"],
    );
    // A negative number, and the label of an enumeration.
    is(&["ret = { at_most = -1 }"], &["4 sys_exit"]);
    is(&["reason = 'waits'"], &["5 sched_switch"]);
    // Names stand for numbers, also before the trace has them.
    is(
        &["irq = 'timer', is = 'irq_handler_exit'"],
        &["1 irq_handler_exit", "7 irq_handler_exit"],
    );
    is(&["next_tid = 'B'"], &["5 sched_switch"]);
    // The thread that ran, by name and number; a switch is the last event of the one that leaves.
    is(
        &["in_thread = 'A'"],
        &[
            "3 irq_handler_entry",
            "3 irq_handler_exit",
            "4 sys_exit",
            "5 sched_switch",
        ],
    );
    is(&["in_thread = 6, is = 'lock_wait'"], &["6 lock_wait"]);
    is(&["in_thread = 'B', is = 'lock_wait'"], &["6 lock_wait"]);
    // One of several conditions is enough; other options must hold too.
    is(&["ret = -2", "lock = 0x10"], &["4 sys_exit", "6 lock_wait"]);
    let both = ["--where", "irq = 5", "--event", "*_entry", "--from", "2ms"];
    assert_eq!(selected(trace, &both), ["7 irq_handler_entry"]);
}

#[test]
fn what_can_never_hold_is_refused() {
    let mut made = made("refused");
    let trace = made.finish();
    for (condition, message) in [
        ("irq == 5", "write conditions such as irq = 5, on_cpu = 0"),
        ("", "write conditions such as irq = 5, on_cpu = 0"),
        (
            "irq = 5 } x = { a = 1",
            "write conditions such as irq = 5, on_cpu = 0",
        ),
        ("irk = 5", "no event of the trace has a field \"irk\"; "),
        (
            "is = 'irq_handler_enter'",
            "the trace has no event \"irq_handler_enter\"; ",
        ),
        (
            "is = 'sys_exit', irq = 5",
            "sys_exit has no field \"irq\"; it has id, ret",
        ),
        ("is = 5", "is must be the name of an event"),
        ("on_cpu = 'A'", "on_cpu must be the number of a CPU"),
        ("ret = 'A'", "ret of sys_exit is a number"),
        (
            "ret = 1.5",
            "expected an integer, a boolean, a string, a list of these",
        ),
        ("name = 5", "is a string; compare it with a string"),
    ] {
        for verb in ["dump", "report", "check"] {
            let output = kymo(&[verb, "--where", condition], trace);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{condition} {text}");
            assert!(
                text.starts_with("kymo: --where: ") && text.contains(message),
                "{condition}\n{text}"
            );
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}

#[test]
fn every_verb_selects_the_same() {
    let mut made = made("verbs");
    let trace = made.finish();
    let (status, report) = printed(&["report", "--json", "--where", "irq = 9"], trace);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((status, &report["events"]), (Some(0), &2.into()));
    assert_eq!(report["interrupts"].as_array().unwrap().len(), 1);

    // The expectations are about the selected events, and still know the names.
    let file = std::env::temp_dir().join(format!("kymo-where-{}.toml", std::process::id()));
    let text = "[[expect]]\nevent = { is = 'irq_handler_entry', irq = 'timer' }\ncount = 1\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let check = |condition: &str| {
        let arguments = ["check", "--expect", file, "--where", condition];
        printed(&arguments, trace)
    };
    assert_eq!(check("on_cpu = 1").0, Some(0));
    let (status, text) = check("on_cpu = [0, 1]");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("exactly 1 expected, 2 found"), "{text}");
    std::fs::remove_file(file).unwrap();

    let out = std::env::temp_dir().join(format!("kymo-where-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    let run = |arguments: &[&str], name: &str| {
        let to = out.join(name);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kymo"));
        let output = command
            .args(arguments)
            .arg(trace)
            .arg(&to)
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{message}");
        to
    };
    let converted = run(&["convert", "--where", "irq = 9"], "converted");
    assert_eq!(
        selected(&converted, &[]),
        ["3 irq_handler_entry", "3 irq_handler_exit"]
    );
    let tables = run(&["export", "--to", "csv", "--where", "irq = 9"], "tables");
    let table = std::fs::read_to_string(tables.join("irq_handler_entry.csv")).unwrap();
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(!tables.join("sys_exit.csv").exists());
    std::fs::remove_dir_all(&out).unwrap();
}
