//! Memory does not grow with the length of the trace.

use kymo::vocabulary::{
    Address, FaultCause, Irq, IrqEnter, IrqExit, LockAcquired, LockKind, LockReleased, LockWait,
    Object, PageFault, SwitchReason, Syscall, SyscallEnter, SyscallExit, ThreadState, Tid,
};
use kymo_analysis::{Analysis, Expectations, Judge};
use kymo_ctf::{ItemRef, Trace};
use kymo_made::{MS, Made, US};

/// The list of losses is full after this round. Further losses would only clear the open state.
const LOSSES_UNTIL: u64 = 1_200;

/// Two threads take turns, with a lock, an interrupt, a system call and a fault in every round.
/// Some locks are not released, some handlers and system calls do not end, and every tenth early
/// round has a loss.
fn state_after(rounds: u64) -> (usize, u64) {
    let mut made = Made::new(&format!("memory-{rounds}"));
    for round in 0..rounds {
        let t = round * MS;
        let (a, b) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        made.event(
            0,
            t,
            SyscallEnter {
                id: Syscall(4),
                arg0: 0,
            },
        );
        made.event(
            0,
            t + US,
            LockWait {
                lock: Object(0x10),
                owner_tid: Tid(b),
                kind: LockKind::Mutex,
            },
        );
        made.event(
            0,
            t + 2 * US,
            LockAcquired {
                lock: Object(0x10),
                kind: LockKind::Mutex,
                contended: true,
            },
        );
        made.event(0, t + 3 * US, IrqEnter { irq: Irq(5) });
        if round % 3 != 0 {
            made.event(0, t + 4 * US, IrqExit { irq: Irq(5) });
        }
        made.event(
            0,
            t + 5 * US,
            PageFault {
                address: Address(t),
                ip: Address(t),
                cause: FaultCause::Load,
                user: true,
            },
        );
        if round % 5 != 0 {
            made.event(
                0,
                t + 6 * US,
                LockReleased {
                    lock: Object(0x10),
                    kind: LockKind::Mutex,
                },
            );
            made.event(
                0,
                t + 7 * US,
                SyscallExit {
                    id: Syscall(4),
                    ret: 0,
                },
            );
        }
        made.wake(0, t + 8 * US, b, a);
        if round % 10 == 9 && round < LOSSES_UNTIL {
            made.lose(0, 3, t + 9 * US);
        }
        made.switch(
            0,
            t + 9 * US,
            (a, ThreadState::Blocked, SwitchReason::Waits),
            (b, 0),
        );
    }
    let trace = Trace::open(made.finish()).unwrap();
    let mut analysis = Analysis::new(trace.metadata());
    // All of them fail with violations, and some wait for a name that never comes.
    let expectations = Expectations::parse(
        "expect = [
            { event = 'page_fault', at_most = 10 },
            { event = { is = 'sched_wakeup', tid = 'nobody' }, count = 0 },
            { order = ['sys_enter', { is = 'sched_switch', prev_tid = 'nobody', next_tid = 'nobody' }] },
            { duration = 'interrupt', max = '1 ns' },
            { duration = 'off_cpu', of = { thread = 'nobody' }, max = '1 ns' },
            { losses = 'events', count = 0 },
        ]",
    );
    let mut judge = Judge::new(expectations.unwrap(), trace.metadata()).unwrap();
    let mut most = 0;
    let map = trace.map();
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        assert!(!matches!(item, ItemRef::Problem(_)));
        analysis.add(&item);
        judge.add(&item, &analysis);
        most = most.max(analysis.live_state() + judge.live_state());
    }
    assert!(
        judge
            .finish(&[])
            .iter()
            .all(|verdict| !verdict.holds && verdict.found.len() <= 10)
    );
    (most, analysis.finish().events)
}

#[test]
fn state_does_not_grow_with_the_trace() {
    let (short, few) = state_after(2_000);
    let (long, many) = state_after(20_000);
    assert!(many > 9 * few, "{few} {many}");
    assert!(
        long <= short,
        "{short} things after {few} events, {long} after {many}"
    );
}
