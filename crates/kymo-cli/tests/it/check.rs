//! Tests `kymo check --expect` on traces with known events.

use std::path::Path;
use std::process::Command;

use kymo::Text;
use kymo::vocabulary::{
    Cpu, Irq, IrqEnter, IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait,
    Mark, Object, Pid, SwitchReason, Syscall, SyscallEnter, SyscallExit, SyscallName, ThreadCreate,
    ThreadExit, ThreadName, ThreadState, ThreadStateDump, ThreadYield, Tid,
};
use kymo_made::{MS, Made, US};
use serde_json::{Value, json};

const WAITS: (ThreadState, SwitchReason) = (ThreadState::Blocked, SwitchReason::Waits);
const IDLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Idle);

fn by(tid: u32, (state, reason): (ThreadState, SwitchReason)) -> (u32, ThreadState, SwitchReason) {
    (tid, state, reason)
}

fn name(made: &mut Made, time: u64, tid: u32, name: &str) {
    made.event(
        0,
        time,
        ThreadName {
            tid: Tid(tid),
            name: Text::new(name),
        },
    );
}

/// Exit code, standard output, standard error.
fn check(trace: &Path, expectations: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let file = trace.with_extension("toml");
    std::fs::write(&file, expectations).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .arg("check")
        .args(more)
        .arg("--expect")
        .arg(&file)
        .arg(trace)
        .output();
    std::fs::remove_file(file).unwrap();
    let output = output.unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Whether the expectation holds, and its message.
fn one(made: &mut Made, expectation: &str) -> (bool, String) {
    let (code, out, error) = check(made.finish(), &format!("[[expect]]\n{expectation}"), &[]);
    assert!(matches!(code, Some(0 | 1)), "{expectation}\n{out}{error}");
    let (word, rest) = out.split_once("  ").unwrap();
    assert_eq!(
        (code, word),
        if code == Some(0) {
            (code, "holds")
        } else {
            (code, "FAILS")
        },
        "{out}"
    );
    (code == Some(0), rest.to_owned())
}

#[track_caller]
fn holds(made: &mut Made, expectation: &str) {
    let (holds, text) = one(made, expectation);
    assert!(holds, "{expectation}\n{text}");
}

#[track_caller]
fn fails(made: &mut Made, expectation: &str, parts: &[&str]) {
    let (holds, text) = one(made, expectation);
    assert!(!holds, "{expectation}\n{text}");
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Threads 5 (A) and 6 (B), interrupt 9 (disk), lock 0xbeef (table), call 4 (write); idle is 0.
fn scene(name_of: &str) -> Made {
    let mut made = Made::new(&format!("check-{name_of}"));
    let (lock, kind) = (Object(0xbeef), LockKind::Mutex);
    for (tid, text) in [(0, "idle"), (5, "A"), (6, "B")] {
        name(&mut made, 0, tid, text);
    }
    made.event(
        0,
        0,
        LockName {
            lock,
            kind,
            name: Text::new("table"),
        },
    );
    made.event(
        0,
        0,
        IrqName {
            irq: Irq(9),
            name: Text::new("disk"),
        },
    );
    made.event(
        0,
        0,
        SyscallName {
            id: Syscall(4),
            name: Text::new("write"),
        },
    );
    made.event(
        0,
        0,
        ThreadCreate {
            tid: Tid(5),
            pid: Pid(0),
            parent_tid: Tid(1),
            prio: 4,
        },
    );
    made.event(
        0,
        MS,
        ThreadCreate {
            tid: Tid(6),
            pid: Pid(0),
            parent_tid: Tid(1),
            prio: -2,
        },
    );
    made.switch(0, 2 * MS, by(0, IDLE), (5, 4));
    made.event(
        0,
        3 * MS,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.event(0, 4 * MS, ThreadYield { tid: Tid(5) });
    made.switch(
        0,
        5 * MS,
        by(5, (ThreadState::Runnable, SwitchReason::Yielded)),
        (6, 4),
    );
    made.event(
        0,
        6 * MS,
        LockWait {
            lock,
            owner_tid: Tid(5),
            kind,
        },
    );
    made.switch(0, 7 * MS, by(6, WAITS), (5, 4));
    made.event(
        0,
        8 * MS,
        SyscallEnter {
            id: Syscall(4),
            arg0: 0,
        },
    );
    made.event(
        0,
        8 * MS + 500 * US,
        SyscallExit {
            id: Syscall(4),
            ret: -5,
        },
    );
    made.event(0, 9 * MS, LockReleased { lock, kind });
    made.wake(0, 10 * MS, 6, 5);
    made.switch(0, 11 * MS, by(5, WAITS), (6, 4));
    made.event(
        0,
        11 * MS + 500 * US,
        LockAcquired {
            lock,
            kind,
            contended: true,
        },
    );
    for (round, us) in [30, 40, 70, 20].into_iter().enumerate() {
        let begin = 12 * MS + round as u64 * 100 * US;
        made.event(0, begin, IrqEnter { irq: Irq(9) });
        made.event(0, begin + us * US, IrqExit { irq: Irq(9) });
    }
    made
}

#[test]
fn counts_are_exact_at_least_and_at_most() {
    let mut made = scene("counts");
    for good in [
        "count = 4",
        "at_least = 4",
        "at_most = 4",
        "at_least = 1\nat_most = 9",
    ] {
        holds(&mut made, &format!("event = \"irq_handler_entry\"\n{good}"));
    }
    fails(
        &mut made,
        "event = \"irq_handler_entry\"\ncount = 5",
        &[
            "exactly 5 expected, 4 found",
            "cpu0  irq_handler_entry { irq = 9 }",
        ],
    );
    fails(
        &mut made,
        "event = \"irq_handler_entry\"\nat_least = 5",
        &["at least 5 expected, 4 found"],
    );
    // Those beyond the limit are listed.
    let two = "irq_handler_entry: at most 2 expected, 4 found\n   0.012200000  cpu0  irq_handler_entry { irq = 9 }, in thread 6 (B)\n   0.012300000  cpu0";
    fails(
        &mut made,
        "event = \"irq_handler_entry\"\nat_most = 2",
        &[two],
    );
    fails(
        &mut made,
        "event = \"thread_exit\"\nat_least = 1",
        &["at least 1 expected, 0 found"],
    );
    holds(&mut made, "event = \"thread_exit\"\nat_most = 0");
}

#[test]
fn fields_are_compared_by_number_range_label_and_name() {
    let mut made = scene("fields");
    for good in [
        r#"event = { is = "thread_create", tid = 5, prio = 4 }"#,
        r#"event = { is = "thread_create", tid = "A" }"#,
        r#"event = { is = "thread_create", prio = -2 }"#,
        r#"event = { is = "thread_create", prio = { at_least = 4, at_most = 4 } }"#,
        r#"event = { is = "thread_create", prio = { at_least = 1 } }"#,
        r#"event = { is = "thread_create", prio = [1, 2, 4] }"#,
        r#"event = { is = "sched_switch", prev_tid = "A", next_tid = "B", reason = "yielded" }"#,
        r#"event = { is = "sched_switch", reason = "Yielded" }"#,
        r#"event = { is = "lock_acquired", contended = true, lock = "table", kind = "mutex" }"#,
        r#"event = { is = "lock_acquired", contended = true, lock = 0xbeef }"#,
        r#"event = { is = "sys_exit", id = "write", ret = { at_most = -1 } }"#,
        r#"event = { is = "thread_name", name = "B" }"#,
        r#"event = { is = "irq_name", on_cpu = 0 }"#,
        r#"any_of = [{ is = "thread_yield", tid = "B" }, { is = "thread_yield", tid = ["A", "B"] }, "thread_yield"]"#,
    ] {
        holds(&mut made, &format!("{good}\ncount = 1"));
    }
    for none in [
        r#"event = { is = "thread_create", tid = 5, prio = 5 }"#,
        r#"event = { is = "thread_create", tid = "B", prio = 4 }"#,
        r#"event = { is = "sched_switch", prev_tid = "B", next_tid = "A", reason = "yielded" }"#,
        r#"event = { is = "irq_name", on_cpu = 1 }"#,
        r#"event = { is = "thread_name", name = "b" }"#,
    ] {
        holds(&mut made, &format!("{none}\ncount = 0"));
    }
    // A name that does not exist: a limit on it would always hold.
    let nobody = ["the trace has no thread named \"C\""];
    fails(
        &mut made,
        "event = { is = \"thread_create\", tid = [\"A\", \"C\"] }\nat_most = 9",
        &nobody,
    );
    fails(
        &mut made,
        "duration = \"on_cpu\"\nof = { thread = \"C\" }\nmax = \"1 s\"\nat_least = 0",
        &nobody,
    );
}

#[test]
fn order_is_that_of_the_first_events() {
    let mut made = scene("order");
    let create = |name: &str| format!("{{ is = \"thread_create\", tid = \"{name}\" }}");
    let (a, b) = (create("A"), create("B"));
    holds(&mut made, &format!("order = [{a}, {b}, \"thread_yield\"]"));
    holds(
        &mut made,
        &format!("order = [[{b}, {a}], \"thread_yield\"]"),
    );
    fails(
        &mut made,
        &format!("order = [{b}, {a}]"),
        &[
            "the first thread_create with tid = \"A\" comes before the first thread_create with \
             tid = \"B\"\n",
            "   0.000000000  cpu0  thread_create { tid = 5,",
            "   0.001000000  cpu0  thread_create { tid = 6,",
        ],
    );
    fails(
        &mut made,
        &format!("order = [\"thread_yield\", [{a}, {b}]]"),
        &["comes before the first thread_yield"],
    );
    fails(
        &mut made,
        &format!("order = [{a}, \"thread_exit\"]"),
        &["the trace has no thread_exit"],
    );
    // A later repetition is not the first one.
    made.event(
        0,
        20 * MS,
        ThreadCreate {
            tid: Tid(5),
            pid: Pid(0),
            parent_tid: Tid(1),
            prio: 4,
        },
    );
    holds(&mut made, &format!("order = [{a}, {b}]"));
    // The order of two events at the same time on two CPUs is unknown.
    made.event(1, 30 * MS, Mark { id: 1, value: 1 });
    made.event(
        0,
        30 * MS,
        ThreadExit {
            tid: Tid(5),
            pid: Pid(0),
            prev_state: ThreadState::Runnable,
        },
    );
    holds(&mut made, "order = [\"mark\", \"thread_exit\"]");
    holds(&mut made, "order = [\"thread_exit\", \"mark\"]");
}

#[test]
fn durations_have_limits() {
    let mut made = scene("durations");
    holds(
        &mut made,
        "duration = \"interrupt\"\nmax = \"70.0000 us\"\nmin = \"20us\"\ncount = 4",
    );
    fails(
        &mut made,
        "name = \"fast\"\nduration = \"interrupt\"\nof = { irq = \"disk\" }\nmax = \"30 us\"",
        &[
            // The largest violation first.
            "fast: 4 measured, 2 of them over 30 us\n   0.012270000  cpu0  irq_handler_exit { irq \
             = 9 }, in thread 6 (B), after 70.00 us from 0.012200000\n   0.012140000",
        ],
    );
    fails(
        &mut made,
        "duration = \"interrupt\"\nmin = \"0.03 ms\"",
        &["1 of them under 30 us", "after 20.00 us"],
    );
    fails(
        &mut made,
        "duration = \"interrupt\"\nof = { irq = 8 }\nmax = \"1 s\"",
        &["at least 1 expected, 0 measured"],
    );
    holds(
        &mut made,
        "duration = \"interrupt\"\nof = { irq = 8 }\nmax = \"1 s\"\nat_least = 0",
    );
    for (kind, of, exactly) in [
        ("wake_latency", "thread = \"B\"", "1 ms"),
        ("lock_wait", "lock = \"table\", thread = \"B\"", "5500 us"),
        ("lock_hold", "lock = \"table\"", "6 ms"),
        (
            "system_call",
            "call = \"write\", thread = 5, cpu = 0",
            "500 us",
        ),
        ("off_cpu", "thread = \"A\"", "2 ms"),
        ("off_cpu", "thread = \"B\"", "4 ms"),
        ("on_cpu", "thread = \"B\"", "2 ms"),
    ] {
        let limits = format!(
            "duration = \"{kind}\"\nof = {{ {of} }}\nmax = \"{exactly}\"\nmin = \"{exactly}\"\ncount = 1"
        );
        holds(&mut made, &limits);
    }
    holds(
        &mut made,
        "duration = \"on_cpu\"\nof = { thread = \"A\" }\nmin = \"3 ms\"\nmax = \"4 ms\"\ncount = 2",
    );
    holds(&mut made, "duration = \"off_cpu\"\ncount = 2");
    fails(
        &mut made,
        "duration = \"off_cpu\"\nmax = \"3 ms\"",
        &[
            "0.011000000  cpu0  sched_switch { prev_tid = 5, next_tid = 6",
            "after 4.000 ms from 0.007000000",
        ],
    );
    // Idle threads do not count as on or off the CPU.
    made.switch(0, 20 * MS, by(6, WAITS), (0, 0));
    made.switch(0, 21 * MS, by(0, IDLE), (6, 4));
    holds(&mut made, "duration = \"off_cpu\"\ncount = 3");
    holds(&mut made, "duration = \"on_cpu\"\ncount = 4");
}

#[test]
fn losses_and_time() {
    let mut made = scene("losses");
    holds(&mut made, "losses = \"events\"\ncount = 0");
    holds(&mut made, "timestamps = \"non-decreasing\"");
    fails(
        &mut made,
        "losses = \"events\"\nat_least = 1",
        &["at least 1 lost events expected, 0 lost"],
    );
    made.lose(0, 3, 20 * MS);
    made.event(0, 21 * MS, Mark { id: 1, value: 1 });
    made.lose(0, 4, 30 * MS);
    made.event(0, 31 * MS, Mark { id: 1, value: 1 });
    holds(&mut made, "losses = \"events\"\ncount = 7");
    holds(&mut made, "losses = \"events\"\non_cpu = 1\ncount = 0");
    holds(&mut made, "losses = \"packets\"\ncount = 0");
    let note = "0 of 1 expectations hold; lost events could not be checked";
    fails(
        &mut made,
        "losses = \"events\"\nat_most = 3",
        &[
            "at most 3 lost events expected, 7 lost",
            "3 events lost on events_0 until 0.0",
            note,
        ],
    );
}

#[test]
fn nothing_is_measured_across_a_loss() {
    let mut made = scene("gap");
    made.event(0, 20 * MS, IrqEnter { irq: Irq(9) });
    made.wake(0, 20 * MS, 5, 6);
    made.lose(0, 3, 25 * MS);
    made.event(0, 30 * MS, IrqExit { irq: Irq(9) });
    made.wake(0, 30 * MS + 500 * US, 5, 6);
    made.switch(0, 31 * MS, by(6, WAITS), (5, 4));
    for (kind, count) in [
        ("interrupt", 4),
        ("wake_latency", 2),
        ("off_cpu", 2),
        ("on_cpu", 3),
    ] {
        holds(
            &mut made,
            &format!("duration = \"{kind}\"\nmax = \"6 ms\"\ncount = {count}"),
        );
    }
}

/// The findings of `kymo check` by the general rules.
fn rules(made: &mut Made) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["check", "--json"])
        .arg(made.finish())
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        output.status.code(),
        Some(i32::from(json["counts"] != json!({})))
    );
    json["counts"].clone()
}

#[test]
fn no_rule_is_applied_to_what_began_before_the_trace() {
    let (lock, kind) = (Object(0xbeef), LockKind::Mutex);
    let dump = |tid| ThreadStateDump {
        tid: Tid(tid),
        pid: Pid(1),
        prio: 4,
        state: ThreadState::Runnable,
        cpu: Cpu(0),
        name: Text::new("dumped"),
    };
    let mut made = Made::new("check-before");
    // Before the state is known.
    made.event(0, 0, IrqExit { irq: Irq(9) });
    made.event(
        0,
        MS,
        SyscallExit {
            id: Syscall(4),
            ret: 0,
        },
    );
    made.event(0, MS, LockReleased { lock, kind });
    made.event(1, MS, IrqExit { irq: Irq(8) });
    for tid in [5, 6, 7] {
        made.event(0, 2 * MS, dump(tid));
    }
    made.switch(1, 3 * MS, by(6, WAITS), (7, 4));
    made.switch(0, 3 * MS, by(5, WAITS), (6, 4));
    made.event(
        0,
        4 * MS,
        LockReleased {
            lock: Object(0xbeed),
            kind,
        },
    );
    assert_eq!(rules(&mut made), json!({}));
    // From here the running threads are known; and a dump does not revive a thread.
    made.event(
        0,
        5 * MS,
        ThreadCreate {
            tid: Tid(8),
            pid: Pid(1),
            parent_tid: Tid(6),
            prio: 4,
        },
    );
    made.event(
        0,
        5 * MS,
        ThreadExit {
            tid: Tid(8),
            pid: Pid(1),
            prev_state: ThreadState::Suspended,
        },
    );
    made.event(0, 6 * MS, dump(8));
    made.switch(0, 7 * MS, by(5, WAITS), (8, 4));
    assert_eq!(
        rules(&mut made),
        json!({ "switch-chain": 1, "after-end": 1 })
    );
}

#[test]
fn a_timestamp_that_steps_back_is_found() {
    let mut made = Made::new("check-back");
    let directory = made.finish();
    let metadata = "/* CTF 1.8 */
typealias integer { size = 8; } := u8;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000; };
stream { event.header := struct { integer { size = 64; map = clock.c.value; } t; }; };
event { name = \"tick\"; fields := struct { u8 n; }; };";
    let stream: Vec<u8> = [1_u64, 5, 3, 4, 4]
        .iter()
        .flat_map(|t| t.to_le_bytes().into_iter().chain([*t as u8]))
        .collect();
    std::fs::write(directory.join("metadata"), metadata).unwrap();
    std::fs::write(directory.join("s"), stream).unwrap();
    let (code, out, error) = check(
        directory,
        "[[expect]]\ntimestamps = \"non-decreasing\"",
        &[],
    );
    assert_eq!(code, Some(1), "{out}{error}");
    assert!(
        out.starts_with("FAILS  timestamps are non-decreasing: s, packet 0, byte 26: the clock steps back from 5 to 3\n"),
        "{out}"
    );
}

/// Longer than any name of the vocabulary.
const LONG: &str = "a-name-that-is-longer-than-the-longest-one-that-the-vocabulary-takes";

#[test]
fn a_name_may_be_told_after_the_event_and_another_thread_may_get_the_number() {
    let mut made = Made::new("check-names");
    let create = |tid| ThreadCreate {
        tid: Tid(tid),
        pid: Pid(0),
        parent_tid: Tid(0),
        prio: 1,
    };
    made.event(0, MS, create(5));
    made.event(0, MS, create(6));
    // The only other record of this thread is its name.
    made.event(0, MS, ThreadYield { tid: Tid(8) });
    made.switch(0, MS, by(6, IDLE), (5, 1));
    made.switch(0, 2 * MS, by(5, WAITS), (6, 1));
    // Neither to A nor from A.
    made.switch(0, 2 * MS + 500 * US, by(6, WAITS), (7, 1));
    made.switch(0, 2 * MS + 600 * US, by(7, WAITS), (6, 1));
    name(&mut made, 3 * MS, 6, "B");
    name(&mut made, 3 * MS, 7, "C");
    name(&mut made, 3 * MS, 5, "A");
    name(&mut made, 3 * MS, 8, "D");
    made.event(
        0,
        4 * MS,
        ThreadExit {
            tid: Tid(5),
            pid: Pid(0),
            prev_state: ThreadState::Runnable,
        },
    );
    // Recorded in the same tick as the creation; the reader may see either first.
    made.event(0, 5 * MS, create(5));
    name(&mut made, 5 * MS, 5, "A second");
    made.event(0, 6 * MS, ThreadYield { tid: Tid(5) });
    made.event(0, 6 * MS, ThreadYield { tid: Tid(7) });
    let create =
        |name: &str| format!("event = {{ is = \"thread_create\", tid = \"{name}\" }}\ncount = 1");
    for name in ["A", "B", "A second"] {
        holds(&mut made, &create(name));
    }
    let switch =
        |a, b| format!("{{ is = \"sched_switch\", prev_tid = \"{a}\", next_tid = \"{b}\" }}");
    holds(
        &mut made,
        &format!(
            "any_of = [{}, {}]\ncount = 2",
            switch("A", "B"),
            switch("B", "A")
        ),
    );
    holds(
        &mut made,
        &format!("order = [{}, {}]", switch("B", "A"), switch("A", "B")),
    );
    holds(
        &mut made,
        "event = { is = \"thread_yield\", tid = \"A second\" }\ncount = 1",
    );
    holds(
        &mut made,
        "event = { is = \"thread_yield\", tid = \"D\" }\ncount = 1",
    );
    holds(
        &mut made,
        "event = { is = \"thread_yield\", tid = \"A\" }\ncount = 0",
    );
    holds(
        &mut made,
        "duration = \"on_cpu\"\nof = { thread = \"A\" }\nmax = \"1 ms\"\ncount = 1",
    );
    // A name of more than 64 bytes is truncated in the trace.
    name(&mut made, 7 * MS, 8, LONG);
    made.event(0, 8 * MS, ThreadYield { tid: Tid(8) });
    holds(
        &mut made,
        &format!("event = {{ is = \"thread_yield\", tid = \"{LONG}\" }}\ncount = 1"),
    );
}

#[test]
fn all_expectations_are_told_as_json() {
    let mut made = scene("json");
    let file = "[[expect]]\nname = \"good\"\nevent = \"thread_yield\"\ncount = 1\n\n[[expect]]\nevent = { is = \"sched_switch\", next_tid = \"A\" }\nat_most = 0\n";
    let (code, out, _) = check(made.finish(), file, &["--json"]);
    assert_eq!(code, Some(1));
    let json: Value = serde_json::from_str(&out).unwrap();
    let [good, bad] = &json["expectations"].as_array().unwrap()[..] else {
        panic!("{json}")
    };
    assert_eq!(
        (&good["name"], &good["holds"], &good["line"], &good["found"]),
        (&json!("good"), &json!(true), &json!(1), &json!([]))
    );
    assert_eq!((&bad["holds"], &bad["line"]), (&json!(false), &json!(6)));
    assert_eq!(bad["name"], "sched_switch with next_tid = \"A\"");
    let first = json!({
        "type": "event", "time_ns": 2 * MS, "cpu": 0, "name": "sched_switch", "thread": null, "begin_ns": null, "duration_ns": null,
        "fields": {
            "prev_tid": 0, "next_tid": 5, "prev_state": { "value": 0, "labels": ["Runnable"] },
            "reason": { "value": 6, "labels": ["Idle"] }, "next_prio": 4,
        },
    });
    assert_eq!(bad["found"].as_array().unwrap().len(), 2);
    assert_eq!(
        bad["found"][0]["fields"]["next_tid"],
        first["fields"]["next_tid"]
    );
    assert_eq!(bad["found"][0]["time_ns"], first["time_ns"]);
}

#[test]
fn the_books_example_is_true() {
    let page = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/checking-a-trace.md"),
    )
    .unwrap();
    let file = page
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let (code, out, error) = check(scene("book").finish(), file, &[]);
    assert_eq!(code, Some(1), "{out}{error}");
    assert!(
        page.contains(&format!("$ kymo check trace --expect table.toml\n{out}```")),
        "the page should have\n{out}"
    );
}

#[test]
fn ten_are_listed_and_the_rest_is_counted() {
    let mut made = scene("many");
    for round in 0..23 {
        made.event(
            0,
            (20 + round) * MS,
            Mark {
                id: 7,
                value: round,
            },
        );
    }
    let (_, text) = one(&mut made, "event = \"mark\"\nat_most = 0");
    assert_eq!(text.matches(" mark { id = 7").count(), 10, "{text}");
    assert!(
        text.contains("value = 9 }, in thread 6 (B)\n                and 13 more\n"),
        "{text}"
    );
    // Each is longer than the previous ones.
    for round in 0..23 {
        made.event(0, (50 + round) * MS, IrqEnter { irq: Irq(8) });
        made.event(0, (50 + round) * MS + round * US, IrqExit { irq: Irq(8) });
    }
    let (_, text) = one(
        &mut made,
        "duration = \"interrupt\"\nof = { irq = 8 }\nmax = \"1 us\"",
    );
    assert_eq!(text.matches("irq_handler_exit").count(), 10, "{text}");
    assert!(
        text.contains("21 of them over 1 us\n   0.072022000")
            && text.contains("after 13.00 us from 0.063000000\n                and 11 more\n"),
        "{text}"
    );
}

#[test]
fn a_bad_file_is_refused_in_a_sentence_with_its_line() {
    let mut made = scene("refused");
    let trace = made.finish().to_owned();
    for (file, line, sentence) in [
        ("expect", 1, "not valid TOML"),
        (
            "[[expect]]\nname = \"x\"\n",
            1,
            "one of event, any_of, order, duration, losses, timestamps; found none",
        ),
        (
            "\n[expected]\n",
            2,
            "expected [[expect]] tables, found \"expected\"",
        ),
        (
            "[[expect]]\nevent = \"mark\"\norder = []\n",
            1,
            "found event and order",
        ),
        (
            "[[expect]]\nevent = \"mark\"\n",
            1,
            "missing count, at_least or at_most",
        ),
        (
            "[[expect]]\nevent = \"mark\"\nmax = \"5 us\"\n",
            3,
            "unexpected \"max\": \"event\" takes name, count",
        ),
        (
            "[[expect]]\nevent = \"mark\"\ncount = -1\n",
            3,
            "expected an integer from 0 to 18446744073709551615, found -1",
        ),
        (
            "[[expect]]\nevent = \"mark\"\nat_least = 2\nat_most = 1\n",
            4,
            "no number is at least 2 and at most 1",
        ),
        (
            "[[expect]]\nevent = \"mark\"\ncount = 2\nat_most = 1\n",
            3,
            "count cannot be combined with at_least or at_most",
        ),
        (
            "[[expect]]\nevent = \"thread_yeild\"\ncount = 1\n",
            2,
            "the trace has no event \"thread_yeild\"; the most similar of ",
        ),
        (
            "[[expect]]\nevent = \"thread_yeild\"\ncount = 1\n",
            2,
            ": thread_yield,",
        ),
        (
            "[[expect]]\ncount = 1\n\nevent = { is = \"thread_yield\", id = 1 }\n",
            4,
            "thread_yield has no field \"id\"; it has tid",
        ),
        (
            "[[expect]]\nevent = { tid = 1 }\ncount = 1\n",
            2,
            "missing the event's name",
        ),
        (
            "[[expect]]\nevent = { is = \"mark\", value = \"A\" }\ncount = 1\n",
            2,
            "value of mark is a number and has no name such as \"A\"; compare it with a number",
        ),
        (
            "[expect]\nevent = \"mark\"\n",
            1,
            "expect is a table; write [[expect]], in two brackets",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = 50\n",
            3,
            "with the unit ns, us, ms or s, such as \"50 us\", found an integer",
        ),
        (
            "[[expect]]\norder = \"mark\"\n",
            2,
            "order must be a list of events, not a string",
        ),
        (
            "[[expect]]\nany_of = 5\ncount = 1\n",
            2,
            "expected a list of events, found an integer",
        ),
        (
            "[[expect]]\nevent = true\ncount = 1\n",
            2,
            "tid = \"A\" }, found a boolean",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = \"1 ns\"\nof = 5\n",
            4,
            "of must be a table, such as { thread = \"A\" }, not an integer",
        ),
        (
            "[[expect]]\nevent = { is = \"thread_name\", name = 5 }\ncount = 1\n",
            2,
            "name of thread_name is a string",
        ),
        (
            "[[expect]]\nevent = { is = \"sched_switch\", reason = \"bored\" }\ncount = 1\n",
            2,
            "reason of sched_switch cannot be \"bored\", only one of Preempted, Expired",
        ),
        (
            "[[expect]]\nevent = { is = \"mark\", value = { over = 1 } }\ncount = 1\n",
            2,
            "a range takes at_least and at_most, not \"over\"",
        ),
        (
            "[[expect]]\nevent = { is = \"mark\", value = 1.5 }\ncount = 1\n",
            2,
            "at_most = .. }, found a float",
        ),
        (
            "[[expect]]\norder = [\"mark\"]\n",
            2,
            "order needs at least two events",
        ),
        (
            "[[expect]]\norder = [\"mark\", \"marc\"]\n",
            2,
            "the trace has no event \"marc\"",
        ),
        (
            "[[expect]]\nduration = \"irq\"\nmax = \"5 us\"\n",
            2,
            "unknown duration \"irq\"; expected one of interrupt, wake_latency",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = 50\n",
            3,
            "expected a duration with the unit ns, us, ms or s",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = \"5 years\"\n",
            3,
            "expected a duration with the unit ns, us, ms or s",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = \". us\"\n",
            3,
            "expected a duration with the unit ns, us, ms or s",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = \"0.0001 us\"\n",
            3,
            "expected a duration with the unit ns, us, ms or s",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\n",
            2,
            "missing max, min, count, at_least or at_most",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = \"5 s\"\nof = { lock = 1 }\n",
            4,
            "of takes irq, cpu for this duration, not \"lock\"",
        ),
        (
            "[[expect]]\nduration = \"interrupt\"\nmax = \"5 s\"\nof = { cpu = \"A\" }\n",
            4,
            "expected the number of a CPU, found \"A\"",
        ),
        (
            "[[expect]]\nlosses = \"none\"\n",
            2,
            "expected \"events\" or \"packets\", found \"none\"",
        ),
        (
            "[[expect]]\ntimestamps = \"up\"\n",
            2,
            "expected \"non-decreasing\", found \"up\"",
        ),
    ] {
        let (code, out, error) = check(&trace, file, &[]);
        assert_eq!((code, &*out), (Some(3), ""), "{file}\n{error}");
        assert!(
            error.contains(&format!(".toml, line {line}: ")) && error.contains(sentence),
            "{file}\n{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let (code, _, error) = check(&trace, "# nothing\n", &[]);
    assert!(
        code == Some(3) && error.contains("has no [[expect]] table"),
        "{error}"
    );
    let missing = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["check", "--expect", "/nonexistent/e.toml"])
        .arg(&trace)
        .output();
    let missing = missing.unwrap();
    assert_eq!(
        missing.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&missing.stderr)
    );
}

#[test]
fn an_expectation_of_unrecorded_events_is_refused() {
    let mut made = Made::new("check-other");
    let directory = made.finish();
    let metadata = "/* CTF 1.8 */
typealias integer { size = 8; } := u8;
trace { major = 1; minor = 8; byte_order = le; };
stream { };
event { name = \"tick\"; fields := struct { u8 n; }; };";
    std::fs::write(directory.join("metadata"), metadata).unwrap();
    std::fs::write(directory.join("s"), [1]).unwrap();
    let (code, _, error) = check(
        directory,
        "[[expect]]\nduration = \"interrupt\"\nmax = \"5 s\"\nat_least = 0\n",
        &[],
    );
    assert_eq!(code, Some(3), "{error}");
    assert!(
        error.contains("cannot be measured: the trace has no event \"irq_handler_entry\""),
        "{error}"
    );
    let (code, out, error) = check(
        directory,
        "[[expect]]\ntimestamps = \"non-decreasing\"\n",
        &[],
    );
    assert!(
        code == Some(1) && out.contains("no event has a time"),
        "{out}{error}"
    );
}
