//! Processes.

use super::{Pid, Tid};
use crate::Text;

crate::event! {
    /// A process runs another program from here on.
    #[id(128)]
    #[name("sched_process_exec")]
    pub struct ProcessExec {
        /// The process.
        pub pid: Pid,
        /// The thread that called.
        pub tid: Tid,
        /// The program.
        pub filename: Text<32>,
    }
}

crate::event! {
    /// A process was ended from outside.
    #[id(129)]
    pub struct ProcessKill {
        /// The process.
        pub pid: Pid,
        /// Who did it; 0 where the kernel did.
        pub killer_tid: Tid,
    }
}

crate::event! {
    /// What a process is called.
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
    /// A process that existed when recording began, or when names were recorded again. It never
    /// revives one that has ended.
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
