//! Processes.

use super::{NAME_BYTES, Pid, Tid};
use crate::Text;

crate::event! {
    /// A process was created by another one. Its first thread has a `thread_create` too, unless the
    /// kernel does not tell threads from processes.
    #[id(130)]
    #[name("sched_process_fork")]
    pub struct ProcessFork {
        /// The thread that created it, or 0 for the kernel.
        pub parent_tid: Tid,
        /// The process of that thread, or 0 for the kernel.
        pub parent_pid: Pid,
        /// The first thread of the new process.
        pub child_tid: Tid,
        /// The new process.
        pub child_pid: Pid,
    }
}

crate::event! {
    /// A process ends with the thread that records this. The thread has a `thread_exit` too, unless
    /// the kernel does not tell threads from processes.
    #[id(131)]
    #[name("sched_process_exit")]
    pub struct ProcessExit {
        /// The thread.
        pub tid: Tid,
        /// The process.
        pub pid: Pid,
        /// Its status, in the kernel's numbering.
        pub status: i32,
    }
}

crate::event! {
    /// A process executes another program. The call that asked for it ends here: a `sys_exit` that
    /// follows is optional.
    #[id(128)]
    #[name("sched_process_exec")]
    pub struct ProcessExec {
        /// The process.
        pub pid: Pid,
        /// The calling thread.
        pub tid: Tid,
        /// Path or name of the program.
        pub filename: Text<NAME_BYTES>,
    }
}

crate::event! {
    /// A process was killed.
    #[id(129)]
    pub struct ProcessKill {
        /// The process.
        pub pid: Pid,
        /// The thread that killed it, or 0 for the kernel.
        pub killer_tid: Tid,
    }
}

crate::event! {
    /// The name of a process.
    #[id(33)]
    #[channel(Names)]
    pub struct ProcessName {
        /// The process.
        pub pid: Pid,
        /// Its name.
        pub name: Text<NAME_BYTES>,
    }
}

crate::event! {
    /// A process that existed when recording began, or when names were recorded again. This event
    /// never revives an ended process.
    #[id(49)]
    #[name("process_state")]
    #[channel(Names)]
    pub struct ProcessStateDump {
        /// The process.
        pub pid: Pid,
        /// Its parent, or 0.
        pub parent_pid: Pid,
        /// Its name.
        pub name: Text<NAME_BYTES>,
    }
}

super::subject! {
    ProcessFork,
    ProcessExit,
    ProcessExec,
    ProcessKill,
    ProcessName,
    ProcessStateDump,
}
