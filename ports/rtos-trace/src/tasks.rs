//! What tasks do, from hooks that say less than a scheduler knows.
//!
//! A hook says that a task begins to run, or that it has stopped; a `sched_switch` says who leaves,
//! in which state, and who comes. So a table keeps the state of every task, and a switch is recorded
//! when the next task begins or the executor goes idle: one record for each time that a task runs.
//! The time that the executor needs between two tasks counts as the first one's.
//!
//! Wake-ups come from interrupts too, so every call masks them: a look into the table, a record, and
//! the change of the table are one step.

use core::cell::UnsafeCell;
use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::AtomicBool;
#[cfg(not(target_has_atomic = "8"))]
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::{Acquire, Release};

use kymo::platform::Interrupts;
use kymo::vocabulary::{
    Cpu, Pid, SchedSwitch, SchedWakeup, SchedWakeupNew, SwitchReason, ThreadCreate, ThreadExit,
    ThreadName, ThreadState, ThreadStateDump,
};
use kymo::{Irq, NameEpoch, Text, Tid, Tracer};

use crate::Port;

/// Executors that interrupt each other, at most. Deeper ones go idle to the idle thread.
const DEPTH: usize = 8;

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody has the entry.
    Free,
    /// It has a name, but was not created yet.
    Named,
    /// Created, and never ready.
    New,
    /// It waits.
    Waiting,
    /// It is ready to run, or was interrupted by another executor.
    Ready,
    /// It runs, or ran last and nobody else has begun.
    Running,
    /// As `Running`, and it was woken meanwhile.
    RunningWoken,
    /// It has ended.
    Ended,
}

/// A task in a [`Table`].
#[derive(Debug)]
pub struct Entry {
    tid: Tid,
    phase: Phase,
    name: &'static str,
    named: NameEpoch,
}

impl Entry {
    const fn free() -> Entry {
        Entry {
            tid: Tid::IDLE,
            phase: Phase::Free,
            name: "",
            named: NameEpoch::new(),
        }
    }
}

/// How the present task leaves the CPU, if it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// It runs: another one would interrupt it.
    No,
    /// It has returned to the executor.
    Stopped,
    /// It waits.
    Blocked,
}

struct Inner<E: ?Sized> {
    /// The task that runs, or [`Tid::IDLE`].
    current: Tid,
    leaves: Leaves,
    /// What the executor polls has ended, and does nothing.
    ghost: bool,
    /// The handler in which the present executor runs, or none.
    handler: Option<Irq>,
    /// What executors have interrupted, and the handler where that ran.
    interrupted: [(Tid, Option<Irq>); DEPTH],
    depth: usize,
    entries: E,
}

/// The tasks, of any number: see [`Table`].
pub struct Tasks<E: ?Sized = [Entry]> {
    /// With one CPU, and interrupts masked, nobody waits for it.
    taken: AtomicBool,
    inner: UnsafeCell<Inner<E>>,
}

// SAFETY: `inner` is reached through `with` only, which gives it to one caller at a time.
unsafe impl<E: Send + ?Sized> Sync for Tasks<E> {}

/// Room for this many tasks. Of tasks beyond that, the switches and wake-ups are recorded, but
/// neither names nor whether they wait or are only ready.
pub type Table<const N: usize> = Tasks<[Entry; N]>;

impl<E: ?Sized> fmt::Debug for Tasks<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl<const N: usize> Tasks<[Entry; N]> {
    /// No tasks.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Tasks {
            taken: AtomicBool::new(false),
            inner: UnsafeCell::new(Inner {
                current: Tid::IDLE,
                leaves: Leaves::No,
                ghost: false,
                handler: None,
                interrupted: [(Tid::IDLE, None); DEPTH],
                depth: 0,
                entries: [const { Entry::free() }; N],
            }),
        }
    }
}

impl Tasks {
    /// Gives the tasks to `act`, with interrupts masked.
    fn with<P: Port>(&self, act: impl FnOnce(&mut Inner<[Entry]>)) {
        let saved = P::Interrupts::mask();
        self.take();
        // SAFETY: `take` gave it to this caller, until it is given back below.
        act(unsafe { &mut *self.inner.get() });
        // Partner: the acquire in `take`.
        self.taken.store(false, Release);
        P::Interrupts::restore(saved);
    }

    #[cfg(target_has_atomic = "8")]
    fn take(&self) {
        // Partner: the release in `with`.
        while self.taken.swap(true, Acquire) {
            spin_loop();
        }
    }

    /// Such processors have one CPU, and its interrupts are masked.
    #[cfg(not(target_has_atomic = "8"))]
    fn take(&self) {
        while self.taken.load(Acquire) {
            spin_loop();
        }
        self.taken.store(true, Relaxed);
    }

    /// A task was created.
    pub fn created<P: Port>(&self, tid: Tid) {
        self.with::<P>(|tasks| {
            // Where its memory was that of a task which has just ended.
            if tasks.current == tid {
                tasks.switch::<P>(Tid::IDLE);
            }
            let parent_tid = tasks.current;
            if let Some(entry) = tasks.entry_for(tid) {
                let name = entry.name;
                *entry = Entry {
                    tid,
                    phase: Phase::New,
                    name,
                    named: NameEpoch::new(),
                };
            }
            record::<P, _>(|| ThreadCreate {
                tid,
                pid: Pid(0),
                parent_tid,
                prio: 0,
            });
            tasks.name::<P>(tid);
        });
    }

    /// A task has this name from now on, also if it is created later. A final NUL is cut off.
    pub fn named<P: Port>(&self, tid: Tid, name: &'static str) {
        self.with::<P>(|tasks| {
            if let Some(entry) = tasks.entry_for(tid) {
                if matches!(entry.phase, Phase::Free | Phase::Ended) {
                    entry.phase = Phase::Named;
                }
                (entry.tid, entry.name) = (tid, trimmed(name));
                entry.named = NameEpoch::new();
                if entry.phase != Phase::Named {
                    tasks.name::<P>(tid);
                }
            }
        });
    }

    /// A task has ended. If it runs, it leaves the CPU with the next switch.
    pub fn ended<P: Port>(&self, tid: Tid) {
        self.with::<P>(|tasks| {
            let prev_state = if tasks.current == tid {
                ThreadState::Runnable
            } else {
                tasks.state(tid)
            };
            if let Some(entry) = tasks.find(tid) {
                entry.phase = Phase::Ended;
            }
            record::<P, _>(|| ThreadExit {
                tid,
                pid: Pid(0),
                prev_state,
            });
        });
    }

    /// A task is ready to run.
    pub fn ready<P: Port>(&self, tid: Tid) {
        self.with::<P>(|tasks| {
            let is_current = tasks.current == tid;
            let mut is_new = false;
            let is_woken = match tasks.find(tid) {
                None => !is_current,
                Some(entry) => {
                    let before = entry.phase;
                    is_new = before == Phase::New;
                    entry.phase = match before {
                        Phase::Running => Phase::RunningWoken,
                        Phase::New | Phase::Waiting => Phase::Ready,
                        same => same,
                    };
                    is_new || before == Phase::Waiting
                }
            };
            // An interrupt, where one is known to be handled; else readers see who runs here.
            let waker_tid = match P::interrupt() {
                Some(irq) if tasks.handler != Some(irq) => Tid(0),
                _ => Tid::UNKNOWN,
            };
            let target_cpu = Cpu::UNKNOWN;
            match (is_woken, is_new) {
                (false, _) => {}
                (true, true) => record::<P, _>(|| SchedWakeupNew {
                    tid,
                    waker_tid,
                    target_cpu,
                }),
                (true, false) => record::<P, _>(|| SchedWakeup {
                    tid,
                    waker_tid,
                    target_cpu,
                }),
            }
        });
    }

    /// A task must wait from now on. If it runs, it leaves the CPU with the next switch.
    pub fn blocks<P: Port>(&self, tid: Tid) {
        self.with::<P>(|tasks| {
            let runs = tasks.current == tid;
            if runs {
                tasks.leaves = Leaves::Blocked;
            }
            if let Some(entry) = tasks.find(tid) {
                entry.phase = match entry.phase {
                    Phase::Running | Phase::RunningWoken if runs => Phase::Running,
                    Phase::Ready | Phase::Running | Phase::RunningWoken => Phase::Waiting,
                    same => same,
                };
            }
        });
    }

    /// A task runs from now on.
    pub fn begins<P: Port>(&self, tid: Tid) {
        self.with::<P>(|tasks| {
            tasks.ghost = tasks
                .find(tid)
                .is_some_and(|entry| entry.phase == Phase::Ended);
            if !tasks.ghost {
                tasks.switch::<P>(tid);
            }
        });
    }

    /// The task that runs has returned to its executor: it waits, if it was not woken meanwhile.
    pub fn stops<P: Port>(&self) {
        self.with::<P>(|tasks| {
            let is_ghost = core::mem::take(&mut tasks.ghost);
            if !is_ghost && tasks.leaves == Leaves::No && tasks.current != Tid::IDLE {
                tasks.leaves = Leaves::Stopped;
            }
        });
    }

    /// An executor begins to poll its tasks, and thereby interrupts what ran. Each call has its
    /// [`idle`](Self::idle), as brackets have.
    pub fn executor_begins<P: Port>(&self) {
        self.with::<P>(|tasks| {
            let is_left = tasks.leaves != Leaves::No;
            let tid = if is_left { Tid::IDLE } else { tasks.current };
            let handler = core::mem::replace(&mut tasks.handler, P::interrupt());
            if let Some(place) = tasks.interrupted.get_mut(tasks.depth) {
                *place = (tid, handler);
            }
            tasks.depth += 1;
        });
    }

    /// Nothing is left to do: for an executor, what it has interrupted goes on, otherwise the idle
    /// thread.
    pub fn idle<P: Port>(&self) {
        self.with::<P>(|tasks| {
            tasks.depth = tasks.depth.saturating_sub(1);
            let place = tasks.interrupted.get_mut(tasks.depth);
            let (next, handler) = place.map(core::mem::take).unwrap_or_default();
            tasks.handler = handler;
            tasks.ghost = false;
            if next != tasks.current || tasks.leaves != Leaves::No {
                tasks.switch::<P>(next);
            }
        });
    }

    /// Records which tasks there are: for `Platform::dump_state`.
    pub fn dump<P: Port>(&self) {
        self.with::<P>(|tasks| {
            for entry in &mut tasks.entries {
                let state = match entry.phase {
                    Phase::Free | Phase::Named | Phase::Ended => continue,
                    Phase::New | Phase::Waiting => ThreadState::Blocked,
                    Phase::Ready | Phase::Running | Phase::RunningWoken => ThreadState::Runnable,
                };
                let (tid, name) = (entry.tid, entry.name);
                record::<P, _>(|| ThreadStateDump {
                    tid,
                    pid: Pid(0),
                    prio: 0,
                    state,
                    cpu: Cpu::UNKNOWN,
                    name: Text::new(name),
                });
            }
        });
    }
}

impl Inner<[Entry]> {
    fn find(&mut self, tid: Tid) -> Option<&mut Entry> {
        let used = |entry: &&mut Entry| entry.tid == tid && entry.phase != Phase::Free;
        self.entries.iter_mut().find(used)
    }

    /// The task's entry, or a new one: a free one, or else that of a task which has ended.
    fn entry_for(&mut self, tid: Tid) -> Option<&mut Entry> {
        let of = |wanted: fn(&Entry, Tid) -> bool| {
            let mut entries = self.entries.iter();
            entries.position(|entry| wanted(entry, tid))
        };
        let index = of(|entry, tid| entry.tid == tid && entry.phase != Phase::Free)
            .or_else(|| of(|entry, _| entry.phase == Phase::Free))
            .or_else(|| of(|entry, _| entry.phase == Phase::Ended))?;
        let entry = self.entries.get_mut(index)?;
        if entry.tid != tid {
            *entry = Entry {
                tid,
                ..Entry::free()
            };
        }
        Some(entry)
    }

    /// The state of a task that does not run.
    fn state(&mut self, tid: Tid) -> ThreadState {
        match self.find(tid).map(|entry| entry.phase) {
            Some(Phase::Ended) => ThreadState::Ended,
            Some(Phase::Waiting | Phase::New | Phase::Named) => ThreadState::Blocked,
            _ => ThreadState::Runnable,
        }
    }

    /// Records the task's name, if that is due.
    fn name<P: Port>(&mut self, tid: Tid) {
        let found = self.find(tid).filter(|entry| !entry.name.is_empty());
        if let Some(entry) = found {
            let name = entry.name;
            Tracer::<P>::named(&entry.named, || ThreadName {
                tid,
                name: Text::new(name),
            });
        }
    }

    /// The present task leaves the CPU, and `next` runs.
    fn switch<P: Port>(&mut self, next: Tid) {
        let prev = self.current;
        if prev == next && self.leaves == Leaves::No {
            return;
        }
        let leaves = core::mem::replace(&mut self.leaves, Leaves::No);
        let (prev_state, reason) = self.leave(prev, leaves);
        // What goes on after an interruption may have been woken meanwhile.
        if let Some(entry) = self.find(next).filter(|of| of.phase != Phase::RunningWoken) {
            entry.phase = Phase::Running;
        }
        self.current = next;
        self.name::<P>(next);
        record::<P, _>(|| SchedSwitch {
            prev_tid: prev,
            next_tid: next,
            prev_state,
            reason,
            next_prio: 0,
        });
    }

    /// Why the task leaves, and in which state it is then.
    fn leave(&mut self, tid: Tid, leaves: Leaves) -> (ThreadState, SwitchReason) {
        if tid == Tid::IDLE {
            return (ThreadState::Runnable, SwitchReason::Idle);
        }
        let entry = self.find(tid);
        let phase = entry.as_ref().map(|entry| entry.phase);
        let (state, reason, next) = match (phase, leaves) {
            (Some(Phase::Ended), _) => return (ThreadState::Ended, SwitchReason::Ended),
            (_, Leaves::No) => (ThreadState::Runnable, SwitchReason::Preempted, phase),
            (Some(Phase::RunningWoken), _) => (
                ThreadState::Runnable,
                SwitchReason::Yielded,
                Some(Phase::Ready),
            ),
            _ => (
                ThreadState::Blocked,
                SwitchReason::Waits,
                Some(Phase::Waiting),
            ),
        };
        if let (Some(entry), Some(next)) = (entry, next) {
            entry.phase = next;
        }
        (state, reason)
    }
}

/// Records with interrupts masked already.
fn record<P: Port, E: kymo::event::Event>(event: impl FnOnce() -> E) {
    if Tracer::<P>::is_on::<E>() {
        // SAFETY: `with` has masked the interrupts.
        unsafe { Tracer::<P>::record_masked(event()) };
    }
}

/// The name without the NUL at its end, which some kernels give for the sake of C.
pub(crate) fn trimmed(name: &'static str) -> &'static str {
    name.trim_end_matches('\0')
}
