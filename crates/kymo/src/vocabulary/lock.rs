//! Locks. Each is traced at one level only: a mutex built of a spin lock records as the mutex.

use super::{Object, Tid};
use crate::Text;

crate::enumeration! {
    /// Kinds of locks.
    pub enum LockKind: u8 {
        /// Has an owner; waiters sleep.
        Mutex = 0,
        /// Counts; waiters sleep.
        Semaphore = 1,
        /// Waiters spin.
        Spin = 2,
    }
}

crate::event! {
    /// A thread wants a lock that it cannot have at once.
    #[id(7)]
    #[name("lock_wait")]
    pub struct LockWait {
        /// The lock.
        pub lock: Object,
        /// Who has it; 0 where nobody can say.
        pub owner_tid: Tid,
        /// Its kind.
        pub kind: LockKind,
    }
}

crate::event! {
    /// The running thread has the lock.
    #[id(8)]
    pub struct LockAcquired {
        /// The lock.
        pub lock: Object,
        /// Its kind.
        pub kind: LockKind,
        /// Whether it waited.
        pub contended: bool,
    }
}

crate::event! {
    /// The lock is free again, or the semaphore counts one more.
    #[id(9)]
    #[name("lock_release")]
    pub struct LockReleased {
        /// The lock.
        pub lock: Object,
        /// Its kind.
        pub kind: LockKind,
    }
}

crate::event! {
    /// The running thread did not get the lock: it did not want to wait, or was woken otherwise.
    #[id(96)]
    pub struct LockFailed {
        /// The lock.
        pub lock: Object,
        /// The error number.
        pub error: i32,
        /// Its kind.
        pub kind: LockKind,
    }
}

crate::event! {
    /// What a lock is called.
    #[id(34)]
    #[channel(Names)]
    pub struct LockName {
        /// The lock.
        pub lock: Object,
        /// Its kind.
        pub kind: LockKind,
        /// Its name.
        pub name: Text<24>,
    }
}

super::subject! {
    LockWait,
    LockAcquired,
    LockReleased,
    LockFailed,
    LockName,
}
