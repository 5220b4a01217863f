//! Which event means what, by its name: those of [`mod@kymo::vocabulary`], and Linux's.

use std::collections::HashMap;
use std::sync::Arc;

use kymo::event::Event as _;
use kymo::vocabulary::{
    Counter, IpcReceive, IpcSend, IrqEnter, IrqExit, IrqName, LockAcquired, LockFailed, LockName,
    LockReleased, LockWait, Mark, PageFault, PipeRead, PipeWrite, ProcessExec, ProcessName,
    ProcessStateDump, QueueReceive, QueueSend, SchedEnter, SchedExit, SchedPriority, SchedSwitch,
    SchedWakeup, SchedWakeupNew, SpanBegin, SpanEnd, SyscallEnter, SyscallExit, SyscallName,
    ThreadCreate, ThreadExit, ThreadName, ThreadResume, ThreadState as Told, ThreadStateDump,
    ThreadSuspend, UserName,
};
use kymo_ctf::{Event, EventClass, Metadata, Value};

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyscallKey {
    /// The kernel's number.
    Number(u64),
    /// A tracer that has an event of its own for each call.
    Named(Arc<str>),
}

impl std::fmt::Display for SyscallKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SyscallKey::Number(id) => id.fmt(f),
            SyscallKey::Named(name) => name.fmt(f),
        }
    }
}

/// What an event means here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A CPU was given to another thread.
    Switch,
    /// A thread can run.
    Wakeup,
    /// Linux: it is being woken; the wake-up follows.
    Waking,
    /// A thread was made.
    Create,
    /// The same, as Linux tells it.
    Fork,
    /// A thread is over.
    Exit,
    /// A thread was suspended.
    Suspend,
    /// A suspended thread goes on.
    Resume,
    /// A thread's priority changed.
    Priority,
    /// A process runs another program.
    Exec,
    /// The scheduler begins.
    SchedEnter,
    /// The scheduler ends.
    SchedExit,
    /// What a thread is called.
    ThreadName,
    /// A thread that was there already.
    ThreadState,
    /// The same, as LTTng tells it.
    LinuxState,
    /// What a process is called.
    ProcessName,
    /// An interrupt's handler begins.
    IrqEnter,
    /// It ends.
    IrqExit,
    /// Linux: a soft interrupt's handler begins.
    SoftIrqEnter,
    /// It ends.
    SoftIrqExit,
    /// What an interrupt line is called.
    IrqName,
    /// A system call begins. The name is `None` where a field has the number.
    SyscallEnter(Option<Arc<str>>),
    /// It ends.
    SyscallExit(Option<Arc<str>>),
    /// What a system call is called.
    SyscallName,
    /// A thread waits for a lock.
    LockWait,
    /// It has it.
    LockAcquired,
    /// It gave it back.
    LockReleased,
    /// It did not get it.
    LockFailed,
    /// What a lock is called.
    LockName,
    /// Whether user mode faulted, where the name says it.
    PageFault(Option<bool>),
    /// The mechanism, and whether it is a send.
    Message(&'static str, bool),
    /// A program's stretch of work begins.
    SpanBegin,
    /// It ends.
    SpanEnd,
    /// A program's quantity has a value.
    Counter,
    /// A program's point of interest.
    Mark,
    /// What a mark, span or counter is called.
    UserName,
    /// Anything else.
    Other,
}

impl Kind {
    fn of(class: &EventClass) -> Kind {
        const SWITCH: &str = SchedSwitch::SCHEMA.name;
        const WAKEUP: &str = SchedWakeup::SCHEMA.name;
        const WAKEUP_NEW: &str = SchedWakeupNew::SCHEMA.name;
        const CREATE: &str = ThreadCreate::SCHEMA.name;
        const EXIT: &str = ThreadExit::SCHEMA.name;
        const SUSPEND: &str = ThreadSuspend::SCHEMA.name;
        const RESUME: &str = ThreadResume::SCHEMA.name;
        const PRIORITY: &str = SchedPriority::SCHEMA.name;
        const THREAD_NAME: &str = ThreadName::SCHEMA.name;
        const THREAD_STATE: &str = ThreadStateDump::SCHEMA.name;
        const PROCESS_NAME: &str = ProcessName::SCHEMA.name;
        const PROCESS_STATE: &str = ProcessStateDump::SCHEMA.name;
        const IRQ_ENTER: &str = IrqEnter::SCHEMA.name;
        const IRQ_EXIT: &str = IrqExit::SCHEMA.name;
        const IRQ_NAME: &str = IrqName::SCHEMA.name;
        const SYSCALL_ENTER: &str = SyscallEnter::SCHEMA.name;
        const SYSCALL_EXIT: &str = SyscallExit::SCHEMA.name;
        const SYSCALL_NAME: &str = SyscallName::SCHEMA.name;
        const LOCK_WAIT: &str = LockWait::SCHEMA.name;
        const LOCK_ACQUIRED: &str = LockAcquired::SCHEMA.name;
        const LOCK_RELEASED: &str = LockReleased::SCHEMA.name;
        const LOCK_FAILED: &str = LockFailed::SCHEMA.name;
        const LOCK_NAME: &str = LockName::SCHEMA.name;
        const PAGE_FAULT: &str = PageFault::SCHEMA.name;
        const IPC_SEND: &str = IpcSend::SCHEMA.name;
        const IPC_RECEIVE: &str = IpcReceive::SCHEMA.name;
        const PIPE_WRITE: &str = PipeWrite::SCHEMA.name;
        const PIPE_READ: &str = PipeRead::SCHEMA.name;
        const QUEUE_SEND: &str = QueueSend::SCHEMA.name;
        const QUEUE_RECEIVE: &str = QueueReceive::SCHEMA.name;
        const EXEC: &str = ProcessExec::SCHEMA.name;
        const SCHED_ENTER: &str = SchedEnter::SCHEMA.name;
        const SCHED_EXIT: &str = SchedExit::SCHEMA.name;
        const SPAN_BEGIN: &str = SpanBegin::SCHEMA.name;
        const SPAN_END: &str = SpanEnd::SCHEMA.name;
        const COUNTER: &str = Counter::SCHEMA.name;
        const MARK: &str = Mark::SCHEMA.name;
        const USER_NAME: &str = UserName::SCHEMA.name;
        match &*class.name {
            SWITCH => Kind::Switch,
            WAKEUP | WAKEUP_NEW => Kind::Wakeup,
            CREATE => Kind::Create,
            EXIT | "sched_process_exit" => Kind::Exit,
            SUSPEND => Kind::Suspend,
            RESUME => Kind::Resume,
            PRIORITY => Kind::Priority,
            THREAD_NAME => Kind::ThreadName,
            THREAD_STATE => Kind::ThreadState,
            PROCESS_NAME | PROCESS_STATE => Kind::ProcessName,
            IRQ_ENTER => Kind::IrqEnter,
            IRQ_EXIT => Kind::IrqExit,
            IRQ_NAME => Kind::IrqName,
            SYSCALL_ENTER => Kind::SyscallEnter(None),
            SYSCALL_EXIT => Kind::SyscallExit(None),
            SYSCALL_NAME => Kind::SyscallName,
            LOCK_WAIT => Kind::LockWait,
            LOCK_ACQUIRED => Kind::LockAcquired,
            LOCK_RELEASED => Kind::LockReleased,
            LOCK_FAILED => Kind::LockFailed,
            LOCK_NAME => Kind::LockName,
            PAGE_FAULT => Kind::PageFault(None),
            "x86_exceptions_page_fault_user" | "exceptions_page_fault_user" => {
                Kind::PageFault(Some(true))
            }
            "x86_exceptions_page_fault_kernel" | "exceptions_page_fault_kernel" => {
                Kind::PageFault(Some(false))
            }
            IPC_SEND => Kind::Message("ipc", true),
            IPC_RECEIVE => Kind::Message("ipc", false),
            PIPE_WRITE => Kind::Message("pipe", true),
            PIPE_READ => Kind::Message("pipe", false),
            QUEUE_SEND => Kind::Message("queue", true),
            QUEUE_RECEIVE => Kind::Message("queue", false),
            "sched_waking" => Kind::Waking,
            "sched_process_fork" => Kind::Fork,
            "lttng_statedump_process_state" => Kind::LinuxState,
            "irq_softirq_entry" | "softirq_entry" => Kind::SoftIrqEnter,
            "irq_softirq_exit" | "softirq_exit" => Kind::SoftIrqExit,
            EXEC => Kind::Exec,
            SCHED_ENTER => Kind::SchedEnter,
            SCHED_EXIT => Kind::SchedExit,
            SPAN_BEGIN => Kind::SpanBegin,
            SPAN_END => Kind::SpanEnd,
            COUNTER => Kind::Counter,
            MARK => Kind::Mark,
            USER_NAME => Kind::UserName,
            name => {
                let call = |prefix| {
                    name.strip_prefix(prefix)
                        .map(|call: &str| Some(Arc::from(call)))
                };
                if let Some(call) = call("syscall_entry_") {
                    Kind::SyscallEnter(call)
                } else if let Some(call) = call("syscall_exit_") {
                    Kind::SyscallExit(call)
                } else {
                    Kind::Other
                }
            }
        }
    }
}

/// The kinds of a trace's events.
#[derive(Debug)]
pub struct Kinds(HashMap<(u64, u64), Kind>);

impl Kinds {
    /// Of the events that the metadata declares.
    pub fn new(metadata: &Metadata) -> Kinds {
        let classes = metadata.streams().flat_map(|stream| stream.events.values());
        Kinds(
            classes
                .map(|class| ((class.stream_id, class.id), Kind::of(class)))
                .collect(),
        )
    }

    /// What this event means.
    pub fn get(&self, event: &Event) -> Kind {
        self.0
            .get(&(event.class.stream_id, event.class.id))
            .cloned()
            .unwrap_or(Kind::Other)
    }
}

/// What a thread that leaves its CPU does from there on, as the switch tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Not told.
    Unknown,
    /// It could run.
    Runnable,
    /// It waits for something.
    Blocked,
    /// It waits for a point in time.
    Sleeping,
    /// It was taken out.
    Suspended,
    /// It is over.
    Ended,
}

impl Left {
    /// By a switch's fields: Kymo's, or Linux's.
    pub fn of(switch: &Event) -> Left {
        const RUNNABLE: i64 = Told::Runnable as i64;
        const BLOCKED: i64 = Told::Blocked as i64;
        const SLEEPING: i64 = Told::Sleeping as i64;
        const SUSPENDED: i64 = Told::Suspended as i64;
        const ENDED: i64 = Told::Ended as i64;
        let Some(state) = switch.fields.get("prev_state").and_then(Value::as_i64) else {
            return Left::Unknown;
        };
        if switch.fields.get("reason").is_some() {
            return match state {
                RUNNABLE => Left::Runnable,
                BLOCKED => Left::Blocked,
                SLEEPING => Left::Sleeping,
                SUSPENDED => Left::Suspended,
                ENDED => Left::Ended,
                _ => Left::Unknown,
            };
        }
        // Linux's bits (include/linux/sched.h): 1 and 2 wait, 4 is stopped, 8 traced, 0x10 and 0x20
        // are over, 0x80 is dead.
        match state {
            0 => Left::Runnable,
            state if state & 0xb0 != 0 => Left::Ended,
            state if state & 0xc != 0 => Left::Suspended,
            state if state & 3 != 0 => Left::Blocked,
            _ => Left::Unknown,
        }
    }
}
