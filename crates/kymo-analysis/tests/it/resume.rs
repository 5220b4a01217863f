//! A clone of the machine resumes as the original goes on.

use kymo::vocabulary::{
    IrqEnter, IrqExit, LockAcquired, LockKind, LockReleased, LockWait, Object, SwitchReason,
    SyscallEnter, SyscallExit, ThreadName, ThreadState,
};
use kymo::{Irq, Text, Tid};
use kymo_ctf::Trace;
use kymo_machine::{Change, Machine};
use kymo_made::{Made, US};

/// Two CPUs with nested switches, calls, interrupts and locks.
fn scene() -> Made {
    let mut made = Made::new("resume");
    let waits = (ThreadState::Blocked, SwitchReason::Waits);
    for round in 0..40u64 {
        let t = (1 + round * 20) * US;
        for cpu in 0..2u32 {
            let (a, b) = (1 + cpu * 10, 2 + cpu * 10);
            let name = Text::new(if a > 9 { "right" } else { "left" });
            made.event(cpu, t, ThreadName { tid: Tid(a), name });
            made.switch(cpu, t + US, (b, waits.0, waits.1), (a, 3));
            made.event(
                cpu,
                t + 2 * US,
                SyscallEnter {
                    id: kymo::vocabulary::Syscall(4),
                    arg0: 0,
                },
            );
            let (lock, kind) = (Object(0x1000), LockKind::Mutex);
            made.event(
                cpu,
                t + 3 * US,
                LockWait {
                    lock,
                    owner_tid: Tid(b),
                    kind,
                },
            );
            made.event(cpu, t + 4 * US, IrqEnter { irq: Irq(7) });
            made.wake(cpu, t + 5 * US, b, 0);
            made.event(cpu, t + 6 * US, IrqExit { irq: Irq(7) });
            made.event(
                cpu,
                t + 7 * US,
                LockAcquired {
                    lock,
                    kind,
                    contended: true,
                },
            );
            made.event(cpu, t + 8 * US, LockReleased { lock, kind });
            made.event(
                cpu,
                t + 9 * US,
                SyscallExit {
                    id: kymo::vocabulary::Syscall(4),
                    ret: 0,
                },
            );
            made.switch(cpu, t + 10 * US, (a, waits.0, waits.1), (b, 3));
        }
    }
    made
}

#[test]
fn a_clone_goes_on_as_the_original() {
    let mut made = scene();
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let mut whole: Vec<Vec<Change>> = Vec::new();
    let mut saved = Vec::new();
    let (mut reader, mut machine) = (map.read(), Machine::new());
    while let Some(item) = reader.next() {
        if whole.len().is_multiple_of(97) {
            saved.push((whole.len(), machine.clone()));
        }
        machine.add(&item);
        whole.push(machine.changes().to_vec());
    }
    assert!(saved.len() > 5 && whole.iter().flatten().count() > 1000);
    for (at, mut machine) in saved {
        let (mut reader, mut place) = (map.read(), 0);
        while let Some(item) = reader.next() {
            if place >= at {
                machine.add(&item);
                assert_eq!(
                    machine.changes(),
                    whole[place],
                    "resumed at {at}, item {place}"
                );
            }
            place += 1;
        }
    }
}
