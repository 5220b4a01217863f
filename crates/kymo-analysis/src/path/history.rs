//! What every thread and CPU did during a stretch, kept to be walked backwards.

use kymo::vocabulary::LockKind;
use kymo_ctf::ItemRef;
use kymo_machine::{CallId, Change, Doing, IrqLine, Machine, ThreadId, Waker};
use rustc_hash::FxHashMap;

use super::stretch::Stretch;

/// Most pieces of history that are kept unless another number is given: about 100 MB.
pub(super) const MOST: usize = 1 << 20;

/// Place of a change in the trace: one more than that of the change before it.
pub(super) type Order = u64;

/// A thread's stay in one state. It contains the changes behind `after`, up to `upto`, which ends
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) after: Order,
    pub(super) upto: Order,
    pub(super) since: i64,
    pub(super) until: i64,
    pub(super) doing: Doing,
    /// The wake-up that ended it.
    pub(super) wake: Option<Wake>,
    /// The system call that the thread was in at its end.
    pub(super) call: Option<CallId>,
}

/// A wake-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    pub(super) order: Order,
    pub(super) waker: Waker,
    /// The CPU, the interrupt whose handler ran there, and the handler's begin.
    pub(super) handler: Option<(u64, IrqLine, i64)>,
}

/// What ran on a CPU for some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    upto: Order,
    pub(super) since: i64,
    pub(super) until: i64,
    pub(super) ran: Ran,
}

/// The thread, its system call, and the interrupt whose handler ran on top of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) thread: Option<ThreadId>,
    pub(super) call: Option<CallId>,
    pub(super) line: Option<IrqLine>,
}

/// A lock that a thread held or waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenure {
    pub(super) lock: u64,
    pub(super) thread: ThreadId,
    /// Its beginning.
    pub(super) begin: (Order, i64),
    /// Its end; later than everything if the stretch ends before it.
    pub(super) end: (Order, i64),
}

const BEFORE: (Order, i64) = (0, i64::MIN);
const BEHIND: (Order, i64) = (Order::MAX, i64::MAX);

/// A CPU, and what runs on it.
#[derive(Debug, Default)]
struct Now {
    ran: Ran,
    since: i64,
    last: i64,
}

/// The creation of a thread, and who created it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Birth {
    pub(super) order: Order,
    pub(super) parent: Option<ThreadId>,
    /// The change with which the thread's states begin.
    pub(super) born: Option<Order>,
}

/// What is kept, without the machine.
#[derive(Debug, Default)]
pub(super) struct Kept {
    from: i64,
    most: usize,
    order: Order,
    /// By thread.
    pub(super) threads: Vec<Vec<Interval>>,
    /// The change that ended each thread's last interval.
    ended: Vec<Order>,
    woken: FxHashMap<ThreadId, Wake>,
    pub(super) births: FxHashMap<ThreadId, Birth>,
    pub(super) cpus: FxHashMap<u64, Vec<Piece>>,
    now: FxHashMap<u64, Now>,
    /// By lock.
    pub(super) holds: FxHashMap<u64, Vec<Tenure>>,
    held: FxHashMap<(u64, ThreadId), (Order, i64)>,
    /// By waiting thread.
    pub(super) waits: FxHashMap<ThreadId, Vec<Tenure>>,
    waiting: FxHashMap<ThreadId, Tenure>,
    /// Number of losses that concern the stretch.
    pub(super) losses: u64,
    pieces: usize,
    /// The history is complete from here on; `None` if nothing was dropped.
    pub(super) dropped: Option<i64>,
    /// Up to where the last dropping went.
    dropped_upto: Order,
}

/// What every thread and CPU did during a [`Stretch`]. It is the second pass over a trace; the
/// first one finds the stretch.
///
/// The machine needs everything from the trace's beginning, but only what overlaps the stretch is
/// kept. If that is more than the limit, the oldest half is dropped, and
/// the [path](History::path) ends there.
#[derive(Debug)]
pub struct History {
    pub(super) machine: Machine,
    pub(super) stretch: Stretch,
    pub(super) kept: Kept,
}

impl History {
    /// Begins to keep the history of this stretch.
    pub fn of(stretch: Stretch) -> History {
        History::limited(stretch, MOST)
    }

    /// As [`of`](Self::of), keeping this many states of threads, CPUs and locks at most.
    pub fn limited(stretch: Stretch, most: usize) -> History {
        let kept = Kept {
            from: stretch.begin_ns,
            most,
            order: 1,
            ..Kept::default()
        };
        History {
            machine: Machine::new(),
            stretch,
            kept,
        }
    }

    /// Adds the next item, from the trace's beginning on. False once the stretch is over: then the
    /// item is not added, and no other one is needed.
    pub fn add(&mut self, item: &ItemRef<'_>) -> bool {
        let time = match item {
            ItemRef::Event(event) => event.nanos(),
            ItemRef::Loss(loss) => loss.begin_nanos,
            _ => None,
        };
        if time.is_some_and(|time| time > i128::from(self.stretch.end_ns)) {
            return false;
        }
        self.machine.add(item);
        self.kept.take(&self.machine);
        true
    }

    /// Ends every state at the end of the stretch.
    pub(super) fn finish(&mut self) {
        self.machine.finish(self.stretch.end_ns);
        self.kept.take(&self.machine);
        self.kept.close(self.stretch.end_ns);
    }
}

impl Kept {
    /// Takes the changes that the machine's last item made.
    fn take(&mut self, machine: &Machine) {
        let now = machine.now();
        let cpu = machine.cpu();
        for change in machine.changes() {
            self.order += 1;
            self.change(change, machine);
            if let Change::Forgot { cpu } = *change {
                self.look(cpu, machine, true);
            }
        }
        if let Some(cpu) = cpu {
            self.look(cpu, machine, false);
            if let Some(state) = self.now.get_mut(&cpu) {
                state.last = now;
            }
        }
        if self.pieces > self.most {
            self.drop_oldest();
        }
    }

    fn change(&mut self, change: &Change, machine: &Machine) {
        let (order, now) = (self.order, machine.now());
        match *change {
            Change::Doing {
                thread,
                was,
                since,
                until,
                ..
            } => self.ends(thread, was, (since, until), machine),
            Change::Wakeup {
                thread,
                waker,
                waited: true,
            } => {
                let handler = machine.cpu().and_then(|cpu| {
                    let state = machine.cpu_of(cpu)?;
                    Some((cpu, state.handler()?, state.handler_since()?))
                });
                let wake = Wake {
                    order,
                    waker,
                    handler: handler.filter(|_| waker == Waker::Interrupt),
                };
                self.woken.insert(thread, wake);
            }
            Change::Created { thread } => {
                let parent = machine.cpu().and_then(|cpu| machine.running(cpu));
                let birth = Birth {
                    order,
                    parent,
                    born: None,
                };
                self.births.insert(thread, birth);
            }
            Change::LockWait {
                lock,
                thread: Some(thread),
                ..
            } => {
                let state = machine.thread(thread);
                let owner = state.and_then(kymo_machine::Thread::waits_for_owner);
                if let Some(owner) = owner.filter(|owner| *owner != thread) {
                    // It may have acquired the lock unseen.
                    self.held.entry((lock, owner)).or_insert(BEFORE);
                }
                let begin = (order, now);
                let end = BEHIND;
                let wait = Tenure {
                    lock,
                    thread,
                    begin,
                    end,
                };
                self.waiting.insert(thread, wait);
            }
            Change::LockWaited {
                thread: Some(thread),
                ..
            } => {
                if let Some(wait) = self.waiting.remove(&thread) {
                    self.waited(Tenure {
                        end: (order, now),
                        ..wait
                    });
                }
            }
            Change::LockAcquired {
                lock,
                kind,
                thread: Some(thread),
                ..
            } if kind != Some(LockKind::Semaphore) => {
                self.held.insert((lock, thread), (order, now));
            }
            Change::LockReleased {
                lock,
                kind,
                since,
                thread: Some(thread),
            } if kind != Some(LockKind::Semaphore) => {
                let known = self.held.remove(&(lock, thread));
                let begin = known.or(since.map(|since| (0, since)));
                let tenure = Tenure {
                    lock,
                    thread,
                    begin: begin.unwrap_or(BEFORE),
                    end: (order, now),
                };
                self.hold(tenure);
            }
            Change::Interrupted { thread } => {
                self.waiting.remove(&thread);
                self.held.retain(|(_, holder), _| *holder != thread);
            }
            Change::Lost { .. } => self.losses += u64::from(now >= self.from),
            _ => {}
        }
    }

    /// A thread's state ends.
    fn ends(
        &mut self,
        thread: ThreadId,
        doing: Doing,
        (since, until): (i64, i64),
        machine: &Machine,
    ) {
        let order = self.order;
        let place = thread.index();
        if place >= self.threads.len() {
            self.threads.resize(place + 1, Vec::new());
            self.ended.resize(place + 1, 0);
        }
        if let Some(birth) = self.births.get_mut(&thread) {
            birth.born.get_or_insert(order);
        }
        let wake = self.woken.remove(&thread);
        let Some(ended) = self.ended.get_mut(place) else {
            return;
        };
        let interval = Interval {
            after: std::mem::replace(ended, order),
            upto: order,
            since,
            until,
            doing,
            wake,
            call: machine.call_in(thread),
        };
        if until >= self.from
            && let Some(intervals) = self.threads.get_mut(place)
        {
            intervals.push(interval);
            self.pieces += 1;
        }
    }

    fn waited(&mut self, tenure: Tenure) {
        if tenure.end.1 >= self.from {
            self.waits.entry(tenure.thread).or_default().push(tenure);
            self.pieces += 1;
        }
    }

    fn hold(&mut self, tenure: Tenure) {
        if tenure.end.1 >= self.from {
            self.holds.entry(tenure.lock).or_default().push(tenure);
            self.pieces += 1;
        }
    }

    /// Notes what runs on a CPU now. Of a CPU whose thread was forgotten, it is known only until
    /// its last event.
    fn look(&mut self, cpu: u64, machine: &Machine, is_forgotten: bool) {
        let Some(state) = machine.cpu_of(cpu) else {
            return;
        };
        let thread = state.current;
        let ran = Ran {
            thread,
            call: thread.and_then(|thread| machine.call_in(thread)),
            line: state.handler(),
        };
        let now = machine.now();
        let before = self.now.entry(cpu).or_default();
        if before.ran == ran {
            return;
        }
        let until = match is_forgotten {
            true => before.last,
            false => now,
        };
        let piece = Piece {
            upto: self.order,
            since: before.since,
            until,
            ran: before.ran,
        };
        (before.ran, before.since) = (ran, until);
        if piece.until >= self.from && piece.since < piece.until {
            self.cpus.entry(cpu).or_default().push(piece);
            self.pieces += 1;
        }
    }

    /// Ends what has not ended.
    fn close(&mut self, end: i64) {
        let upto = self.order;
        // No change ends a thread's last state.
        for last in self.threads.iter_mut().filter_map(|of| of.last_mut()) {
            last.upto = upto;
        }
        for (cpu, now) in self.now.drain() {
            let (since, until, ran) = (now.since, end, now.ran);
            let piece = Piece {
                upto,
                since,
                until,
                ran,
            };
            self.cpus.entry(cpu).or_default().push(piece);
        }
        for ((lock, thread), begin) in std::mem::take(&mut self.held) {
            self.hold(Tenure {
                lock,
                thread,
                begin,
                end: BEHIND,
            });
        }
        for (_, wait) in std::mem::take(&mut self.waiting) {
            self.waited(wait);
        }
        for holds in self.holds.values_mut() {
            holds.sort_by_key(|hold| (hold.end.0, hold.begin.0, hold.thread));
        }
    }

    /// Drops the oldest half.
    #[cold]
    fn drop_oldest(&mut self) {
        while self.pieces > self.most / 2 && self.dropped_upto + 1 < self.order {
            self.dropped_upto = self.dropped_upto.midpoint(self.order);
            let (upto, mut dropped) = (self.dropped_upto, self.dropped);
            let mut drops = |order: Order, until: i64| {
                let is_old = order < upto;
                if is_old {
                    dropped = dropped.max(Some(until));
                }
                !is_old
            };
            for intervals in &mut self.threads {
                intervals.retain(|of| drops(of.upto, of.until));
            }
            for pieces in self.cpus.values_mut() {
                pieces.retain(|of| drops(of.upto, of.until));
            }
            for tenures in self.holds.values_mut().chain(self.waits.values_mut()) {
                tenures.retain(|of| drops(of.end.0, of.end.1));
            }
            self.dropped = dropped;
            let tenures = self.holds.values().chain(self.waits.values());
            self.pieces = self.threads.iter().map(Vec::len).sum::<usize>()
                + self.cpus.values().map(Vec::len).sum::<usize>()
                + tenures.map(Vec::len).sum::<usize>();
        }
    }

    /// Place of the last change.
    pub(super) fn last(&self) -> Order {
        self.order
    }
}
