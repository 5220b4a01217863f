//! The scheduler: who runs where.
//!
//! Every hart has a queue of its own; a hart whose queue has nothing as good takes the best of
//! another's. One lock guards all of it, and what threads wait for. It is held across a switch,
//! until the next thread is on its own stack: nobody can switch to the thread that leaves, or use
//! its place again, before it has left.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::vocabulary::{
    Object, SchedEnter, SchedExit, SchedPriority, SchedSwitch, SchedWakeup, SwitchReason,
};
use kymo::vocabulary::{Pid, ProcessName, ThreadName, ThreadStateDump};
use kymo::{Text, Tid};

use crate::arch::{self, context, paging};
use crate::ipc::Ipc;
use crate::lock::{Spin, SpinGuard};
use crate::mutex::MutexState;
use crate::queue::{Queue, Side};
use crate::semaphore::SemaphoreState;
use crate::thread::{IDLE, Slot, State, THREADS, Thread};
use crate::{MAX_HARTS, thread};

/// Mutexes that there can be, and semaphores.
pub const LOCKS: usize = 32;

/// All that the scheduler's lock guards.
pub struct Scheduler {
    pub threads: [Thread; THREADS],
    ready: [Queue; MAX_HARTS],
    /// The thread that runs, by hart. That of an idle hart is in the place of the hart's number.
    current: [Slot; MAX_HARTS],
    online: [bool; MAX_HARTS],
    pub last_tid: u32,
    pub mutexes: [MutexState; LOCKS],
    pub semaphores: [SemaphoreState; LOCKS],
    pub ipc: Ipc,
}

/// It.
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

/// The right to use it.
pub type Guard = SpinGuard<'static, Scheduler>;

/// By hart: the thread that runs, for those who do not have the lock.
static RUNNING: [AtomicU32; MAX_HARTS] = [const { AtomicU32::new(0) }; MAX_HARTS];

/// The thread that runs on this hart, with interrupts masked; 0 is an idle one.
pub fn tid() -> Tid {
    Tid(RUNNING[arch::hart()].load(Relaxed))
}

impl Scheduler {
    /// Makes the code that each hart boots with its idle thread, and tells of them. They are all
    /// thread 0.
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

    /// Tells what a thread is called, and its process, unless that is known.
    pub fn tell_names(&self, slot: Slot) {
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
            cpu: hart as u32,
            name: Text::new(name)
        });
    }

    /// Tells of every thread that lives.
    pub fn dump_state(&self) {
        (0..THREADS)
            .filter(|&slot| self.threads[slot].state != State::Free)
            .for_each(|slot| self.tell_state(slot));
    }

    /// How many threads live, those of idle harts left out.
    pub fn count_threads(&self) -> usize {
        self.threads
            .iter()
            .filter(|thread| thread.state != State::Free && thread.tid != Tid(0))
            .count()
    }

    /// This hart can run threads from here on.
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

    /// Lets a thread run that waited; it is in no queue. Whoever calls this calls [`settle`] before
    /// long.
    pub fn wake(&mut self, slot: Slot, waker_tid: Tid) {
        if core::mem::take(&mut self.threads[slot].stop) {
            self.threads[slot].state = State::Suspended;
            return;
        }
        let hart = self.place(slot);
        [slot, self.running_slot()]
            .into_iter()
            .for_each(|slot| self.tell_names(slot));
        let thread = &mut self.threads[slot];
        (thread.state, thread.hart) = (State::Ready, hart);
        record!(SchedWakeup {
            tid: thread.tid,
            waker_tid,
            target_cpu: hart as u32
        });
        self.ready[hart].insert(&mut self.threads, slot, Side::Behind);
        self.ask(hart);
    }

    /// The hart for a thread: the one that it ran on, another one that has nothing to do, or the
    /// one that does what is least urgent.
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

    /// Has a hart look at its queue, if that has something better than what runs there. This hart
    /// looks by itself: [`settle`].
    fn ask(&self, hart: usize) {
        let first = self.ready[hart]
            .first()
            .map_or(IDLE, |slot| self.threads[slot].prio);
        if hart != arch::hart()
            && self.online[hart]
            && first > self.threads[self.current[hart]].prio
        {
            arch::poke(hart);
        }
    }

    /// Takes a ready thread out of its queue.
    pub fn unqueue(&mut self, slot: Slot) {
        let hart = self.threads[slot].hart;
        self.ready[hart].remove(&mut self.threads, slot);
    }

    /// The hart with the best ready thread for hart `here`: its own first, if no other has a better
    /// one.
    fn best(&self, here: usize) -> Option<(usize, i16)> {
        let harts = core::iter::once(here).chain((0..MAX_HARTS).filter(|&hart| hart != here));
        let firsts =
            harts.filter_map(|hart| Some((hart, self.threads[self.ready[hart].first()?].prio)));
        firsts.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// Whether the running thread may give its hart to this one, which waits: nothing that could
    /// run is more urgent.
    pub fn may_hand_over(&self, slot: Slot) -> bool {
        let best = self.best(arch::hart()).map_or(IDLE, |(_, prio)| prio);
        let thread = &self.threads[slot];
        !thread.stop && thread.prio >= best.max(self.running().prio)
    }

    /// Wakes those whose time has come, and takes a tick off the running thread's time. Called by
    /// the timer interrupt.
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

    /// Gives a thread the priority that is right by now: its own, or the best among the waiters for
    /// its mutexes; and so on along the chain of owners. `lock` is what changed.
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

/// Gives the hart to another thread, if there is a better one by now, or the running one has used
/// its time up or is to be suspended. Returns when the running one runs again.
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

/// Gives the hart to the best thread; the running one leaves for this reason and is in this state
/// from here on, in the queue that it waits in, if any. Returns when it runs again.
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
        sched.ready[here].insert(&mut sched.threads, prev, side);
    }
    let next = sched
        .best(here)
        .and_then(|(hart, _)| sched.ready[hart].pop(&mut sched.threads))
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

/// Gives the hart to a thread that waits and is in no queue, past the scheduler; the running one is
/// the first of its priority to run again. Allowed where [`Scheduler::may_hand_over`] says so.
pub fn hand_over(mut scheduler: Guard, next: Slot) {
    let here = arch::hart();
    let sched = &mut *scheduler;
    let prev = sched.current[here];
    record!(SchedWakeup {
        tid: sched.threads[next].tid,
        waker_tid: sched.threads[prev].tid,
        target_cpu: here as u32
    });
    sched.threads[prev].state = State::Ready;
    sched.ready[here].insert(&mut sched.threads, prev, Side::Before);
    exchange(scheduler, SwitchReason::Yielded, next);
}

/// Leaves the running thread, whose state and queue are right by now, for another one.
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
    (comes.state, comes.hart) = (State::Running, here);
    comes.refill();
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
    RUNNING[here].store(comes.tid.0, Relaxed);
    sched.current[here] = next;
    if prev != idle {
        thread::check_stack(prev);
    }
    // SAFETY: the space of a thread that lives, which is given up only by a thread that has left
    // it.
    unsafe { paging::activate(space) };
    let old = &raw mut sched.threads[prev].context;
    let interrupts = scheduler.keep();
    // SAFETY: interrupts are masked and the scheduler's lock is held, until the thread that comes
    // lets it go; that one was ready, or is this hart's idle one, so it runs nowhere.
    unsafe { context::switch(old, new) };
    // SAFETY: whoever switched to this thread has kept the lock for it.
    drop(unsafe { SCHEDULER.held(interrupts) });
}
