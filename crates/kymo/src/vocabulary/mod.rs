//! The standard kernel events, one file a subject. Where Linux has the event, its name and its
//! fields' names are used.
//!
//! An event says what the running thread does, and leaves out which one that is: the switches say
//! it. Numbers are wide enough for any kernel.
//!
//! Compact ids 1 to 20 belong to this vocabulary, 21 to 29 to the kernel that carries it; from 32
//! to 999 to this vocabulary again, one block of 16 a subject.

mod id;
mod ipc;
mod irq;
mod lock;
mod memory;
mod process;
mod sched;
mod session;
mod syscall;
mod user;

pub use id::{Address, Irq, Object, Pid, Syscall, Tid};
pub use ipc::{IpcPath, IpcReceive, IpcSend, PipeRead, PipeWrite, QueueReceive, QueueSend};
pub use irq::{Exception, IrqEnter, IrqExit, IrqName};
pub use lock::{LockAcquired, LockFailed, LockKind, LockName, LockReleased, LockWait};
pub use memory::{FaultCause, FrameAlloc, FrameFree, PageFault};
pub use process::{ProcessExec, ProcessKill, ProcessName, ProcessStateDump};
pub use sched::{
    SchedEnter, SchedExit, SchedPriority, SchedSwitch, SchedWakeup, SchedWakeupNew, SwitchReason,
    ThreadCreate, ThreadDelay, ThreadExit, ThreadName, ThreadResume, ThreadState, ThreadStateDump,
    ThreadSuspend, ThreadYield,
};
pub use session::{ClockBack, SessionEnd};
pub use syscall::{SyscallEnter, SyscallExit, SyscallName};
pub use user::{Counter, Mark, SpanBegin, SpanEnd, UserName};

/// Version of these declarations: it grows when an event or a field changes its meaning or goes,
/// not when one comes.
pub const VERSION: u16 = 1;

/// The list of all, and what their types are called.
macro_rules! all {
    ($($event:ident,)*) => {
        /// All of them.
        pub static ALL: crate::Vocabulary = crate::vocabulary![$($event),*];

        /// Each event's type in this module, and its name in a trace: for tools that meet the type
        /// in a kernel's debug information.
        pub const TYPES: &[(&str, &str)] = &[$((stringify!($event), <$event as crate::event::Event>::SCHEMA.name)),*];
    };
}

all! {
    SchedSwitch,
    IrqEnter,
    IrqExit,
    SchedWakeup,
    SyscallEnter,
    SyscallExit,
    LockWait,
    LockAcquired,
    LockReleased,
    PageFault,
    FrameAlloc,
    FrameFree,
    IpcSend,
    IpcReceive,
    SchedEnter,
    SchedExit,
    SpanBegin,
    SpanEnd,
    Counter,
    Mark,
    ThreadName,
    ProcessName,
    LockName,
    IrqName,
    SyscallName,
    UserName,
    ThreadStateDump,
    ProcessStateDump,
    ThreadCreate,
    ThreadExit,
    ThreadSuspend,
    ThreadResume,
    ThreadDelay,
    ThreadYield,
    SchedPriority,
    SchedWakeupNew,
    Exception,
    LockFailed,
    PipeWrite,
    PipeRead,
    QueueSend,
    QueueReceive,
    ProcessExec,
    ProcessKill,
    ClockBack,
    SessionEnd,
}
