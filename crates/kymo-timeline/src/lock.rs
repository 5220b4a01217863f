//! Locks: the flows from releases to the waits that they end.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::Flow;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Lock {
    waiters: u32,
    /// The flow of a release that has not ended a wait yet.
    released: Option<u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Locks(FxHashMap<u64, Lock>);

impl Locks {
    pub(crate) fn wait(&mut self, lock: u64) {
        self.0.entry(lock).or_default().waiters += 1;
    }

    /// The flow that begins with a release; none if nobody waits, or if an earlier release's flow
    /// has not ended yet.
    pub(crate) fn release(&mut self, lock: u64, flow: impl FnOnce() -> u64) -> Flow {
        match self.0.get_mut(&lock) {
            Some(lock) if lock.waiters > 0 && lock.released.is_none() => {
                let flow = flow();
                lock.released = Some(flow);
                Flow::Begins(flow)
            }
            _ => Flow::None,
        }
    }

    /// The flow that ends with the end of a wait.
    pub(crate) fn stop_waiting(&mut self, lock: u64) -> Flow {
        let Some(state) = self.0.get_mut(&lock) else {
            return Flow::None;
        };
        state.waiters = state.waiters.saturating_sub(1);
        let flow = state.released.take().map_or(Flow::None, Flow::Ends);
        if state.waiters == 0 {
            self.0.remove(&lock);
        }
        flow
    }
}
