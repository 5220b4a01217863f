//! The mapping to Perfetto's tracks: a small trace whose packets must equal `golden.txt`.

use std::path::Path;

use crate::decoded::{self, Balance, Packets};
use kymo::Text;
use kymo::vocabulary::{
    Counter, Irq, IrqEnter, IrqExit, IrqName, LockAcquired, LockFailed, LockKind, LockName,
    LockReleased, LockWait, Mark, Object, Pid, ProcessExec, ProcessName, SchedEnter, SchedExit,
    SchedPriority, SpanBegin, SpanEnd, SwitchReason, Syscall, SyscallEnter, SyscallExit,
    SyscallName, ThreadCreate, ThreadExit, ThreadName, ThreadState, Tid, UserName,
};
use kymo_export::{Format, export};
use kymo_made::{Made, US};

const WAITS: (ThreadState, SwitchReason) = (ThreadState::Blocked, SwitchReason::Waits);
const PREEMPTED: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Preempted);
const IDLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Idle);
const ENDED: (ThreadState, SwitchReason) = (ThreadState::Ended, SwitchReason::Ended);
const LOCK: (Object, LockKind) = (Object(0xbeef), LockKind::Mutex);

fn by(tid: u32, (state, reason): (ThreadState, SwitchReason)) -> (u32, ThreadState, SwitchReason) {
    (tid, state, reason)
}

fn perfetto(made: &mut Made, name: &str) -> Packets {
    exported(made.finish(), name)
}

fn exported(trace: &Path, name: &str) -> Packets {
    let path =
        std::env::temp_dir().join(format!("kymo-export-{}-{name}.pftrace", std::process::id()));
    let trace = kymo_ctf::Trace::open(trace).unwrap();
    export(&trace, Format::Perfetto, &path, |_| ()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    decoded::keep(&path, name);
    std::fs::remove_file(&path).unwrap();
    let packets = Packets::read(&bytes);
    Balance::check(&packets);
    packets
}

/// Threads 11 and 12 of process 5, the idle thread 0: a nested interrupt wakes 12, which waits for
/// 11's lock in a system call.
fn everything(name: &str) -> Made {
    let (lock, kind) = LOCK;
    let mut made = Made::new(name);
    for (tid, name) in [(11, "low"), (12, "high")] {
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
        ProcessName {
            pid: Pid(5),
            name: Text::new("sh"),
        },
    );
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
            name: Text::new("read"),
        },
    );
    made.event(
        0,
        0,
        UserName {
            id: 1,
            name: Text::new("frames"),
        },
    );
    for tid in [11, 12] {
        made.event(
            0,
            US,
            ThreadCreate {
                tid: Tid(tid),
                pid: Pid(5),
                parent_tid: Tid(0),
                prio: 1,
            },
        );
    }
    made.switch(0, 2 * US, by(0, IDLE), (11, 1));
    made.event(
        0,
        3 * US,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.event(0, 4 * US, IrqEnter { irq: Irq(9) });
    made.event(0, 4 * US, IrqEnter { irq: Irq(10) });
    made.wake(0, 5 * US, 12, 0);
    made.event(0, 6 * US, IrqExit { irq: Irq(10) });
    made.event(0, 6 * US, IrqExit { irq: Irq(9) });
    made.event(0, 6 * US, SchedEnter {});
    made.switch(0, 7 * US, by(11, PREEMPTED), (12, 9));
    made.event(0, 7 * US, SchedExit {});
    made.event(
        0,
        8 * US,
        SyscallEnter {
            id: Syscall(4),
            arg0: 3,
        },
    );
    made.event(
        0,
        9 * US,
        LockWait {
            lock,
            owner_tid: Tid(11),
            kind,
        },
    );
    made.event(
        0,
        9 * US,
        SchedPriority {
            tid: Tid(11),
            oldprio: 1,
            newprio: 9,
            lock,
        },
    );
    made.switch(0, 10 * US, by(12, WAITS), (11, 9));
    made.event(0, 11 * US, LockReleased { lock, kind });
    made.wake(0, 11 * US, 12, 11);
    made.switch(0, 12 * US, by(11, PREEMPTED), (12, 9));
    made.event(
        0,
        12 * US,
        LockAcquired {
            lock,
            kind,
            contended: true,
        },
    );
    made.event(
        0,
        13 * US,
        SyscallExit {
            id: Syscall(4),
            ret: -5,
        },
    );
    made.event(
        0,
        14 * US,
        ProcessExec {
            pid: Pid(5),
            tid: Tid(12),
            filename: Text::new("/bin/ls"),
        },
    );
    made.event(0, 15 * US, SpanBegin { id: 2 });
    made.event(0, 15 * US, Counter { id: 1, value: -60 });
    made.event(0, 16 * US, Mark { id: 3, value: 7 });
    made.event(0, 16 * US, SpanEnd { id: 2 });
    made.event(
        0,
        17 * US,
        SyscallEnter {
            id: Syscall(1),
            arg0: 0,
        },
    );
    made.event(
        0,
        18 * US,
        ThreadExit {
            tid: Tid(12),
            pid: Pid(5),
            prev_state: ThreadState::Runnable,
        },
    );
    made.switch(0, 19 * US, by(12, ENDED), (0, 0));
    made
}

#[test]
fn the_mapping_equals_the_golden_file() {
    let text = perfetto(&mut everything("golden"), "golden").to_text();
    let expected = include_str!("golden.txt");
    for (line, (is, should)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "line {} of\n{text}", line + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count(), "{text}");
}

#[test]
fn a_loss_ends_what_it_may_have_changed() {
    let (lock, kind) = LOCK;
    let mut made = Made::new("loss");
    made.switch(0, US, by(0, IDLE), (11, 1));
    made.switch(1, US, by(0, IDLE), (12, 1));
    made.event(
        0,
        2 * US,
        SyscallEnter {
            id: Syscall(4),
            arg0: 3,
        },
    );
    made.event(0, 2 * US, IrqEnter { irq: Irq(9) });
    made.event(
        1,
        2 * US,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.event(
        1,
        3 * US,
        SyscallEnter {
            id: Syscall(4),
            arg0: 3,
        },
    );
    made.lose(0, 3, 5 * US);
    made.event(0, 6 * US, IrqExit { irq: Irq(9) });
    made.event(
        0,
        6 * US,
        SyscallExit {
            id: Syscall(4),
            ret: 0,
        },
    );
    made.event(
        1,
        7 * US,
        SyscallExit {
            id: Syscall(4),
            ret: 0,
        },
    );
    made.event(1, 8 * US, LockReleased { lock, kind });
    let packets = perfetto(&mut made, "loss");
    let slices = packets.slices();
    let has = |name: &str, from: u64, to: u64| {
        slices
            .iter()
            .any(|slice| *slice == (name.to_owned(), from * US, to * US))
    };
    assert!(
        has("lost events", 2, 6) && has("irq 9", 2, 2) && has("running: CPU 0", 1, 2),
        "{slices:?}"
    );
    // The other CPU goes on.
    assert!(
        has("system call 4", 2, 2) && has("system call 4", 3, 7),
        "{slices:?}"
    );
    assert!(
        has("lock 0xbeef", 2, 8) && has("running: CPU 1", 1, 8),
        "{slices:?}"
    );
    assert_eq!(
        slices.iter().filter(|(name, ..)| name == "irq 9").count(),
        1,
        "{slices:?}"
    );
}

#[test]
fn damage_ends_the_slices_of_its_own_cpu_only() {
    let mut made = Made::new("damage");
    made.switch(0, US, by(0, IDLE), (11, 1));
    made.switch(1, US, by(0, IDLE), (12, 1));
    made.event(0, 2 * US, Mark { id: 1, value: 0 });
    made.event(1, 8 * US, Mark { id: 1, value: 0 });
    let trace = made.finish();
    let stream = trace.join("events_0");
    let mut bytes = std::fs::read(&stream).unwrap();
    bytes.extend([0xa5; 100]);
    std::fs::write(&stream, bytes).unwrap();
    let packets = exported(trace, "damage");
    let ends = |name: &str| {
        let of_name = |(have, _, end): (String, u64, u64)| (have == name).then_some(end);
        packets.slices().into_iter().find_map(of_name)
    };
    assert!(ends("thread 11") < Some(8 * US), "{:?}", packets.slices());
    assert_eq!(ends("thread 12"), Some(8 * US), "{:?}", packets.slices());
}

#[test]
fn waits_that_fail_or_never_end_close_their_arrows() {
    let (lock, kind) = LOCK;
    let mut made = Made::new("waits");
    made.switch(0, US, by(0, IDLE), (11, 1));
    made.switch(1, US, by(0, IDLE), (12, 1));
    made.switch(2, US, by(0, IDLE), (13, 1));
    made.event(
        0,
        2 * US,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.event(
        1,
        3 * US,
        LockWait {
            lock,
            owner_tid: Tid(11),
            kind,
        },
    );
    made.event(
        2,
        4 * US,
        LockWait {
            lock,
            owner_tid: Tid(11),
            kind,
        },
    );
    made.event(0, 5 * US, LockReleased { lock, kind });
    made.event(
        1,
        6 * US,
        LockFailed {
            lock,
            error: 4,
            kind,
        },
    );
    // Another thread acquires and releases it, while 13 waits until the trace ends.
    made.event(
        0,
        7 * US,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.event(0, 8 * US, LockReleased { lock, kind });
    made.event(
        0,
        9 * US,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.event(0, 9 * US, LockReleased { lock, kind });
    let packets = perfetto(&mut made, "waits");
    let held: Vec<_> = packets
        .slices()
        .into_iter()
        .filter(|(name, ..)| name == "lock 0xbeef")
        .collect();
    let times: Vec<_> = held
        .iter()
        .map(|&(_, from, to)| (from / US, to / US))
        .collect();
    assert_eq!(times, [(2, 5), (3, 6), (7, 8), (9, 9), (4, 9)]);
    assert_eq!(packets.flows(), 2);
}

#[test]
fn ends_without_beginning_are_left_out_and_numbers_are_reused() {
    let mut made = Made::new("lives");
    made.event(
        0,
        0,
        ThreadName {
            tid: Tid(11),
            name: Text::new("first"),
        },
    );
    made.switch(0, US, by(0, IDLE), (11, 1));
    made.event(
        0,
        2 * US,
        SyscallExit {
            id: Syscall(4),
            ret: 0,
        },
    );
    made.event(0, 2 * US, IrqExit { irq: Irq(1) });
    made.event(0, 2 * US, SpanEnd { id: 1 });
    made.event(
        0,
        3 * US,
        ThreadExit {
            tid: Tid(11),
            pid: Pid(0),
            prev_state: ThreadState::Runnable,
        },
    );
    made.switch(0, 4 * US, by(11, ENDED), (0, 0));
    made.event(
        0,
        5 * US,
        ThreadCreate {
            tid: Tid(11),
            pid: Pid(6),
            parent_tid: Tid(0),
            prio: 1,
        },
    );
    made.wake(0, 6 * US, 11, 0);
    made.switch(0, 7 * US, by(0, IDLE), (11, 1));
    let packets = perfetto(&mut made, "lives");
    let text = packets.to_text();
    assert!(
        text.contains("thread 11 of 6 \"thread 11\"") && text.contains("\"first 11\""),
        "{text}"
    );
    assert!(
        packets
            .slices()
            .iter()
            .all(|(name, ..)| !name.contains("call") && !name.contains("irq")),
        "{text}"
    );
    let runs: Vec<_> = packets
        .slices()
        .into_iter()
        .filter(|(name, ..)| name == "running: CPU 0")
        .map(|(_, from, to)| (from, to))
        .collect();
    assert_eq!(runs, [(US, 4 * US), (4 * US, 7 * US), (7 * US, 7 * US)]);
}

/// Names that occur only once must not use ever more memory.
#[test]
fn tables_of_names_are_reset() {
    let mut made = Made::new("names");
    made.switch(0, US, by(0, IDLE), (11, 1));
    for id in 0..40_000 {
        made.event(0, 2 * US + u64::from(id), Mark { id, value: 0 });
    }
    let packets = perfetto(&mut made, "names");
    assert!(packets.resets() >= 3, "{}", packets.resets());
    assert!(packets.to_text().contains("\"mark 39999\""));
}
