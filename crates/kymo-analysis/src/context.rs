//! What a thread is in the middle of, wherever it runs.

use std::collections::BTreeMap;

use crate::kind::SyscallKey;

/// Most locks of one thread that are followed. A damaged trace must not make the list grow.
const MAX_HELD: usize = 64;

/// A wait for a lock.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) lock: u64,
    pub(crate) since: i64,
    /// A place in the list of threads.
    pub(crate) owner: Option<usize>,
    pub(crate) owner_prio: Option<i64>,
}

/// Page faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) user: u64,
    pub(crate) kernel: u64,
    /// The mode is not told.
    pub(crate) untold: u64,
}

impl Faults {
    pub(crate) fn total(&self) -> u64 {
        self.user + self.kernel + self.untold
    }

    pub(crate) fn absorb(&mut self, other: Faults) {
        self.user += other.user;
        self.kernel += other.kernel;
        self.untold += other.untold;
    }
}

/// State that follows a thread from CPU to CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) syscall: Option<(SyscallKey, i64)>,
    pub(crate) wait: Option<Wait>,
    /// Locks that it has, and since when.
    pub(crate) held: Vec<(u64, i64)>,
    pub(crate) faults: Faults,
    pub(crate) fault_causes: BTreeMap<String, u64>,
}

impl Context {
    /// Forgets what is under way; counts stay.
    pub(crate) fn forget(&mut self) {
        self.syscall = None;
        self.wait = None;
        self.held.clear();
    }

    /// Takes over what was under way, and counted, where it was not yet known whose it was.
    pub(crate) fn absorb(&mut self, other: Context) {
        self.syscall = other.syscall;
        self.wait = other.wait;
        self.held = other.held;
        self.count(other.faults, other.fault_causes);
    }

    /// Takes over the counts only.
    pub(crate) fn count(&mut self, faults: Faults, causes: BTreeMap<String, u64>) {
        self.faults.absorb(faults);
        for (cause, count) in causes {
            *self.fault_causes.entry(cause).or_default() += count;
        }
    }

    pub(crate) fn hold(&mut self, lock: u64, time: i64) {
        if self.held.len() < MAX_HELD {
            self.held.push((lock, time));
        }
    }

    /// Since when it had the lock.
    pub(crate) fn release(&mut self, lock: u64) -> Option<i64> {
        let place = self.held.iter().rposition(|(held, _)| *held == lock)?;
        Some(self.held.remove(place).1)
    }

    pub(crate) fn pending(&self) -> usize {
        usize::from(self.syscall.is_some()) + usize::from(self.wait.is_some()) + self.held.len()
    }
}
