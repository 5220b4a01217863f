//! One thread, from its creation to its end.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::histogram::Histogram;

/// What a thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    #[default]
    Unknown,
    /// On this CPU.
    Running(u64),
    Runnable,
    /// For a lock, where it is known for which.
    Blocked(Option<u64>),
    Sleeping,
    Suspended,
    Ended,
}

impl Doing {
    pub(crate) fn label(self) -> &'static str {
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

    pub(crate) fn is_running(self) -> bool {
        matches!(self, Doing::Running(_))
    }
}

/// A wake-up that was not yet followed by a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) time: i64,
    pub(crate) waker: Waker,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waker {
    Unknown,
    Interrupt,
    /// A place in the list of threads.
    Thread(usize),
}

#[derive(Debug, Default)]
pub(crate) struct ThreadState {
    pub(crate) tid: u64,
    /// Thread 0 of several CPUs is several threads.
    pub(crate) cpu: Option<u64>,
    pub(crate) pid: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) prio: Option<i64>,
    pub(crate) doing: Doing,
    /// Since when it does that.
    pub(crate) since: i64,
    /// Number of losses up to then: after another one, what a thread does that does not run is
    /// unknown.
    pub(crate) losses: Option<u64>,
    pub(crate) context: Context,
    pub(crate) wake: Option<Wake>,
    pub(crate) created: Option<i64>,
    pub(crate) ended: Option<i64>,
    /// When it left a CPU, if it has not run since and nothing was lost.
    pub(crate) left: Option<i64>,
    /// Whether it left a CPU as the idle thread.
    pub(crate) left_idle: bool,
    /// What it did last in a state dump, for want of anything better.
    pub(crate) dumped: Option<String>,
    pub(crate) ran: u64,
    pub(crate) runnable: u64,
    pub(crate) sleeping: u64,
    pub(crate) suspended: u64,
    /// Blocked, and not for a lock.
    pub(crate) blocked: u64,
    pub(crate) blocked_on: BTreeMap<u64, u64>,
    pub(crate) wakes: Histogram,
    pub(crate) switches: BTreeMap<String, u64>,
}

impl ThreadState {
    /// Forgets what it does if it does not run and there was a loss since.
    pub(crate) fn refresh(&mut self, losses: Option<u64>) {
        let off = !self.doing.is_running() && self.doing != Doing::Ended;
        if off && (self.losses.is_none() || self.losses != losses) {
            self.doing = Doing::Unknown;
            self.wake = None;
            self.left = None;
            self.context.forget();
        }
    }

    /// Adds the time up to now to what it did, and begins `next`.
    pub(crate) fn begin(&mut self, next: Doing, time: i64, losses: Option<u64>) {
        let passed = passed(self.since, time);
        match self.doing {
            Doing::Running(_) => self.ran += passed,
            Doing::Runnable => self.runnable += passed,
            Doing::Sleeping => self.sleeping += passed,
            Doing::Suspended => self.suspended += passed,
            Doing::Blocked(None) => self.blocked += passed,
            Doing::Blocked(Some(lock)) => *self.blocked_on.entry(lock).or_default() += passed,
            Doing::Unknown | Doing::Ended => {}
        }
        self.doing = next;
        self.since = time;
        self.losses = losses;
    }

    /// The time of which it is known what it did.
    pub(crate) fn known(&self) -> u64 {
        self.ran
            + self.runnable
            + self.sleeping
            + self.suspended
            + self.blocked
            + self.blocked_on.values().sum::<u64>()
    }

    /// Whether nothing but its name is known.
    pub(crate) fn is_unused(&self) -> bool {
        self.known() == 0 && self.ended.is_none() && !self.doing.is_running()
    }

    /// It left a CPU with the reason `Idle`; or it is thread 0 or called idle, for kernels whose
    /// scheduler does not say it.
    pub(crate) fn is_idle(&self) -> bool {
        let name = self
            .name
            .as_deref()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || "/:-_ ".contains(c));
        self.left_idle || self.tid == 0 || base == "idle" || base == "swapper"
    }
}

/// Nanoseconds from one time to another; 0 where the other is earlier.
pub(crate) fn passed(from: i64, to: i64) -> u64 {
    u64::try_from(i128::from(to) - i128::from(from)).unwrap_or(0)
}
