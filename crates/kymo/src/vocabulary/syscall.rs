//! System calls.

use super::{NAME_BYTES, Syscall};
use crate::Text;

crate::event! {
    /// A system call begins.
    #[id(5)]
    #[name("sys_enter")]
    pub struct SyscallEnter {
        /// Its number.
        pub id: Syscall,
        /// Its first argument.
        pub arg0: u64,
    }
}

crate::event! {
    /// The running thread's system call ends. A call that never returns (an exit) has no such
    /// event; a successful exec need not have one.
    #[id(6)]
    #[name("sys_exit")]
    pub struct SyscallExit {
        /// Its number.
        pub id: Syscall,
        /// Its result; negative for a failure.
        pub ret: i64,
    }
}

crate::event! {
    /// The name of a system call.
    #[id(36)]
    #[channel(Names)]
    pub struct SyscallName {
        /// Its number.
        pub id: Syscall,
        /// Its name.
        pub name: Text<NAME_BYTES>,
    }
}

super::subject! {
    SyscallEnter,
    SyscallExit,
    SyscallName,
}
