//! One lock.

use std::collections::BTreeMap;

use crate::histogram::Histogram;

#[derive(Debug, Default)]
pub(crate) struct LockState {
    pub(crate) name: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) acquired: u64,
    /// Acquisitions that say they had to wait.
    pub(crate) contended: u64,
    pub(crate) failed: u64,
    /// Waits that have both ends in the trace.
    pub(crate) waits: Histogram,
    pub(crate) holds: Histogram,
    /// By place in the list of threads: how often, how long, how long at most.
    pub(crate) waiters: BTreeMap<Option<usize>, (u64, u64, u64)>,
    pub(crate) longest: Option<Longest>,
    /// Who has it, as far as the trace tells: a place in the list of threads.
    pub(crate) holder: Option<usize>,
    /// Number of losses when it was released last, if nobody has acquired it since.
    pub(crate) free: Option<u64>,
}

/// The longest wait for a lock.
#[derive(Clone, Debug)]
pub(crate) struct Longest {
    pub(crate) duration: u64,
    pub(crate) since: i64,
    pub(crate) until: i64,
    pub(crate) waiter: Option<usize>,
    pub(crate) waiter_prio: Option<i64>,
    pub(crate) owner: Option<usize>,
    pub(crate) owner_prio: Option<i64>,
}

impl LockState {
    pub(crate) fn waited(&mut self, wait: Longest) {
        self.waits.add(wait.duration);
        let (count, sum, max) = self.waiters.entry(wait.waiter).or_default();
        *count += 1;
        *sum = sum.saturating_add(wait.duration);
        *max = wait.duration.max(*max);
        if self
            .longest
            .as_ref()
            .is_none_or(|longest| longest.duration < wait.duration)
        {
            self.longest = Some(wait);
        }
    }
}
