//! The changes of a process's fork and exit.

use kymo::Tid;
use kymo::vocabulary::{
    Pid, ProcessExit, ProcessFork, SwitchReason, ThreadCreate, ThreadExit, ThreadState,
};
use kymo_ctf::Trace;
use kymo_machine::{Change, Machine};
use kymo_made::{Made, US};

/// The changes of a trace.
fn changes(made: &mut Made) -> Vec<Change> {
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let (mut reader, mut machine, mut all) = (map.read(), Machine::new(), Vec::new());
    while let Some(item) = reader.next() {
        machine.add(&item);
        all.extend_from_slice(machine.changes());
    }
    all
}

/// Thread 7 forks process 9, and process 9 is killed while it waits. A kernel with threads records
/// their creation and end too.
fn life(name: &str, has_threads: bool) -> Vec<Change> {
    let mut made = Made::new(name);
    let (tid, pid) = (Tid(9), Pid(9));
    let waits = (ThreadState::Blocked, SwitchReason::Waits);
    made.switch(0, 0, (0, ThreadState::Runnable, SwitchReason::Idle), (7, 1));
    if has_threads {
        let (parent_tid, prio) = (Tid(7), 1);
        made.event(
            0,
            US,
            ThreadCreate {
                tid,
                pid,
                parent_tid,
                prio,
            },
        );
    }
    made.event(
        0,
        US,
        ProcessFork {
            parent_tid: Tid(7),
            parent_pid: Pid(7),
            child_tid: tid,
            child_pid: pid,
        },
    );
    made.switch(0, 2 * US, (7, waits.0, waits.1), (9, 1));
    made.switch(0, 3 * US, (9, waits.0, waits.1), (7, 1));
    let status = -1;
    made.event(0, 4 * US, ProcessExit { tid, pid, status });
    if has_threads {
        let prev_state = ThreadState::Blocked;
        made.event(
            0,
            4 * US,
            ThreadExit {
                tid,
                pid,
                prev_state,
            },
        );
    }
    changes(&mut made)
}

#[test]
fn a_process_begins_and_ends_once() {
    for (name, has_threads) in [("fork-alone", false), ("fork-and-thread", true)] {
        let changes = life(name, has_threads);
        let count =
            |what: fn(&Change) -> bool| changes.iter().filter(|change| what(change)).count();
        let counts = [
            count(|change| matches!(change, Change::Created { .. })),
            count(|change| {
                matches!(
                    change,
                    Change::Forked {
                        parent: Some(7),
                        pid: 9,
                        thread: Some(_)
                    }
                )
            }),
            count(|change| matches!(change, Change::Ended { .. })),
            count(|change| {
                matches!(
                    change,
                    Change::ProcessEnded {
                        pid: 9,
                        thread: Some(_)
                    }
                )
            }),
        ];
        assert_eq!(counts, [1; 4], "{name}: {changes:?}");
    }
}
