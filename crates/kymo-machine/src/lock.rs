//! Locks: waits and owners.

use std::sync::Arc;

use kymo::vocabulary::LockKind;
use serde::{Deserialize, Serialize};

use crate::change::{Change, Contradiction};
use crate::machine::{self, At, Machine};
use crate::thread::{Doing, ThreadId, Wait};

/// A lock, as far as the trace shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lock {
    pub(crate) name: Option<Arc<str>>,
    #[serde(with = "crate::checkpoint::label")]
    pub(crate) kind: Option<LockKind>,
    /// The owner, as far as the trace shows.
    holder: Option<ThreadId>,
    /// Number of losses at its last release, if nobody has acquired it since.
    free: Option<u64>,
}

/// Outcome of an attempt to acquire a lock, or its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Acquired { contended: bool },
    Failed,
    Released,
}

impl Machine {
    /// A lock's kind, by the last event that has it.
    pub fn lock_kind(&self, lock: u64) -> Option<LockKind> {
        self.locks.get(&lock)?.kind
    }

    pub(crate) fn lock_wait(
        &mut self,
        lock: Option<u64>,
        owner: Option<u64>,
        kind: Option<LockKind>,
        at: &At<'_, '_>,
    ) {
        let Some(lock) = lock else { return };
        let named = owner.filter(|&tid| tid != 0).and_then(machine::known);
        let named = named.map(|tid| self.known(tid, at.number));
        let state = self.locks.entry(lock).or_default();
        state.kind = kind;
        let holder = state.holder.filter(|&id| self.holds(id, lock));
        let owner = named.or(holder);
        let owner_prio = owner.and_then(|id| self.thread(id)?.prio);
        let thread = self.current(at.cpu);
        if let Some(context) = self.running_context(at.cpu) {
            context.wait = Some(Wait {
                lock,
                since: at.time,
                owner,
                owner_prio,
            });
        }
        self.change(Change::LockWait { lock, kind, thread });
    }

    pub(crate) fn lock(
        &mut self,
        attempt: Attempt,
        lock: Option<u64>,
        kind: Option<LockKind>,
        at: &At<'_, '_>,
    ) {
        let Some(lock) = lock else { return };
        let thread = self.current(at.cpu);
        let prio = thread.and_then(|id| self.thread(id)?.prio);
        let semaphore = kind == Some(LockKind::Semaphore);
        let (mut wait, mut released) = (None, None);
        if let Some(context) = self.running_context(at.cpu) {
            if attempt != Attempt::Released {
                wait = context.wait.take_if(|wait| wait.lock == lock);
            }
            match attempt {
                Attempt::Released if !semaphore => released = context.release(lock),
                Attempt::Acquired { .. } if !semaphore => context.hold(lock, Some(at.time)),
                _ => {}
            }
        }
        if let Some(wait) = wait {
            self.change(Change::LockWaited {
                lock,
                since: wait.since,
                thread,
                prio,
                owner: wait.owner,
                owner_prio: wait.owner_prio,
            });
        }
        let losses = self.gaps.stamp();
        let state = self.locks.entry(lock).or_default();
        let (holder, free) = (state.holder, state.free);
        state.kind = kind.or(state.kind);
        match attempt {
            Attempt::Acquired { contended } => {
                state.holder = thread.filter(|_| !semaphore);
                state.free = None;
                self.change(Change::LockAcquired {
                    lock,
                    kind,
                    contended,
                    thread,
                });
            }
            Attempt::Failed => self.change(Change::LockFailed { lock, kind, thread }),
            Attempt::Released => {
                state.holder = None;
                state.free = losses.filter(|_| !semaphore);
                let free = free.is_some() && free == losses;
                let others = holder.filter(|&id| thread.is_some() && thread != Some(id));
                let other_has = others.is_some_and(|id| self.holds(id, lock));
                if released.is_none() && (free || other_has) {
                    self.contradict(Contradiction::LockHeld { lock, free });
                }
                self.change(Change::LockReleased {
                    lock,
                    kind,
                    since: released.flatten(),
                    thread,
                });
            }
        }
    }

    /// Takes from a state dump that a thread holds a lock. What events have shown is more accurate:
    /// they know since when.
    pub(crate) fn lock_held(
        &mut self,
        lock: Option<u64>,
        owner: Option<u64>,
        kind: Option<LockKind>,
        at: &At<'_, '_>,
    ) {
        let (Some(lock), Some(owner)) = (lock, owner.and_then(machine::known)) else {
            return;
        };
        if kind == Some(LockKind::Semaphore) {
            return;
        }
        let losses = self.gaps.stamp();
        let holder = self.locks.get(&lock).and_then(|state| state.holder);
        if losses.is_none() || holder.is_some_and(|id| self.holds(id, lock)) {
            return;
        }
        let id = self.known(owner, at.number);
        self.refresh(id, losses);
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return;
        };
        if thread.doing == Doing::Ended {
            return;
        }
        if !thread.doing.is_running() {
            // What it holds is known up to here, whatever it does.
            thread.losses = losses;
        }
        thread.context.hold(lock, None);
        let state = self.locks.entry(lock).or_default();
        state.kind = kind.or(state.kind);
        (state.holder, state.free) = (Some(id), None);
    }

    fn holds(&self, id: ThreadId, lock: u64) -> bool {
        let Some(thread) = self.thread(id) else {
            return false;
        };
        let losses = self.gaps.stamp();
        let known = thread.doing.is_running() || (losses.is_some() && thread.losses == losses);
        known && thread.context.held.iter().any(|(held, _)| *held == lock)
    }
}
