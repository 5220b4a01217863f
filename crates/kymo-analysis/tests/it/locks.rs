//! Who had a lock when somebody began to wait for it.

use kymo::vocabulary::{
    LockAcquired, LockKind, LockReleased, LockWait, Object, SwitchReason, ThreadState, Tid,
};
use kymo_ctf::Trace;
use kymo_machine::{Change, Machine};
use kymo_made::{Made, US};

/// Numbers of the owners of the waits that ended.
fn owners(made: &mut Made) -> Vec<Option<u64>> {
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let (mut reader, mut machine, mut all) = (map.read(), Machine::new(), Vec::new());
    while let Some(item) = reader.next() {
        machine.add(&item);
        for change in machine.changes() {
            if let Change::LockWaited { owner, .. } = change {
                let owner = owner.and_then(|id| machine.thread(id));
                all.push(owner.map(|thread| thread.tid));
            }
        }
    }
    all
}

/// Thread 1 has the lock; 2 waits for it, and does not know who has it.
#[test]
fn an_unknown_owner_is_the_thread_that_acquired_the_lock() {
    for unknown in [Tid(0), Tid::UNKNOWN] {
        let mut made = Made::new(&format!("unknown-owner-{}", unknown.0));
        let (lock, kind) = (Object(0x10), LockKind::Mutex);
        let acquired = |contended| LockAcquired {
            lock,
            kind,
            contended,
        };
        let waits = (ThreadState::Blocked, SwitchReason::Waits);
        made.switch(0, 0, (0, ThreadState::Runnable, SwitchReason::Idle), (1, 0));
        made.event(0, US, acquired(false));
        made.switch(0, 2 * US, (1, waits.0, waits.1), (2, 0));
        let owner_tid = unknown;
        let wait = LockWait {
            lock,
            owner_tid,
            kind,
        };
        made.event(0, 3 * US, wait);
        made.switch(0, 4 * US, (2, waits.0, waits.1), (1, 0));
        made.event(0, 5 * US, LockReleased { lock, kind });
        made.switch(0, 6 * US, (1, waits.0, waits.1), (2, 0));
        made.event(0, 7 * US, acquired(true));
        assert_eq!(owners(&mut made), [Some(1)], "{unknown:?}");
    }
}
