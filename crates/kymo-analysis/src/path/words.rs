//! A critical path in words.

use std::fmt::{self, Display, Formatter};

use super::{Because, CallRef, CriticalPath, LockRef, Note, Segment, SegmentKind, Who};
use crate::section::ThreadRef;

/// A thread, or `-` where it is not known.
struct Thread<'a>(Option<&'a ThreadRef>);

impl Display for Thread<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ThreadRef {
                tid,
                name: Some(name),
            }) => write!(f, "{name} ({tid})"),
            Some(ThreadRef { tid, name: None }) => write!(f, "thread {tid}"),
            None => f.write_str("-"),
        }
    }
}

/// The name, or the number.
impl Display for LockRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.lock),
        }
    }
}

/// The name, or the number.
impl Display for CallRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.name, self.id) {
            (Some(name), _) => f.write_str(name),
            (None, Some(id)) => id.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

/// As a subject of [`Segment::says`].
impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Who::Thread(of) => Thread(Some(of)).fmt(f),
            Who::Interrupt(irq) => {
                let soft = if irq.soft { "soft " } else { "" };
                match &irq.name {
                    Some(name) => write!(f, "{soft}interrupt {name} ({})", irq.irq),
                    None => write!(f, "{soft}interrupt {}", irq.irq),
                }
            }
            Who::IdleCpu { cpu } => write!(f, "idle CPU {cpu}"),
            Who::Unknown => f.write_str("not recorded"),
        }
    }
}

impl CriticalPath {
    /// The thread in words.
    pub fn whose(&self) -> String {
        Thread(self.thread.as_ref()).to_string()
    }
}

impl Segment {
    /// What [`who`](Self::who) did to the followed thread, as a predicate.
    pub fn says(&self) -> String {
        let followed = Thread(self.thread.as_ref());
        match (self.kind, self.note) {
            (_, Some(Note::Deadlock)) => {
                format!("has the lock for which {followed} waits, and waits for it: a deadlock")
            }
            (SegmentKind::Running, _) => "runs".to_owned(),
            (SegmentKind::Interrupt, Some(Note::Wakes)) => format!("wakes {followed}"),
            (SegmentKind::Interrupt, _) => format!("interrupts {followed}"),
            (SegmentKind::Runnable, Some(Note::Cpu)) => {
                format!("{followed} is runnable; what its CPU runs is not in the trace")
            }
            (SegmentKind::Runnable, _) => match self.who {
                Who::IdleCpu { .. } => format!("runs nothing, though {followed} is runnable"),
                _ => format!("runs while {followed} is runnable"),
            },
            (SegmentKind::Unknown, Some(Note::NotKept)) => {
                "too much happened to be kept: before this nothing is known".to_owned()
            }
            (SegmentKind::Unknown, _) => format!("the trace does not say what {followed} does"),
            (kind, note) => {
                let state = match kind {
                    SegmentKind::Sleeping => "sleeps",
                    SegmentKind::Suspended => "is suspended",
                    SegmentKind::Ended => "has ended",
                    _ => "is blocked",
                };
                match (note, &self.who) {
                    (None, Who::Interrupt(_)) => format!("{followed} {state} until it happens"),
                    (Some(Note::Interrupt), _) => {
                        format!(
                            "{followed} {state}; the trace does not say which interrupt woke it"
                        )
                    }
                    (Some(Note::Waker), _) => {
                        format!("{followed} {state}; the trace does not say who woke it")
                    }
                    (Some(Note::NotWoken), _) => format!("{followed} {state} and is not woken yet"),
                    _ => format!("{followed} {state}"),
                }
            }
        }
    }
}

/// Why the path follows the thread, as a predicate.
impl Display for Because {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Because::Wakes { waiter } => write!(f, "wakes {}", Thread(waiter.as_ref())),
            Because::Creates { waiter } => write!(f, "creates {}", Thread(waiter.as_ref())),
            Because::Holds { waiter, lock } => {
                write!(f, "has {lock}, {} waits", Thread(waiter.as_ref()))
            }
        }
    }
}
