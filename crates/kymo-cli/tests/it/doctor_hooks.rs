//! `kymo doctor` names each hook that a kernel lacks: traces of one scene, each without one event.

use std::path::Path;

use crate::run::printed;
use kymo::event::Event;
use kymo::vocabulary::{
    Address, Cpu, FaultCause, FrameAlloc, FrameFree, IpcPath, IpcReceive, IpcSend, IrqEnter,
    IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait, Object, PageFault,
    Pid, PipeRead, PipeWrite, ProcessExec, ProcessExit, ProcessFork, SchedEnter, SchedExit,
    SchedSwitch, SchedWakeup, SchedWakeupNew, SpanBegin, SpanEnd, SwitchReason, Syscall,
    SyscallEnter, SyscallExit, SyscallName, ThreadCreate, ThreadExit, ThreadName, ThreadState, Tid,
};
use kymo::{Irq, Text};
use kymo_made::{MS, Made, US};
use serde_json::Value;

const WAITS: (ThreadState, SwitchReason) = (ThreadState::Blocked, SwitchReason::Waits);
const IDLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Idle);
const ENDED: (ThreadState, SwitchReason) = (ThreadState::Ended, SwitchReason::Ended);

/// A trace from which one event is left out.
struct Scene {
    made: Made,
    without: &'static str,
}

impl Scene {
    fn put<E: Event>(&mut self, cpu: u32, time: u64, event: E) {
        if E::SCHEMA.name != self.without {
            self.made.event(cpu, time, event);
        }
    }

    fn switch(&mut self, cpu: u32, time: u64, prev: (u32, (ThreadState, SwitchReason)), to: u32) {
        let (tid, (prev_state, reason)) = prev;
        let switch = SchedSwitch {
            prev_tid: Tid(tid),
            next_tid: Tid(to),
            prev_state,
            reason,
            next_prio: 1,
        };
        self.put(cpu, time, switch);
    }

    fn name(&mut self, tid: u32) {
        let name = Text::from(format!("thread {tid}").as_str());
        self.put(
            0,
            0,
            ThreadName {
                tid: Tid(tid),
                name,
            },
        );
    }

    /// What a thread does in a system call.
    fn call(&mut self, cpu: u32, begin: u64, tid: u32) {
        let mut time = begin;
        let mut next = || {
            time += US;
            time
        };
        let (id, lock, kind) = (Syscall(4), Object(0xbeef), LockKind::Mutex);
        let (owner_tid, contended) = (Tid::UNKNOWN, true);
        self.put(cpu, next(), SyscallEnter { id, arg0: 0 });
        let wait = LockWait {
            lock,
            owner_tid,
            kind,
        };
        self.put(cpu, next(), wait);
        let acquired = LockAcquired {
            lock,
            kind,
            contended,
        };
        self.put(cpu, next(), acquired);
        let fault = PageFault {
            address: Address(0x1000),
            ip: Address(0x2000),
            cause: FaultCause::Load,
            user: false,
        };
        self.put(cpu, next(), fault);
        let (pfn, order, pipe, len) = (3, 0, Object(7), 4);
        self.put(cpu, next(), FrameAlloc { pfn, order });
        self.put(cpu, next(), FrameFree { pfn, order });
        self.put(cpu, next(), PipeWrite { pipe, len });
        self.put(cpu, next(), PipeRead { pipe, len });
        let (port, path) = (Object(8), IpcPath::Fast);
        let send = IpcSend {
            port,
            target_tid: Tid(tid),
            len,
            path,
        };
        self.put(cpu, next(), send);
        let receive = IpcReceive {
            port,
            source_tid: Tid(tid),
            len,
            path,
        };
        self.put(cpu, next(), receive);
        self.put(cpu, next(), SpanBegin { id: 1 });
        self.put(cpu, next(), SpanEnd { id: 1 });
        self.put(cpu, next(), LockReleased { lock, kind });
        self.put(cpu, next(), SyscallExit { id, ret: 0 });
        self.put(cpu, next(), SchedEnter {});
        self.put(cpu, next(), SchedExit {});
    }

    /// A process of one thread, from its creation to its end.
    fn process(&mut self, cpu: u32, begin: u64, tid: u32) {
        self.name(tid);
        let (parent_tid, pid, tid_of) = (Tid(5), Pid(tid), Tid(tid));
        let create = ThreadCreate {
            tid: tid_of,
            pid,
            parent_tid,
            prio: 1,
        };
        self.put(cpu, begin, create);
        let fork = ProcessFork {
            parent_tid,
            parent_pid: Pid(5),
            child_tid: tid_of,
            child_pid: pid,
        };
        self.put(cpu, begin + US, fork);
        let woken = SchedWakeupNew {
            tid: tid_of,
            waker_tid: Tid(5),
            target_cpu: Cpu(cpu),
        };
        self.put(cpu, begin + 2 * US, woken);
        self.switch(cpu, begin + 10 * US, (0, IDLE), tid);
        let exec = ProcessExec {
            pid,
            tid: tid_of,
            filename: Text::new("program"),
        };
        self.put(cpu, begin + 11 * US, exec);
        let exit = ThreadExit {
            tid: tid_of,
            pid,
            prev_state: ThreadState::Ended,
        };
        self.put(cpu, begin + 12 * US, exit);
        let exit = ProcessExit {
            tid: tid_of,
            pid,
            status: 0,
        };
        self.put(cpu, begin + 13 * US, exit);
        self.switch(cpu, begin + 14 * US, (tid, ENDED), 0);
    }
}

/// Two CPUs on which threads are woken by interrupts, make calls and create processes.
fn scene(without: &'static str) -> Made {
    let made = Made::new(&format!("doctor-hooks-{without}"));
    let mut scene = Scene { made, without };
    let (irq, id, lock, kind) = (Irq(9), Syscall(4), Object(0xbeef), LockKind::Mutex);
    let name = Text::new("disk");
    scene.put(0, 0, IrqName { irq, name });
    let name = Text::new("write");
    scene.put(0, 0, SyscallName { id, name });
    let name = Text::new("table");
    scene.put(0, 0, LockName { lock, kind, name });
    for (cpu, tid) in [(0, 5), (1, 6)] {
        scene.name(tid);
        for round in 0..10 {
            let begin = u64::from(round) * MS + MS / 2 + u64::from(cpu) * 300 * US;
            scene.switch(cpu, begin, (0, IDLE), tid);
            scene.call(cpu, begin, tid);
            scene.switch(cpu, begin + 50 * US, (tid, WAITS), 0);
            scene.put(cpu, begin + 60 * US, IrqEnter { irq });
            scene.put(cpu, begin + 61 * US, IrqExit { irq });
            let wake = SchedWakeup {
                tid: Tid(tid),
                waker_tid: Tid(0),
                target_cpu: Cpu(cpu),
            };
            scene.put(cpu, begin + 70 * US, wake);
            scene.process(cpu, begin + 100 * US, 100 + 10 * cpu + round);
        }
        scene.switch(cpu, 12 * MS, (0, IDLE), tid);
    }
    scene.made
}

/// Severity, rule and message of the findings.
fn findings(trace: &Path) -> Vec<[String; 3]> {
    let text = printed(&["doctor", "--json"], trace).1;
    let all: Value = serde_json::from_str(&text).unwrap();
    let all = all["findings"].as_array().unwrap().iter();
    let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
    all.map(|of| ["severity", "rule", "message"].map(|key| text(of, key)))
        .collect()
}

/// Whether the findings name the event among those that were never recorded.
fn lists(found: &[[String; 3]], event: &str) -> bool {
    let mut lists = found.iter().filter(|of| of[1] == "never-recorded");
    lists.any(|of| of[2].split([' ', ',']).any(|word| word == event))
}

/// The event that is left out, and the finding on it: severity, rule, and what the message has.
const HOOKS: &[(&str, [&str; 3])] = &[
    (
        SchedSwitch::SCHEMA.name,
        ["missing", "switches", "no sched_switch"],
    ),
    (
        SchedWakeup::SCHEMA.name,
        ["missing", "wake-ups", "no sched_wakeup"],
    ),
    (
        IrqEnter::SCHEMA.name,
        ["wrong", "counterpart", "irq_handler_entry never did"],
    ),
    (
        IrqExit::SCHEMA.name,
        ["wrong", "counterpart", "irq_handler_exit never did"],
    ),
    (
        SyscallEnter::SCHEMA.name,
        ["wrong", "counterpart", "sys_enter never did"],
    ),
    (
        SyscallExit::SCHEMA.name,
        ["wrong", "counterpart", "sys_exit never did"],
    ),
    (
        LockAcquired::SCHEMA.name,
        ["wrong", "counterpart", "lock_acquired never did"],
    ),
    (
        LockReleased::SCHEMA.name,
        ["wrong", "counterpart", "lock_release never did"],
    ),
    (
        SchedEnter::SCHEMA.name,
        ["wrong", "counterpart", "never did"],
    ),
    (
        SchedExit::SCHEMA.name,
        ["wrong", "counterpart", "never did"],
    ),
    (
        SpanBegin::SCHEMA.name,
        ["wrong", "counterpart", "never did"],
    ),
    (SpanEnd::SCHEMA.name, ["wrong", "counterpart", "never did"]),
    (
        FrameAlloc::SCHEMA.name,
        ["hint", "counterpart", "never did"],
    ),
    (FrameFree::SCHEMA.name, ["hint", "counterpart", "never did"]),
    (
        PipeWrite::SCHEMA.name,
        ["hint", "counterpart", "pipe_write never did"],
    ),
    (
        PipeRead::SCHEMA.name,
        ["hint", "counterpart", "pipe_read never did"],
    ),
    (
        IpcSend::SCHEMA.name,
        ["hint", "counterpart", "ipc_send never did"],
    ),
    (
        IpcReceive::SCHEMA.name,
        ["hint", "counterpart", "ipc_receive never did"],
    ),
    (
        ThreadName::SCHEMA.name,
        ["missing", "names", "Threads 5, 6, "],
    ),
    (
        IrqName::SCHEMA.name,
        ["missing", "names", "Interrupt 9 has no name"],
    ),
    (
        SyscallName::SCHEMA.name,
        ["missing", "names", "System call 4 has no name"],
    ),
    (
        LockName::SCHEMA.name,
        ["missing", "names", "Lock 0xbeef has no name"],
    ),
    (SchedWakeupNew::SCHEMA.name, ["hint", "never-recorded", ""]),
    (LockWait::SCHEMA.name, ["hint", "never-recorded", ""]),
    (PageFault::SCHEMA.name, ["hint", "never-recorded", ""]),
    (ThreadCreate::SCHEMA.name, ["hint", "never-recorded", ""]),
    (ThreadExit::SCHEMA.name, ["hint", "never-recorded", ""]),
    (ProcessFork::SCHEMA.name, ["hint", "never-recorded", ""]),
    (ProcessExec::SCHEMA.name, ["hint", "never-recorded", ""]),
    (ProcessExit::SCHEMA.name, ["hint", "never-recorded", ""]),
];

#[test]
fn each_hook_that_is_left_out_is_named() {
    let whole = findings(scene("nothing").finish());
    let others: Vec<_> = whole
        .iter()
        .filter(|of| of[1] != "never-recorded")
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    for (event, [severity, rule, message]) in HOOKS {
        assert!(!lists(&whole, event), "{event}: {whole:#?}");
        let found = findings(scene(event).finish());
        let has = found
            .iter()
            .any(|of| of[0] == *severity && of[1] == *rule && of[2].contains(message));
        assert!(has, "{event}: {found:#?}");
        let is_listed = *rule != "never-recorded" || lists(&found, event);
        assert!(is_listed, "{event}: {found:#?}");
    }
}

/// New threads are woken for their first time; nothing wakes those that waited.
#[test]
fn threads_that_are_woken_only_when_they_are_new_lack_wakeups() {
    let found = findings(scene(SchedWakeup::SCHEMA.name).finish());
    let message = "The trace has no sched_wakeup, but threads that waited ran again 20 times";
    let wakes: Vec<_> = found.iter().filter(|of| of[1] == "wake-ups").collect();
    assert_eq!(
        wakes,
        [&["missing", "wake-ups", message].map(str::to_owned)]
    );
}

/// One thread's waits end with wake-ups but for one way in which it is woken.
#[test]
fn one_way_of_waking_that_is_not_recorded_is_named() {
    let made = Made::new("doctor-one-way");
    let mut scene = Scene { made, without: "" };
    scene.name(5);
    for round in 0..8 {
        let begin = round * MS;
        scene.switch(0, begin, (0, IDLE), 5);
        scene.switch(0, begin + 50 * US, (5, WAITS), 0);
        if round % 2 == 0 {
            scene.made.wake(0, begin + 70 * US, 5, 0);
        }
    }
    let found = findings(scene.made.finish());
    let message = "No wake-up is recorded of threads that waited and ran again: thread 5 3 of 7 \
                   times";
    let wakes: Vec<_> = found.iter().filter(|of| of[1] == "wake-ups").collect();
    assert_eq!(
        wakes,
        [&["missing", "wake-ups", message].map(str::to_owned)]
    );
}

/// Each of many threads may be in a call when the trace ends, but in one only.
#[test]
fn calls_that_may_be_open_are_counted_by_thread() {
    for (each, is_found) in [(1, false), (2, true)] {
        let made = Made::new("doctor-by-thread");
        let mut scene = Scene { made, without: "" };
        for tid in 10..50_u32 {
            scene.name(tid);
            let begin = u64::from(tid) * MS;
            scene.switch(0, begin, (0, IDLE), tid);
            // Every fourth thread makes calls.
            for call in 0..if tid % 4 == 0 { each } else { 0 } {
                let id = Syscall(4);
                scene.put(0, begin + (1 + call) * US, SyscallExit { id, ret: 0 });
            }
            scene.switch(0, begin + 50 * US, (tid, WAITS), 0);
        }
        let found = findings(scene.made.finish());
        let message = "sys_exit came 20 times, but sys_enter never did";
        let has = found.iter().any(|of| of[2] == message);
        let any = found.iter().any(|of| of[1] == "counterpart");
        assert_eq!((has, any), (is_found, is_found), "{found:#?}");
    }
}

mod unknown {
    pub static EVENTS: kymo::Vocabulary = kymo::vocabulary![Request, Answer];
    kymo::event! {
        /// A request came.
        #[id(1000)]
        pub struct Request {
            /// Its number.
            pub number: u32,
        }
    }
    kymo::event! {
        /// It was answered.
        #[id(1001)]
        pub struct Answer {
            /// Its number.
            pub number: u32,
        }
    }
}

/// A trace of which nobody knows any event gets no verdict, and a table of its events.
#[test]
fn what_nobody_knows_is_not_judged() {
    let mut made = Made::of("doctor-unknown", &unknown::EVENTS);
    for number in 0..4_u32 {
        let time = u64::from(number) * 10 * MS;
        made.event(0, time, unknown::Request { number });
        if number > 1 {
            made.event(0, time + MS, unknown::Answer { number });
        }
    }
    let trace = made.finish();
    let (code, text) = printed(&["doctor"], trace);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("Nothing is wrong"), "{text}");
    for words in [
        "None of the 6 events is one of those that are looked at: switches, wake-ups, interrupts, ",
        "There is no verdict; ",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let (_, json) = printed(&["doctor", "--json"], trace);
    assert!(json.contains("\"healthy\":null"), "{json}");
    let (_, text) = printed(&["report"], trace);
    let (_, table) = text.split_once("\nEvents\n\n").unwrap();
    assert_eq!(
        table,
        "event    count  per second  share\nrequest      4       129.0  66.7%\nanswer       2        64.5  33.3%\n"
    );
}
