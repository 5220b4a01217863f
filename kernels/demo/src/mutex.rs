//! Sleeping mutexes with priority inheritance: the owner has at least the priority of its waiters.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kymo::vocabulary::{
    LockAcquired, LockFailed, LockKind, LockName, LockReleased, LockStateDump, LockWait, Object,
    SwitchReason,
};
use kymo::{NameEpoch, Text};

use crate::queue::{Queue, Side};
use crate::sched::{SCHEDULER, Scheduler, settle, switch};
use crate::thread::{Slot, State};

const KIND: LockKind = LockKind::Mutex;
/// EBUSY.
const BUSY: i32 = 16;
const NO_INDEX: usize = usize::MAX;

/// The scheduler's state of a mutex.
#[derive(Debug)]
pub struct MutexState {
    /// The mutex that it belongs to; 0 for none.
    lock: Object,
    pub owner: Option<Slot>,
    pub waiters: Queue,
}

impl MutexState {
    pub const fn new() -> MutexState {
        MutexState {
            lock: Object(0),
            owner: None,
            waiters: Queue::new(),
        }
    }
}

/// A mutex for threads. Its name says what it protects.
#[derive(Debug)]
pub struct Mutex {
    name: &'static str,
    named: NameEpoch,
    /// Its index in the scheduler's table, from its first use on.
    index: AtomicUsize,
}

impl Mutex {
    /// A free one.
    pub const fn new(name: &'static str) -> Mutex {
        Mutex {
            name,
            named: NameEpoch::new(),
            index: AtomicUsize::new(NO_INDEX),
        }
    }

    fn object(&self) -> Object {
        Object(&raw const *self as u64)
    }

    fn index(&self, scheduler: &mut Scheduler) -> usize {
        let mut index = self.index.load(Relaxed);
        if index == NO_INDEX {
            index = scheduler
                .mutexes
                .iter()
                .position(|mutex| mutex.lock == Object(0))
                .expect("the table of mutexes has room");
            scheduler.mutexes[index].lock = self.object();
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

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_> {
        let mut scheduler = SCHEDULER.lock();
        let (index, me, lock) = (
            self.index(&mut scheduler),
            scheduler.running_slot(),
            self.object(),
        );
        let sched = &mut *scheduler;
        let mutex = &mut sched.mutexes[index];
        let Some(owner) = mutex.owner else {
            mutex.owner = Some(me);
            record!(LockAcquired {
                lock,
                kind: KIND,
                contended: false
            });
            return MutexGuard(self);
        };
        assert_ne!(
            owner, me,
            "a thread waits for a mutex that it has: {}",
            self.name
        );
        sched.tell_names(owner);
        record!(LockWait {
            lock,
            owner_tid: sched.threads[owner].tid,
            kind: KIND
        });
        let mutex = &mut sched.mutexes[index];
        mutex.waiters.insert(&mut sched.threads, me, Side::Behind);
        sched.threads[me].waits_for = Some(index);
        sched.inherit(owner, lock);
        switch(scheduler, SwitchReason::Waits, State::Blocked);
        // The previous owner handed it over.
        let scheduler = SCHEDULER.lock();
        debug_assert_eq!(scheduler.mutexes[index].owner, Some(me));
        record!(LockAcquired {
            lock,
            kind: KIND,
            contended: true
        });
        MutexGuard(self)
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_>> {
        let mut scheduler = SCHEDULER.lock();
        let (index, me, lock) = (
            self.index(&mut scheduler),
            scheduler.running_slot(),
            self.object(),
        );
        let mutex = &mut scheduler.mutexes[index];
        if mutex.owner.is_some() {
            record!(LockFailed {
                lock,
                error: BUSY,
                kind: KIND
            });
            return None;
        }
        mutex.owner = Some(me);
        record!(LockAcquired {
            lock,
            kind: KIND,
            contended: false
        });
        Some(MutexGuard(self))
    }

    /// Hands the mutex to the first waiter, if any, and returns the lent priority.
    fn unlock(&self) {
        let mut scheduler = SCHEDULER.lock();
        let (index, lock) = (self.index(&mut scheduler), self.object());
        record!(LockReleased { lock, kind: KIND });
        let sched = &mut *scheduler;
        let (me, tid) = (sched.running_slot(), sched.running().tid);
        let mutex = &mut sched.mutexes[index];
        mutex.owner = mutex.waiters.pop(&mut sched.threads);
        if let Some(next) = mutex.owner {
            sched.threads[next].waits_for = None;
            sched.wake(next, tid);
        }
        sched.inherit(me, lock);
        settle(scheduler);
    }
}

impl Scheduler {
    /// Records which mutexes are held, and by whom.
    pub fn dump_mutexes(&self) {
        for mutex in &self.mutexes {
            if let Some(owner) = mutex.owner {
                record!(LockStateDump {
                    lock: mutex.lock,
                    owner_tid: self.threads[owner].tid,
                    kind: KIND
                });
            }
        }
    }
}

/// A mutex that is held.
#[derive(Debug)]
pub struct MutexGuard<'a>(&'a Mutex);

impl Drop for MutexGuard<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
