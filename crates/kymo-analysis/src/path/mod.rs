//! The critical path: who held a thread up, during a stretch of time.
//!
//! [`Stretches`] finds the stretch in a first pass over the trace, [`History`] keeps in a second
//! one what every thread and CPU did during it, and [`History::path`] walks from the stretch's end
//! back to its beginning. At each time exactly one thread is followed:
//!
//! | the followed thread | what is on the path |
//! | --- | --- |
//! | runs | itself, or the interrupt whose handler runs on top of it |
//! | is runnable | what its CPU runs meanwhile |
//! | waits for a lock | its holder is followed, back to where the wait or the hold began |
//! | is blocked until a thread wakes it | that thread is followed, back to where the wait began |
//! | is blocked until an interrupt wakes it | the handler, and before that the wait for it |
//! | does not exist yet | the thread that created it is followed |
//! | anything else | itself, and why nobody can be named |

mod history;
mod stretch;
mod walk;
mod words;

use kymo_machine::{CallId, CallKey, Doing, IrqLine, Machine, Named, ThreadId};
use serde::Serialize;

pub use history::History;
pub use stretch::{Stretch, StretchKind, Stretches};

use crate::section::ThreadRef;

/// The chain of what held a thread up, during a stretch of its time.
///
/// Its segments follow each other without a gap, from the stretch's begin to its end; so do both
/// sums. Times are in nanoseconds from the clock's origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalPath {
    /// The thread.
    pub thread: Option<ThreadRef>,
    /// What the stretch is.
    pub stretch: StretchKind,
    /// The lock, if the stretch is a wait for one.
    pub lock: Option<LockRef>,
    /// Begin of the stretch.
    pub begin_ns: i64,
    /// End of the stretch.
    pub end_ns: i64,
    /// Length of the stretch.
    pub ns: u64,
    /// Whether the stretch had not ended at the end of the trace.
    pub is_open: bool,
    /// Number of losses during the stretch. After a loss, what threads did is unknown until they
    /// are seen again.
    pub losses: u64,
    /// The path ends here, because the trace has more events behind its begin than are kept; `None`
    /// if it reaches the stretch's begin.
    pub kept_from_ns: Option<i64>,
    /// The segments, in time order.
    pub segments: Vec<Segment>,
    /// Sum of the segments by who was responsible, the longest first.
    pub by_who: Vec<Responsible>,
    /// Sum of the segments by kind, the longest first.
    pub by_kind: Vec<OfKind>,
}

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Its begin.
    pub begin_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// Its length.
    pub ns: u64,
    /// The thread that is followed.
    pub thread: Option<ThreadRef>,
    /// What it did, or what ran instead.
    pub kind: SegmentKind,
    /// Who was responsible: what ran, or the interrupt that was waited for.
    pub who: Who,
    /// The CPU on which that ran.
    pub cpu: Option<u64>,
    /// The system call of the thread that ran or was blocked.
    pub call: Option<CallRef>,
    /// Why this thread is followed; `None` for the thread in question.
    pub because: Option<Because>,
    /// What else there is to say.
    pub note: Option<Note>,
}

/// What the followed thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SegmentKind {
    /// It ran.
    Running,
    /// An interrupt's handler ran on top of it; or one that woke the thread that waits.
    Interrupt,
    /// It could have run, but its CPU ran something else.
    Runnable,
    /// It was blocked.
    Blocked,
    /// It waited for a point in time.
    Sleeping,
    /// It was suspended.
    Suspended,
    /// It had ended.
    Ended,
    /// Not known.
    Unknown,
}

impl SegmentKind {
    /// Lowercase word, for reports.
    pub fn label(self) -> &'static str {
        match self {
            SegmentKind::Running => "running",
            SegmentKind::Interrupt => "interrupt",
            SegmentKind::Runnable => "runnable",
            SegmentKind::Blocked => "blocked",
            SegmentKind::Sleeping => "sleeping",
            SegmentKind::Suspended => "suspended",
            SegmentKind::Ended => "ended",
            SegmentKind::Unknown => "unknown",
        }
    }

    fn of(doing: Doing) -> SegmentKind {
        match doing {
            Doing::Running(_) => SegmentKind::Running,
            Doing::Runnable => SegmentKind::Runnable,
            Doing::Blocked(_) => SegmentKind::Blocked,
            Doing::Sleeping => SegmentKind::Sleeping,
            Doing::Suspended => SegmentKind::Suspended,
            Doing::Ended => SegmentKind::Ended,
            Doing::Unknown => SegmentKind::Unknown,
        }
    }
}

/// Who was responsible for a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
#[non_exhaustive]
pub enum Who {
    /// A thread.
    Thread(ThreadRef),
    /// An interrupt.
    Interrupt(InterruptRef),
    /// A CPU that ran its idle thread.
    IdleCpu {
        /// The CPU.
        cpu: u64,
    },
    /// Not known.
    Unknown,
}

/// An interrupt line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterruptRef {
    /// Its number.
    pub irq: u64,
    /// Whether it is a soft interrupt of Linux; these have a separate numbering.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub soft: bool,
    /// Its name.
    pub name: Option<String>,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockRef {
    /// Its number.
    pub lock: u64,
    /// Its name.
    pub name: Option<String>,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallRef {
    /// Its number, if the trace has numbers.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
}

/// Why a path follows a thread: another one waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
#[non_exhaustive]
pub enum Because {
    /// It wakes the other thread later.
    Wakes {
        /// The thread that waits.
        waiter: Option<ThreadRef>,
    },
    /// It holds a lock for which the other thread waits.
    Holds {
        /// The thread that waits.
        waiter: Option<ThreadRef>,
        /// The lock.
        lock: LockRef,
    },
    /// It creates the other thread later.
    Creates {
        /// The thread that is created.
        waiter: Option<ThreadRef>,
    },
}

/// Why nobody can be named for a segment, or what is special about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// The handler of the interrupt woke the thread.
    Wakes,
    /// The trace has no wake-up of the thread, or one without a waker.
    Waker,
    /// An interrupt woke the thread, and its handler is not in the trace.
    Interrupt,
    /// The thread is not woken yet.
    NotWoken,
    /// What the thread did is not in the trace: it was lost, or is from before the thread's first
    /// event.
    Thread,
    /// What the CPU ran is not in the trace.
    Cpu,
    /// The holder of the lock waits too, directly or not, for this thread.
    Deadlock,
    /// The stretch has more events than are kept.
    NotKept,
}

/// A share of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Responsible {
    /// Who was responsible.
    pub who: Who,
    /// The time.
    pub ns: u64,
    /// Number of segments.
    pub segments: u64,
}

/// A share of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfKind {
    /// The kind of the segments.
    pub kind: SegmentKind,
    /// The time.
    pub ns: u64,
    /// Number of segments.
    pub segments: u64,
}

/// The names that a machine has.
pub(crate) struct Names<'m>(&'m Machine);

impl Names<'_> {
    fn thread(&self, id: ThreadId) -> Option<ThreadRef> {
        ThreadRef::of(self.0, id)
    }

    fn lock(&self, lock: u64) -> LockRef {
        LockRef {
            lock,
            name: self.0.name(Named::Lock(lock)).map(str::to_owned),
        }
    }

    fn irq(&self, line: IrqLine) -> InterruptRef {
        InterruptRef {
            irq: line.number(),
            soft: line.is_soft(),
            name: self.0.irq(line).map(str::to_owned),
        }
    }

    fn call(&self, id: CallId) -> CallRef {
        let number = match self.0.call(id) {
            Some((CallKey::Number(number), _)) => Some(*number),
            _ => None,
        };
        CallRef {
            id: number,
            name: self.0.name(Named::Call(id)).map(str::to_owned),
        }
    }
}

impl CriticalPath {
    /// Adds the segments up.
    fn add_up(&mut self) {
        for segment in &self.segments {
            let by_who = self.by_who.iter_mut();
            match { by_who }.find(|of| of.who == segment.who) {
                Some(of) => (of.ns, of.segments) = (of.ns + segment.ns, of.segments + 1),
                None => self.by_who.push(Responsible {
                    who: segment.who.clone(),
                    ns: segment.ns,
                    segments: 1,
                }),
            }
            match self.by_kind.iter_mut().find(|of| of.kind == segment.kind) {
                Some(of) => (of.ns, of.segments) = (of.ns + segment.ns, of.segments + 1),
                None => self.by_kind.push(OfKind {
                    kind: segment.kind,
                    ns: segment.ns,
                    segments: 1,
                }),
            }
        }
        // Stable: of equal ones, the first on the path is first.
        self.by_who.sort_by_key(|of| std::cmp::Reverse(of.ns));
        self.by_kind.sort_by_key(|of| std::cmp::Reverse(of.ns));
    }
}
