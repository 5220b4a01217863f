//! The stretches of a thread's time that are worth an explanation, and the one that is asked for.

use kymo_ctf::ItemRef;
use kymo_machine::{Change, Doing, Machine, Span, SpanKind, Taken, ThreadId, passed};
use serde::Serialize;

/// The kinds of stretches. Where several contain a time, the first of this list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StretchKind {
    /// A wait for a lock, whether or not it was acquired.
    LockWait,
    /// From leaving a CPU until the thread ran again.
    OffCpu,
    /// From a wake-up until the thread waited again.
    Activation,
    /// Any other stretch, given by its begin and its end.
    Given,
}

/// A stretch of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The thread, as in every machine that reads this trace from its beginning.
    pub thread: ThreadId,
    /// The kind.
    pub kind: StretchKind,
    /// Its begin, in nanoseconds from the clock's origin.
    pub begin_ns: i64,
    /// Its end, in nanoseconds from the clock's origin.
    pub end_ns: i64,
    /// The lock, of a wait for one.
    pub lock: Option<u64>,
    /// Whether it had not ended at the end of the trace.
    pub is_open: bool,
    /// Whether the thread itself chose to wait until a point in time.
    sleeps: bool,
}

impl Stretch {
    /// The stretch of a thread between two times in nanoseconds from the clock's origin.
    pub fn given(thread: ThreadId, begin_ns: i64, end_ns: i64) -> Stretch {
        Stretch {
            thread,
            kind: StretchKind::Given,
            begin_ns,
            end_ns: end_ns.max(begin_ns),
            lock: None,
            is_open: false,
            sleeps: false,
        }
    }

    /// Its length in nanoseconds.
    pub fn nanos(&self) -> u64 {
        passed(self.begin_ns, self.end_ns)
    }

    fn contains(&self, time: i64) -> bool {
        (self.begin_ns..=self.end_ns).contains(&time)
    }
}

/// What is kept of one thread.
#[derive(Clone, Debug, Default)]
struct Of {
    best: Option<Stretch>,
    /// The wake-up since which it has not waited.
    woken: Option<i64>,
    /// Its state when it left its CPU.
    left: Doing,
}

/// What is kept of each thread.
#[derive(Debug, Default)]
struct Threads(Vec<Of>);

/// Finds, for every thread of a trace, the stretch that contains a time, or else its longest wait.
///
/// Without a time, a wait that ended counts before one that had not at the end of the trace, and
/// both before time that the thread chose to sleep. No stretch has a loss inside it.
#[derive(Debug, Default)]
pub struct Stretches {
    machine: Machine,
    at: Option<i64>,
    threads: Threads,
    /// Times of the first and the last item.
    extent: Option<(i64, i64)>,
}

impl Stretches {
    /// Looks for the stretch of each thread that contains `at`, in nanoseconds from the clock's
    /// origin; for its longest wait if that is `None`.
    pub fn new(at: Option<i64>) -> Stretches {
        Stretches {
            at,
            ..Stretches::default()
        }
    }

    /// Adds the next item.
    pub fn add(&mut self, item: &ItemRef<'_>) {
        if self.machine.add(item) == Taken::Event {
            let now = self.machine.now();
            let (begin, end) = self.extent.unwrap_or((now, now));
            self.extent = Some((begin.min(now), end.max(now)));
        }
        let now = self.machine.now();
        for change in self.machine.changes() {
            let found = match Span::of(change, &self.machine) {
                Some(span) => self.threads.wait(&span),
                None => self.threads.activation(change, now),
            };
            if let Some(found) = found {
                self.threads.offer(self.at, found);
            }
        }
    }

    /// Ends the search: what has not ended lasts until the last item.
    pub fn finish(&mut self) {
        let Some((_, end)) = self.extent else { return };
        self.machine.finish(end);
        for id in self.machine.thread_ids() {
            let Some(thread) = self.machine.thread(id).filter(|thread| !thread.is_idle()) else {
                continue;
            };
            if matches!(thread.doing, Doing::Unknown | Doing::Ended) {
                continue;
            }
            let Some(state) = self.threads.of(id) else {
                continue;
            };
            let sleeps = state.left == Doing::Sleeping;
            let woken = state.woken.filter(|_| thread.doing.is_running());
            let stretches = [
                (thread.waits_since(), StretchKind::LockWait),
                (thread.off_cpu_since(), StretchKind::OffCpu),
                (woken, StretchKind::Activation),
            ];
            for (begin, kind) in stretches {
                let Some(begin) = begin else { continue };
                let stretch = Stretch {
                    kind,
                    lock: thread.waits_for().filter(|_| kind == StretchKind::LockWait),
                    is_open: true,
                    sleeps: sleeps && kind == StretchKind::OffCpu,
                    ..Stretch::given(id, begin, end)
                };
                self.threads.offer(self.at, stretch);
            }
        }
    }

    /// The machine after the last item.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Times of the first and the last event that has one, in nanoseconds from the clock's origin.
    pub fn extent(&self) -> Option<(i64, i64)> {
        self.extent
    }

    /// The best stretch of the threads with these numbers.
    pub fn best(&self, is_meant: impl Fn(u64) -> bool) -> Option<Stretch> {
        let threads = self.machine.threads().iter().zip(&self.threads.0);
        let meant = threads.filter(|(thread, _)| is_meant(thread.tid));
        let best = meant.filter_map(|(_, of)| of.best);
        best.reduce(|a, b| match is_better(&b, &a, self.at) {
            true => b,
            false => a,
        })
    }
}

impl Threads {
    /// What is kept of this thread, added if it is new.
    fn of(&mut self, thread: ThreadId) -> Option<&mut Of> {
        let place = thread.index();
        if place >= self.0.len() {
            self.0.resize(place + 1, Of::default());
        }
        self.0.get_mut(place)
    }

    /// Notes wake-ups and switches. Gives the activation that the change ends.
    fn activation(&mut self, change: &Change, now: i64) -> Option<Stretch> {
        match *change {
            Change::Wakeup {
                thread,
                waited: true,
                ..
            } => self.of(thread)?.woken = Some(now),
            Change::Doing {
                thread,
                now: Doing::Unknown,
                ..
            } => self.of(thread)?.woken = None,
            Change::Switch { prev, left, .. } => {
                let state = self.of(prev)?;
                state.left = left;
                let waits = !matches!(left, Doing::Runnable | Doing::Unknown);
                let woken = state.woken.take_if(|_| waits)?;
                return Some(Stretch {
                    kind: StretchKind::Activation,
                    ..Stretch::given(prev, woken, now)
                });
            }
            _ => {}
        }
        None
    }

    /// The wait that a span is, if it is one.
    fn wait(&self, span: &Span) -> Option<Stretch> {
        let thread = span.thread?;
        let (kind, lock) = match span.kind {
            SpanKind::LockWait => (StretchKind::LockWait, span.object),
            SpanKind::OffCpu => (StretchKind::OffCpu, None),
            _ => return None,
        };
        let left = self.0.get(thread.index()).map(|of| of.left);
        Some(Stretch {
            kind,
            lock,
            sleeps: kind == StretchKind::OffCpu && left == Some(Doing::Sleeping),
            ..Stretch::given(thread, span.begin_ns, span.end_ns)
        })
    }

    /// Keeps the stretch if it is better than the one that its thread has.
    fn offer(&mut self, at: Option<i64>, stretch: Stretch) {
        let is_candidate = match at {
            Some(at) => stretch.contains(at),
            None => stretch.kind != StretchKind::Activation,
        };
        let Some(state) = self.of(stretch.thread).filter(|_| is_candidate) else {
            return;
        };
        if state.best.is_none_or(|best| is_better(&stretch, &best, at)) {
            state.best = Some(stretch);
        }
    }
}

/// Whether a stretch answers the question better than another one.
fn is_better(new: &Stretch, old: &Stretch, at: Option<i64>) -> bool {
    let longer = new.nanos().cmp(&old.nanos());
    let order = match at {
        Some(_) => old.kind.cmp(&new.kind).then(longer),
        None => {
            let rank = |of: &Stretch| (of.sleeps, of.is_open);
            rank(old).cmp(&rank(new)).then(longer)
        }
    };
    order.is_gt()
}
