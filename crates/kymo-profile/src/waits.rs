//! Time that threads spend off CPU: blocked, or waiting for locks.

use std::sync::Arc;

use kymo::event::Event;
use kymo::vocabulary::{LockWait, SchedSwitch};
use kymo_ctf::{EventRef, ItemRef};
use kymo_machine::{CallKey, ChainOf, Change, Doing, Machine, Named, ThreadId, passed};
use rustc_hash::FxHashMap;

use crate::counts::Counts;
use crate::profile::{Mode, Unit};
use crate::symbolize::Chains;
use crate::tally::{Key, NONE, Tally};

/// Which time to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// Blocked, asleep or suspended: by thread, reason, and the stack that led to it.
    OffCpu,
    /// Waiting for locks: by lock, waiter, owner, and the waiter's stack.
    Locks,
}

/// Collects the waits that end among a trace's items, added in time order. Rows count nanoseconds;
/// their stacks begin with what was waited for.
///
/// Time that would span a loss is left out. The stack of a wait is that of the event with which it
/// began, where the trace has it (`kymo record --stacks sched_switch`, or `lock_wait`).
#[derive(Debug)]
pub struct Waits {
    kind: WaitKind,
    machine: Machine,
    counts: Counts,
    tally: Tally,
    /// Chain of each thread's last switch, or last wait for a lock.
    chains: FxHashMap<ThreadId, u32>,
    /// The system call in which each thread left its CPU.
    left: FxHashMap<ThreadId, Option<Arc<str>>>,
    addresses: Vec<u64>,
    /// Time of the first event.
    begin: Option<i64>,
    /// Time of the last one, once waits end because the trace does.
    end: Option<i64>,
}

impl Waits {
    /// Nothing yet.
    pub fn new(kind: WaitKind) -> Waits {
        let mut counts = Counts::default();
        counts.unit = Unit::Nanoseconds;
        Waits {
            kind,
            machine: Machine::new(),
            counts,
            tally: Tally::default(),
            chains: FxHashMap::default(),
            left: FxHashMap::default(),
            addresses: Vec::new(),
            begin: None,
            end: None,
        }
    }

    /// The machine's state after the last item.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Adds the next item. A wait that ends with it counts if `selected` says so of the thread's
    /// number.
    pub fn add(&mut self, item: &ItemRef<'_>, selected: impl Fn(u64) -> bool) {
        self.machine.add(item);
        if self.begin.is_none() && matches!(item, ItemRef::Event(_)) {
            self.begin = Some(self.machine.now());
        }
        self.counts.totals.events += u64::from(matches!(item, ItemRef::Event(_)));
        self.take(selected);
        self.counts.follow(self.machine.changes());
        if let ItemRef::Event(event) = item {
            if self.counts.clock.is_none() {
                self.counts.clock = event.clock().cloned();
            }
            self.chain(event);
        }
    }

    /// Ends the collection at the time of the last item: waits that go on last until then. Threads
    /// that wait for nearly all the trace's time are only [counted](crate::Totals::throughout).
    pub fn finish(mut self, selected: impl Fn(u64) -> bool) -> Chains {
        let end = self.machine.now();
        self.machine.finish(end);
        self.end = Some(end);
        self.take(selected);
        self.counts.finish(self.tally, &self.machine)
    }

    fn take(&mut self, selected: impl Fn(u64) -> bool) {
        for place in 0..self.machine.changes().len() {
            let Some(change) = self.machine.changes().get(place).copied() else {
                return;
            };
            self.counts.totals.sources += u64::from(self.is_source(&change));
            match change {
                Change::Switch { prev, .. } if self.kind == WaitKind::OffCpu => {
                    self.chains.remove(&prev);
                    let call = self.call(prev);
                    self.left.insert(prev, call);
                }
                Change::LockWait {
                    thread: Some(thread),
                    ..
                } if self.kind == WaitKind::Locks => {
                    self.chains.remove(&thread);
                }
                Change::Doing {
                    thread,
                    was,
                    since,
                    until,
                    ..
                } if self.kind == WaitKind::OffCpu => {
                    let Some(names) = self.off_cpu(thread, was) else {
                        continue;
                    };
                    if self.is_throughout(passed(since, until)) {
                        let tid = self.machine.thread(thread).map(|thread| thread.tid);
                        self.counts.totals.throughout += u64::from(tid.is_some_and(&selected));
                    } else {
                        self.wait(thread, names, passed(since, until), &selected);
                    }
                }
                Change::LockWaited {
                    lock,
                    since,
                    thread: Some(thread),
                    owner,
                    ..
                } if self.kind == WaitKind::Locks => {
                    let names = self.lock(lock, thread, owner);
                    self.wait(thread, names, passed(since, self.machine.now()), &selected);
                }
                _ => {}
            }
        }
    }

    /// Whether waits are found in changes of this kind.
    fn is_source(&self, change: &Change) -> bool {
        match self.kind {
            WaitKind::OffCpu => matches!(change, Change::Switch { .. }),
            WaitKind::Locks => matches!(
                change,
                Change::LockWait { .. }
                    | Change::LockAcquired { .. }
                    | Change::LockFailed { .. }
                    | Change::LockReleased { .. }
            ),
        }
    }

    /// Whether a wait that the trace's end ends lasts for nine tenths of the trace: a thread that did
    /// nothing meanwhile.
    fn is_throughout(&self, nanos: u64) -> bool {
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            return false;
        };
        u128::from(nanos) * 10 >= u128::from(passed(begin, end)) * 9
    }

    /// Counts a wait.
    fn wait(
        &mut self,
        thread: ThreadId,
        names: Vec<Arc<str>>,
        nanos: u64,
        selected: impl Fn(u64) -> bool,
    ) {
        let tid = self.machine.thread(thread).map(|thread| thread.tid);
        if nanos == 0 || !tid.is_some_and(selected) {
            return;
        }
        self.counts.totals.kept += 1;
        let cpu = self.machine.cpu();
        let key = Key {
            thread: self.counts.thread(Some(thread)),
            cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(NONE),
            chain: self.chains.get(&thread).copied().unwrap_or(NONE),
            prefix: self.counts.prefix(names),
            mode: Mode::Kernel,
        };
        self.tally.add(key, nanos, 0);
    }

    /// The system call that a thread is in.
    fn call(&self, thread: ThreadId) -> Option<Arc<str>> {
        let call = self.machine.call_in(thread)?;
        let name = match self.machine.call(call)? {
            (CallKey::Named(name), _) | (CallKey::Number(_), Some(name)) => format!("in {name}"),
            (CallKey::Number(number), None) => format!("in system call #{number}"),
        };
        Some(Arc::from(name))
    }

    /// The names that stand before a wait's stack; `None` if the thread did not wait.
    fn off_cpu(&self, id: ThreadId, was: Doing) -> Option<Vec<Arc<str>>> {
        let reason: Arc<str> = match was {
            Doing::Blocked(Some(lock)) => Arc::from(format!("waits for {}", self.lock_name(lock))),
            Doing::Blocked(None) => Arc::from("blocked"),
            Doing::Sleeping => Arc::from("asleep"),
            Doing::Suspended => Arc::from("suspended"),
            _ => return None,
        };
        let thread = self.machine.thread(id)?;
        if thread.is_idle() {
            return None;
        }
        let call = self.left.get(&id).cloned().flatten();
        let names = [self.label(id), reason].into_iter().chain(call);
        Some(names.collect())
    }

    fn lock(&self, lock: u64, waiter: ThreadId, owner: Option<ThreadId>) -> Vec<Arc<str>> {
        let owner = match owner {
            Some(owner) => format!("owner {}", self.label(owner)),
            None => "owner unknown".to_owned(),
        };
        vec![
            Arc::from(self.lock_name(lock)),
            Arc::from(format!("waiter {}", self.label(waiter))),
            Arc::from(owner),
        ]
    }

    fn lock_name(&self, lock: u64) -> String {
        match self.machine.name(Named::Lock(lock)) {
            Some(name) => format!("lock {name}"),
            None => format!("lock {lock:#x}"),
        }
    }

    fn label(&self, id: ThreadId) -> Arc<str> {
        let thread = self.machine.thread(id);
        let named = thread.map(|thread| match (&thread.name, thread.cpu) {
            (_, Some(cpu)) => format!("idle (CPU {cpu})"),
            (Some(name), None) => format!("{name} ({})", thread.tid),
            (None, None) => format!("thread ({})", thread.tid),
        });
        Arc::from(named.unwrap_or_default())
    }

    /// Notes the chain of an event with which a thread may begin to wait.
    fn chain(&mut self, event: &EventRef<'_>) {
        let Some(chain) = self.machine.call_chain(event, &mut self.addresses) else {
            return;
        };
        let wanted = match self.kind {
            WaitKind::OffCpu => SchedSwitch::ID,
            WaitKind::Locks => LockWait::ID,
        };
        let cpu = self.machine.cpu();
        let thread = match chain.of {
            ChainOf::EventBefore { id } if id == u64::from(wanted) => {
                chain.tid.and_then(|tid| self.machine.thread_of(tid, cpu))
            }
            ChainOf::EventBefore { .. } => None,
            // Another tracer's event with its own chain.
            _ => self
                .machine
                .changes()
                .iter()
                .find_map(|change| match change {
                    Change::Switch { prev, .. } if self.kind == WaitKind::OffCpu => Some(*prev),
                    Change::LockWait { thread, .. } if self.kind == WaitKind::Locks => *thread,
                    _ => None,
                }),
        };
        if let Some(thread) = thread {
            let header = self.counts.header(&self.machine, Some(thread), &chain);
            let chain = self.tally.chains.intern(header, &self.addresses);
            self.chains.insert(thread, chain);
        }
    }
}
