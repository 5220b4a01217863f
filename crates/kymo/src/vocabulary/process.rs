//! Processes.

use super::{Pid, Tid};
use crate::Text;

crate::event! {
    /// A process executes another program.
    #[id(128)]
    #[name("sched_process_exec")]
    pub struct ProcessExec {
        /// The process.
        pub pid: Pid,
        /// The calling thread.
        pub tid: Tid,
        /// Path or name of the program.
        pub filename: Text<32>,
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
        pub name: Text<32>,
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
        pub name: Text<32>,
    }
}

super::subject! {
    ProcessExec,
    ProcessKill,
    ProcessName,
    ProcessStateDump,
}
