//! Counting semaphores.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kymo::vocabulary::{
    LockAcquired, LockKind, LockName, LockReleased, LockWait, Object, SwitchReason,
};
use kymo::{NameEpoch, Text, Tid};

use crate::queue::{Queue, Side};
use crate::sched::{SCHEDULER, Scheduler, settle, switch};
use crate::thread::State;

const KIND: LockKind = LockKind::Semaphore;
const NO_INDEX: usize = usize::MAX;

/// The scheduler's state of a semaphore.
#[derive(Debug)]
pub struct SemaphoreState {
    used: bool,
    count: u32,
    waiters: Queue,
}

impl SemaphoreState {
    pub const fn new() -> SemaphoreState {
        SemaphoreState {
            used: false,
            count: 0,
            waiters: Queue::new(),
        }
    }
}

/// A semaphore for threads.
#[derive(Debug)]
pub struct Semaphore {
    name: &'static str,
    named: NameEpoch,
    first: u32,
    /// Its index in the scheduler's table, from its first use on.
    index: AtomicUsize,
}

impl Semaphore {
    /// A semaphore with this initial count.
    pub const fn new(name: &'static str, count: u32) -> Semaphore {
        Semaphore {
            name,
            named: NameEpoch::new(),
            first: count,
            index: AtomicUsize::new(NO_INDEX),
        }
    }

    fn object(&self) -> Object {
        Object(&raw const *self as u64)
    }

    fn index(&self, scheduler: &mut Scheduler) -> usize {
        let mut index = self.index.load(Relaxed);
        if index == NO_INDEX {
            let free = scheduler
                .semaphores
                .iter()
                .position(|semaphore| !semaphore.used);
            index = free.expect("the table of semaphores has room");
            scheduler.semaphores[index] = SemaphoreState {
                used: true,
                count: self.first,
                waiters: Queue::new(),
            };
            self.index.store(index, Relaxed);
        }
        name!(
            self.named,
            LockName {
                lock: self.object(),
                kind: KIND,
                name: Text::new(self.name)
            }
        );
        index
    }

    /// Decrements the count, or waits.
    pub fn down(&self) {
        let mut scheduler = SCHEDULER.lock();
        let (index, me, lock) = (
            self.index(&mut scheduler),
            scheduler.running_slot(),
            self.object(),
        );
        let sched = &mut *scheduler;
        let semaphore = &mut sched.semaphores[index];
        if semaphore.count > 0 {
            semaphore.count -= 1;
            record!(LockAcquired {
                lock,
                kind: KIND,
                contended: false
            });
            return;
        }
        record!(LockWait {
            lock,
            owner_tid: Tid(0),
            kind: KIND
        });
        semaphore
            .waiters
            .insert(&mut sched.threads, me, Side::Behind);
        switch(scheduler, SwitchReason::Waits, State::Blocked);
        // `up` passed it to this thread without counting it.
        let _masked = SCHEDULER.lock();
        record!(LockAcquired {
            lock,
            kind: KIND,
            contended: true
        });
    }

    /// Wakes the first waiter, or increments the count.
    pub fn up(&self) {
        let mut scheduler = SCHEDULER.lock();
        let tid = scheduler.running().tid;
        self.give(&mut scheduler, tid);
        settle(scheduler);
    }

    /// [`up`](Self::up) in an interrupt handler: the waiter runs when that ends.
    pub fn up_from_interrupt(&self) {
        self.give(&mut SCHEDULER.lock(), Tid(0));
    }

    fn give(&self, sched: &mut Scheduler, waker: Tid) {
        let (index, lock) = (self.index(sched), self.object());
        record!(LockReleased { lock, kind: KIND });
        match sched.semaphores[index].waiters.pop(&mut sched.threads) {
            Some(waiter) => sched.wake(waiter, waker),
            None => sched.semaphores[index].count += 1,
        }
    }
}
