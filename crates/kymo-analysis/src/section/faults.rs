//! Page faults.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kymo::event::Enumeration as _;
use kymo::vocabulary::FaultCause;
use kymo_machine::ThreadId;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{End, ThreadRef};

/// Page faults.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageFaults {
    /// Their number.
    pub count: u64,
    /// By process, most first.
    pub processes: Vec<ProcessFaults>,
    /// By thread, most first.
    pub threads: Vec<ThreadFaults>,
}

/// Page faults of a process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessFaults {
    /// Number of the process; `None` if unknown.
    pub pid: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Number of faults.
    pub count: u64,
}

/// Page faults of a thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadFaults {
    /// The thread; `None` if unknown.
    pub thread: Option<ThreadRef>,
    /// Number of faults.
    pub count: u64,
    /// Those in user mode.
    pub user: u64,
    /// Those in the kernel.
    pub kernel: u64,
    /// Number by access: `load`, `store` or `fetch`.
    pub causes: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default)]
struct State {
    count: u64,
    user: u64,
    kernel: u64,
    causes: BTreeMap<&'static str, u64>,
}

impl State {
    fn absorb(&mut self, other: State) {
        self.count += other.count;
        self.user += other.user;
        self.kernel += other.kernel;
        for (cause, count) in other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
    }
}

/// Page faults by thread.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    threads: FxHashMap<ThreadId, State>,
    /// Faults of threads not known yet, by CPU.
    strangers: FxHashMap<u64, State>,
    /// Faults of threads that will never be known.
    nobody: State,
}

impl Faults {
    pub(crate) fn add(
        &mut self,
        thread: Option<ThreadId>,
        cpu: Option<u64>,
        user: Option<bool>,
        cause: Option<FaultCause>,
    ) {
        let state = match (thread, cpu) {
            (Some(thread), _) => self.threads.entry(thread).or_default(),
            (None, Some(cpu)) => self.strangers.entry(cpu).or_default(),
            (None, None) => &mut self.nobody,
        };
        state.count += 1;
        state.user += u64::from(user == Some(true));
        state.kernel += u64::from(user == Some(false));
        if let Some(cause) = cause {
            *state.causes.entry(cause.label()).or_default() += 1;
        }
    }

    /// Assigns the CPU's unassigned faults to this thread.
    pub(crate) fn recognise(&mut self, thread: ThreadId, cpu: Option<u64>) {
        if let Some(faults) = cpu.and_then(|cpu| self.strangers.remove(&cpu)) {
            self.threads.entry(thread).or_default().absorb(faults);
        }
    }

    /// Gives up the CPU's unassigned faults: their thread will not be known.
    pub(crate) fn forget(&mut self, cpu: u64) {
        if let Some(faults) = self.strangers.remove(&cpu) {
            self.nobody.absorb(faults);
        }
    }

    pub(crate) fn finish(&self, end: &End<'_>) -> Option<PageFaults> {
        let mut nobody = self.nobody.clone();
        for faults in self.strangers.values() {
            nobody.absorb(faults.clone());
        }
        let mut known: Vec<_> = self.threads.iter().collect();
        known.sort_by_key(|(thread, _)| **thread);
        let known = known
            .into_iter()
            .map(|(thread, faults)| (Some(*thread), faults));
        let mut processes: BTreeMap<Option<u64>, u64> = BTreeMap::new();
        let mut threads = Vec::new();
        for (thread, faults) in known.chain([(None, &nobody)]) {
            if faults.count == 0 {
                continue;
            }
            let pid = thread.and_then(|thread| end.machine.thread(thread)?.pid);
            *processes.entry(pid).or_default() += faults.count;
            let causes = faults.causes.iter();
            threads.push(ThreadFaults {
                thread: thread.and_then(|thread| ThreadRef::of(end.machine, thread)),
                count: faults.count,
                user: faults.user,
                kernel: faults.kernel,
                causes: causes
                    .map(|(cause, count)| (cause.to_lowercase(), *count))
                    .collect(),
            });
        }
        threads.sort_by_key(|thread| Reverse(thread.count));
        let processes = processes.into_iter().map(|(pid, count)| ProcessFaults {
            pid,
            name: pid.and_then(|pid| Some(end.machine.process(pid)?.to_string())),
            count,
        });
        let mut processes: Vec<ProcessFaults> = processes.collect();
        processes.sort_by_key(|process| Reverse(process.count));
        let count = threads.iter().map(|thread| thread.count).sum();
        (count > 0).then_some(PageFaults {
            count,
            processes,
            threads,
        })
    }

    pub(crate) fn live(&self) -> usize {
        self.threads.len() + self.strangers.len()
    }
}
