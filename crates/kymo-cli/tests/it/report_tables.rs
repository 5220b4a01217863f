//! What `kymo report` prints fits the terminal, adds up equal names, and shows what is asked for.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait,
    Mark, Object, SwitchReason, Syscall, SyscallEnter, SyscallExit, SyscallName, ThreadName,
    ThreadState, Tid, UserName,
};
use kymo_made::{MS, Made, US};
use serde_json::{Value, json};

use crate::run::kymo;

/// A report for a terminal with this many columns.
fn report_at(columns: &str, arguments: &[&str], trace: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kymo"))
        .arg("report")
        .args(arguments)
        .arg(trace)
        .env("COLUMNS", columns)
        .output()
        .unwrap()
}

fn text_at(columns: &str, arguments: &[&str], trace: &Path) -> String {
    let output = report_at(columns, arguments, trace);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(arguments: &[&str], trace: &Path) -> String {
    text_at("1000", arguments, trace)
}

fn json_of(arguments: &[&str], trace: &Path) -> Value {
    let output = kymo(&[&["report", "--json"], arguments].concat(), trace);
    assert_eq!(output.status.code(), Some(0));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The lines of the table with this title, its headings first.
fn table<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(title));
    assert!(lines.next().is_some(), "{title}\n{text}");
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    lines.collect()
}

fn thread_name(made: &mut Made, tid: u32, name: &str) {
    let (tid, name) = (Tid(tid), Text::new(name));
    made.event(0, 0, ThreadName { tid, name });
}

fn lock_name(made: &mut Made, lock: u64, name: &str) {
    let event = LockName {
        lock: Object(lock),
        kind: LockKind::Mutex,
        name: Text::new(name),
    };
    made.event(0, 0, event);
}

const RUNNABLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Expired);
const WAITS: (ThreadState, SwitchReason) = (ThreadState::Blocked, SwitchReason::Waits);
const WORKERS: u32 = 16;

/// Workers take turns, a millisecond each; each has a lock for half of that, calls the kernel, and
/// is interrupted. All names are long, and without digits.
fn busy(name: &str) -> Made {
    let mut made = Made::new(name);
    for worker in 0..WORKERS {
        let letter = char::from(b'a' + worker as u8);
        let called = format!(
            "worker-of-the-long-queue-{}",
            String::from(letter).repeat(20)
        );
        thread_name(&mut made, 10 + worker, &called);
        lock_name(
            &mut made,
            0x100 + u64::from(worker),
            &format!("lock-of-{called}"),
        );
    }
    let irq = Irq(5);
    let name = Text::new("interrupt-line-with-a-very-long-name");
    made.event(0, 0, IrqName { irq, name });
    let id = Syscall(3);
    let name = Text::new("system_call_with_a_very_long_name");
    made.event(0, 0, SyscallName { id, name });
    for turn in 0..u64::from(4 * WORKERS) {
        let (tid, t) = (10 + (turn as u32) % WORKERS, (turn + 1) * MS);
        let next = 10 + (turn as u32 + 1) % WORKERS;
        let (lock, kind) = (Object(0x100 + turn % u64::from(WORKERS)), LockKind::Mutex);
        let owner_tid = Tid(next);
        made.event(0, t, SyscallEnter { id, arg0: 0 });
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
            t + (20 + turn) * US,
            LockAcquired {
                lock,
                kind,
                contended,
            },
        );
        made.event(0, t + 300 * US, IrqEnter { irq });
        made.event(0, t + (310 + turn) * US, IrqExit { irq });
        made.event(0, t + 500 * US, LockReleased { lock, kind });
        made.event(0, t + (600 + turn) * US, SyscallExit { id, ret: 0 });
        made.wake(0, t + 700 * US, next, tid);
        let (state, reason) = if turn % 3 == 0 { RUNNABLE } else { WAITS };
        made.switch(0, t + 900 * US, (tid, state, reason), (next, 1));
    }
    // A contradiction, whose message is long.
    made.switch(0, 100 * MS, (999, WAITS.0, WAITS.1), (10, 1));
    made
}

/// What looks like a number, without the punctuation around it.
fn numbers(text: &str) -> BTreeSet<String> {
    let words = text.split_whitespace();
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
    let numbers = words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    numbers.map(str::to_owned).collect()
}

#[test]
fn tables_fit_the_terminal_and_keep_their_numbers() {
    let mut made = busy("fits");
    let trace = made.finish();
    let all = text_at("1000", &["--top", "0"], trace);
    let longest = all.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest > 142, "{all}");
    for columns in [80, 100, 200] {
        let text = text_at(&columns.to_string(), &["--top", "0"], trace);
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}\n{text}");
            assert!(!line.ends_with(' '), "{line:?}");
        }
        assert_eq!(numbers(&text), numbers(&all), "{columns}\n{text}");
        assert!(text.contains('…') || columns == 200, "{text}");
        assert_eq!(text.contains(" (continued)\n"), columns < 200, "{text}");
    }
    // What is no terminal has 100 columns, and 80 are the fewest.
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
    command.arg("report").arg(trace).env_remove("COLUMNS");
    let output = command.output().unwrap();
    let unasked = String::from_utf8(output.stdout).unwrap();
    assert_eq!(unasked, text_at("100", &[], trace));
    for columns in ["1", "0", "-5", "wide", ""] {
        let width = if columns == "1" { "80" } else { "100" };
        assert_eq!(text_at(columns, &[], trace), text_at(width, &[], trace));
    }
}

/// The width of a terminal, which `script` provides.
#[test]
#[cfg(target_os = "linux")]
fn the_terminal_says_how_wide_it_is() {
    let mut made = busy("terminal");
    let trace = made.finish();
    let program = env!("CARGO_BIN_EXE_kymo");
    let shown = |variables: &str| {
        let trace = trace.display();
        let line = format!("stty cols 90 rows 30; env {variables} '{program}' report '{trace}'");
        let mut command = Command::new("script");
        let command = command
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm");
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap().replace('\r', "")
    };
    // The bar of the progress is cleared before the report.
    let plain = shown("-u COLUMNS NO_COLOR=1");
    assert!(plain.ends_with(&text_at("90", &[], trace)), "{plain}");
    let colored = shown("-u COLUMNS -u NO_COLOR");
    let expected = text_at("90", &["--color", "always"], trace);
    assert!(colored.ends_with(&expected), "{colored}");
    let dumb = shown("-u COLUMNS -u NO_COLOR TERM=dumb");
    assert!(dumb.ends_with(&text_at("90", &[], trace)), "{dumb}");
    // A set COLUMNS is what the user wants.
    let wide = shown("-u NO_COLOR COLUMNS=200");
    let expected = text_at("200", &["--color", "always"], trace);
    assert!(wide.ends_with(&expected), "{wide}");
}

#[test]
fn colors_only_where_they_are_wanted() {
    let mut made = busy("colors");
    let trace = made.finish();
    let plain = text(&[], trace);
    assert!(!plain.contains('\x1b'));
    assert_eq!(text(&["--color", "never"], trace), plain);
    let colored = text(&["--color", "always"], trace);
    assert!(colored.contains("\n\x1b[1mThreads\x1b[0m\n"), "{colored}");
    let without = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"]
        .into_iter()
        .fold(colored.clone(), |text, code| text.replace(code, ""));
    assert_eq!(without, plain);
    // The worst case of the waits, and no other.
    let longest = table(&colored, "\x1b[1mThe longest wait");
    let marked = longest.iter().filter(|line| line.contains("\x1b[33m"));
    assert_eq!(marked.count(), 1, "{longest:?}");
    assert!(
        longest[1].contains("\x1b[33m73.00 us\x1b[0m"),
        "{longest:?}"
    );
}

#[test]
fn columns_that_say_nothing_are_left_out() {
    let mut made = busy("silent");
    let text = text(&[], made.finish());
    let head = table(&text, "Threads")[0];
    assert!(head.contains("runnable") && head.contains("prio"), "{head}");
    for column in ["pid", "suspended", "sleeping"] {
        assert!(!head.contains(column), "{head}");
    }
}

/// 30 locks of one name are taken and waited for, by threads of one name, during interrupts of lines
/// of one name.
fn alike(name: &str) -> Made {
    let mut made = Made::new(name);
    for lock in 0..30 {
        lock_name(&mut made, 0x100 + lock, "buffer");
    }
    lock_name(&mut made, 0x900, "other");
    for tid in 1..=6 {
        thread_name(&mut made, tid, if tid < 6 { "worker" } else { "main" });
    }
    for line in [7, 8] {
        let (irq, name) = (Irq(line), Text::new("virtio"));
        made.event(0, 0, IrqName { irq, name });
    }
    made.switch(0, MS, (6, RUNNABLE.0, RUNNABLE.1), (1, 0));
    for turn in 0..30_u64 {
        let t = (turn + 1) * 10 * MS;
        let (lock, kind) = (Object(0x100 + turn), LockKind::Mutex);
        let (tid, next) = (1 + turn as u32 % 5, 1 + (turn as u32 + 1) % 5);
        let owner_tid = Tid(6);
        made.event(
            0,
            t,
            LockWait {
                lock,
                owner_tid,
                kind,
            },
        );
        let contended = true;
        made.event(
            0,
            t + (turn + 1) * 100 * US,
            LockAcquired {
                lock,
                kind,
                contended,
            },
        );
        made.event(0, t + 4 * MS, LockReleased { lock, kind });
        let irq = Irq(7 + turn as u32 % 2);
        made.event(0, t + 5 * MS, IrqEnter { irq });
        made.event(0, t + 5 * MS + (turn + 1) * US, IrqExit { irq });
        made.switch(0, t + 9 * MS, (tid, WAITS.0, WAITS.1), (next, 0));
    }
    let (lock, kind) = (Object(0x900), LockKind::Spin);
    let contended = false;
    made.event(
        0,
        400 * MS,
        LockAcquired {
            lock,
            kind,
            contended,
        },
    );
    made
}

#[test]
fn equal_names_are_one_row() {
    let mut made = alike("alike");
    let trace = made.finish();
    let report = text(&[], trace);
    let locks = table(&report, "Locks");
    assert_eq!(locks.len(), 3, "{report}");
    let words: Vec<&str> = locks[1].split_whitespace().collect();
    assert_eq!(words[..6], ["buffer", "(30", "locks)", "mutex", "30", "30"]);
    assert!(locks[1].contains("3.000 ms"), "{report}");
    let threads = table(&report, "Threads");
    assert!(threads[1].starts_with("worker (5 threads)"), "{report}");
    assert_eq!(threads.len(), 3, "{report}");
    let waits = table(&report, "Waits by lock and thread");
    assert!(
        waits[1].starts_with("buffer (30 locks)  worker (5 threads)     30"),
        "{report}"
    );
    let lines = table(&report, "Interrupts");
    assert!(
        lines[1].starts_with("virtio (2 lines)     30  "),
        "{report}"
    );

    let each = text(&["--each", "--top", "0"], trace);
    assert_eq!(table(&each, "Locks").len(), 32, "{each}");
    assert_eq!(table(&each, "Threads").len(), 7, "{each}");
    assert!(each.contains("\nvirtio (7) ") && each.contains("\nvirtio (8) "));

    // JSON has both. Sums and maxima are exact, and percentiles are those of all values.
    let report = json_of(&[], trace);
    let rows = |member: &str| report[member].as_array().unwrap().clone();
    assert_eq!((rows("locks").len(), rows("locks_by_name").len()), (31, 2));
    let buffer = &rows("locks_by_name")[0];
    let sum: u64 = (1..=30).map(|turn| turn * 100 * US).sum();
    assert_eq!(buffer["alike"], 30);
    assert_eq!(buffer["wait"]["total_ns"], sum);
    assert_eq!(buffer["wait"]["max_ns"], 3 * MS);
    let median = buffer["wait"]["p50_ns"].as_u64().unwrap();
    assert!((1_500 * US..=1_525 * US).contains(&median), "{median}");
    assert_eq!(buffer["longest_wait"]["waiter"]["name"], "worker");
    let waiters = buffer["waiters"].as_array().unwrap();
    assert_eq!((waiters.len(), &waiters[0]["alike"]), (1, &json!(5)));
    let worker = &rows("threads_by_name")[0];
    let alone: Vec<Value> = rows("threads");
    let alone = alone.iter().filter(|thread| thread["name"] == "worker");
    let time: u64 = alone.map(|thread| thread["cpu_ns"].as_u64().unwrap()).sum();
    assert_eq!(
        (&worker["cpu_ns"], &worker["alike"]),
        (&json!(time), &json!(5))
    );
    let virtio = &rows("interrupts_by_name")[0];
    assert_eq!(
        (&virtio["count"], &virtio["alike"]),
        (&json!(30), &json!(2))
    );
    assert_eq!(virtio["durations"]["max_ns"], 30 * US);
}

#[test]
fn long_tables_end_after_ten_rows_and_say_so() {
    let mut made = busy("long");
    let trace = made.finish();
    let report = text(&[], trace);
    let threads = table(&report, "Threads");
    // There are 16, and 999, to which nobody had switched.
    assert_eq!(threads.len(), 12, "{report}");
    assert_eq!(threads[11], "and 7 more; --top 0 prints all");
    let few = text(&["--top", "3"], trace);
    assert_eq!(table(&few, "Threads")[4], "and 14 more; --top 0 prints all");
    let all = text(&["--top", "0"], trace);
    assert_eq!(table(&all, "Threads").len(), 18, "{all}");
    assert!(!all.contains(" more; --top"), "{all}");
}

#[test]
fn rows_are_ordered_by_the_column_that_is_named() {
    let mut made = busy("sorted");
    let trace = made.finish();
    let first = |arguments: &[&str]| {
        let report = text(arguments, trace);
        let row = table(&report, "Waits by lock and thread")[1];
        row.split_whitespace().next().unwrap().to_owned()
    };
    // The longest wait is that of the last worker.
    assert!(first(&[]).ends_with("pppp"));
    assert!(first(&["--sort", "max"]).ends_with("pppp"));
    assert!(first(&["--sort", "lock"]).ends_with("aaaa"));
    let report = text(&["--sort", "On_A CPU", "--top", "0"], trace);
    let times = table(&report, "Threads").into_iter().skip(1);
    let times = times.map(|line| line.split_whitespace().nth(3).unwrap().to_owned());
    let times: Vec<f64> = times.filter_map(|time| time.parse().ok()).collect();
    assert!(
        times.len() > 10 && times.is_sorted_by(|a, b| a >= b),
        "{report}"
    );
    let refused = |column: &str| {
        let output = kymo(&["report", "--sort", column], trace);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        refused("wait-mux"),
        "kymo: no table has a column \"wait-mux\"; did you mean wait-max?\n"
    );
    assert!(refused("xyzxyzxyz").contains("; there are acquired, after-a-wait, "));
}

#[test]
fn sections_are_chosen() {
    let mut made = busy("chosen");
    let trace = made.finish();
    let report = text(&["--section", "locks,threads,samples"], trace);
    for title in ["\nLocks\n", "\nThreads\n", "\nWaits by lock and thread\n"] {
        assert!(report.contains(title), "{report}");
    }
    for title in ["CPUs", "Interrupts", "System calls", "What does not fit"] {
        assert!(!report.contains(&format!("\n{title}")), "{report}");
    }
    assert!(
        report.find("\nLocks\n") < report.find("\nThreads\n"),
        "{report}"
    );
    assert!(
        report.ends_with("\nThe trace has no events for: samples.\n"),
        "{report}"
    );
    // Events are counted if that is asked for.
    let report = text(&["--section", "events"], trace);
    let row = table(&report, "Events")[1];
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..2], ["sched_switch", "65"], "{report}");
    let json = json_of(&["--section", "locks"], trace);
    assert!(json["locks"].is_array() && json["events"].is_number());
    assert_eq!(
        (&json["threads"], &json["cpus"]),
        (&Value::Null, &Value::Null)
    );
    let output = kymo(&["report", "--section", "nothing"], trace);
    assert_eq!(output.status.code(), Some(2));
}

/// Thread 1 runs on CPU 0 from 10 ms to 50 ms, and thread 2 on CPU 1 from 20 ms to 60 ms; then both
/// CPUs are idle.
fn spread_out(name: &str) -> Made {
    let mut made = Made::new(name);
    for tid in [1, 2] {
        thread_name(&mut made, tid, if tid == 1 { "one" } else { "two" });
    }
    const IDLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Idle);
    for cpu in [0, 1] {
        let (tid, t) = (cpu + 1, (10 + 10 * u64::from(cpu)) * MS);
        made.switch(cpu, t, (0, IDLE.0, IDLE.1), (tid, 0));
        let irq = Irq(3 + cpu);
        made.event(cpu, t + 5 * MS, IrqEnter { irq });
        made.event(cpu, t + 15 * MS, IrqExit { irq });
        made.event(cpu, t + 20 * MS, Mark { id: 1, value: 0 });
        made.switch(cpu, t + 40 * MS, (tid, WAITS.0, WAITS.1), (0, 0));
        made.event(cpu, 90 * MS, Mark { id: 1, value: 0 });
    }
    made
}

#[test]
fn a_part_of_a_trace_is_reported() {
    let mut made = spread_out("part");
    let trace = made.finish();
    let cpu_ns = |report: &Value, name: &str| {
        let threads = report["threads"].as_array().unwrap();
        let thread = threads.iter().find(|thread| thread["name"] == name);
        thread.map(|thread| thread["cpu_ns"].as_u64().unwrap() / MS)
    };
    // Times are clipped to the part, whose state at its begin comes from before.
    let part = json_of(&["--from", "30ms", "--to", "55ms"], trace);
    let times = ["one", "two"].map(|name| cpu_ns(&part, name));
    assert_eq!(times, [Some(20), Some(25)], "{part}");
    let cpus = |report: &Value, member: &str| -> Vec<u64> {
        let cpus = report["cpus"].as_array().unwrap().iter();
        cpus.map(|cpu| cpu[member].as_u64().unwrap() / MS).collect()
    };
    assert_eq!(cpus(&part, "busy_ns"), [20, 25]);
    assert_eq!(cpus(&part, "idle_ns"), [5, 0]);
    assert_eq!(cpus(&part, "unknown_ns"), [0, 0]);
    assert_eq!(
        (&part["begin_ns"], &part["end_ns"]),
        (&json!(30 * MS), &json!(55 * MS))
    );
    // One interrupt ends in the part, with its whole duration.
    let lines = part["interrupts"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0]["irq"]), (1, &json!(4)));
    assert_eq!(lines[0]["durations"]["max_ns"], 10 * MS);

    // Behind the last event there is nothing.
    let late = json_of(&["--from", "80ms", "--to", "500ms"], trace);
    assert_eq!(
        (&late["end_ns"], &late["events"]),
        (&json!(90 * MS), &json!(2))
    );
    assert_eq!(cpus(&late, "idle_ns"), [10, 10]);

    let one = json_of(&["--cpu", "1"], trace);
    assert_eq!((cpu_ns(&one, "one"), cpu_ns(&one, "two")), (None, Some(40)));
    assert_eq!(one["cpus"].as_array().unwrap().len(), 1);
    assert_eq!(one["events"], 6);

    let one = json_of(&["--thread", "one"], trace);
    assert_eq!((cpu_ns(&one, "one"), cpu_ns(&one, "two")), (Some(40), None));
    assert_eq!(one["interrupts"].as_array().unwrap().len(), 1);

    let one = json_of(&["--event", "irq_*"], trace);
    assert_eq!((&one["events"], cpu_ns(&one, "one")), (&json!(4), Some(0)));

    let shown = text(&["--from", "30ms"], trace);
    assert!(shown.contains("\nOnly of what was selected. "), "{shown}");
    // Points in time are still counted from the trace's begin.
    assert!(shown.contains(" 0.025000000  cpu1"), "{shown}");
    let output = kymo(&["report", "--cpu", "7"], trace);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the trace has no event from CPU 7"),
        "{message}"
    );
}

#[test]
fn without_scheduling_events_the_others_are_counted() {
    let mut made = Made::new("unscheduled");
    let (id, name) = (1, Text::new("request"));
    made.event(0, 0, UserName { id, name });
    for time in 1..=100 {
        made.event(0, time * MS, Mark { id, value: 0 });
        if time % 4 == 0 {
            made.event(
                1,
                time * MS,
                SyscallEnter {
                    id: Syscall(1),
                    arg0: 0,
                },
            );
        }
    }
    let trace = made.finish();
    let report = text_at("80", &[], trace);
    let sentence = "The trace has no scheduling events: who ran and who waited is not recorded.";
    let first: Vec<&str> = report.lines().take(20).collect();
    assert_eq!(first[1], sentence, "{report}");
    let rows = table(&report, "Events");
    assert_eq!(rows[0], "event      count  per second  share", "{report}");
    assert_eq!(rows[1], "mark         100      1010.1  79.4%", "{report}");
    assert!(first.contains(&rows[1]), "{report}");
    assert!(
        !report.contains("CPUs") && !report.contains("Threads"),
        "{report}"
    );
    let json = json_of(&[], trace);
    let count = json["event_counts"][1]["count"].as_u64();
    assert_eq!(
        (&json["event_counts"][1]["name"], count),
        (&json!("sys_enter"), Some(25))
    );
    // With them, it says nothing of that, and counts no events.
    let mut made = busy("scheduled");
    let report = text(&[], made.finish());
    assert!(
        !report.contains(sentence) && !report.contains("\nEvents\n"),
        "{report}"
    );
}

/// A program's trace as LTTng writes it: events have the thread and the process.
#[test]
fn events_are_counted_by_process_and_thread() {
    let path = std::env::temp_dir().join(format!("kymo-report-ust-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let metadata = r#"/* CTF 1.8 */
typealias integer { size = 8; } := u8;
trace { major = 1; minor = 8; byte_order = le; };
env { domain = "ust"; tracer_name = "lttng-ust"; };
clock { name = c; freq = 1000; };
stream {
    packet.context := struct { u8 cpu_id; };
    event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; };
    event.context := struct { u8 _vpid; u8 _vtid; string _procname; };
};
event { id = 1; name = "app:request"; fields := struct { u8 _size; }; };
event { id = 2; name = "app:answer"; fields := struct { u8 _size; }; };
"#;
    let mut stream = vec![0];
    for time in 0..=100_u8 {
        let (id, tid) = (1 + u8::from(time % 4 == 0), 21 + u8::from(time % 2 == 0));
        stream.extend([id, time, 20, tid]);
        stream.extend(if tid == 21 { b"even\0" } else { b"odds\0" });
        stream.push(9);
    }
    std::fs::write(path.join("metadata"), metadata).unwrap();
    std::fs::write(path.join("channel0_0"), stream).unwrap();
    let report = text_at("80", &[], &path);
    let rows = table(&report, "Events by process");
    assert_eq!(
        rows[1], "app:request  20          75       750.0",
        "{report}"
    );
    let rows = table(&report, "Events by thread");
    assert_eq!(rows[1], "odds (22)   20     51       510.0", "{report}");
    assert_eq!(rows[2], "even (21)   20     50       500.0", "{report}");
    std::fs::remove_dir_all(&path).unwrap();
}

/// However much is damaged or lost, the first lines are about something else too.
#[test]
fn the_first_lines_leave_room_for_a_table() {
    let mut made = Made::new("lossy");
    for turn in 1..=40_u64 {
        made.switch(
            0,
            turn * MS,
            (1 + turn as u32 % 2, WAITS.0, WAITS.1),
            (2 - turn as u32 % 2, 0),
        );
        made.lose(0, turn, turn * MS + 100 * US);
    }
    let report = text_at("80", &[], made.finish());
    let first: Vec<&str> = report.lines().take(20).collect();
    assert!(
        first.contains(&"  and 35 more times; kymo dump shows where"),
        "{report}"
    );
    assert!(first.contains(&"CPUs"), "{report}");
}
