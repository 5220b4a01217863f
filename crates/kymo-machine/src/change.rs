//! The changes that an event makes.

use kymo::ChannelKind;
use kymo::vocabulary::{FaultCause, IpcPath, LockKind, SwitchReason};

use crate::call::CallId;
use crate::counts::Ran;
use crate::irq::IrqLine;
use crate::thread::{Doing, ThreadId, Waker};

/// A change of the model. Unless stated otherwise, it happened at
/// [`Machine::now`](crate::Machine::now) on [`Machine::cpu`](crate::Machine::cpu). Times are in
/// nanoseconds from the clock's origin.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A thread was in the state `was` from `since` to `until`, and is in `now` from then on.
    Doing {
        /// The thread.
        thread: ThreadId,
        /// Its old state.
        was: Doing,
        /// Start of `was`.
        since: i64,
        /// End of `was`.
        until: i64,
        /// Its new state.
        now: Doing,
    },
    /// A CPU switched to another thread.
    Switch {
        /// The thread that leaves the CPU.
        prev: ThreadId,
        /// The thread that runs from now on.
        next: ThreadId,
        /// The reason, if the trace records reasons.
        reason: Option<SwitchReason>,
        /// The new state of `prev`.
        left: Doing,
    },
    /// The thread on a CPU is no longer known.
    Forgot {
        /// The CPU.
        cpu: u64,
    },
    /// A thread, not an idle one, left the CPU on which it had run since `since`.
    OnCpu {
        /// The thread.
        thread: ThreadId,
        /// Time at which it began to run.
        since: i64,
    },
    /// A thread, not an idle one, runs again after it was off CPU since `since`.
    OffCpu {
        /// The thread.
        thread: ThreadId,
        /// Time at which it left its CPU.
        since: i64,
    },
    /// A thread was woken.
    Wakeup {
        /// The thread.
        thread: ThreadId,
        /// The waker.
        waker: Waker,
        /// Whether it was waiting; false for a thread that was running or runnable.
        waited: bool,
    },
    /// A thread that was woken at `since` begins to run.
    WakeLatency {
        /// The thread.
        thread: ThreadId,
        /// Time of the wake-up.
        since: i64,
        /// The waker.
        waker: Waker,
    },
    /// A thread was created.
    Created {
        /// The thread.
        thread: ThreadId,
    },
    /// A thread ended.
    Ended {
        /// The thread.
        thread: ThreadId,
    },
    /// A thread's system call, wait, locks and spans are no longer known.
    Interrupted {
        /// The thread.
        thread: ThreadId,
    },
    /// A thread's number belongs to a new thread from now on.
    Replaced {
        /// The thread that had the number before.
        thread: ThreadId,
    },
    /// A thread's priority was set.
    Priority {
        /// The thread.
        thread: ThreadId,
        /// The priority, in the kernel's numbering.
        prio: i64,
    },
    /// Something got a name, or a different one.
    Named(Named),
    /// An interrupt's handler begins.
    IrqEnter {
        /// The line.
        line: IrqLine,
        /// Number of open handlers on the CPU, this one included.
        depth: usize,
    },
    /// An interrupt's handler ends.
    IrqExit {
        /// The line.
        line: IrqLine,
        /// Time of its begin, and its duration in nanoseconds without nested handlers; `None` if
        /// the trace lacks its begin.
        since: Option<(i64, u64)>,
    },
    /// An interrupt's handler ends that is not the innermost one. All open handlers count as ended.
    IrqMismatch {
        /// The line.
        line: IrqLine,
    },
    /// A system call begins.
    CallEnter {
        /// The call.
        call: CallId,
        /// The caller.
        thread: Option<ThreadId>,
        /// The call in which the caller has been so far, whose end the trace lacks.
        unfinished: Option<CallId>,
    },
    /// A system call ends.
    CallExit {
        /// The call.
        call: CallId,
        /// Time of its begin; `None` if the trace lacks it.
        since: Option<i64>,
        /// The caller.
        thread: Option<ThreadId>,
        /// Whether its result is negative.
        failed: bool,
    },
    /// A thread begins to wait for a lock.
    LockWait {
        /// The lock.
        lock: u64,
        /// Its kind, if the event has it.
        kind: Option<LockKind>,
        /// The waiting thread.
        thread: Option<ThreadId>,
    },
    /// A wait for a lock ended, whether or not the lock was acquired.
    LockWaited {
        /// The lock.
        lock: u64,
        /// Time at which the wait began.
        since: i64,
        /// The thread that waited.
        thread: Option<ThreadId>,
        /// Priority of that thread.
        prio: Option<i64>,
        /// The lock's owner when the wait began.
        owner: Option<ThreadId>,
        /// Priority of the owner when the wait began.
        owner_prio: Option<i64>,
    },
    /// A lock was acquired.
    LockAcquired {
        /// The lock.
        lock: u64,
        /// Its kind, if the event has it.
        kind: Option<LockKind>,
        /// Whether the thread had to wait.
        contended: bool,
        /// The new owner.
        thread: Option<ThreadId>,
    },
    /// An attempt to acquire a lock failed.
    LockFailed {
        /// The lock.
        lock: u64,
        /// Its kind, if the event has it.
        kind: Option<LockKind>,
        /// The thread that tried.
        thread: Option<ThreadId>,
    },
    /// A lock was released.
    LockReleased {
        /// The lock.
        lock: u64,
        /// Its kind, if the event has it.
        kind: Option<LockKind>,
        /// Time of its acquisition, if that is in the trace; always `None` for a semaphore, which
        /// has no owner.
        since: Option<i64>,
        /// The thread that released it.
        thread: Option<ThreadId>,
    },
    /// A page fault.
    Fault {
        /// The thread; `None` if it is not known yet.
        thread: Option<ThreadId>,
        /// Whether in user mode; `None` if the event does not say.
        user: Option<bool>,
        /// The access that faulted.
        cause: Option<FaultCause>,
    },
    /// A switch names the thread that has run on the CPU since the CPU's thread was last known.
    Recognised {
        /// The thread.
        thread: ThreadId,
    },
    /// A message was sent or received.
    Message {
        /// `ipc`, `pipe` or `queue`.
        mechanism: &'static str,
        /// True for a send or write, false for a receive or read.
        sends: bool,
        /// The path through the kernel, if it has several.
        path: Option<IpcPath>,
        /// Length in bytes; 0 if the event lacks it.
        len: u64,
    },
    /// A process executes another program.
    Exec {
        /// The process.
        pid: Option<u64>,
        /// The thread that remains, or that makes the call.
        thread: Option<ThreadId>,
    },
    /// A process was created.
    Forked {
        /// Its parent.
        parent: Option<u64>,
        /// The process.
        pid: u64,
        /// Its first thread.
        thread: Option<ThreadId>,
    },
    /// A process ends.
    ProcessEnded {
        /// The process.
        pid: u64,
        /// The thread with which it ends.
        thread: Option<ThreadId>,
    },
    /// A run queue has a new length.
    RunQueue {
        /// Its CPU; `None` for a queue that CPUs share.
        cpu: Option<u64>,
        /// Number of threads in it.
        len: u64,
    },
    /// The scheduler begins or ends its choice of the next thread.
    Scheduler {
        /// True at the beginning, false at the end.
        begins: bool,
    },
    /// A program's span begins.
    SpanBegin {
        /// Its number.
        id: u64,
        /// The thread.
        thread: Option<ThreadId>,
    },
    /// A program's span ends.
    SpanEnd {
        /// Its number.
        id: u64,
        /// The thread.
        thread: Option<ThreadId>,
        /// Number of spans that end: this one and those inside it. 0 if its begin is unknown.
        ends: usize,
    },
    /// Frames of physical memory were allocated or freed.
    Frames {
        /// Number of frames allocated; negative of those that were freed.
        allocated: i64,
    },
    /// A program's counter has a new value.
    Counter {
        /// Its number.
        id: u64,
        /// The value.
        value: i64,
    },
    /// What a group of a CPU's has counted since its last record of counts, in
    /// [`Machine::counted`](crate::Machine::counted).
    Counted {
        /// The group's number.
        group: u8,
        /// What ran there meanwhile, as far as the events with counts tell.
        ran: Ran,
        /// Whether the group was on the PMU all the time; if not, nothing is known of the counts.
        is_whole: bool,
    },
    /// What a group of a CPU's has counted since the session began to count, in
    /// [`Machine::counted`](crate::Machine::counted); nothing if the CPU cannot count it.
    GroupCounted {
        /// The group's number.
        group: u8,
        /// Nanoseconds since then.
        enabled: u64,
        /// Nanoseconds of these during which the group was on the PMU.
        running: u64,
    },
    /// What a counter or gauge of the kernel's own has on one CPU.
    OwnCounter {
        /// The CPU that has counted, which need not be the one that recorded it.
        cpu: u64,
        /// The counter's number; the environment of the trace has its name.
        counter: u64,
        /// What it has; of a counter, the bits of an unsigned number.
        value: i64,
    },
    /// What a bucket of a histogram of the kernel's own has on one CPU, or the sum of its values.
    OwnBucket {
        /// The CPU that has counted.
        cpu: u64,
        /// The histogram's number.
        counter: u64,
        /// The bucket; one more than the last one stands for the sum.
        bucket: u64,
        /// Number of values in it, or the sum.
        count: u64,
    },
    /// A program set a mark.
    Mark {
        /// Its number.
        id: u64,
    },
    /// A session ended, with its own count of events.
    SessionEnd {
        /// Events recorded before this one.
        recorded: u64,
        /// Dropped events.
        discarded: u64,
    },
    /// A loss began.
    Lost {
        /// Number of the loss, from 0.
        loss: u64,
        /// The CPU whose state is unknown from here on; `None`: of all CPUs.
        cpu: Option<u64>,
    },
    /// A loss ended.
    Regained {
        /// Number of the loss.
        loss: u64,
        /// The loss ended no later than this; known only now.
        not_after: Option<i64>,
    },
    /// The event contradicts what was recorded before it.
    Contradiction(Contradiction),
}

/// Something that has a name.
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

/// A broken rule, of those that the events of every kernel keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// A switch from a thread that did not run on this CPU.
    SwitchChain {
        /// The thread that left, by the switch event.
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
    /// The end of a handler that is not the innermost one.
    IrqPair {
        /// The line.
        line: IrqLine,
    },
    /// The end of a system call other than the one that the thread is in.
    SyscallPair {
        /// The call that ends.
        ends: CallId,
        /// The call that the thread is in.
        began: CallId,
    },
    /// A lock released by a thread that does not hold it.
    LockHeld {
        /// The lock.
        lock: u64,
        /// True if nobody held it, false if another thread did.
        free: bool,
    },
    /// A CPU's clock stepped back; whoever wrote the trace saw it between two records.
    ClockStep {
        /// Distance in ticks.
        ticks: u64,
    },
    /// A writer found its clock behind the time window of its previous record. The same step is
    /// usually a [`ClockStep`](Self::ClockStep) too, unless the records around it are lost.
    ClockBehind {
        /// The writer's channel.
        channel: Option<ChannelKind>,
        /// Number of times that this writer has found it so.
        count: u64,
        /// Distance of the clock behind the window in ticks.
        ticks: u64,
    },
    /// Thread 0, which is every CPU's idle thread, is treated as another one. Only the first time
    /// that it is so.
    IdleThread(NotIdle),
}

/// What happens to no idle thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotIdle {
    /// It got a name without `idle` or `swapper` in it.
    Named,
    /// It was created.
    Created,
    /// It was woken.
    Woken,
    /// It blocked, slept or was suspended.
    Blocked,
    /// It ended.
    Ended,
}

impl Contradiction {
    /// The rule's name: short and stable.
    pub fn rule(self) -> &'static str {
        match self {
            Contradiction::SwitchChain { .. } => "switch-chain",
            Contradiction::OneCpu { .. } => "one-cpu",
            Contradiction::AfterEnd { .. } => "after-end",
            Contradiction::IrqPair { .. } => "irq-pair",
            Contradiction::SyscallPair { .. } => "syscall-pair",
            Contradiction::LockHeld { .. } => "lock-held",
            Contradiction::ClockStep { .. } | Contradiction::ClockBehind { .. } => "clock-back",
            Contradiction::IdleThread(_) => "idle-thread",
        }
    }
}
