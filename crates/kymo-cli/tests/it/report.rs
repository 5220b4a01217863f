//! Tests `kymo report` on traces with known results.

use std::path::Path;
use std::process::Command;

use crate::run::kymo;
use kymo::Text;
use kymo::vocabulary::{
    Address, Cpu, FaultCause, IpcPath, IpcReceive, IpcSend, Irq, IrqEnter, IrqExit, IrqName,
    LockAcquired, LockFailed, LockKind, LockName, LockReleased, LockWait, Object, PageFault, Pid,
    ProcessName, SchedWakeupNew, SwitchReason, Syscall, SyscallEnter, SyscallExit, SyscallName,
    ThreadCreate, ThreadDelay, ThreadExit, ThreadName, ThreadResume, ThreadState, ThreadStateDump,
    ThreadSuspend, Tid,
};
use kymo_made::{MS, Made, US};
use serde_json::{Value, json};

fn report(made: &mut Made) -> Value {
    let output = kymo(&["report", "--json"], made.finish());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn thread(report: &Value, tid: u64) -> &Value {
    report["threads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|thread| thread["tid"] == tid)
        .unwrap()
}

const WAITS: (ThreadState, SwitchReason) = (ThreadState::Blocked, SwitchReason::Waits);
const PREEMPTED: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Preempted);
const IDLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Idle);

fn by(tid: u32, (state, reason): (ThreadState, SwitchReason)) -> (u32, ThreadState, SwitchReason) {
    (tid, state, reason)
}

/// Thread 11 (priority 1) has the lock; thread 12 (priority 9) wants it and waits 5 ms; the idle
/// thread is 3.
fn contended(name: &str) -> Made {
    let (lock, kind) = (Object(0xbeef), LockKind::Mutex);
    let mut made = Made::new(name);
    for (tid, name) in [(11, "low"), (12, "high"), (3, "rest")] {
        made.event(
            0,
            0,
            ThreadName {
                tid: Tid(tid),
                name: Text::new(name),
            },
        );
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
    made.switch(0, MS, by(3, IDLE), (11, 1));
    made.event(
        0,
        2 * MS,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.wake(0, 2 * MS + 500 * US, 12, 0);
    made.switch(0, 3 * MS, by(11, PREEMPTED), (12, 9));
    made.event(
        0,
        4 * MS,
        LockWait {
            lock,
            owner_tid: Tid(0),
            kind,
        },
    );
    made.switch(0, 4 * MS + 100 * US, by(12, WAITS), (11, 1));
    made.event(0, 8 * MS, LockReleased { lock, kind });
    made.wake(0, 8 * MS + 100 * US, 12, 11);
    made.switch(0, 8 * MS + 400 * US, by(11, PREEMPTED), (12, 9));
    made.event(
        0,
        9 * MS,
        LockAcquired {
            lock,
            kind,
            contended: true,
        },
    );
    made.event(0, 9 * MS + 500 * US, LockReleased { lock, kind });
    made.switch(
        0,
        10 * MS,
        by(12, (ThreadState::Sleeping, SwitchReason::Waits)),
        (11, 1),
    );
    made.switch(0, 11 * MS, by(11, WAITS), (3, 0));
    made.event(
        0,
        12 * MS,
        LockFailed {
            lock,
            error: -11,
            kind,
        },
    );
    made
}

#[test]
fn a_wait_of_5_ms_for_a_lock_is_told_with_its_owner() {
    let report = report(&mut contended("lock"));
    let lock = &report["locks"][0];
    assert_eq!(
        (&lock["name"], &lock["kind"], &lock["lock"]),
        (&json!("table"), &json!("mutex"), &json!(0xbeef))
    );
    assert_eq!(
        [&lock["acquired"], &lock["contended"], &lock["failed"]],
        [2, 1, 1]
    );
    assert_eq!(lock["wait"]["count"], 1);
    assert_eq!(lock["wait"]["max_ns"], 5 * MS);
    assert_eq!(lock["hold"]["max_ns"], 6 * MS);
    assert_eq!(lock["hold"]["total_ns"], 6 * MS + 500 * US);
    let expected = json!({
        "ns": 5 * MS, "begin_ns": 4 * MS, "end_ns": 9 * MS,
        "waiter": { "tid": 12, "name": "high" }, "waiter_priority": 9,
        "owner": { "tid": 11, "name": "low" }, "owner_priority": 1,
    });
    assert_eq!(lock["longest_wait"], expected);
    assert_eq!(lock["waiters"][0]["total_ns"], 5 * MS);

    let high = thread(&report, 12);
    // Off the CPU from the switch to the wake-up; then it could have run.
    assert_eq!(high["blocked_ns"], 4 * MS);
    assert_eq!(
        high["blocked_on"],
        json!([{ "lock": 0xbeef, "name": "table", "ns": 4 * MS }])
    );
    assert_eq!(high["runnable_ns"], 500 * US + 300 * US);
    assert_eq!(high["cpu_ns"], MS + 100 * US + MS + 600 * US);
    assert_eq!(high["sleeping_ns"], 2 * MS);
    assert_eq!(high["last_state"], "sleeping");
    assert_eq!(high["switches"], json!({ "waits": 2 }));
    assert_eq!(
        thread(&report, 11)["switches"],
        json!({ "preempted": 2, "waits": 1 })
    );
}

#[test]
fn a_cpus_time_is_busy_idle_or_unknown() {
    let report = report(&mut contended("cpu"));
    // Thread 3 is idle because it left the CPU as idle.
    let expected = json!([{
        "cpu": 0, "busy_ns": 10 * MS, "idle_ns": MS, "unknown_ns": 0, "interrupts_ns": 0, "switches": 6,
    }]);
    assert_eq!(report["cpus"], expected);
    assert_eq!(thread(&report, 3)["idle"], true);
    assert_eq!(thread(&report, 11)["idle"], false);
    let share = thread(&report, 11)["share_percent"].as_f64().unwrap();
    let time = 2 * MS + 4 * MS + 300 * US + MS;
    assert!(
        (share - time as f64 * 100.0 / (11 * MS) as f64).abs() < 1e-9,
        "{share}"
    );
    assert_eq!(thread(&report, 11)["cpu_ns"], time);
}

#[test]
fn wake_latencies_are_told_with_the_waker_and_the_worst_first() {
    let report = report(&mut contended("wake"));
    let wake = &report["wake_latency"];
    assert_eq!(
        (&wake["durations"]["count"], &wake["durations"]["max_ns"]),
        (&json!(2), &json!(500 * US))
    );
    let worst = json!({
        "latency_ns": 500 * US, "woken_ns": 2 * MS + 500 * US, "ran_ns": 3 * MS,
        "thread": { "tid": 12, "name": "high" }, "waker": null, "by_interrupt": true, "cpu": 0,
    });
    assert_eq!(wake["worst"][0], worst);
    assert_eq!(
        wake["worst"][1]["waker"],
        json!({ "tid": 11, "name": "low" })
    );
    assert_eq!(wake["worst"][1]["latency_ns"], 300 * US);
}

#[test]
fn only_the_five_worst_wakes_are_kept() {
    let mut made = Made::new("worst");
    made.switch(0, 0, by(1, WAITS), (3, 0));
    for round in 1..=9 {
        let t = round * MS;
        made.wake(0, t, 1, 3);
        made.switch(0, t + round * US, by(3, IDLE), (1, 5));
        made.switch(0, t + 100 * US, by(1, WAITS), (3, 0));
    }
    let report = report(&mut made);
    let worst = report["wake_latency"]["worst"].as_array().unwrap();
    let latencies: Vec<_> = worst
        .iter()
        .map(|worst| worst["latency_ns"].as_u64().unwrap())
        .collect();
    assert_eq!(latencies, [9, 8, 7, 6, 5].map(|us| us * US));
    assert_eq!(report["wake_latency"]["durations"]["count"], 9);
}

#[test]
fn an_interrupt_of_200_us_is_told_and_nesting_is_taken_apart() {
    let mut made = Made::new("irq");
    made.event(
        1,
        0,
        IrqName {
            irq: Irq(9),
            name: Text::new("disk"),
        },
    );
    for (time, irq, enters) in [
        (MS, 9, true),
        (MS + 50 * US, 5, true),
        (MS + 60 * US, 5, false),
        (MS + 200 * US, 9, false),
        (2 * MS, 5, true),
    ] {
        match enters {
            true => made.event(1, time, IrqEnter { irq: Irq(irq) }),
            false => made.event(1, time, IrqExit { irq: Irq(irq) }),
        }
    }
    made.event(1, 2 * MS + 20 * US, IrqExit { irq: Irq(5) });
    let report = report(&mut made);
    let [timer, disk] = [&report["interrupts"][0], &report["interrupts"][1]];
    assert_eq!(
        (&disk["irq"], &disk["name"], &disk["count"]),
        (&json!(9), &json!("disk"), &json!(1))
    );
    assert_eq!(
        (
            &disk["durations"]["max_ns"],
            &disk["longest_at_ns"],
            &disk["longest_cpu"]
        ),
        (&json!(200 * US), &json!(MS), &json!(1))
    );
    assert_eq!(
        (
            &disk["nesting"],
            &timer["nesting"],
            &report["interrupt_nesting"]
        ),
        (&json!(1), &json!(2), &json!(2))
    );
    assert_eq!(
        (&timer["count"], &timer["durations"]["max_ns"]),
        (&json!(2), &json!(20 * US))
    );
    assert_eq!(report["cpus"][0]["interrupts_ns"], 220 * US);
    let share = disk["share_percent"].as_f64().unwrap();
    assert!((share - 190.0 * 100.0 / 1020.0).abs() < 1e-9, "{share}");
}

#[test]
fn a_thousand_page_faults_of_a_process_are_told() {
    let mut made = Made::new("faults");
    made.event(
        0,
        0,
        ProcessName {
            pid: Pid(70_000),
            name: Text::new("eater"),
        },
    );
    for (tid, pid) in [(70_001, 70_000), (70_002, 70_000), (5, 4)] {
        made.event(
            0,
            0,
            ThreadCreate {
                tid: Tid(tid),
                pid: Pid(pid),
                parent_tid: Tid(0),
                prio: 1,
            },
        );
    }
    let mut fault = |time, cause, user| {
        made.event(
            0,
            time,
            PageFault {
                address: Address(time),
                ip: Address(0),
                cause,
                user,
            },
        );
    };
    // The running thread is unknown until the first switch.
    (0..400).for_each(|n| fault(n, FaultCause::Store, true));
    made.switch(0, MS, by(70_001, PREEMPTED), (70_002, 1));
    let mut fault = |time, cause, user| {
        made.event(
            0,
            time,
            PageFault {
                address: Address(time),
                ip: Address(0),
                cause,
                user,
            },
        );
    };
    (0..600).for_each(|n| fault(MS + n, FaultCause::Load, n % 2 == 0));
    made.switch(0, 2 * MS, by(70_002, PREEMPTED), (5, 1));
    made.event(
        0,
        3 * MS,
        PageFault {
            address: Address(1),
            ip: Address(0),
            cause: FaultCause::Fetch,
            user: false,
        },
    );
    let report = report(&mut made);
    let faults = &report["page_faults"];
    assert_eq!(faults["count"], 1001);
    let expected = json!([{ "pid": 70_000, "name": "eater", "count": 1000 }, { "pid": 4, "name": null, "count": 1 }]);
    assert_eq!(faults["processes"], expected);
    let expected = json!({
        "thread": { "tid": 70_002, "name": null }, "count": 600, "user": 300, "kernel": 300, "causes": { "load": 600 },
    });
    assert_eq!(faults["threads"][0], expected);
    assert_eq!(faults["threads"][1]["causes"], json!({ "store": 400 }));
}

#[test]
fn system_calls_are_paired_by_thread_across_switches_and_cpus() {
    let mut made = Made::new("syscalls");
    made.event(
        0,
        0,
        SyscallName {
            id: Syscall(300),
            name: Text::new("read"),
        },
    );
    made.switch(0, 0, by(3, IDLE), (1, 1));
    made.switch(1, 0, by(4, IDLE), (9, 1));
    made.event(
        0,
        MS,
        SyscallEnter {
            id: Syscall(300),
            arg0: 0,
        },
    );
    made.switch(0, 2 * MS, by(1, WAITS), (2, 1));
    made.event(
        0,
        3 * MS,
        SyscallEnter {
            id: Syscall(301),
            arg0: 0,
        },
    );
    made.event(
        0,
        3 * MS + US,
        SyscallExit {
            id: Syscall(301),
            ret: -22,
        },
    );
    made.switch(1, 4 * MS, by(9, PREEMPTED), (1, 1));
    made.event(
        1,
        6 * MS,
        SyscallExit {
            id: Syscall(300),
            ret: 8,
        },
    );
    // One call from before the trace, and one that never returns.
    made.event(
        0,
        7 * MS,
        SyscallExit {
            id: Syscall(300),
            ret: 0,
        },
    );
    made.event(
        0,
        8 * MS,
        SyscallEnter {
            id: Syscall(93),
            arg0: 0,
        },
    );
    let report = report(&mut made);
    let calls = report["system_calls"].as_array().unwrap();
    let [read, failed, exit] = [&calls[0], &calls[1], &calls[2]];
    assert_eq!(
        (&read["id"], &read["name"], &read["count"], &read["errors"]),
        (&json!(300), &json!("read"), &json!(2), &json!(0))
    );
    assert_eq!(
        (&read["durations"]["count"], &read["durations"]["max_ns"]),
        (&json!(1), &json!(5 * MS))
    );
    assert_eq!(
        (
            &failed["id"],
            &failed["errors"],
            &failed["durations"]["p50_ns"]
        ),
        (&json!(301), &json!(1), &json!(US))
    );
    assert_eq!(
        (
            &exit["count"],
            &exit["durations"]["count"],
            &exit["durations"]["max_ns"]
        ),
        (&json!(1), &json!(0), &Value::Null)
    );
}

/// A trace with or without a loss on CPU 0 between 4 and 10 ms, and otherwise the same.
fn with_gap(name: &str, gap: bool) -> Made {
    let (lock, kind) = (Object(1), LockKind::Mutex);
    let mut made = Made::new(name);
    made.switch(0, 0, by(3, IDLE), (1, 1));
    made.switch(1, 0, by(4, IDLE), (2, 1));
    made.event(
        1,
        MS,
        SyscallEnter {
            id: Syscall(7),
            arg0: 0,
        },
    );
    made.event(
        0,
        MS,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.event(
        0,
        2 * MS,
        SyscallEnter {
            id: Syscall(8),
            arg0: 0,
        },
    );
    made.event(0, 2 * MS, IrqEnter { irq: Irq(5) });
    // Thread 5 was woken and leaves CPU 1 before the loss; it may run on CPU 0 during the loss.
    made.switch(1, 3 * MS, by(2, PREEMPTED), (5, 1));
    made.switch(1, 3 * MS + 500 * US, by(5, WAITS), (2, 1));
    made.wake(1, 3 * MS + 600 * US, 5, 2);
    made.wake(0, 4 * MS, 6, 1);
    if gap {
        made.lose(0, 9, 10 * MS);
    }
    made.event(0, 10 * MS, IrqExit { irq: Irq(5) });
    made.event(
        0,
        11 * MS,
        SyscallExit {
            id: Syscall(8),
            ret: 0,
        },
    );
    made.event(0, 12 * MS, LockReleased { lock, kind });
    made.switch(0, 13 * MS, by(1, WAITS), (3, 0));
    made.switch(0, 14 * MS, by(3, IDLE), (6, 1));
    made.event(
        1,
        14 * MS,
        SyscallExit {
            id: Syscall(7),
            ret: 0,
        },
    );
    made.switch(1, 15 * MS, by(2, PREEMPTED), (5, 1));
    made.switch(1, 16 * MS, by(5, WAITS), (2, 1));
    made
}

#[test]
fn no_duration_is_made_up_across_a_gap() {
    let whole = report(&mut with_gap("whole", false));
    assert_eq!(whole["losses"]["events"], 0);
    assert_eq!(whole["cpus"][0]["unknown_ns"], 0);
    assert_eq!(whole["interrupts"][0]["durations"]["max_ns"], 8 * MS);
    assert_eq!(whole["locks"][0]["hold"]["max_ns"], 11 * MS);
    assert_eq!(whole["wake_latency"]["durations"]["count"], 2);
    assert_eq!(
        whole["system_calls"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|call| call["durations"]["count"] == 1)
            .count(),
        2
    );

    let cut = report(&mut with_gap("cut", true));
    let loss = json!([{ "stream": "events_0", "cpu": 0, "kind": "events", "count": 9, "begin_ns": 4 * MS, "end_ns": 10 * MS }]);
    assert_eq!(cut["losses"]["intervals"], loss);
    assert_eq!(cut["losses"]["events"], 9);
    // Thread 1 ran up to the last event before the loss. The state is unknown until the switch at
    // 13 ms.
    assert_eq!(thread(&cut, 1)["cpu_ns"], 4 * MS);
    assert_eq!(cut["cpus"][0]["unknown_ns"], 9 * MS);
    assert_eq!(cut["interrupts"][0]["durations"]["count"], 0);
    assert_eq!(cut["locks"][0]["hold"]["count"], 0);
    assert_eq!(cut["wake_latency"], Value::Null);
    // CPU 1 has no loss, so its thread is known, and the thread's system call, too.
    assert_eq!(cut["cpus"][1]["unknown_ns"], 0);
    let calls = cut["system_calls"].as_array().unwrap();
    let timed =
        |id| calls.iter().find(|call| call["id"] == id).unwrap()["durations"]["count"].clone();
    assert_eq!((timed(7), timed(8)), (json!(1), json!(0)));
    // The state of thread 5 in between is unknown, not "runnable".
    assert_eq!(thread(&cut, 5)["runnable_ns"], 0);
    assert_eq!(thread(&whole, 5)["runnable_ns"], 11 * MS + 400 * US);
    assert_eq!(cut["contradictions"]["counts"], json!({}));
    assert_eq!(whole["contradictions"]["counts"], json!({}));
}

/// Behind a damaged packet, the stream's next event ends the loss: what follows is known again.
#[test]
fn a_damaged_packet_hides_only_the_time_up_to_the_next_one() {
    let mut made = Made::new("damaged-packet");
    made.switch(0, 0, by(3, IDLE), (1, 1));
    made.switch(1, 0, by(4, IDLE), (2, 1));
    for packet in 1..=3 {
        made.lose(0, 0, packet * 10 * MS);
        made.switch(0, packet * 10 * MS, by(1, WAITS), (3, 0));
        made.switch(0, (packet * 10 + 4) * MS, by(3, IDLE), (1, 1));
    }
    made.switch(1, 40 * MS, by(2, WAITS), (4, 0));
    let stream = made.finish().join("events_0");
    let whole = std::fs::read(&stream).unwrap();
    let magic = whole[..4].to_vec();
    let packets: Vec<usize> = (0..whole.len())
        .filter(|&at| whole[at..].starts_with(&magic))
        .collect();
    // Damage of the packet at index 2 hides the time up to the one at index 3, which begins at
    // 20 ms; the CPU of a stream is unknown before its first packet, which has no events.
    for (index, unknown) in [(0, [0, 0]), (2, [20 * MS, 0])] {
        let mut bytes = whole.clone();
        bytes[packets[index]] ^= 1;
        std::fs::write(&stream, &bytes).unwrap();
        let output = kymo(&["report", "--json"], stream.parent().unwrap());
        assert_eq!(output.status.code(), Some(3));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = [0, 1].map(|cpu| report["cpus"][cpu]["unknown_ns"].as_u64().unwrap());
        assert_eq!(found, unknown, "packet {index}");
    }
    let text = kymo(&["report"], stream.parent().unwrap()).stdout;
    let text = String::from_utf8(text).unwrap();
    let loss = "; 1 packet is missing, with more events:\n  1 packet on events_0, between 0.";
    assert!(text.contains(loss), "{text}");
    // The stream's end is cut off, which leaves no gap between two packets.
    std::fs::write(&stream, &whole[..packets[1] + 20]).unwrap();
    let text = kymo(&["report"], stream.parent().unwrap()).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.starts_with("2 events in 40.00 ms, none lost except by the damage:\nDamaged: "),
        "{text}"
    );
}

/// A loss of another tracer is only known to end before the end of the packet that reports it.
#[test]
fn another_tracers_gap_ends_with_the_packet_that_tells_of_it() {
    let mut made = with_gap("other", true);
    let metadata = made.finish().join("metadata");
    let text = std::fs::read_to_string(&metadata).unwrap();
    std::fs::write(
        &metadata,
        text.replace("tracer_name = \"kymo\"", "tracer_name = \"other\""),
    )
    .unwrap();
    let report = report(&mut made);
    // Not even the switches at 13 and 14 ms determine the thread: the packet ends with the second
    // one.
    assert_eq!(report["cpus"][0]["unknown_ns"], 12 * MS);
    assert_eq!(report["losses"]["intervals"][0]["end_ns"], 14 * MS);
    assert_eq!(report["cpus"][0]["switches"], 3);
    assert_eq!(thread(&report, 6)["cpu_ns"], 0);
    assert_eq!(report["cpus"][1]["unknown_ns"], 0);
}

#[test]
fn a_number_that_runs_after_its_threads_end_is_another_thread() {
    let mut made = Made::new("again");
    made.switch(0, 0, by(3, IDLE), (7, 1));
    made.switch(
        0,
        MS,
        by(7, (ThreadState::Ended, SwitchReason::Ended)),
        (3, 0),
    );
    made.event(0, MS, dump_of(7));
    made.switch(0, 2 * MS, by(3, IDLE), (7, 1));
    made.switch(0, 4 * MS, by(7, PREEMPTED), (3, 0));
    let report = report(&mut made);
    let lives: Vec<_> = report["threads"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|thread| thread["tid"] == 7)
        .collect();
    let times = lives.iter().map(|life| {
        (
            life["cpu_ns"].as_u64().unwrap(),
            life["last_state"].as_str().unwrap(),
        )
    });
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(2 * MS, "runnable"), (MS, "ended")]
    );
}

#[test]
fn contradictions_are_told_with_time_and_cpu_and_not_after_a_gap() {
    let contradict = |name: &str, gap: bool| {
        let (lock, kind) = (Object(16), LockKind::Mutex);
        let mut made = Made::new(name);
        made.switch(0, 0, by(3, IDLE), (1, 1));
        made.switch(1, 0, by(4, IDLE), (2, 1));
        made.event(
            0,
            MS,
            ThreadCreate {
                tid: Tid(5),
                pid: Pid(1),
                parent_tid: Tid(1),
                prio: 1,
            },
        );
        made.event(
            0,
            2 * MS,
            ThreadExit {
                tid: Tid(5),
                pid: Pid(1),
                prev_state: ThreadState::Blocked,
            },
        );
        made.event(
            0,
            3 * MS,
            LockAcquired {
                lock,
                kind,
                contended: false,
            },
        );
        made.event(0, 3 * MS, IrqEnter { irq: Irq(7) });
        made.event(
            0,
            3 * MS,
            SyscallEnter {
                id: Syscall(1),
                arg0: 0,
            },
        );
        if gap {
            made.lose(0, 1, 4 * MS);
        }
        made.event(0, 4 * MS, IrqExit { irq: Irq(8) });
        made.event(
            0,
            5 * MS,
            SyscallExit {
                id: Syscall(2),
                ret: 0,
            },
        );
        made.event(1, 6 * MS, LockReleased { lock, kind });
        if gap {
            made.lose(1, 1, 7 * MS);
        }
        made.event(1, 7 * MS, LockReleased { lock, kind });
        made.switch(0, 8 * MS, by(9, WAITS), (5, 1));
        if gap {
            made.lose(1, 1, 9 * MS);
        }
        made.switch(1, 9 * MS, by(2, WAITS), (5, 1));
        report(&mut made)
    };
    let report = contradict("contradict", false);
    let first = report["contradictions"]["first"].as_array().unwrap();
    let found = first.iter().map(|first| {
        (
            first["rule"].as_str().unwrap(),
            first["time_ns"].as_u64().unwrap() / MS,
            &first["cpu"],
        )
    });
    let expected = [
        ("irq-pair", 4, &json!(0)),
        ("syscall-pair", 5, &json!(0)),
        ("lock-held", 6, &json!(1)),
        ("lock-held", 7, &json!(1)),
        ("switch-chain", 8, &json!(0)),
        ("after-end", 8, &json!(0)),
        ("one-cpu", 9, &json!(1)),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(
        first[6]["message"],
        "a switch to thread 5, which runs on CPU 0"
    );
    assert_eq!(report["contradictions"]["counts"]["lock-held"], 2);

    let report = contradict("unknown", true);
    // All but the last: thread 5 runs on CPU 0, which has had no loss since.
    assert_eq!(report["contradictions"]["counts"], json!({ "one-cpu": 1 }));
}

#[test]
fn check_lists_what_does_not_fit_and_ends_with_1() {
    let check = |arguments: &[&str], trace: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .arg("check")
            .args(arguments)
            .arg(trace)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    assert_eq!(
        check(&[], contended("fits").finish()),
        (Some(0), String::new())
    );
    let mut made = with_gap("losses", true);
    assert_eq!(check(&[], made.finish()), (Some(0), String::new()));
    let (code, text) = check(&["--no-losses"], made.finish());
    assert_eq!(
        (code, &*text),
        (Some(1), "9 events and 0 packets were lost\n")
    );

    let mut made = contended("unfit");
    made.switch(0, 13 * MS, by(77, WAITS), (3, 0));
    let (code, text) = check(&[], made.finish());
    assert_eq!(
        (code, &*text),
        (
            Some(1),
            "   0.013000000  cpu0  switch-chain: a switch from thread 77, but thread 3 ran here\n"
        )
    );
    let (code, json) = check(&["--json"], made.finish());
    assert_eq!(code, Some(1));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (
            &json["counts"]["switch-chain"],
            &json["first"][0]["time_ns"]
        ),
        (&json!(1), &json!(13 * MS))
    );
    assert_eq!(check(&[], Path::new("/nonexistent/trace")).0, Some(3));
    for _ in 0..120 {
        made.switch(0, 14 * MS, by(77, WAITS), (3, 0));
    }
    assert!(check(&[], made.finish()).1.ends_with("\nand 21 more\n"));
}

/// A state dump, which does not revive a thread.
fn dump_of(tid: u32) -> ThreadStateDump {
    let (tid, pid, name) = (Tid(tid), Pid(1), Text::new("dumped"));
    ThreadStateDump {
        tid,
        pid,
        prio: 4,
        state: ThreadState::Suspended,
        cpu: Cpu(0),
        name,
    }
}

/// Neither at the time of its end nor later; nor does a second dump change the state of a living
/// thread.
#[test]
fn a_state_dump_revives_nobody() {
    let mut made = Made::new("dumps");
    made.switch(0, 0, by(3, IDLE), (7, 1));
    made.event(
        0,
        MS,
        ThreadExit {
            tid: Tid(7),
            pid: Pid(1),
            prev_state: ThreadState::Runnable,
        },
    );
    made.event(0, MS, dump_of(7));
    made.switch(
        0,
        2 * MS,
        by(7, (ThreadState::Ended, SwitchReason::Ended)),
        (9, 1),
    );
    for time in [2, 3, 4] {
        made.event(0, time * MS, dump_of(7));
        made.event(0, time * MS, dump_of(9));
    }
    made.switch(0, 5 * MS, by(9, PREEMPTED), (3, 0));
    let report = report(&mut made);
    let lives = |tid| {
        report["threads"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|thread| thread["tid"] == tid)
            .collect::<Vec<_>>()
    };
    let ([seven], [nine]) = (&lives(7)[..], &lives(9)[..]) else {
        panic!("{report}")
    };
    assert_eq!(
        [&seven["last_state"], &seven["cpu_ns"], &seven["name"]],
        [&json!("ended"), &json!(2 * MS), &json!("dumped")]
    );
    assert_eq!(
        [&nine["last_state"], &nine["cpu_ns"], &nine["suspended_ns"]],
        [&json!("runnable"), &json!(3 * MS), &json!(0)]
    );
    assert_eq!(report["contradictions"]["counts"], json!({}), "{report}");
}

/// A new thread's first latency counts like any other.
#[test]
fn a_new_threads_first_wakeup_counts() {
    let mut made = Made::new("new");
    made.switch(0, 0, by(3, IDLE), (7, 1));
    made.event(
        0,
        MS,
        ThreadCreate {
            tid: Tid(70_000),
            pid: Pid(2),
            parent_tid: Tid(7),
            prio: 1,
        },
    );
    made.event(
        0,
        2 * MS,
        SchedWakeupNew {
            tid: Tid(70_000),
            waker_tid: Tid(7),
            target_cpu: Cpu(0),
        },
    );
    made.switch(0, 5 * MS, by(7, WAITS), (70_000, 1));
    let report = report(&mut made);
    assert_eq!(report["wake_latency"]["durations"]["max_ns"], 3 * MS);
    assert_eq!(thread(&report, 70_000)["runnable_ns"], 3 * MS);
}

#[test]
fn threads_live_end_and_come_back_as_others() {
    let mut made = Made::new("lives");
    made.event(0, 0, dump_of(8));
    made.switch(0, 0, by(3, IDLE), (7, 1));
    made.event(0, MS, ThreadSuspend { tid: Tid(9) });
    made.event(0, 3 * MS, ThreadResume { tid: Tid(9) });
    made.event(
        0,
        4 * MS,
        ThreadDelay {
            tid: Tid(7),
            ticks: 5,
        },
    );
    made.event(
        0,
        4 * MS,
        ThreadExit {
            tid: Tid(7),
            pid: Pid(1),
            prev_state: ThreadState::Runnable,
        },
    );
    made.switch(
        0,
        5 * MS,
        by(7, (ThreadState::Ended, SwitchReason::Ended)),
        (9, 1),
    );
    made.event(
        0,
        6 * MS,
        ThreadCreate {
            tid: Tid(7),
            pid: Pid(2),
            parent_tid: Tid(9),
            prio: 1,
        },
    );
    made.switch(0, 7 * MS, by(9, PREEMPTED), (7, 1));
    made.event(
        0,
        8 * MS,
        IpcSend {
            port: Object(1),
            target_tid: Tid(9),
            len: 10,
            path: IpcPath::Fast,
        },
    );
    made.event(
        0,
        8 * MS,
        IpcReceive {
            port: Object(1),
            source_tid: Tid(7),
            len: 10,
            path: IpcPath::Slow,
        },
    );
    let report = report(&mut made);
    let lives: Vec<_> = report["threads"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|thread| thread["tid"] == 7)
        .collect();
    assert_eq!(lives.len(), 2);
    let times = lives.iter().map(|life| {
        (
            life["cpu_ns"].as_u64().unwrap(),
            life["last_state"].as_str().unwrap(),
        )
    });
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(5 * MS, "ended"), (MS, "running")]
    );
    let nine = thread(&report, 9);
    assert_eq!(
        (&nine["suspended_ns"], &nine["runnable_ns"], &nine["cpu_ns"]),
        (&json!(2 * MS), &json!(3 * MS), &json!(2 * MS))
    );
    assert_eq!(
        (
            &thread(&report, 8)["last_state"],
            &thread(&report, 8)["name"]
        ),
        (&json!("suspended"), &json!("dumped"))
    );
    assert_eq!(report["messages"][0]["sent"], 1);
    assert_eq!(
        report["messages"][1],
        json!({
            "mechanism": "ipc", "path": "slow", "sent": 0, "received": 1, "sent_bytes": 0, "received_bytes": 10,
        })
    );
}

#[test]
fn text_has_the_tables_that_the_trace_has_events_for() {
    let mut made = contended("text");
    let output = kymo(&["report"], made.finish());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with(
            "18 events in 11.00 ms, none lost.\nClock kymo: 1,000,000,000 ticks per \
            second. Different times on one CPU are at least 100,000 ticks apart, and no two"
        ),
        "{text}"
    );
    for line in [
        "table  mutex         2             1        1",
        "high (12)  500.0 us  0.002500000  0.003000000  interrupt  cpu0",
        "\nlock wait        table  5.000 ms  0.004000000  cpu0  high (12)\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(text.contains("  4.000 ms  2.000 ms  "), "{text}");
    // The book has the same report, as a file gets it.
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
    command
        .arg("report")
        .arg(made.finish())
        .env("COLUMNS", "100");
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reading-a-report.md");
    assert!(
        std::fs::read_to_string(page).unwrap().contains(&text),
        "docs/src/reading-a-report.md should have\n{text}"
    );
    for title in [
        "Interrupts",
        "System calls",
        "Page faults",
        "Messages",
        "What does not fit",
    ] {
        assert!(!text.contains(title), "{text}");
    }
}

/// An empty packet long before the first event is no part of the time that a trace covers.
#[test]
fn a_trace_begins_with_its_first_event() {
    for lost in [0, 5] {
        let mut made = Made::new("begin");
        let begin = 6_600_000 * MS;
        made.lose(0, lost, begin);
        made.switch(0, begin + MS, by(3, IDLE), (11, 1));
        made.switch(0, begin + 5 * MS, by(11, WAITS), (3, 0));
        made.switch(0, begin + 9 * MS, by(3, IDLE), (11, 1));
        let all = report(&mut made);
        assert_eq!(
            [&all["begin_ns"], &all["end_ns"]],
            [&json!(begin + MS), &json!(begin + 9 * MS)]
        );
        let cpu = &all["cpus"][0];
        let parts = ["busy_ns", "idle_ns", "unknown_ns"].map(|part| &cpu[part]);
        assert_eq!(parts, [&json!(4 * MS), &json!(4 * MS), &json!(0)]);
        let output = kymo(&["report"], made.finish());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("3 events in 8.000 ms"), "{text}");
        // Points in time are counted from the same beginning everywhere.
        let trace = made.finish();
        let first = |arguments: &[&str]| {
            let output = kymo(arguments, trace);
            let text = String::from_utf8(output.stdout).unwrap();
            let mut lines = text.lines().map(str::to_owned);
            lines.find(|line| line.contains("sched_switch")).unwrap()
        };
        assert!(
            first(&["dump"]).contains(" 0.001000000"),
            "{}",
            first(&["dump"])
        );
        let second = first(&["dump", "--from=0.002"]);
        assert!(second.contains(" 0.005000000"), "{second}");
    }
}

/// Tables of which every cell is unknown are left out, and the report says why there are none.
#[test]
fn a_trace_without_events_for_a_table_says_so() {
    let mut made = Made::new("no-table");
    made.event(0, MS, kymo::vocabulary::SchedEnter {});
    let text = String::from_utf8(kymo(&["report"], made.finish()).stdout).unwrap();
    assert!(
        text.contains("\nThe trace has no scheduling events: who ran"),
        "{text}"
    );
    assert!(!text.contains("CPUs"), "{text}");
}

#[test]
fn linux_events_mean_the_same() {
    let made = Made::new("linux");
    let mut trace = made;
    let directory = trace.finish().to_owned();
    let metadata = r#"/* CTF 1.8 */
typealias integer { size = 8; } := u8;
typealias integer { size = 8; signed = true; } := s8;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000; };
stream {
    packet.context := struct { u8 cpu_id; };
    event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; };
};
event { id = 1; name = "sched_switch"; fields := struct { string _prev_comm; u8 _prev_tid; u8 _prev_prio; u8 _prev_state; string _next_comm; u8 _next_tid; u8 _next_prio; }; };
event { id = 2; name = "syscall_entry_openat"; fields := struct { u8 _dfd; }; };
event { id = 3; name = "syscall_exit_openat"; fields := struct { s8 _ret; }; };
event { id = 4; name = "irq_handler_entry"; fields := struct { u8 _irq; string _name; }; };
event { id = 5; name = "irq_handler_exit"; fields := struct { u8 _irq; u8 _ret; }; };
event { id = 6; name = "sched_wakeup"; fields := struct { string _comm; u8 _tid; u8 _prio; u8 _target_cpu; }; };
"#;
    let stream = [
        &[0][..],
        b"\x01\x00swapper/0\0\0\x14\0cat\0\x07\x14",
        b"\x02\x01\x05",
        b"\x04\x02\x09eth0\0",
        b"\x05\x03\x09\x01",
        b"\x03\x05\xfe",
        b"\x01\x08cat\0\x07\x14\x02swapper/0\0\0\x14",
        b"\x06\x0acat\0\x07\x14\0",
        b"\x01\x0dswapper/0\0\0\x14\0cat\0\x07\x14",
        b"\x01\x0fcat\0\x07\x14\x10swapper/0\0\0\x14",
    ];
    std::fs::write(directory.join("metadata"), metadata).unwrap();
    std::fs::write(directory.join("channel0_0"), stream.concat()).unwrap();
    let output = kymo(&["report", "--json"], &directory);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cat = thread(&report, 7);
    assert_eq!(
        (&cat["name"], &cat["cpu_ns"], &cat["blocked_ns"]),
        (&json!("cat"), &json!(10 * MS), &json!(2 * MS))
    );
    assert_eq!(
        (&cat["last_state"], &thread(&report, 0)["idle"]),
        (&json!("ended"), &json!(true))
    );
    assert_eq!(report["cpus"][0]["idle_ns"], 5 * MS);
    assert_eq!(report["system_calls"][0]["name"], "openat");
    assert_eq!(
        (
            &report["system_calls"][0]["errors"],
            &report["system_calls"][0]["durations"]["max_ns"]
        ),
        (&json!(1), &json!(4 * MS))
    );
    assert_eq!(report["interrupts"][0]["durations"]["max_ns"], MS);
    assert_eq!(report["wake_latency"]["durations"]["max_ns"], 3 * MS);
}

#[test]
fn what_is_no_trace_is_refused_and_what_is_cut_is_told_as_far_as_it_goes() {
    let code = |path: &Path| {
        let output = kymo(&["report", "--json"], path);
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
            output.stdout,
        )
    };
    assert_eq!(code(Path::new("/nonexistent/trace")).0, Some(3));
    let mut made = contended("cut-short");
    let directory = made.finish().to_owned();
    let (status, message, _) = code(&directory.join("metadata"));
    assert_eq!(status, Some(2), "{message}");

    let stream = directory.join("events_0");
    let bytes = std::fs::read(&stream).unwrap();
    for length in [0, 1, 83, 84, 85, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&stream, &bytes[..length]).unwrap();
        let (status, message, out) = code(&directory);
        // The first packet, which is empty, takes 84 bytes.
        let whole = length == 0 || length == 84;
        assert_eq!(
            status,
            Some(if whole { 0 } else { 3 }),
            "{length}: {message}"
        );
        assert_eq!(message.lines().count(), usize::from(!whole), "{message}");
        let report: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            report["damage"].as_array().unwrap().len(),
            usize::from(!whole)
        );
    }
    // Each event is changed in turn, which may only add its own message.
    for at in (84..bytes.len()).step_by(3) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0xa5;
        std::fs::write(&stream, &bytes).unwrap();
        let (status, message, _) = code(&directory);
        assert!([Some(0), Some(3)].contains(&status), "{at}: {message}");
    }
    std::fs::write(directory.join("metadata"), "garbage").unwrap();
    assert_eq!(code(&directory).0, Some(3));
}
