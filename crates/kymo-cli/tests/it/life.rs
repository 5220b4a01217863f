//! Processes that fork, execute and exit, wake-ups whose waker is not known, idle threads and run
//! queues: what `kymo report` and `kymo check` make of them.
use crate::run::kymo;
use kymo::Text;
use kymo::vocabulary::{
    Cpu, Irq, IrqEnter, IrqExit, Pid, ProcessExec, ProcessExit, ProcessFork, RunQueue,
    SchedWakeupNew, SwitchReason, Syscall, SyscallEnter, SyscallExit, ThreadCreate, ThreadExit,
    ThreadName, ThreadState, ThreadStateDump, ThreadSuspend, Tid,
};
use kymo_made::{MS, Made};
use serde_json::{Value, json};

const WAITS: (ThreadState, SwitchReason) = (ThreadState::Blocked, SwitchReason::Waits);
const IDLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Idle);
const ENDED: (ThreadState, SwitchReason) = (ThreadState::Ended, SwitchReason::Ended);

fn report(made: &mut Made) -> Value {
    serde_json::from_slice(&kymo(&["report", "--json"], made.finish()).stdout).unwrap()
}

fn check(made: &mut Made) -> (Option<i32>, String) {
    let output = kymo(&["check"], made.finish());
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text)
}

fn by(tid: u32, (state, reason): (ThreadState, SwitchReason)) -> (u32, ThreadState, SwitchReason) {
    (tid, state, reason)
}

fn lives(report: &Value, tid: u32) -> Vec<&Value> {
    let threads = report["threads"].as_array().unwrap().iter();
    threads.filter(|thread| thread["tid"] == tid).collect()
}

fn enter(made: &mut Made, time: u64, id: u32) {
    let id = Syscall(id);
    made.event(0, time, SyscallEnter { id, arg0: 0 });
}

fn exit(made: &mut Made, time: u64, id: u32) {
    let id = Syscall(id);
    made.event(0, time, SyscallExit { id, ret: 0 });
}

fn exec(made: &mut Made, time: u64) {
    made.event(
        0,
        time,
        ProcessExec {
            pid: Pid(2),
            tid: Tid(7),
            filename: Text::new("/bin/ls"),
        },
    );
}

/// One kernel records the end of an exec, the other does not: both have one call of 2 ms.
#[test]
fn an_exec_that_succeeds_ends_its_call() {
    for is_recorded in [false, true] {
        let mut made = Made::new(&format!("exec-{is_recorded}"));
        made.switch(0, 0, by(0, IDLE), (7, 1));
        enter(&mut made, MS, 6);
        exec(&mut made, 3 * MS);
        if is_recorded {
            exit(&mut made, 4 * MS, 6);
        }
        enter(&mut made, 5 * MS, 1);
        exit(&mut made, 6 * MS, 1);
        let report = report(&mut made);
        let calls = report["system_calls"].as_array().unwrap();
        let exec = calls.iter().find(|call| call["id"] == 6).unwrap();
        assert_eq!(
            [&exec["durations"]["count"], &exec["durations"]["max_ns"]],
            [&json!(1), &json!(2 * MS)],
            "{is_recorded}: {exec}"
        );
        assert_eq!(report["contradictions"]["counts"], json!({}));
    }
}

/// An exec by another thread than the one that runs here, and a second end, end nothing.
#[test]
fn an_exec_ends_no_other_call() {
    let mut made = Made::new("exec-other");
    made.switch(0, 0, by(0, IDLE), (8, 1));
    enter(&mut made, MS, 6);
    exec(&mut made, 2 * MS);
    exit(&mut made, 4 * MS, 6);
    let report = report(&mut made);
    let durations = &report["system_calls"][0]["durations"];
    assert_eq!(
        [&durations["count"], &durations["max_ns"]],
        [1, 3 * MS].map(|n| json!(n)).each_ref()
    );
}

fn fork(made: &mut Made, time: u64, child: u32) {
    made.event(
        0,
        time,
        ProcessFork {
            parent_tid: Tid(7),
            parent_pid: Pid(7),
            child_tid: Tid(child),
            child_pid: Pid(child),
        },
    );
}

/// A kernel without threads of its own records the fork and the exit of a process only, and gives
/// its number to another one later.
#[test]
fn processes_without_threads_begin_and_end() {
    let mut made = Made::new("fork");
    made.switch(0, 0, by(0, IDLE), (7, 1));
    for begin in [1, 11] {
        fork(&mut made, begin * MS, 9);
        made.switch(0, (begin + 1) * MS, by(7, WAITS), (9, 1));
        made.event(
            0,
            (begin + 3) * MS,
            ProcessExit {
                tid: Tid(9),
                pid: Pid(9),
                status: 0,
            },
        );
        made.switch(0, (begin + 4) * MS, by(9, ENDED), (7, 1));
    }
    let report = report(&mut made);
    let nine = lives(&report, 9);
    assert_eq!(nine.len(), 2, "{report}");
    for life in nine {
        assert_eq!(
            [&life["pid"], &life["cpu_ns"], &life["last_state"]],
            [&json!(9), &json!(3 * MS), &json!("ended")]
        );
    }
    assert_eq!(report["contradictions"]["counts"], json!({}));
}

/// A kernel with threads records both; the events may come in any order, and late.
#[test]
fn a_forked_process_and_its_thread_are_one() {
    let create = ThreadCreate {
        tid: Tid(9),
        pid: Pid(9),
        parent_tid: Tid(7),
        prio: 1,
    };
    let end = ThreadExit {
        tid: Tid(9),
        pid: Pid(9),
        prev_state: ThreadState::Runnable,
    };
    for late in [0, 1, 2] {
        let mut made = Made::new(&format!("fork-{late}"));
        made.switch(0, 0, by(0, IDLE), (7, 1));
        if late == 0 {
            fork(&mut made, MS, 9);
        }
        made.event(0, MS, create);
        if late == 1 {
            fork(&mut made, 2 * MS, 9);
        }
        made.switch(0, 2 * MS, by(7, WAITS), (9, 1));
        if late == 2 {
            fork(&mut made, 3 * MS, 9);
        }
        made.event(
            0,
            4 * MS,
            ProcessExit {
                tid: Tid(9),
                pid: Pid(9),
                status: 1,
            },
        );
        made.event(0, 4 * MS, end);
        made.switch(0, 5 * MS, by(9, ENDED), (7, 1));
        let report = report(&mut made);
        let [nine] = &lives(&report, 9)[..] else {
            panic!("{late}: {report}")
        };
        assert_eq!(
            [&nine["cpu_ns"], &nine["last_state"]],
            [&json!(3 * MS), &json!("ended")]
        );
        assert_eq!(report["contradictions"]["counts"], json!({}));
    }
}

/// By an interrupt's handler, by the thread that runs, or by nobody known: the scheduler of an idle
/// CPU, and a CPU before its first switch.
#[test]
fn an_unknown_waker_is_whoever_runs_there() {
    let mut made = Made::new("unknown-waker");
    let wake = |made: &mut Made, cpu, time, tid| {
        made.event(
            cpu,
            time,
            SchedWakeupNew {
                tid: Tid(tid),
                waker_tid: Tid::UNKNOWN,
                target_cpu: Cpu::UNKNOWN,
            },
        );
    };
    wake(&mut made, 0, 0, 11);
    made.switch(0, MS, by(0, IDLE), (11, 1));
    wake(&mut made, 0, 2 * MS, 12);
    made.switch(0, 4 * MS, by(11, WAITS), (12, 1));
    made.event(0, 5 * MS, IrqEnter { irq: Irq(9) });
    wake(&mut made, 0, 6 * MS, 13);
    made.event(0, 7 * MS, IrqExit { irq: Irq(9) });
    made.switch(0, 9 * MS, by(12, WAITS), (13, 1));
    made.switch(0, 10 * MS, by(13, WAITS), (0, -1));
    wake(&mut made, 0, 11 * MS, 14);
    made.switch(0, 15 * MS, by(0, IDLE), (14, 1));
    let report = report(&mut made);
    let worst = report["wake_latency"]["worst"].as_array().unwrap().iter();
    let found = worst.map(|wake| {
        let tid = wake["thread"]["tid"].as_u64().unwrap();
        (
            tid,
            wake["waker"]["tid"].as_u64(),
            wake["by_interrupt"].as_bool().unwrap(),
        )
    });
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    let expected = [
        (11, None, false),
        (12, Some(11), false),
        (13, None, true),
        (14, None, false),
    ];
    assert_eq!(found, expected, "{report}");
    assert_eq!(lives(&report, u32::MAX).len(), 0, "{report}");
    assert_eq!(report["contradictions"]["counts"], json!({}));
    let text = kymo(&["report"], made.finish()).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains(&u32::MAX.to_string()), "{text}");
    assert!(text.contains("unknown"), "{text}");
}

/// A thread's state dump may not know the CPU.
#[test]
fn an_unknown_cpu_is_no_cpu() {
    let mut made = Made::new("unknown-cpu");
    made.switch(0, 0, by(7, WAITS), (0, -1));
    let dump = ThreadStateDump {
        tid: Tid::IDLE,
        pid: Pid(0),
        prio: -1,
        state: ThreadState::Runnable,
        cpu: Cpu::UNKNOWN,
        name: Text::new("idle"),
    };
    made.event(0, MS, dump);
    made.switch(0, 2 * MS, by(0, IDLE), (7, 1));
    let report = report(&mut made);
    let [idle] = &lives(&report, 0)[..] else {
        panic!("{report}")
    };
    assert_eq!([&idle["cpu"], &idle["name"]], [&json!(0), &json!("idle")]);
}

/// The findings about thread 0 in a kernel whose thread 0 is a thread like any other.
#[test]
fn a_thread_0_that_is_not_idle_is_a_finding() {
    let mut made = Made::new("thread-0");
    let zero = Tid(0);
    let (pid, prev_state) = (Pid(1), ThreadState::Runnable);
    for time in [0, 20] {
        let name = |name| ThreadName {
            tid: zero,
            name: Text::new(name),
        };
        // These are names of an idle thread.
        made.event(0, time * MS, name("idle"));
        made.event(0, time * MS, name("swapper/0"));
        made.event(0, time * MS, name("idle_task"));
        made.event(0, (time + 1) * MS, name("init"));
        made.event(
            0,
            (time + 2) * MS,
            ThreadCreate {
                tid: zero,
                pid,
                parent_tid: Tid(1),
                prio: 1,
            },
        );
        made.wake(0, (time + 3) * MS, 0, 1);
        made.switch(0, (time + 4) * MS, by(1, WAITS), (0, 1));
        made.switch(0, (time + 5) * MS, by(0, WAITS), (1, 1));
        made.event(0, (time + 6) * MS, ThreadSuspend { tid: zero });
        made.event(
            0,
            (time + 7) * MS,
            ThreadExit {
                tid: zero,
                pid,
                prev_state,
            },
        );
    }
    let (code, text) = check(&mut made);
    assert_eq!(code, Some(1));
    let line = |ms, what| {
        format!(
            "   0.00{ms}000000  cpu0  idle-thread: thread 0 is {what}; 0 is the idle thread, so number other threads from 1\n"
        )
    };
    let findings: Vec<String> = [
        (1, "named init"),
        (2, "created"),
        (3, "woken"),
        (5, "blocked"),
        (7, "ended"),
    ]
    .into_iter()
    .map(|(ms, what)| line(ms, what))
    .collect();
    let found: String = text
        .split_inclusive('\n')
        .filter(|line| line.contains("idle-thread"))
        .collect();
    assert_eq!(found, findings.concat(), "{text}");
    // Each once, whatever the number of events.
    assert_eq!(
        report(&mut made)["contradictions"]["counts"]["idle-thread"],
        5
    );
}

#[test]
fn an_idle_thread_0_is_no_finding() {
    let mut made = Made::new("idle-0");
    for cpu in [0, 1] {
        made.switch(cpu, 0, by(0, IDLE), (7 + cpu, 1));
        made.switch(cpu, 2 * MS, by(7 + cpu, WAITS), (0, -1));
        made.switch(cpu, 3 * MS, by(0, IDLE), (7 + cpu, 1));
    }
    assert_eq!(check(&mut made), (Some(0), String::new()));
}

fn queue(made: &mut Made, time: u64, cpu: Cpu, len: u32) {
    made.event(0, time, RunQueue { cpu, len });
}

#[test]
fn run_queues_have_a_length() {
    let mut made = Made::new("queues");
    made.switch(0, 0, by(0, IDLE), (7, 1));
    queue(&mut made, 0, Cpu(1), 1);
    queue(&mut made, 2 * MS, Cpu(1), 3);
    queue(&mut made, 4 * MS, Cpu(1), 2);
    queue(&mut made, 5 * MS, Cpu::UNKNOWN, 1);
    queue(&mut made, 6 * MS, Cpu(1), 0);
    queue(&mut made, 10 * MS, Cpu::UNKNOWN, 1);
    let report_of = |made: &mut Made| report(made)["run_queues"].clone();
    // On CPU 1: 1 for 2 ms, 3 for 2 ms, 2 for 2 ms, 0 for 4 ms.
    assert_eq!(
        report_of(&mut made),
        json!([
            { "cpu": 1, "enqueued": 2, "dequeued": 3, "mean": 1.2, "max": 3 },
            { "cpu": null, "enqueued": 0, "dequeued": 0, "mean": 1.0, "max": 1 },
        ])
    );
    let text = kymo(&["report"], made.finish()).stdout;
    let text = String::from_utf8(text).unwrap();
    let table = text
        .split("\n\n")
        .skip_while(|part| !part.starts_with("Run queues"))
        .nth(1);
    let rows: Vec<Vec<&str>> = table
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["cpu", "mean", "max", "enqueued", "dequeued"],
            ["1", "1.20", "3", "2", "3"],
            ["shared", "1.00", "1", "0", "0"],
        ]
    );
    // Nobody knows how long it was while events are missing, nor how it changed.
    made.lose(0, 3, 12 * MS);
    queue(&mut made, 13 * MS, Cpu(1), 5);
    queue(&mut made, 14 * MS, Cpu(1), 0);
    assert_eq!(
        report_of(&mut made)[0],
        json!({ "cpu": 1, "enqueued": 2, "dequeued": 8, "mean": 17.0 / 11.0, "max": 5 })
    );
}
