//! Switches, wake-ups, and the creation and end of threads.

use kymo::vocabulary::{SwitchReason, ThreadState};

use crate::change::{Change, Contradiction, NotIdle};
use crate::machine::{self, At, Machine};
use crate::thread::{Doing, ThreadId, Waker};

impl Machine {
    pub(crate) fn switch(
        &mut self,
        (prev, next): (Option<u64>, Option<u64>),
        (state, reason): (Option<ThreadState>, Option<SwitchReason>),
        next_prio: Option<i64>,
        at: &At<'_, '_>,
    ) {
        let (Some(prev_tid), Some(next_tid)) = (prev, next) else {
            return;
        };
        let losses = self.gaps.stamp();
        let prev = self.known(prev_tid, at.number);
        let Some(cpu) = self.cpus.get_mut(at.cpu) else {
            return;
        };
        let current = cpu.current.take();
        let stranger = std::mem::take(&mut cpu.stranger);
        match current {
            None => {
                if let Some(thread) = self.threads.get_mut(prev.index()) {
                    thread.context = stranger;
                }
                self.change(Change::Recognised { thread: prev });
            }
            Some(ran) if ran == prev => {
                if let Some(thread) = self.thread(prev).filter(|thread| !thread.is_idle()) {
                    let since = thread.since;
                    self.change(Change::OnCpu {
                        thread: prev,
                        since,
                    });
                }
            }
            Some(ran) => self.break_chain(ran, prev, at),
        }
        self.call_thread(prev, at.comm(0));
        let left = self.leave(prev, current == Some(prev), (state, reason), at, losses);
        let next = self.arrive(next_tid, at, losses);
        self.call_thread(next, at.comm(1));
        self.change(Change::Switch {
            prev,
            next,
            reason,
            left,
        });
        if let Some(prio) = next_prio {
            self.set_priority(next, prio);
        }
        self.run(next, at, losses);
    }

    /// From here on the program's thread records into this ring, which it keeps until it ends.
    pub(crate) fn hold(&mut self, thread: ThreadId, ring: u64) {
        let place = self.cpu_place(ring);
        let Some(cpu) = self.cpus.get_mut(place) else {
            return;
        };
        if cpu.holder == Some(thread) {
            return;
        }
        cpu.holder = Some(thread);
        cpu.current = Some(thread);
        let stranger = std::mem::take(&mut cpu.stranger);
        if let Some(thread) = self.threads.get_mut(thread.index()) {
            thread.context = stranger;
        }
    }

    /// Handles a switch from a thread that did not run there: both threads' contexts become
    /// unknown.
    fn break_chain(&mut self, ran: ThreadId, prev: ThreadId, at: &At<'_, '_>) {
        let tid = |id: ThreadId| self.thread(id).map_or(0, |thread| thread.tid);
        self.contradict(Contradiction::SwitchChain {
            prev: tid(prev),
            ran: tid(ran),
        });
        self.lose_sight(ran, at.time);
        if let Some(thread) = self.threads.get_mut(ran.index()) {
            thread.losses = None;
        }
        if let Some(thread) = self.threads.get_mut(prev.index()) {
            thread.context.forget();
        }
    }

    /// Makes a thread's state unknown, also for the time since its last change.
    fn lose_sight(&mut self, id: ThreadId, time: i64) {
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return;
        };
        let (was, since) = (thread.doing, thread.since);
        (thread.doing, thread.since) = (Doing::Unknown, time);
        self.change(Change::Doing {
            thread: id,
            was,
            since,
            until: since,
            now: Doing::Unknown,
        });
        self.interrupt(id);
    }

    /// Takes the thread off its CPU, and gives its new state.
    fn leave(
        &mut self,
        prev: ThreadId,
        ran: bool,
        (state, reason): (Option<ThreadState>, Option<SwitchReason>),
        at: &At<'_, '_>,
        losses: Option<u64>,
    ) -> Doing {
        let Some(thread) = self.threads.get_mut(prev.index()) else {
            return Doing::Unknown;
        };
        if !ran {
            // Nobody knows how long it ran.
            thread.doing = Doing::Unknown;
        }
        let doing = match (Doing::after_switch(state), thread.context.wait) {
            (Doing::Blocked(None), Some(wait)) => Doing::Blocked(Some(wait.lock)),
            (doing, _) => doing,
        };
        let ended = doing == Doing::Ended;
        if ended {
            thread.ended.get_or_insert(at.time);
            thread.context.forget();
        }
        thread.left_idle |= reason == Some(SwitchReason::Idle);
        thread.left = losses.and(Some(at.time));
        let tid = thread.tid;
        self.begin(prev, doing, at.time, losses);
        if ended {
            self.change(Change::Ended { thread: prev });
        }
        match doing {
            Doing::Blocked(_) | Doing::Sleeping | Doing::Suspended => {
                self.expect_idle(tid, NotIdle::Blocked);
            }
            Doing::Ended => self.expect_idle(tid, NotIdle::Ended),
            _ => {}
        }
        doing
    }

    /// Prepares the thread of this number to run, and gives its id.
    fn arrive(&mut self, tid: u64, at: &At<'_, '_>, losses: Option<u64>) -> ThreadId {
        let last = self.known(tid, at.number);
        let ended = self.thread(last).is_some_and(|thread| {
            thread.doing == Doing::Ended && thread.losses.is_some() && thread.losses == losses
        });
        if ended && self.has_creations {
            self.contradict(Contradiction::AfterEnd { tid });
        }
        let next = self.living(tid, at.number);
        self.refresh(next, losses);
        if let Some(Doing::Running(cpu)) = self.thread(next).map(|thread| thread.doing) {
            // On two CPUs at once: one of the two is wrong, so neither is known.
            self.lose_sight(next, at.time);
            self.contradict(Contradiction::OneCpu { tid, cpu });
            let other = self.cpus.iter_mut().find(|other| other.number == cpu);
            if let Some(other) = other {
                other.current = None;
                self.change(Change::Forgot { cpu });
            }
        }
        next
    }

    fn run(&mut self, next: ThreadId, at: &At<'_, '_>, losses: Option<u64>) {
        let Some(thread) = self.threads.get_mut(next.index()) else {
            return;
        };
        let known = thread.doing != Doing::Unknown;
        let off = thread.left.take().filter(|_| known);
        let off = off.filter(|_| !thread.is_idle());
        let woken = match (thread.wake.take(), thread.doing) {
            (Some(wake), Doing::Runnable) => Some(wake),
            _ => None,
        };
        let cpu = at.number.unwrap_or_default();
        self.begin(next, Doing::Running(cpu), at.time, losses);
        if let Some(state) = self.cpus.get_mut(at.cpu) {
            state.current = Some(next);
        }
        if let Some(since) = off {
            self.change(Change::OffCpu {
                thread: next,
                since,
            });
        }
        if let Some((since, waker)) = woken {
            self.change(Change::WakeLatency {
                thread: next,
                since,
                waker,
            });
        }
    }

    pub(crate) fn wakeup(&mut self, tid: Option<u64>, waker: Option<u64>, at: &At<'_, '_>) {
        let Some(tid) = tid else { return };
        let losses = self.gaps.stamp();
        let in_interrupt = self
            .cpus
            .get(at.cpu)
            .is_some_and(|cpu| cpu.is_in_interrupt());
        let is_told = waker.is_some();
        let waker = match waker.and_then(machine::known) {
            Some(0) => Waker::Interrupt,
            Some(waker) => Waker::Thread(self.known(waker, at.number)),
            None if in_interrupt => Waker::Interrupt,
            None => self.running_waker(at.cpu, is_told),
        };
        self.expect_idle(tid, NotIdle::Woken);
        let id = self.living(tid, at.number);
        self.call_thread(id, at.comm(0));
        self.refresh(id, losses);
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return;
        };
        // A running thread has not left its CPU yet, and will not; a runnable one was woken before;
        // a suspended one stays suspended.
        let waited = matches!(
            thread.doing,
            Doing::Unknown | Doing::Blocked(_) | Doing::Sleeping
        );
        if waited {
            thread.wake = Some((at.time, waker));
        }
        self.change(Change::Wakeup {
            thread: id,
            waker,
            waited,
        });
        if waited {
            self.begin(id, Doing::Runnable, at.time, losses);
        }
    }

    /// The thread that runs on the CPU, as the waker of another one. A kernel that says itself that
    /// it does not know the waker has none in its idle thread: an interrupt that it does not trace,
    /// or the scheduler.
    fn running_waker(&self, cpu: usize, is_told: bool) -> Waker {
        let waker = self.current(cpu);
        let is_idle = |id: &ThreadId| self.thread(*id).is_some_and(|thread| thread.is_idle());
        let waker = waker.filter(|id| !(is_told && is_idle(id)));
        waker.map_or(Waker::Unknown, Waker::Thread)
    }

    pub(crate) fn create(
        &mut self,
        tid: Option<u64>,
        pid: Option<u64>,
        prio: Option<i64>,
        at: &At<'_, '_>,
    ) {
        let Some(tid) = tid else { return };
        self.expect_idle(tid, NotIdle::Created);
        let id = self.created(tid, at.number);
        let losses = self.gaps.stamp();
        self.has_creations = true;
        if let Some(thread) = self.threads.get_mut(id.index()) {
            thread.pid = pid;
            thread.prio = prio;
            thread.created = Some(at.time);
        }
        self.change(Change::Created { thread: id });
        self.call_thread(id, at.comm(0));
        if let Some(prio) = prio {
            self.change(Change::Priority { thread: id, prio });
        }
        self.begin(id, Doing::Unknown, at.time, losses);
    }

    pub(crate) fn exit(&mut self, tid: Option<u64>, pid: Option<u64>, at: &At<'_, '_>) {
        let Some(tid) = tid else { return };
        self.expect_idle(tid, NotIdle::Ended);
        let id = self.known(tid, at.number);
        let losses = self.gaps.stamp();
        self.refresh(id, losses);
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return;
        };
        thread.pid = pid.or(thread.pid);
        if thread.doing == Doing::Ended {
            return;
        }
        let runs = thread.doing.is_running();
        if !runs {
            self.begin(id, Doing::Ended, at.time, losses);
        }
        if let Some(thread) = self.threads.get_mut(id.index()) {
            // A running thread runs until the switch.
            thread.ended.get_or_insert(at.time);
            if !runs {
                thread.context.forget();
            }
        }
        if !runs {
            self.change(Change::Ended { thread: id });
        }
    }

    pub(crate) fn suspend(&mut self, suspends: bool, tid: Option<u64>, at: &At<'_, '_>) {
        let Some(tid) = tid else { return };
        if suspends {
            self.expect_idle(tid, NotIdle::Blocked);
        }
        let id = self.known(tid, at.number);
        let losses = self.gaps.stamp();
        self.refresh(id, losses);
        let Some(thread) = self.thread(id) else {
            return;
        };
        match (suspends, thread.doing) {
            // The next switch of a running thread reports it as suspended.
            (_, Doing::Running(_) | Doing::Ended) => {}
            (true, _) => self.begin(id, Doing::Suspended, at.time, losses),
            (false, Doing::Suspended | Doing::Unknown) => {
                self.begin(id, Doing::Runnable, at.time, losses)
            }
            _ => {}
        }
    }

    pub(crate) fn priority(&mut self, tid: Option<u64>, prio: Option<i64>, at: &At<'_, '_>) {
        let (Some(tid), Some(prio)) = (tid, prio) else {
            return;
        };
        let id = self.known(tid, at.number);
        self.call_thread(id, at.comm(0));
        self.set_priority(id, prio);
    }

    fn set_priority(&mut self, id: ThreadId, prio: i64) {
        if let Some(thread) = self.threads.get_mut(id.index()) {
            thread.prio = Some(prio);
            self.change(Change::Priority { thread: id, prio });
        }
    }
}
