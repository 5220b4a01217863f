//! What an event changes.

use kymo::vocabulary::{FaultCause, IpcPath, LockKind, SwitchReason};

use crate::call::CallId;
use crate::irq::IrqLine;
use crate::thread::{Doing, ThreadId, Waker};

/// One change. Time and CPU are those of the event that made it ([`Machine::now`](crate::Machine::now),
/// [`Machine::cpu`](crate::Machine::cpu)), where nothing else is said. Times are nanoseconds from the
/// clock's origin.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A thread did `was` from `since` to `until`, and does `now` from there on.
    Doing {
        /// The thread.
        thread: ThreadId,
        /// What it did.
        was: Doing,
        /// Since when.
        since: i64,
        /// Up to when.
        until: i64,
        /// What it does now.
        now: Doing,
    },
    /// A CPU was given to another thread.
    Switch {
        /// The thread that leaves.
        prev: ThreadId,
        /// The thread that runs from here on.
        next: ThreadId,
        /// Why, where the trace has reasons.
        reason: Option<SwitchReason>,
        /// What the one that leaves does from here on.
        left: Doing,
    },
    /// It is not known any more what a CPU runs.
    Forgot {
        /// The CPU.
        cpu: u64,
    },
    /// A thread that is not idle left the CPU that it had run on since `since`.
    OnCpu {
        /// The thread.
        thread: ThreadId,
        /// When it was given the CPU.
        since: i64,
    },
    /// A thread that is not idle runs again, for the first time since `since`.
    OffCpu {
        /// The thread.
        thread: ThreadId,
        /// When it left a CPU.
        since: i64,
    },
    /// A thread is woken.
    Wakeup {
        /// The thread.
        thread: ThreadId,
        /// Who woke it.
        waker: Waker,
        /// Whether it waited: one that runs or could run was woken before.
        waited: bool,
    },
    /// A thread that was woken at `since` runs.
    WakeLatency {
        /// The thread.
        thread: ThreadId,
        /// When it was woken.
        since: i64,
        /// Who woke it.
        waker: Waker,
    },
    /// A thread was made.
    Created {
        /// The thread.
        thread: ThreadId,
    },
    /// A thread is over.
    Ended {
        /// The thread.
        thread: ThreadId,
    },
    /// It is not known any more what a thread is in the middle of: calls, waits, locks, spans.
    Interrupted {
        /// The thread.
        thread: ThreadId,
    },
    /// The number of a thread is another one's from here on.
    Replaced {
        /// The thread that had it.
        thread: ThreadId,
    },
    /// A thread has another priority.
    Priority {
        /// The thread.
        thread: ThreadId,
        /// The priority, as the kernel counts them.
        prio: i64,
    },
    /// Something has a name, or another one.
    Named(Named),
    /// An interrupt's handler begins.
    IrqEnter {
        /// The line.
        line: IrqLine,
        /// How many handlers are open on the CPU, this one included.
        depth: usize,
    },
    /// An interrupt's handler ends.
    IrqExit {
        /// The line.
        line: IrqLine,
        /// When it began, and how many nanoseconds of that were its own; `None` where its begin is
        /// not in the trace.
        since: Option<(i64, u64)>,
    },
    /// The end of an interrupt's handler that is not the one which began last: all that were open
    /// are over.
    IrqMismatch {
        /// The line.
        line: IrqLine,
    },
    /// A system call begins.
    CallEnter {
        /// The call.
        call: CallId,
        /// Who calls.
        thread: Option<ThreadId>,
    },
    /// A system call ends.
    CallExit {
        /// The call.
        call: CallId,
        /// When it began; `None` where that is not in the trace.
        since: Option<i64>,
        /// Who called.
        thread: Option<ThreadId>,
        /// Whether its result is negative.
        failed: bool,
    },
    /// A thread begins to wait for a lock.
    LockWait {
        /// The lock.
        lock: u64,
        /// Its kind, where the event says it.
        kind: Option<LockKind>,
        /// Who waits.
        thread: Option<ThreadId>,
    },
    /// A wait for a lock is over, whether it was got or not.
    LockWaited {
        /// The lock.
        lock: u64,
        /// When the wait began.
        since: i64,
        /// Who waited.
        thread: Option<ThreadId>,
        /// With which priority.
        prio: Option<i64>,
        /// Who had the lock when the wait began.
        owner: Option<ThreadId>,
        /// With which priority, when the wait began.
        owner_prio: Option<i64>,
    },
    /// A lock was got.
    LockAcquired {
        /// The lock.
        lock: u64,
        /// Its kind, where the event says it.
        kind: Option<LockKind>,
        /// Whether after a wait.
        contended: bool,
        /// Who has it.
        thread: Option<ThreadId>,
    },
    /// A lock was not got.
    LockFailed {
        /// The lock.
        lock: u64,
        /// Its kind, where the event says it.
        kind: Option<LockKind>,
        /// Who tried.
        thread: Option<ThreadId>,
    },
    /// A lock was given back.
    LockReleased {
        /// The lock.
        lock: u64,
        /// Its kind, where the event says it.
        kind: Option<LockKind>,
        /// Since when the thread had it, where that is in the trace. Nobody has a semaphore.
        since: Option<i64>,
        /// Who had it.
        thread: Option<ThreadId>,
    },
    /// A page fault.
    Fault {
        /// The thread; `None` where it is not known yet.
        thread: Option<ThreadId>,
        /// In user mode; `None` where it is not told.
        user: Option<bool>,
        /// What was tried.
        cause: Option<FaultCause>,
    },
    /// It turns out that this thread has run on the CPU since it was last known who did.
    Recognised {
        /// The thread.
        thread: ThreadId,
    },
    /// A message.
    Message {
        /// `ipc`, `pipe` or `queue`.
        mechanism: &'static str,
        /// Whether it was sent or written.
        sends: bool,
        /// The path, where there are several.
        path: Option<IpcPath>,
        /// Bytes, where the event says it.
        len: u64,
    },
    /// A process runs another program.
    Exec {
        /// The process.
        pid: Option<u64>,
        /// The thread that is left of it, or runs the call.
        thread: Option<ThreadId>,
    },
    /// The scheduler begins to look for the next thread, or has decided.
    Scheduler {
        /// Whether it begins.
        begins: bool,
    },
    /// A stretch of a program's work begins.
    SpanBegin {
        /// Its number.
        id: u64,
        /// Who works.
        thread: Option<ThreadId>,
    },
    /// A stretch of a program's work ends.
    SpanEnd {
        /// Its number.
        id: u64,
        /// Who works.
        thread: Option<ThreadId>,
        /// How many stretches end: those that were begun inside it do, too.
        ends: usize,
    },
    /// A program's quantity has a value.
    Counter {
        /// Its number.
        id: u64,
        /// The value.
        value: i64,
    },
    /// A program's point of interest.
    Mark {
        /// Its number.
        id: u64,
    },
    /// Something was lost.
    Lost {
        /// The number of the loss, from 0.
        loss: u64,
    },
    /// A loss is over.
    Regained {
        /// The number of the loss.
        loss: u64,
        /// Not later than this, as is known only now.
        not_after: Option<i64>,
    },
    /// The event contradicts what was recorded before it.
    Contradiction(Contradiction),
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// A thread.
    Thread(ThreadId),
    /// A process.
    Process(u64),
    /// A lock.
    Lock(u64),
    /// An interrupt line.
    Irq(IrqLine),
    /// A system call.
    Call(CallId),
    /// A mark, span or counter.
    User(u64),
}

/// A rule that every kernel's events keep, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// A switch from a thread that did not run there.
    SwitchChain {
        /// The thread that left, as the switch says.
        prev: u64,
        /// The thread that ran.
        ran: u64,
    },
    /// A switch to a thread that runs on another CPU.
    OneCpu {
        /// The thread.
        tid: u64,
        /// The other CPU.
        cpu: u64,
    },
    /// A switch to a thread that has ended.
    AfterEnd {
        /// The thread.
        tid: u64,
    },
    /// The end of a handler that is not the one which began last.
    IrqPair {
        /// The line.
        line: IrqLine,
    },
    /// The end of another system call than the one that the thread is in.
    SyscallPair {
        /// The call that ends.
        ends: CallId,
        /// The call that the thread is in.
        began: CallId,
    },
    /// A lock that is given back by somebody who does not have it.
    LockHeld {
        /// The lock.
        lock: u64,
        /// Whether nobody had it; otherwise another thread.
        free: bool,
    },
}

impl Contradiction {
    /// The rule, a short name that does not change.
    pub fn rule(self) -> &'static str {
        match self {
            Contradiction::SwitchChain { .. } => "switch-chain",
            Contradiction::OneCpu { .. } => "one-cpu",
            Contradiction::AfterEnd { .. } => "after-end",
            Contradiction::IrqPair { .. } => "irq-pair",
            Contradiction::SyscallPair { .. } => "syscall-pair",
            Contradiction::LockHeld { .. } => "lock-held",
        }
    }
}
