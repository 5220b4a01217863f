//! `kymo diff`: what differs between two traces, and what is noise.

use std::path::Path;
use std::process::Command;

use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait,
    Object, SwitchReason, Syscall, SyscallEnter, SyscallExit, SyscallName, ThreadName, ThreadState,
    Tid,
};
use kymo_made::{MS, Made, US};
use serde_json::{Value, json};

use crate::run::kymo;

/// So many rounds of 10 ms: in each a thread calls the kernel, waits for a lock and is interrupted.
/// The handler takes `handler` microseconds more than a time that differs from round to round.
fn rounds(name: &str, rounds: u64, handler: u64) -> Made {
    let mut made = Made::new(name);
    for (tid, name) in [(5, "worker"), (6, "other")] {
        let (tid, name) = (Tid(tid), Text::new(name));
        made.event(0, 0, ThreadName { tid, name });
    }
    let (irq, name) = (Irq(7), Text::new("disk"));
    made.event(0, 0, IrqName { irq, name });
    let (id, name) = (Syscall(3), Text::new("read"));
    made.event(0, 0, SyscallName { id, name });
    let (lock, kind) = (Object(0x10), LockKind::Mutex);
    let name = Text::new("table");
    made.event(0, 0, LockName { lock, kind, name });
    for round in 0..rounds {
        let t = (round + 1) * 10 * MS;
        // Differs, but is the same in both traces.
        let some = (round * 37 % 101) * US;
        let (tid, next) = if round % 2 == 0 { (5, 6) } else { (6, 5) };
        made.event(0, t, SyscallEnter { id, arg0: 0 });
        let owner_tid = Tid(next);
        made.event(
            0,
            t + 10 * US,
            LockWait {
                lock,
                owner_tid,
                kind,
            },
        );
        let contended = true;
        made.event(
            0,
            t + 20 * US + some,
            LockAcquired {
                lock,
                kind,
                contended,
            },
        );
        made.event(0, t + MS, LockReleased { lock, kind });
        made.event(0, t + MS + some, SyscallExit { id, ret: 0 });
        made.event(0, t + 2 * MS, IrqEnter { irq });
        made.event(0, t + 2 * MS + some + handler * US, IrqExit { irq });
        made.wake(0, t + 4 * MS, next, tid);
        let how = (tid, ThreadState::Blocked, SwitchReason::Waits);
        made.switch(0, t + 5 * MS, how, (next, 0));
    }
    made
}

fn compare(arguments: &[&str], before: &Path, after: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
    command.arg("diff").args(arguments).arg(before).arg(after);
    let output = command.env("COLUMNS", "1000").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn row<'v>(diff: &'v Value, table: &str, name: &str) -> &'v Value {
    let rows = diff[table].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

#[test]
fn a_slower_handler_is_found_and_the_rest_is_noise() {
    let (mut before, mut after) = (rounds("diff-a", 200, 50), rounds("diff-b", 200, 90));
    let (before, after) = (before.finish(), after.finish());
    let (status, text, message) = compare(&["--json"], before, after);
    assert_eq!(status, Some(0), "{message}");
    let diff: Value = serde_json::from_str(&text).unwrap();
    let disk = row(&diff, "interrupts", "disk");
    assert_eq!(disk["durations_test"]["difference"], "more", "{disk}");
    assert!(
        disk["durations_test"]["p"].as_f64().unwrap() < 0.001,
        "{disk}"
    );
    assert_eq!(disk["count"], json!({ "before": 200, "after": 200 }));
    assert_eq!(disk["counts_test"]["difference"], "noise");
    for (table, name) in [
        ("system_calls", "read"),
        ("lock_waits", "table"),
        ("lock_holds", "table"),
        ("threads", "worker"),
    ] {
        let row = row(&diff, table, name);
        for test in ["durations_test", "counts_test"] {
            assert_eq!(row[test]["difference"], "noise", "{table} {row}");
        }
    }
    // Backwards it is faster.
    let (_, text, _) = compare(&["--json"], after, before);
    let diff: Value = serde_json::from_str(&text).unwrap();
    let disk = row(&diff, "interrupts", "disk");
    assert_eq!(disk["durations_test"]["difference"], "less");

    let (status, text, _) = compare(&[], before, after);
    assert_eq!(status, Some(0));
    assert!(text.starts_with("Before: 1,805 events in "), "{text}");
    let line = |title: &str, begin: &str| {
        let lines = text.lines().skip_while(|line| *line != title);
        lines
            .skip(1)
            .find(|line| line.starts_with(begin))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("Interrupts: duration", "disk").contains("  longer"),
        "{text}"
    );
    assert!(
        line("System calls: duration", "read").contains("  noise"),
        "{text}"
    );
}

#[test]
fn rates_are_of_the_time_and_few_values_are_said_to_be_few() {
    let (mut before, mut after) = (rounds("diff-c", 200, 50), rounds("diff-d", 400, 50));
    let (_, text, _) = compare(&["--json"], before.finish(), after.finish());
    let diff: Value = serde_json::from_str(&text).unwrap();
    // Twice as many in twice the time.
    let disk = row(&diff, "interrupts", "disk");
    assert_eq!(disk["counts_test"]["difference"], "noise", "{disk}");
    let mut few = rounds("diff-few", 4, 900);
    let (_, text, _) = compare(&["--json"], before.finish(), few.finish());
    let diff: Value = serde_json::from_str(&text).unwrap();
    let disk = row(&diff, "interrupts", "disk");
    assert_eq!(
        disk["durations_test"],
        json!({ "difference": "too_few", "p": null })
    );
    let (_, text, _) = compare(&[], before.finish(), few.finish());
    assert!(text.contains("  few"), "{text}");
}

#[test]
fn things_of_one_trace_are_listed_and_damage_is_told() {
    let (mut before, mut after) = (rounds("diff-e", 20, 50), Made::new("diff-f"));
    let (tid, name) = (Tid(8), Text::new("new"));
    after.event(0, 0, ThreadName { tid, name });
    for round in 1..20 {
        let (prev, next) = if round % 2 == 0 { (8, 9) } else { (9, 8) };
        let how = (prev, ThreadState::Runnable, SwitchReason::Expired);
        after.switch(0, round * MS, how, (next, 0));
    }
    let (before, after) = (before.finish().to_owned(), after.finish().to_owned());
    let (status, text, _) = compare(&["--json"], &before, &after);
    assert_eq!(status, Some(0));
    let diff: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(row(&diff, "threads", "new")["count"]["before"], 0);
    assert_eq!(row(&diff, "threads", "worker")["count"]["after"], 0);
    assert_eq!(
        row(&diff, "system_calls", "read")["per_second"]["after"],
        0.0
    );

    let stream = after.join("events_0");
    let mut bytes = std::fs::read(&stream).unwrap();
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&stream, bytes).unwrap();
    let (status, text, message) = compare(&[], &before, &after);
    assert_eq!(status, Some(3), "{message}");
    assert!(text.contains("worker"), "{text}");
    assert!(message.contains(after.to_str().unwrap()), "{message}");
    let missing = kymo(&["diff", "/nonexistent"], &before);
    assert_eq!(missing.status.code(), Some(3));
}
