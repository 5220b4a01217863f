//! The scheduler.
//!
//! Every hart has its own queue, and takes a thread from another's if that is more urgent. One lock
//! guards all queues and everything that threads wait for. It is held across a switch until the
//! next thread is on its own stack, so that nobody can switch to the leaving thread, or reuse its
//! slot, before it has left.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::count::Software;
use kymo::vocabulary::{Cpu, Pid, ProcessName, ThreadName, ThreadStateDump};
use kymo::vocabulary::{
    Object, RunQueue, SchedEnter, SchedExit, SchedPriority, SchedSwitch, SchedWakeup,
    SchedWakeupNew, SwitchReason,
};
use kymo::{Text, Tid, count, observe};

use crate::arch::{self, context, paging};
use crate::counters::{
    ContextSwitches, RunQueueDequeues, RunQueueEnqueues, RunQueueLength, RunQueueThreads,
};
use crate::ipc::Ipc;
use crate::lock::{Spin, SpinGuard};
use crate::mutex::MutexState;
use crate::queue::{Queue, Side};
use crate::semaphore::SemaphoreState;
use crate::thread::{IDLE, Slot, State, THREADS, Thread};
use crate::{Kymo, MAX_HARTS, counting, smp, thread};

/// Most mutexes, and most semaphores.
pub const LOCKS: usize = 32;

/// Everything that the scheduler's lock guards.
pub struct Scheduler {
    pub threads: [Thread; THREADS],
    ready: [Queue; MAX_HARTS],
    /// The running thread by hart. A hart's idle thread has the hart's number as its slot.
    current: [Slot; MAX_HARTS],
    online: [bool; MAX_HARTS],
    pub last_tid: u32,
    pub mutexes: [MutexState; LOCKS],
    pub semaphores: [SemaphoreState; LOCKS],
    pub ipc: Ipc,
}

/// The scheduler's lock.
pub static SCHEDULER: Spin<Scheduler> = Spin::new(Scheduler {
    threads: [const { Thread::none() }; THREADS],
    ready: [const { Queue::new() }; MAX_HARTS],
    current: [0; MAX_HARTS],
    online: [false; MAX_HARTS],
    last_tid: 0,
    mutexes: [const { MutexState::new() }; LOCKS],
    semaphores: [const { SemaphoreState::new() }; LOCKS],
    ipc: Ipc::new(),
});

/// The guard of the scheduler's lock.
pub type Guard = SpinGuard<'static, Scheduler>;

/// The running thread by hart, for use without the lock: its tid, and its slot in the upper half.
static RUNNING: [AtomicU64; MAX_HARTS] = {
    let mut running = [const { AtomicU64::new(0) }; MAX_HARTS];
    let mut hart = 0;
    while hart < MAX_HARTS {
        running[hart] = AtomicU64::new((hart as u64) << 32);
        hart += 1;
    }
    running
};

/// A running thread.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// 0 is an idle thread.
    pub tid: Tid,
    pub slot: Slot,
}

/// The thread on this hart. Interrupts must be masked; an NMI during a switch sees the next one
/// just before it is on its stack.
pub fn running_here() -> Running {
    let word = RUNNING[arch::hart()].load(Relaxed);
    Running {
        tid: Tid(word as u32),
        slot: (word >> 32) as Slot,
    }
}

/// The tid of the thread on this hart; 0 is an idle thread. Interrupts must be masked.
pub fn tid() -> Tid {
    running_here().tid
}

impl Scheduler {
    /// Makes each hart's boot code its idle thread, and records these threads. They are all thread
    /// 0.
    pub fn adopt(&mut self, harts: usize) {
        for hart in 0..harts {
            let (name, space) = ("idle", paging::kernel_space());
            self.threads[hart] = Thread {
                name,
                state: State::Running,
                hart,
                space,
                ..Thread::none()
            };
            self.current[hart] = hart;
            self.tell_state(hart);
        }
    }

    /// Records the names of a thread and its process, once in each name epoch.
    #[inline(always)]
    pub fn tell_names(&self, slot: Slot) {
        if Kymo::is_on::<ThreadName>() || Kymo::is_on::<ProcessName>() {
            self.tell_names_that_are_on(slot);
        }
    }

    fn tell_names_that_are_on(&self, slot: Slot) {
        let Thread { tid, pid, name, .. } = self.threads[slot];
        name!(
            self.threads[slot].named,
            ThreadName {
                tid,
                name: Text::new(name)
            }
        );
        if pid != Pid(0) {
            name!(
                self.threads[slot].process_named,
                ProcessName {
                    pid,
                    name: Text::new(name)
                }
            );
        }
    }

    fn tell_state(&self, slot: Slot) {
        let Thread {
            tid,
            pid,
            prio,
            state,
            hart,
            name,
            ..
        } = self.threads[slot];
        record!(ThreadStateDump {
            tid,
            pid,
            prio,
            state: state.traced(),
            cpu: Cpu(hart as u32),
            name: Text::new(name)
        });
    }

    /// Records every living thread.
    pub fn dump_state(&self) {
        (0..THREADS)
            .filter(|&slot| self.threads[slot].state != State::Free)
            .for_each(|slot| self.tell_state(slot));
    }

    /// Number of living threads, without idle ones.
    pub fn count_threads(&self) -> usize {
        self.threads
            .iter()
            .filter(|thread| thread.state != State::Free && thread.tid != Tid(0))
            .count()
    }

    /// Brings this hart online.
    pub fn come_online(&mut self) {
        self.online[arch::hart()] = true;
    }

    pub fn running_slot(&self) -> Slot {
        self.current[arch::hart()]
    }

    pub fn running(&self) -> &Thread {
        &self.threads[self.running_slot()]
    }

    pub fn running_mut(&mut self) -> &mut Thread {
        &mut self.threads[self.running_slot()]
    }

    /// Readies a waiting thread that is in no queue. The caller must call [`settle`] soon.
    pub fn wake(&mut self, slot: Slot, waker_tid: Tid) {
        if core::mem::take(&mut self.threads[slot].stop) {
            self.threads[slot].state = State::Suspended;
            return;
        }
        let last = self.threads[slot].hart;
        let (tid, hart) = self.wakes(slot);
        if hart != last {
            counting::happened(Software::CpuMigrations, true);
        }
        record!(SchedWakeup {
            tid,
            waker_tid,
            target_cpu: Cpu(hart as u32)
        });
        self.enqueue(hart, slot, Side::Behind);
        self.ask(hart);
    }

    /// Readies a new thread. The caller must call [`settle`] soon.
    pub fn wake_new(&mut self, slot: Slot, waker_tid: Tid) {
        let (tid, hart) = self.wakes(slot);
        record!(SchedWakeupNew {
            tid,
            waker_tid,
            target_cpu: Cpu(hart as u32)
        });
        self.enqueue(hart, slot, Side::Behind);
        self.ask(hart);
    }

    /// Chooses the hart of a thread that is ready from now on.
    fn wakes(&mut self, slot: Slot) -> (Tid, usize) {
        let hart = self.place(slot);
        [slot, self.running_slot()]
            .into_iter()
            .for_each(|slot| self.tell_names(slot));
        let thread = &mut self.threads[slot];
        (thread.state, thread.hart) = (State::Ready, hart);
        (thread.tid, hart)
    }

    /// Inserts a ready thread into a hart's queue.
    fn enqueue(&mut self, hart: usize, slot: Slot, side: Side) {
        self.ready[hart].insert(&mut self.threads, slot, side);
        count!(RunQueueEnqueues);
        count!(RunQueueThreads);
        observe!(RunQueueLength, u64::from(self.ready[hart].len()));
        self.tell_length(hart);
    }

    /// Takes the first thread out of a hart's queue.
    fn dequeue(&mut self, hart: usize) -> Option<Slot> {
        let first = self.ready[hart].pop(&mut self.threads)?;
        count!(RunQueueDequeues);
        count!(RunQueueThreads, -1);
        self.tell_length(hart);
        Some(first)
    }

    #[inline(always)]
    fn tell_length(&self, hart: usize) {
        record!(RunQueue {
            cpu: Cpu(hart as u32),
            len: self.ready[hart].len()
        });
    }

    /// The hart for a thread: its last one, an idle one, or the one with the least urgent thread.
    fn place(&self, slot: Slot) -> usize {
        let last = self.threads[slot].hart;
        let busy = |hart: usize| {
            let ready = self.ready[hart]
                .first()
                .map_or(IDLE, |slot| self.threads[slot].prio);
            self.threads[self.current[hart]].prio.max(ready)
        };
        if busy(last) == IDLE && self.online[last] {
            return last;
        }
        let least = (0..MAX_HARTS)
            .filter(|&hart| self.online[hart])
            .min_by_key(|&hart| busy(hart));
        least
            .filter(|&hart| busy(hart) < self.threads[slot].prio)
            .unwrap_or(last)
    }

    /// Interrupts a hart if its queue has a more urgent thread than it runs. For this hart,
    /// [`settle`] does that.
    fn ask(&self, hart: usize) {
        let first = self.ready[hart]
            .first()
            .map_or(IDLE, |slot| self.threads[slot].prio);
        if hart != arch::hart()
            && self.online[hart]
            && first > self.threads[self.current[hart]].prio
        {
            smp::poke(hart);
        }
    }

    /// Removes a ready thread from its queue, if it is in it.
    pub fn unqueue(&mut self, slot: Slot) {
        let hart = self.threads[slot].hart;
        if !self.ready[hart].remove(&mut self.threads, slot) {
            return;
        }
        count!(RunQueueDequeues);
        count!(RunQueueThreads, -1);
        self.tell_length(hart);
    }

    /// Number of threads in all run queues.
    pub fn count_ready(&self) -> usize {
        self.ready.iter().map(|queue| queue.len() as usize).sum()
    }

    /// The hart whose queue has the best ready thread for hart `here`, which is preferred among
    /// equals.
    fn best(&self, here: usize) -> Option<(usize, i16)> {
        let harts = core::iter::once(here).chain((0..MAX_HARTS).filter(|&hart| hart != here));
        let firsts =
            harts.filter_map(|hart| Some((hart, self.threads[self.ready[hart].first()?].prio)));
        firsts.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// Whether the running thread may hand its hart to this waiting thread: no ready thread is more
    /// urgent.
    pub fn may_hand_over(&self, slot: Slot) -> bool {
        let best = self.best(arch::hart()).map_or(IDLE, |(_, prio)| prio);
        let thread = &self.threads[slot];
        !thread.stop && thread.prio >= best.max(self.running().prio)
    }

    /// Wakes threads whose sleep is over, and charges the running thread a tick. Called by the
    /// timer interrupt.
    pub fn tick(&mut self) {
        let now = arch::timer::time();
        for slot in 0..THREADS {
            if self.threads[slot].state == State::Sleeping && self.threads[slot].wake_at <= now {
                self.wake(slot, Tid(0));
            }
        }
        let thread = self.running_mut();
        thread.slice = thread.slice.saturating_sub(1);
    }

    /// Updates a thread's priority to its own or the best of its mutexes' waiters, and follows the
    /// chain of owners. `lock` is the lock that changed.
    pub fn inherit(&mut self, mut slot: Slot, lock: Object) {
        loop {
            let lent = self
                .mutexes
                .iter()
                .filter(|mutex| mutex.owner == Some(slot));
            let lent = lent
                .filter_map(|mutex| mutex.waiters.first())
                .map(|waiter| self.threads[waiter].prio)
                .max();
            let thread = &mut self.threads[slot];
            let (oldprio, newprio) = (
                thread.prio,
                lent.map_or(thread.base, |lent| lent.max(thread.base)),
            );
            if newprio == oldprio {
                return;
            }
            thread.prio = newprio;
            self.tell_names(slot);
            let thread = &mut self.threads[slot];
            record!(SchedPriority {
                tid: thread.tid,
                oldprio,
                newprio,
                lock
            });
            match (thread.state, thread.waits_for) {
                (State::Ready, _) => {
                    let hart = thread.hart;
                    self.ready[hart].remove(&mut self.threads, slot);
                    self.ready[hart].insert(&mut self.threads, slot, Side::Behind);
                    self.ask(hart);
                    return;
                }
                (_, Some(mutex)) => {
                    self.mutexes[mutex].waiters.remove(&mut self.threads, slot);
                    self.mutexes[mutex]
                        .waiters
                        .insert(&mut self.threads, slot, Side::Behind);
                    let Some(owner) = self.mutexes[mutex].owner else {
                        return;
                    };
                    slot = owner;
                }
                _ => return,
            }
        }
    }
}

/// Switches if there is a better thread, or if the running one has used up its time slice or is to
/// be suspended. Returns when the running thread runs again.
pub fn settle(mut scheduler: Guard) {
    let best = scheduler.best(arch::hart()).map_or(IDLE, |(_, prio)| prio);
    let thread = scheduler.running_mut();
    if core::mem::take(&mut thread.stop) {
        switch(scheduler, SwitchReason::Suspended, State::Suspended);
    } else if best > thread.prio {
        switch(scheduler, SwitchReason::Preempted, State::Ready);
    } else if best == thread.prio && thread.slice == 0 && best != IDLE {
        switch(scheduler, SwitchReason::Expired, State::Ready);
    }
}

/// Switches to the best thread. The running one leaves with this reason and state, and is already
/// in the queue in which it waits, if any. Returns when it runs again.
pub fn switch(mut scheduler: Guard, reason: SwitchReason, state: State) {
    let here = arch::hart();
    let prev = scheduler.current[here];
    let idle = here;
    let sched = &mut *scheduler;

    record!(SchedEnter {});
    sched.threads[prev].state = state;
    if prev != idle && state == State::Ready {
        let side = if reason == SwitchReason::Preempted {
            Side::Before
        } else {
            Side::Behind
        };
        sched.enqueue(here, prev, side);
    }
    let next = sched
        .best(here)
        .and_then(|(hart, _)| sched.dequeue(hart))
        .unwrap_or(idle);
    record!(SchedExit {});

    if next == prev {
        let thread = &mut sched.threads[prev];
        thread.state = State::Running;
        thread.refill();
        return;
    }
    exchange(scheduler, reason, next);
}

/// Hands the hart to a waiting thread in no queue, past the scheduler. The running one becomes
/// first of its priority. Requires [`Scheduler::may_hand_over`].
pub fn hand_over(mut scheduler: Guard, next: Slot) {
    let here = arch::hart();
    let sched = &mut *scheduler;
    let prev = sched.current[here];
    record!(SchedWakeup {
        tid: sched.threads[next].tid,
        waker_tid: sched.threads[prev].tid,
        target_cpu: Cpu(here as u32)
    });
    sched.threads[prev].state = State::Ready;
    sched.enqueue(here, prev, Side::Before);
    exchange(scheduler, SwitchReason::Yielded, next);
}

/// Switches from the running thread, whose state and queue are already set, to another.
fn exchange(mut scheduler: Guard, reason: SwitchReason, next: Slot) {
    let here = arch::hart();
    let prev = scheduler.current[here];
    let idle = here;
    let sched = &mut *scheduler;
    let (leaves, state) = (sched.threads[prev].tid, sched.threads[prev].state);
    [prev, next]
        .into_iter()
        .for_each(|slot| sched.tell_names(slot));
    let comes = &mut sched.threads[next];
    if comes.hart != here {
        counting::happened(Software::CpuMigrations, true);
    }
    (comes.state, comes.hart) = (State::Running, here);
    comes.refill();
    count!(ContextSwitches);
    counting::happened(Software::ContextSwitches, true);
    record!(SchedSwitch {
        prev_tid: leaves,
        next_tid: comes.tid,
        prev_state: state.traced(),
        reason: if prev == idle {
            SwitchReason::Idle
        } else {
            reason
        },
        next_prio: comes.prio,
    });
    let (space, new) = (comes.space, comes.context);
    let running = u64::from(comes.tid.0) | (next as u64) << 32;
    sched.current[here] = next;
    if prev != idle {
        thread::check_stack(prev);
    }
    // SAFETY: the space of a living thread, which is freed only by a thread that has left it.
    unsafe { paging::activate(space) };
    let old = &raw mut sched.threads[prev].context;
    counting::switch(prev, next);
    let interrupts = scheduler.keep();
    RUNNING[here].store(running, Relaxed);
    // SAFETY: interrupts are masked and the scheduler's lock is held until the next thread drops
    // it; that thread was ready, or is this hart's idle one, so it runs nowhere.
    unsafe { context::switch(old, new) };
    // SAFETY: the thread that switched to this one has kept the lock for it.
    drop(unsafe { SCHEDULER.held(interrupts) });
}
