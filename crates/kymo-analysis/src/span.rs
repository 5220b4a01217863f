//! Spans of time with both ends in the trace and no loss between.

use std::sync::Arc;

use kymo_machine::{CallKey, Change, Machine, passed};

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
    pub(crate) const ALL: [(&'static str, SpanKind); 7] = [
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
pub struct Span {
    /// Its kind.
    pub kind: SpanKind,
    /// Its begin, in nanoseconds from the clock's origin.
    pub begin_ns: i64,
    /// Its end, in nanoseconds from the clock's origin.
    pub end_ns: i64,
    /// Number of the CPU on which it ended.
    pub cpu: u64,
    /// Number of its thread, if it has one that is known.
    pub tid: Option<u64>,
    /// Number of the interrupt, lock or system call.
    pub object: Option<u64>,
    /// Name of the system call, if the tracer has no numbers.
    pub call: Option<Arc<str>>,
}

impl Span {
    /// The span that a change ends, if any.
    pub(crate) fn of(change: &Change, machine: &Machine) -> Option<Span> {
        let (kind, begin_ns, thread, object) = match *change {
            Change::OnCpu { thread, since } => (SpanKind::OnCpu, since, Some(thread), None),
            Change::OffCpu { thread, since } => (SpanKind::OffCpu, since, Some(thread), None),
            Change::WakeLatency { thread, since, .. } => {
                (SpanKind::WakeLatency, since, Some(thread), None)
            }
            Change::IrqExit {
                line,
                since: Some((since, _)),
            } => (SpanKind::Interrupt, since, None, Some(line.number())),
            Change::CallExit {
                since: Some(since),
                thread,
                ..
            } => (SpanKind::SystemCall, since, thread, None),
            Change::LockWaited {
                lock,
                since,
                thread,
                ..
            } => (SpanKind::LockWait, since, thread, Some(lock)),
            Change::LockReleased {
                lock,
                since: Some(since),
                thread,
                ..
            } => (SpanKind::LockHold, since, thread, Some(lock)),
            _ => return None,
        };
        let key = match *change {
            Change::CallExit { call, .. } => machine.call(call).map(|(key, _)| key),
            _ => None,
        };
        Some(Span {
            kind,
            begin_ns,
            end_ns: machine.now(),
            cpu: machine.cpu().unwrap_or_default(),
            tid: thread.and_then(|thread| Some(machine.thread(thread)?.tid)),
            object: match key {
                Some(CallKey::Number(number)) => Some(*number),
                _ => object,
            },
            call: match key {
                Some(CallKey::Named(name)) => Some(Arc::clone(name)),
                _ => None,
            },
        })
    }

    /// Its length in nanoseconds.
    pub fn nanos(&self) -> u64 {
        passed(self.begin_ns, self.end_ns)
    }
}
