//! Locks: waits, holds, waiters and owners.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kymo::event::Enumeration as _;
use kymo_machine::ThreadId;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{Durations, End, ThreadRef};
use crate::histogram::Histogram;

/// A lock.
#[derive(Clone, Debug, Serialize)]
pub struct Lock {
    /// Its number or address.
    pub lock: u64,
    /// Its name.
    pub name: Option<String>,
    /// Number of locks that the row adds up: those of this name in
    /// [`Report::locks_by_name`](super::Report::locks_by_name), otherwise 1.
    pub alike: u64,
    /// Its kind.
    pub kind: Option<String>,
    /// Number of acquisitions.
    pub acquired: u64,
    /// Number of acquisitions after a wait.
    pub contended: u64,
    /// Number of failed attempts.
    pub failed: u64,
    /// Waits, successful or not.
    pub wait: Durations,
    /// Hold times. Semaphores have none.
    pub hold: Durations,
    /// Waiting threads, longest total first.
    pub waiters: Vec<Waiter>,
    /// The longest wait.
    pub longest_wait: Option<LongestWait>,
}

/// A thread that waited for a lock.
#[derive(Clone, Debug, Serialize)]
pub struct Waiter {
    /// The thread; `None` if unknown. Of several, the one that waited longest.
    pub thread: Option<ThreadRef>,
    /// Number of threads that the row adds up: those of this name in
    /// [`Report::locks_by_name`](super::Report::locks_by_name), otherwise 1.
    pub alike: u64,
    /// Number of waits.
    pub count: u64,
    /// Total wait.
    pub total_ns: u64,
    /// Longest wait.
    pub max_ns: u64,
}

/// The longest wait for a lock. Whether larger priorities are more urgent depends on the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct LongestWait {
    /// Its length.
    pub ns: u64,
    /// Time of its begin.
    pub begin_ns: i64,
    /// Time of its end.
    pub end_ns: i64,
    /// The thread that waited.
    pub waiter: Option<ThreadRef>,
    /// Its priority.
    pub waiter_priority: Option<i64>,
    /// The lock's owner when the wait began.
    pub owner: Option<ThreadRef>,
    /// The owner's priority when the wait began.
    pub owner_priority: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    acquired: u64,
    contended: u64,
    failed: u64,
    waits: Histogram,
    holds: Histogram,
    /// Number, total and maximum of the waits.
    waiters: BTreeMap<Option<ThreadId>, (u64, u64, u64)>,
    longest: Option<Longest>,
}

#[derive(Clone, Debug)]
pub(crate) struct Longest {
    pub(crate) duration: u64,
    pub(crate) since: i64,
    pub(crate) until: i64,
    pub(crate) waiter: Option<ThreadId>,
    pub(crate) waiter_prio: Option<i64>,
    pub(crate) owner: Option<ThreadId>,
    pub(crate) owner_prio: Option<i64>,
}

impl State {
    pub(crate) fn waited(&mut self, wait: Longest) {
        self.waits.add(wait.duration);
        let (count, sum, max) = self.waiters.entry(wait.waiter).or_default();
        *count += 1;
        *sum = sum.saturating_add(wait.duration);
        *max = wait.duration.max(*max);
        let longest = self.longest.as_ref().map(|longest| longest.duration);
        if longest.is_none_or(|longest| longest < wait.duration) {
            self.longest = Some(wait);
        }
    }

    pub(crate) fn acquired(&mut self, contended: bool) {
        self.acquired += 1;
        self.contended += u64::from(contended);
    }

    pub(crate) fn failed(&mut self) {
        self.failed += 1;
    }

    pub(crate) fn released(&mut self, held: u64) {
        self.holds.add(held);
    }

    /// Adds the figures of another lock.
    fn absorb(&mut self, other: &State) {
        self.acquired += other.acquired;
        self.contended += other.contended;
        self.failed += other.failed;
        self.waits.merge(&other.waits);
        self.holds.merge(&other.holds);
        for (thread, &(count, total, longest)) in &other.waiters {
            let (waits, sum, max) = self.waiters.entry(*thread).or_default();
            *waits += count;
            *sum = sum.saturating_add(total);
            *max = longest.max(*max);
        }
        let length = |of: &Option<Longest>| of.as_ref().map(|longest| longest.duration);
        if length(&other.longest) > length(&self.longest) {
            self.longest.clone_from(&other.longest);
        }
    }
}

/// Each lock's figures.
#[derive(Debug, Default)]
pub(crate) struct Locks(FxHashMap<u64, State>);

impl Locks {
    #[inline]
    pub(crate) fn of(&mut self, lock: u64) -> &mut State {
        self.0.entry(lock).or_default()
    }

    /// Each lock, and the locks with locks of the same name added up.
    pub(crate) fn finish(&self, end: &End<'_>) -> (Vec<Lock>, Vec<Lock>) {
        let locks = self.0.iter().map(|(&lock, state)| row(lock, state, end));
        let mut locks: Vec<Lock> = locks.collect();
        let order = |lock: &Lock| (Reverse(lock.wait.max_ns), lock.lock);
        locks.sort_by_key(order);
        let mut names: BTreeMap<&str, Vec<&Lock>> = BTreeMap::new();
        let mut by_name = Vec::new();
        for lock in &locks {
            match &lock.name {
                Some(name) => names.entry(name).or_default().push(lock),
                None => by_name.push(lock.clone()),
            }
        }
        by_name.extend(names.values().map(|alike| self.sum(alike, end)));
        by_name.sort_by_key(order);
        (locks, by_name)
    }

    /// Locks of one name as one row, which has the number of the first.
    fn sum(&self, alike: &[&Lock], end: &End<'_>) -> Lock {
        let mut sum = State::default();
        let first = alike.first().map_or(0, |lock| lock.lock);
        for lock in alike {
            if let Some(state) = self.0.get(&lock.lock) {
                sum.absorb(state);
            }
        }
        let mut row = row(first, &sum, end);
        row.alike = alike.len() as u64;
        if alike.iter().any(|lock| lock.kind != row.kind) {
            row.kind = None;
        }
        fold_waiters(&mut row.waiters);
        row
    }

    pub(crate) fn live(&self) -> usize {
        let of =
            |state: &State| 1 + state.waits.buckets() + state.holds.buckets() + state.waiters.len();
        self.0.values().map(of).sum()
    }
}

/// Makes one row of the threads of each name.
fn fold_waiters(waiters: &mut Vec<Waiter>) {
    let mut folded: Vec<Waiter> = Vec::new();
    for waiter in waiters.drain(..) {
        let name = |of: &Waiter| of.thread.as_ref().and_then(|thread| thread.name.clone());
        let known = name(&waiter).and_then(|called| {
            let mut rows = folded.iter_mut();
            rows.find(|row| name(row).as_ref() == Some(&called))
        });
        match known {
            Some(row) => {
                row.alike += waiter.alike;
                row.count += waiter.count;
                row.total_ns = row.total_ns.saturating_add(waiter.total_ns);
                row.max_ns = row.max_ns.max(waiter.max_ns);
            }
            None => folded.push(waiter),
        }
    }
    folded.sort_by_key(|waiter| Reverse(waiter.total_ns));
    *waiters = folded;
}

fn row(lock: u64, state: &State, end: &End<'_>) -> Lock {
    let thread = |id: ThreadId| ThreadRef::of(end.machine, id);
    let waiters = state.waiters.iter();
    let waiters = waiters.map(|(&id, &(count, total_ns, max_ns))| Waiter {
        thread: id.and_then(thread),
        alike: 1,
        count,
        total_ns,
        max_ns,
    });
    let mut waiters: Vec<Waiter> = waiters.collect();
    waiters.sort_by_key(|waiter| Reverse(waiter.total_ns));
    let kind = end.machine.lock_kind(lock);
    Lock {
        lock,
        name: end.machine.lock_called(lock).map(|name| name.to_string()),
        alike: 1,
        kind: kind.map(|kind| kind.label().to_lowercase()),
        acquired: state.acquired,
        contended: state.contended,
        failed: state.failed,
        wait: Durations::of(&state.waits),
        hold: Durations::of(&state.holds),
        waiters,
        longest_wait: state.longest.as_ref().map(|longest| LongestWait {
            ns: longest.duration,
            begin_ns: longest.since,
            end_ns: longest.until,
            waiter: longest.waiter.and_then(thread),
            waiter_priority: longest.waiter_prio,
            owner: longest.owner.and_then(thread),
            owner_priority: longest.owner_prio,
        }),
    }
}
