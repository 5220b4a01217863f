//! Stretches of time with both ends in the trace, and no loss between.

/// What lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// An interrupt's handler, with those that came inside.
    Interrupt,
    /// From a wake-up until the thread ran.
    WakeLatency,
    /// A wait for a lock, whether it was got or not.
    LockWait,
    /// From getting a lock to giving it back. Semaphores are not held.
    LockHold,
    /// A system call, time off the CPU included.
    SystemCall,
    /// From leaving a CPU until the thread ran again; not of idle threads.
    OffCpu,
    /// From the switch to a thread to the switch away from it; not of idle threads.
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

/// One of them; it ends with the event that was added last.
#[derive(Clone, Debug)]
pub struct Span {
    /// What.
    pub kind: SpanKind,
    /// When it began, in nanoseconds from the clock's origin.
    pub begin_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// The CPU that it ended on.
    pub cpu: u64,
    /// The thread, where it has one that is known.
    pub tid: Option<u64>,
    /// The interrupt, the lock, or the system call.
    pub object: Option<u64>,
    /// The system call, where the tracer has no numbers.
    pub call: Option<std::sync::Arc<str>>,
}

impl Span {
    /// How long, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        crate::thread::passed(self.begin_ns, self.end_ns)
    }
}
