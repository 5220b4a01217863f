//! Locks. Each is traced at one level only: a mutex built on a spin lock is recorded as a mutex.

use super::{NAME_BYTES, Object, Tid};
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
    /// The running thread must wait for a lock.
    #[id(7)]
    #[name("lock_wait")]
    pub struct LockWait {
        /// The lock.
        pub lock: Object,
        /// The thread that holds it, or 0 or 4294967295 (`Tid::UNKNOWN`) if that is not known: then
        /// the one that last acquired it.
        pub owner_tid: Tid,
        /// Its kind.
        pub kind: LockKind,
    }
}

crate::event! {
    /// The running thread acquired a lock.
    #[id(8)]
    pub struct LockAcquired {
        /// The lock.
        pub lock: Object,
        /// Its kind.
        pub kind: LockKind,
        /// Whether the thread had to wait.
        pub contended: bool,
    }
}

crate::event! {
    /// A lock was released, or a semaphore incremented.
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
    /// The running thread failed to acquire a lock: it would not wait, or its wait was cut short.
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
    /// The name of a lock.
    #[id(34)]
    #[channel(Names)]
    pub struct LockName {
        /// The lock.
        pub lock: Object,
        /// Its kind.
        pub kind: LockKind,
        /// Its name.
        pub name: Text<NAME_BYTES>,
    }
}

crate::event! {
    /// A lock that was held when recording began, or when names were recorded again. Semaphores
    /// have no owner, and no such event.
    #[id(50)]
    #[name("lock_state")]
    #[channel(Names)]
    pub struct LockStateDump {
        /// The lock.
        pub lock: Object,
        /// The thread that holds it.
        pub owner_tid: Tid,
        /// Its kind.
        pub kind: LockKind,
    }
}

super::subject! {
    LockWait,
    LockAcquired,
    LockReleased,
    LockFailed,
    LockName,
    LockStateDump,
}
