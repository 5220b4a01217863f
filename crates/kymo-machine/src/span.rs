//! Spans of time with both ends in the trace and no loss between.

use std::sync::Arc;

use crate::call::CallKey;
use crate::change::{Change, Named};
use crate::machine::Machine;
use crate::thread::{ThreadId, Waker, passed};

/// The kinds of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// An interrupt's handler, nested handlers included.
    Interrupt,
    /// From a wake-up until the thread ran.
    WakeLatency,
    /// A wait for a lock, whether or not it was acquired.
    LockWait,
    /// From acquiring a lock to releasing it. Semaphores are not held.
    LockHold,
    /// A system call, time off CPU included.
    SystemCall,
    /// From leaving a CPU until the thread ran again, except idle threads.
    OffCpu,
    /// From the switch to a thread to the switch away from it, except idle threads.
    OnCpu,
}

impl SpanKind {
    /// All kinds, with the names that expectations have for them.
    pub const ALL: [(&'static str, SpanKind); 7] = [
        ("interrupt", SpanKind::Interrupt),
        ("wake_latency", SpanKind::WakeLatency),
        ("lock_wait", SpanKind::LockWait),
        ("lock_hold", SpanKind::LockHold),
        ("system_call", SpanKind::SystemCall),
        ("off_cpu", SpanKind::OffCpu),
        ("on_cpu", SpanKind::OnCpu),
    ];
}

/// A span of time, which the last added event ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Span {
    /// Its kind.
    pub kind: SpanKind,
    /// Its begin, in nanoseconds from the clock's origin.
    pub begin_ns: i64,
    /// Its end, in nanoseconds from the clock's origin.
    pub end_ns: i64,
    /// Number of the CPU on which it ended.
    pub cpu: u64,
    /// Its thread, if it has one that is known.
    pub thread: Option<ThreadId>,
    /// Number of that thread.
    pub tid: Option<u64>,
    /// The interrupt line, lock or system call.
    pub of: Option<Named>,
    /// Number of the interrupt, lock or system call.
    pub object: Option<u64>,
    /// Name of the system call, if the tracer has no numbers.
    pub call: Option<Arc<str>>,
    /// The waker, of the time after a wake-up.
    pub waker: Option<Waker>,
    /// The lock's owner when a wait for it began.
    pub owner: Option<ThreadId>,
    /// Whether a system call's result is negative.
    pub failed: Option<bool>,
}

impl Span {
    /// The span that a change of this machine ends, if any.
    pub fn of(change: &Change, machine: &Machine) -> Option<Span> {
        let (kind, begin_ns, thread, of) = ends(change)?;
        let mut span = Span {
            kind,
            begin_ns,
            end_ns: machine.now(),
            cpu: machine.cpu().unwrap_or_default(),
            thread,
            tid: thread.and_then(|thread| Some(machine.thread(thread)?.tid)),
            of,
            object: None,
            call: None,
            waker: None,
            owner: None,
            failed: None,
        };
        match *change {
            Change::WakeLatency { waker, .. } => span.waker = Some(waker),
            Change::LockWaited { owner, .. } => span.owner = owner,
            Change::CallExit { failed, .. } => span.failed = Some(failed),
            _ => {}
        }
        match of {
            Some(Named::Lock(lock)) => span.object = Some(lock),
            Some(Named::Irq(line)) => span.object = Some(line.number()),
            Some(Named::Call(call)) => match machine.call(call).map(|(key, _)| key) {
                Some(CallKey::Number(number)) => span.object = Some(*number),
                Some(CallKey::Named(name)) => span.call = Some(Arc::clone(name)),
                None => {}
            },
            _ => {}
        }
        Some(span)
    }

    /// Its length in nanoseconds.
    pub fn nanos(&self) -> u64 {
        passed(self.begin_ns, self.end_ns)
    }
}

/// The kind of span that a change ends, its begin, its thread, and what it is about.
fn ends(change: &Change) -> Option<(SpanKind, i64, Option<ThreadId>, Option<Named>)> {
    Some(match *change {
        Change::OnCpu { thread, since } => (SpanKind::OnCpu, since, Some(thread), None),
        Change::OffCpu { thread, since } => (SpanKind::OffCpu, since, Some(thread), None),
        Change::WakeLatency { thread, since, .. } => {
            (SpanKind::WakeLatency, since, Some(thread), None)
        }
        Change::IrqExit {
            line,
            since: Some((since, _)),
        } => (SpanKind::Interrupt, since, None, Some(Named::Irq(line))),
        Change::CallExit {
            call,
            since: Some(since),
            thread,
            ..
        } => (SpanKind::SystemCall, since, thread, Some(Named::Call(call))),
        Change::LockWaited {
            lock,
            since,
            thread,
            ..
        } => (SpanKind::LockWait, since, thread, Some(Named::Lock(lock))),
        Change::LockReleased {
            lock,
            since: Some(since),
            thread,
            ..
        } => (SpanKind::LockHold, since, thread, Some(Named::Lock(lock))),
        _ => return None,
    })
}
