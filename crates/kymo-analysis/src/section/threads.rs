//! The states of each thread, and their durations.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kymo::event::Enumeration as _;
use kymo_machine::{Doing, ThreadId, passed};
use serde::Serialize;

use super::{CpuUse, Durations, End, PerThread, groups, percent};
use crate::histogram::Histogram;

/// Time blocked for a lock.
#[derive(Clone, Debug, Serialize)]
pub struct LockBlock {
    /// The lock.
    pub lock: u64,
    /// Its name.
    pub name: Option<String>,
    /// Total time.
    pub ns: u64,
}

/// A thread. Its times, `unknown_ns` included, add up to its life in the trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Thread {
    /// Its process.
    pub pid: Option<u64>,
    /// Its number.
    pub tid: u64,
    /// Its CPU, for a thread 0: every CPU has one.
    pub cpu: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Number of threads that the row adds up: those of this name in
    /// [`Report::threads_by_name`](super::Report::threads_by_name), otherwise 1.
    pub alike: u64,
    /// Its last priority, in the kernel's numbering.
    pub priority: Option<i64>,
    /// Whether it is an idle thread.
    pub idle: bool,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// `cpu_ns` in percent of all CPUs' known time.
    pub share_percent: f64,
    /// Time ready to run, but not on a CPU.
    pub runnable_ns: u64,
    /// Time blocked, on a lock or anything else.
    pub blocked_ns: u64,
    /// The part of `blocked_ns` for locks: off CPU between `lock_wait` and `lock_acquired`. Longest
    /// first.
    pub blocked_on: Vec<LockBlock>,
    /// Time spent waiting for a point in time.
    pub sleeping_ns: u64,
    /// Time suspended.
    pub suspended_ns: u64,
    /// Time in an unknown state.
    pub unknown_ns: u64,
    /// Number of switches away from it by reason, or by its next state if the trace has no reasons.
    pub switches: BTreeMap<String, u64>,
    /// From wake-up until it ran.
    pub wake_latency: Durations,
    /// Its state at the end of the trace.
    pub last_state: String,
}

#[derive(Debug, Default)]
struct State {
    ran: u64,
    runnable: u64,
    sleeping: u64,
    suspended: u64,
    /// Blocked on anything but a lock.
    blocked: u64,
    blocked_on: BTreeMap<u64, u64>,
    wakes: Histogram,
    switches: BTreeMap<&'static str, u64>,
}

impl State {
    /// Total time in known states, in nanoseconds.
    fn known(&self) -> u64 {
        self.ran + self.runnable + self.sleeping + self.suspended + self.blocked + self.for_locks()
    }

    fn for_locks(&self) -> u64 {
        self.blocked_on.values().sum()
    }
}

/// Each thread's time by state.
#[derive(Debug, Default)]
pub(crate) struct Threads(PerThread<State>);

impl Threads {
    /// A thread was in this state for `time` nanoseconds.
    #[inline]
    pub(crate) fn did(&mut self, thread: ThreadId, was: Doing, time: u64) {
        let state = self.0.get(thread);
        match was {
            Doing::Running(_) => state.ran += time,
            Doing::Runnable => state.runnable += time,
            Doing::Sleeping => state.sleeping += time,
            Doing::Suspended => state.suspended += time,
            Doing::Blocked(None) => state.blocked += time,
            // The wait begins where the reported part ends: the part has none of it.
            Doing::Blocked(Some(_)) if time == 0 => {}
            Doing::Blocked(Some(lock)) => *state.blocked_on.entry(lock).or_default() += time,
            _ => {}
        }
    }

    /// A thread left a CPU.
    pub(crate) fn left(&mut self, thread: ThreadId, why: &'static str) {
        *self.0.get(thread).switches.entry(why).or_default() += 1;
    }

    /// A woken thread ran after `latency` nanoseconds.
    pub(crate) fn woke(&mut self, thread: ThreadId, latency: u64) {
        self.0.get(thread).wakes.add(latency);
    }

    /// Each thread, and the threads with threads of the same name added up.
    pub(crate) fn finish(&self, cpus: &[CpuUse], end: &End<'_>) -> (Vec<Thread>, Vec<Thread>) {
        let known = cpus.iter().fold(0, |sum: u64, cpu| {
            sum.saturating_add(cpu.busy_ns + cpu.idle_ns)
        });
        let nothing = State::default();
        let threads = end.machine.threads().iter().enumerate();
        let threads = threads.filter(|(_, thread)| end.part.has_thread(thread.tid));
        let threads = threads.map(|(place, thread)| {
            let state = self.0.at(place).unwrap_or(&nothing);
            (row(thread, state, known, end), &state.wakes)
        });
        // Of some CPUs, only the threads that were there.
        let threads = threads.filter(|(thread, _)| {
            end.part.cpus.is_empty() || thread.cpu_ns > 0 || !thread.switches.is_empty()
        });
        let mut threads: Vec<(Thread, &Histogram)> = threads.collect();
        let order = |thread: &Thread| (thread.idle, Reverse(thread.cpu_ns), thread.tid);
        threads.sort_by_key(|(thread, _)| order(thread));
        let mut by_name = groups::fold(&threads);
        by_name.sort_by_key(order);
        (
            threads.into_iter().map(|(thread, _)| thread).collect(),
            by_name,
        )
    }

    pub(crate) fn live(&self) -> usize {
        let of = |state: &State| {
            1 + state.blocked_on.len() + state.switches.len() + state.wakes.buckets()
        };
        self.0.iter().map(of).sum()
    }
}

fn row(thread: &kymo_machine::Thread, state: &State, known: u64, end: &End<'_>) -> Thread {
    let blocked_on = state.blocked_on.iter().map(|(&lock, &ns)| LockBlock {
        lock,
        name: end.machine.lock_called(lock).map(|name| name.to_string()),
        ns,
    });
    let mut blocked_on: Vec<LockBlock> = blocked_on.collect();
    blocked_on.sort_by_key(|block| Reverse(block.ns));
    let life = passed(
        thread.created.unwrap_or(end.begin),
        thread.ended.unwrap_or(end.end),
    );
    let last_state = match (thread.doing, thread.dumped) {
        (Doing::Unknown, Some(dumped)) if state.known() == 0 && state.switches.is_empty() => {
            dumped.label().to_lowercase()
        }
        (doing, _) => doing.label().to_owned(),
    };
    let switches = state.switches.iter();
    Thread {
        pid: thread.pid,
        tid: thread.tid,
        cpu: thread.cpu,
        name: thread.name.as_deref().map(str::to_owned),
        alike: 1,
        priority: thread.prio,
        idle: thread.is_idle(),
        cpu_ns: state.ran,
        share_percent: percent(state.ran, known),
        runnable_ns: state.runnable,
        blocked_ns: state.blocked + state.for_locks(),
        blocked_on,
        sleeping_ns: state.sleeping,
        suspended_ns: state.suspended,
        unknown_ns: life.saturating_sub(state.known()),
        switches: switches
            .map(|(why, count)| (why.to_lowercase(), *count))
            .collect(),
        wake_latency: Durations::of(&state.wakes),
        last_state,
    }
}
