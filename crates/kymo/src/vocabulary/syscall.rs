//! System calls.

use super::Syscall;
use crate::Text;

crate::event! {
    /// A system call begins.
    #[id(5)]
    #[name("sys_enter")]
    pub struct SyscallEnter {
        /// Which.
        pub id: Syscall,
        /// Its first argument.
        pub arg0: u64,
    }
}

crate::event! {
    /// The system call that the thread began last ends. One that never returns (an exec that works,
    /// an exit) has none.
    #[id(6)]
    #[name("sys_exit")]
    pub struct SyscallExit {
        /// Which.
        pub id: Syscall,
        /// Its result; negative where it failed.
        pub ret: i64,
    }
}

crate::event! {
    /// What a system call is called.
    #[id(36)]
    #[channel(Names)]
    pub struct SyscallName {
        /// Which.
        pub id: Syscall,
        /// Its name.
        pub name: Text<16>,
    }
}

super::subject! {
    SyscallEnter,
    SyscallExit,
    SyscallName,
}
