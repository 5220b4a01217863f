//! Time off CPU and waits for locks, of made traces.

use kymo::event::Event;
use kymo::vocabulary::{
    Address, ChainEnd, EventStack, LockAcquired, LockKind, LockName, LockReleased, LockWait,
    Object, SchedSwitch, SwitchReason, Syscall, SyscallEnter, SyscallName, ThreadName, ThreadState,
    Tid,
};
use kymo::{ChannelKind, Sequence, Text};
use kymo_ctf::Trace;
use kymo_made::{Made, US};
use kymo_profile::{By, Profile, Unit, WaitKind, Waits};

const LOCK: Object = Object(0x10);
const KIND: LockKind = LockKind::Mutex;

fn stack(event: u32, tid: u32, ip: u64) -> EventStack {
    EventStack {
        event,
        ip: Address(ip + 1),
        tid: Tid(tid),
        kernel_callers: 0,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Absent,
        callchain: Sequence::new(&[]),
    }
}

fn profile(made: &mut Made, kind: WaitKind, selected: impl Fn(u64) -> bool + Copy) -> Profile {
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let (mut reader, mut waits) = (map.read(), Waits::new(kind));
    while let Some(item) = reader.next() {
        waits.add(&item, selected);
    }
    waits.finish(selected).symbolize(|_| [])
}

/// Thread 1 has the lock from 1 to 9 us; 2 waits for it from 3 us on, and leaves its CPU at 4 us.
/// At the end of the trace, at 20 us, thread 1 sleeps since 10 us.
fn made(name: &str) -> Made {
    let mut made = Made::with_samples(name);
    let names = [(1, "owner"), (2, "waiter")];
    for (tid, name) in names {
        made.event(
            0,
            0,
            ThreadName {
                tid: Tid(tid),
                name: Text::from(name),
            },
        );
    }
    made.event(
        0,
        0,
        LockName {
            lock: LOCK,
            kind: KIND,
            name: Text::from("inode"),
        },
    );
    made.event(
        0,
        0,
        SyscallName {
            id: Syscall(7),
            name: Text::from("write"),
        },
    );
    let (ready, idle) = (ThreadState::Runnable, SwitchReason::Idle);
    made.switch(0, 0, (0, ready, idle), (1, 0));
    made.switch(1, 0, (0, ready, idle), (2, 0));
    made.event(
        0,
        US,
        LockAcquired {
            lock: LOCK,
            kind: KIND,
            contended: false,
        },
    );
    made.event(
        1,
        2 * US,
        SyscallEnter {
            id: Syscall(7),
            arg0: 0,
        },
    );
    made.event(
        1,
        3 * US,
        LockWait {
            lock: LOCK,
            owner_tid: Tid(1),
            kind: KIND,
        },
    );
    made.event(1, 3 * US + 1, stack(LockWait::ID, 2, 0x100));
    made.switch(
        1,
        4 * US,
        (2, ThreadState::Blocked, SwitchReason::Waits),
        (0, 0),
    );
    made.event(1, 4 * US + 1, stack(SchedSwitch::ID, 2, 0x200));
    // A loss of samples hides no switch.
    made.lose_of(ChannelKind::Samples, 1, 3, 5 * US);
    made.event(1, 6 * US, stack(0, 0, 0x300));
    made.event(
        0,
        9 * US,
        LockReleased {
            lock: LOCK,
            kind: KIND,
        },
    );
    made.wake(0, 9 * US, 2, 1);
    made.switch(
        0,
        10 * US,
        (1, ThreadState::Sleeping, SwitchReason::Waits),
        (0, 0),
    );
    made.switch(1, 12 * US, (0, ready, idle), (2, 0));
    made.event(
        1,
        13 * US,
        LockAcquired {
            lock: LOCK,
            kind: KIND,
            contended: true,
        },
    );
    made.switch(1, 20 * US, (2, ready, SwitchReason::Preempted), (0, 0));
    made
}

#[test]
fn time_off_cpu_has_thread_reason_system_call_and_stack() {
    let profile = profile(&mut made("waits-off-cpu"), WaitKind::OffCpu, |_| true);
    assert_eq!(profile.unit, Unit::Nanoseconds);
    // Until it was woken: the rest is the scheduler's.
    assert_eq!(
        profile.folded(By::Nothing),
        "owner (1);asleep 10000\nwaiter (2);waits for lock inode;in write;0x200 5000\n"
    );
}

#[test]
fn waits_for_locks_have_lock_waiter_owner_and_stack() {
    let made = || made("waits-locks");
    let of = |tid: u64| profile(&mut made(), WaitKind::Locks, move |of| of == tid);
    assert_eq!(
        of(2).folded(By::Nothing),
        "lock inode;waiter waiter (2);owner owner (1);0x100 10000\n"
    );
    assert_eq!(of(1).rows, []);
}

/// A thread that slept all the time is only counted: its wait would be as wide as the trace.
#[test]
fn threads_that_wait_throughout_are_left_out() {
    let mut made = Made::new("waits-throughout");
    let idle = (0, ThreadState::Runnable, SwitchReason::Idle);
    made.switch(0, US, idle, (5, 0));
    let sleeps = (5, ThreadState::Sleeping, SwitchReason::Waits);
    made.switch(0, 2 * US, sleeps, (0, 0));
    made.switch(0, 30 * US, idle, (7, 0));
    let sleeps = (7, ThreadState::Sleeping, SwitchReason::Waits);
    made.switch(0, 40 * US, sleeps, (0, 0));
    made.event(0, 100 * US, kymo::vocabulary::Mark { id: 1, value: 0 });
    let profile = profile(&mut made, WaitKind::OffCpu, |_| true);
    assert_eq!(profile.folded(By::Nothing), "thread (7);asleep 60000\n");
    assert_eq!(profile.totals.throughout, 1);
}
