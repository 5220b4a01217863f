//! ports/zephyr: a schedule that is written down, on a stand-in for Zephyr. What the stand-in's
//! scheduler has counted itself is in the trace and in the report, cycle for cycle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kymo_ctf::{Item, Trace};
use kymo_e2e::{babeltrace, built, kymo, patience, recording, run, scratch};
use serde_json::{Value as Json, json};

/// Nanoseconds of one of the script's cycles.
const CYCLE: u64 = 1000;

/// Records the image that this variable names; returns the trace and the console.
fn recorded(variable: &str, folder: &str) -> (PathBuf, String) {
    let trace = scratch(folder).join("trace");
    let mut command = recording(&built(variable), &trace);
    let output = run(
        command.args(["--deterministic", "--timeout", patience()]),
        0,
    );
    (trace, String::from_utf8(output.stdout).unwrap())
}

/// The numbers in the line of the console that begins with this word.
fn printed<const N: usize>(console: &str, word: &str) -> [u64; N] {
    let mut lines = console.lines().filter_map(|line| line.split_once(' '));
    let line = lines.find(|(first, _)| *first == word);
    let (_, numbers) = line.unwrap_or_else(|| panic!("no {word} in {console}"));
    let numbers = numbers.split(' ').map(|number| number.parse().unwrap());
    numbers.collect::<Vec<u64>>().try_into().unwrap()
}

/// How many events of each name; switches and wake-ups with the thread, too.
fn counted(trace: &Path) -> BTreeMap<(String, Option<u64>), u64> {
    let mut counts = BTreeMap::new();
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                let field = |name: &str| event.fields.get(name).unwrap().as_u64();
                let name = event.name().to_owned();
                let thread = match event.name() {
                    "sched_switch" => field("next_tid"),
                    "sched_wakeup" => field("tid"),
                    _ => None,
                };
                if thread.is_some() {
                    *counts.entry((name.clone(), thread)).or_default() += 1;
                }
                *counts.entry((name, None)).or_default() += 1;
            }
            Item::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    counts
}

/// What `kymo COMMAND --json` says of the trace.
fn json_of(command: &str, trace: &Path) -> Json {
    let output = run(kymo([command, "--json"]).arg(trace), 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The thread of this name in a report.
fn thread<'a>(report: &'a Json, name: &str) -> &'a Json {
    let mut threads = report["threads"].as_array().unwrap().iter();
    let thread = threads.find(|thread| thread["name"] == name);
    thread.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

/// Compares a trace with what the scheduler has counted of the threads and the interrupts.
fn compare_counts(trace: &Path, console: &str) {
    let (counts, report) = (counted(trace), json_of("report", trace));
    let count = |name: &str, thread| counts.get(&(name.to_owned(), thread)).copied().unwrap_or(0);
    for name in ["main", "idle", "control", "sensor", "worker", "logger"] {
        let [cycles, switches, wakeups] = printed(console, name);
        let thread = thread(&report, name);
        let tid = thread["tid"].as_u64();
        assert_eq!(thread["idle"], name == "idle");
        assert_eq!(thread["cpu_ns"], cycles * CYCLE, "{name}\n{console}");
        assert_eq!(count("sched_switch", tid), switches, "{name}");
        assert_eq!(count("sched_wakeup", tid), wakeups, "{name}");
    }
    let [cycles] = printed(console, "cycles");
    // The schedule begins with the recording, not with its first event.
    let [begin, end] = ["zero_ns", "end_ns"].map(|time| report[time].as_u64().unwrap());
    assert_eq!(end - begin, cycles * CYCLE);
    let [interrupts] = printed(console, "interrupts");
    let [creations] = printed(console, "creations");
    let [ends] = printed(console, "ends");
    assert_eq!(count("irq_handler_entry", None), interrupts);
    assert_eq!(count("irq_handler_exit", None), interrupts);
    assert_eq!(count("thread_create", None), creations);
    assert_eq!(count("thread_exit", None), ends);
    // Two threads existed when recording began, and got no name otherwise.
    assert_eq!(count("thread_state", None), 2);
    assert_eq!(count("thread_name", None), creations);
}

/// Compares a report with what the script says must happen.
fn compare_script(trace: &Path) {
    let report = json_of("report", trace);
    // The times in which it was off the CPU: as cycles of ends_all() in the example's main.c.
    let control = thread(&report, "control");
    let off = ["blocked_ns", "sleeping_ns", "suspended_ns"].map(|state| &control[state]);
    assert_eq!(off, [87 * CYCLE, 522 * CYCLE, 102 * CYCLE]);
    assert_eq!(control["priority"], 3);
    for (name, last, left) in [
        ("main", "running", json!({"waits": 3})),
        ("idle", "runnable", json!({"idle": 3})),
        (
            "control",
            "ended",
            json!({"ended": 1, "expired": 7, "preempted": 7, "suspended": 1, "waits": 2}),
        ),
        ("sensor", "blocked", json!({"waits": 11})),
        // Another thread ends it.
        (
            "worker",
            "ended",
            json!({"expired": 7, "preempted": 3, "waits": 1}),
        ),
        ("logger", "ended", json!({"ended": 1, "preempted": 1})),
    ] {
        let thread = thread(&report, name);
        assert_eq!(thread["switches"], left, "{name}");
        assert_eq!(thread["last_state"], last, "{name}");
    }
    let interrupts = report["interrupts"].as_array().unwrap().iter();
    let interrupts: Vec<Json> = interrupts
        .map(|one| json!([one["irq"], one["name"], one["count"], one["nesting"]]))
        .collect();
    let expected = [
        json!([7, "timer", 34, 2]),
        json!([11, "sensor line", 10, 1]),
    ];
    assert_eq!(interrupts, expected);
    let longest = &report["interrupts"][1]["durations"];
    assert_eq!(longest["max_ns"], 6 * CYCLE);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_report_has_what_the_schedule_says() {
    let (trace, console) = recorded("KYMO_PORT_ZEPHYR", "port-zephyr");
    run(kymo(["check"]).arg(&trace), 0);
    compare_counts(&trace, &console);
    compare_script(&trace);
    babeltrace::compare(&trace);
}

/// The states of threads have other names, and the counter of cycles begins anew on the way.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_later_release_is_recorded_alike() {
    let (trace, console) = recorded("KYMO_PORT_ZEPHYR_LATER", "port-zephyr-later");
    run(kymo(["check"]).arg(&trace), 0);
    compare_counts(&trace, &console);
    compare_script(&trace);
    babeltrace::compare(&trace);
}

/// What Zephyr's user-defined tracing has no function for, and the README lists.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn doctor_lists_what_has_no_hook() {
    let (trace, _) = recorded("KYMO_PORT_ZEPHYR", "port-zephyr-doctor");
    let found = json_of("doctor", &trace);
    let found = found["findings"].as_array().unwrap();
    let messages: Vec<&str> = found
        .iter()
        .map(|one| one["message"].as_str().unwrap())
        .collect();
    let expected = [
        "Of scheduling, not: sched_wakeup_new, sched_enter, sched_exit, thread_delay, \
         thread_yield, sched_pi_setprio, sched_run_queue",
        "Of interrupts and exceptions, not: exception",
        "No event of system calls: sys_enter, sys_exit, syscall_name",
        "No event of locks: lock_wait, lock_acquired, lock_release, lock_failed, lock_name, \
         lock_state",
        "No event of memory: page_fault, mm_page_alloc, mm_page_free",
        "No event of messages: ipc_send, ipc_receive, pipe_write, pipe_read, queue_send, \
         queue_receive",
        "No event of processes: sched_process_fork, sched_process_exit, sched_process_exec, \
         process_kill, process_name, process_state",
    ];
    assert_eq!(messages, expected);
}
