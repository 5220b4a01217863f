//! Which event means what, by its name: those of [`mod@kymo::vocabulary`], and Linux's.

use std::collections::HashMap;
use std::sync::Arc;

use kymo::event::Event as _;
use kymo::vocabulary::{
    IpcReceive, IpcSend, IrqEnter, IrqExit, IrqName, LockAcquired, LockFailed, LockName, LockReleased, LockWait, PageFault,
    PipeRead, PipeWrite, ProcessName, ProcessStateDump, QueueReceive, QueueSend, SchedPriority, SchedSwitch, SchedWakeup,
    SyscallEnter, SyscallExit, SyscallName, ThreadCreate, ThreadExit, ThreadName, ThreadResume, ThreadStateDump, ThreadSuspend,
};
use kymo_ctf::{Event, EventClass, Metadata};

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SyscallKey {
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
pub(crate) enum Kind {
    Switch,
    Wakeup,
    Create,
    Exit,
    Suspend,
    Resume,
    Priority,
    ThreadName,
    ThreadState,
    ProcessName,
    IrqEnter,
    IrqExit,
    IrqName,
    /// The name is `None` where a field has the number.
    SyscallEnter(Option<Arc<str>>),
    SyscallExit(Option<Arc<str>>),
    SyscallName,
    LockWait,
    LockAcquired,
    LockReleased,
    LockFailed,
    LockName,
    /// Whether user mode faulted, where the name says it.
    PageFault(Option<bool>),
    /// The mechanism, and whether it is a send.
    Message(&'static str, bool),
    Other,
}

impl Kind {
    fn of(class: &EventClass) -> Kind {
        const SWITCH: &str = SchedSwitch::SCHEMA.name;
        const WAKEUP: &str = SchedWakeup::SCHEMA.name;
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
        match &*class.name {
            SWITCH => Kind::Switch,
            WAKEUP => Kind::Wakeup,
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
            "x86_exceptions_page_fault_user" | "exceptions_page_fault_user" => Kind::PageFault(Some(true)),
            "x86_exceptions_page_fault_kernel" | "exceptions_page_fault_kernel" => Kind::PageFault(Some(false)),
            IPC_SEND => Kind::Message("ipc", true),
            IPC_RECEIVE => Kind::Message("ipc", false),
            PIPE_WRITE => Kind::Message("pipe", true),
            PIPE_READ => Kind::Message("pipe", false),
            QUEUE_SEND => Kind::Message("queue", true),
            QUEUE_RECEIVE => Kind::Message("queue", false),
            name => {
                let call = |prefix| name.strip_prefix(prefix).map(|call: &str| Some(Arc::from(call)));
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
pub(crate) struct Kinds(HashMap<(u64, u64), Kind>);

impl Kinds {
    pub(crate) fn new(metadata: &Metadata) -> Kinds {
        let classes = metadata.streams().flat_map(|stream| stream.events.values());
        Kinds(classes.map(|class| ((class.stream_id, class.id), Kind::of(class))).collect())
    }

    pub(crate) fn get(&self, event: &Event) -> Kind {
        self.0.get(&(event.class.stream_id, event.class.id)).cloned().unwrap_or(Kind::Other)
    }
}
