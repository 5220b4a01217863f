//! One thread, from its creation to its end.

use std::sync::Arc;

use kymo::vocabulary::ThreadState;
use serde::{Deserialize, Serialize};

use crate::call::CallId;

/// A thread of the trace. A reused thread number gets a new id, and each CPU's thread 0 has its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId(pub(crate) u32);

impl ThreadId {
    /// Index among the trace's threads, in order of first appearance.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doing {
    /// Not known.
    #[default]
    Unknown,
    /// It runs on this CPU.
    Running(u64),
    /// It is ready to run.
    Runnable,
    /// It waits, for this lock if known.
    Blocked(Option<u64>),
    /// It waits for a point in time.
    Sleeping,
    /// It is suspended.
    Suspended,
    /// It has ended.
    Ended,
}

impl Doing {
    /// Lowercase word, for reports.
    pub fn label(self) -> &'static str {
        match self {
            Doing::Unknown => "unknown",
            Doing::Running(_) => "running",
            Doing::Runnable => "runnable",
            Doing::Blocked(_) => "blocked",
            Doing::Sleeping => "sleeping",
            Doing::Suspended => "suspended",
            Doing::Ended => "ended",
        }
    }

    /// Whether it runs on any CPU.
    pub fn is_running(self) -> bool {
        matches!(self, Doing::Running(_))
    }

    /// The state of a thread that left its CPU in this vocabulary state.
    pub(crate) fn after_switch(state: Option<ThreadState>) -> Doing {
        match state {
            None => Doing::Unknown,
            Some(ThreadState::Runnable) => Doing::Runnable,
            Some(ThreadState::Blocked) => Doing::Blocked(None),
            Some(ThreadState::Sleeping) => Doing::Sleeping,
            Some(ThreadState::Suspended) => Doing::Suspended,
            Some(ThreadState::Ended) => Doing::Ended,
        }
    }
}

/// The waker of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waker {
    /// Not known.
    Unknown,
    /// An interrupt's handler.
    Interrupt,
    /// A thread.
    Thread(ThreadId),
}

/// Most held locks, and most open spans, tracked for a thread. A damaged trace must not make the
/// lists grow.
const MAX_OPEN: usize = 64;

/// A wait for a lock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Wait {
    pub(crate) lock: u64,
    pub(crate) since: i64,
    pub(crate) owner: Option<ThreadId>,
    pub(crate) owner_prio: Option<i64>,
}

/// The open operations of a thread, on any CPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Context {
    pub(crate) call: Option<(CallId, i64)>,
    /// The call that an exec has ended, until the next one begins: the trace may have its end too.
    pub(crate) executed: Option<CallId>,
    pub(crate) wait: Option<Wait>,
    /// Held locks, with the time of acquisition; `None` where only a state dump shows the lock.
    pub(crate) held: Vec<(u64, Option<i64>)>,
    /// Open spans of the program, by number.
    pub(crate) spans: Vec<u64>,
}

impl Context {
    pub(crate) fn forget(&mut self) {
        (self.call, self.executed) = (None, None);
        self.wait = None;
        self.held.clear();
        self.spans.clear();
    }

    pub(crate) fn hold(&mut self, lock: u64, time: Option<i64>) {
        if self.held.len() < MAX_OPEN {
            self.held.push((lock, time));
        }
    }

    /// Removes the lock, if it is held, and gives the time of its acquisition, if that is known.
    pub(crate) fn release(&mut self, lock: u64) -> Option<Option<i64>> {
        let place = self.held.iter().rposition(|(held, _)| *held == lock)?;
        Some(self.held.remove(place).1)
    }

    pub(crate) fn begin_span(&mut self, id: u64) -> bool {
        let has_room = self.spans.len() < MAX_OPEN;
        if has_room {
            self.spans.push(id);
        }
        has_room
    }

    /// Ends this span and those inside it, and gives their number.
    pub(crate) fn end_span(&mut self, id: u64) -> usize {
        let from = self.spans.iter().rposition(|open| *open == id);
        from.map_or(0, |from| self.spans.drain(from..).count())
    }

    pub(crate) fn pending(&self) -> usize {
        usize::from(self.call.is_some())
            + usize::from(self.wait.is_some())
            + self.held.len()
            + self.spans.len()
    }
}

/// A thread, as far as the trace shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: u64,
    /// Its CPU, for a thread 0: every CPU has one.
    pub cpu: Option<u64>,
    /// Its process.
    pub pid: Option<u64>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its priority, in the kernel's numbering.
    pub prio: Option<i64>,
    /// Its state.
    pub doing: Doing,
    /// Start of `doing`, in nanoseconds from the clock's origin.
    pub since: i64,
    /// Time of its creation in nanoseconds, if the trace has it.
    pub created: Option<i64>,
    /// Time of its end in nanoseconds, if the trace has it.
    pub ended: Option<i64>,
    /// Its state by the last state dump.
    #[serde(with = "crate::checkpoint::label")]
    pub dumped: Option<ThreadState>,
    /// Number of losses up to `since`: a further loss makes the state unknown, unless it runs.
    pub(crate) losses: Option<u64>,
    pub(crate) context: Context,
    /// Time and waker of a wake-up that no switch has followed yet.
    pub(crate) wake: Option<(i64, Waker)>,
    /// Time at which it left its CPU, if it has not run since and nothing was lost.
    pub(crate) left: Option<i64>,
    /// Whether it ever left a CPU as the idle thread.
    pub(crate) left_idle: bool,
    /// Whether its state was ever known for some time.
    pub(crate) has_lived: bool,
}

impl Thread {
    /// Whether it is an idle thread: it left a CPU with that reason, is thread 0, or is named idle
    /// or swapper.
    pub fn is_idle(&self) -> bool {
        self.left_idle || self.tid == 0 || self.name.as_deref().is_some_and(means_idle)
    }

    /// The lock for which it waits.
    pub fn waits_for(&self) -> Option<u64> {
        self.context.wait.map(|wait| wait.lock)
    }

    /// Begin of its wait for a lock, in nanoseconds from the clock's origin.
    pub fn waits_since(&self) -> Option<i64> {
        self.context.wait.map(|wait| wait.since)
    }

    /// The owner of the lock for which it waits, when the wait began.
    pub fn waits_for_owner(&self) -> Option<ThreadId> {
        self.context.wait.and_then(|wait| wait.owner)
    }

    /// Time at which it left its CPU, in nanoseconds from the clock's origin; `None` if it runs, or
    /// if something was lost since.
    pub fn off_cpu_since(&self) -> Option<i64> {
        self.left
    }

    /// Whether nothing but its name is known.
    pub(crate) fn is_unused(&self) -> bool {
        !self.has_lived && self.ended.is_none() && !self.doing.is_running()
    }

    /// Whether a loss has made its state unknown: it does not run, and something was lost since.
    pub(crate) fn is_stale(&self, losses: Option<u64>) -> bool {
        let off = !self.doing.is_running() && self.doing != Doing::Ended;
        off && (self.losses.is_none() || self.losses != losses)
    }
}

/// Whether a name may be that of an idle thread: a loose test, for a finding.
pub(crate) fn may_mean_idle(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("idle") || name.contains("swapper")
}

fn means_idle(name: &str) -> bool {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || "/:-_ ".contains(c));
    base.eq_ignore_ascii_case("idle") || base.eq_ignore_ascii_case("swapper")
}

/// Nanoseconds from `from` to `to`; 0 if `to` is earlier.
pub fn passed(from: i64, to: i64) -> u64 {
    u64::try_from(i128::from(to) - i128::from(from)).unwrap_or(0)
}
