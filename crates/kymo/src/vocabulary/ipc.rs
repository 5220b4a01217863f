//! Messages between threads and processes.

use super::{Object, Tid};

crate::enumeration! {
    /// The path of a message through the kernel.
    pub enum IpcPath: u8 {
        /// Directly from thread to thread.
        Fast = 0,
        /// Through a queue and the scheduler.
        Slow = 1,
    }
}

crate::event! {
    /// The running thread sends a message.
    #[id(13)]
    pub struct IpcSend {
        /// The port or endpoint.
        pub port: Object,
        /// The receiving thread, or 0 if unknown.
        pub target_tid: Tid,
        /// Length in bytes.
        pub len: u32,
        /// Its path.
        pub path: IpcPath,
    }
}

crate::event! {
    /// The running thread received a message.
    #[id(14)]
    pub struct IpcReceive {
        /// The port or endpoint.
        pub port: Object,
        /// The sending thread, or 0 if unknown.
        pub source_tid: Tid,
        /// Length in bytes.
        pub len: u32,
        /// Its path.
        pub path: IpcPath,
    }
}

crate::event! {
    /// The running thread wrote to a pipe.
    #[id(112)]
    pub struct PipeWrite {
        /// The pipe.
        pub pipe: Object,
        /// Bytes written.
        pub len: u32,
    }
}

crate::event! {
    /// The running thread read from a pipe.
    #[id(113)]
    pub struct PipeRead {
        /// The pipe.
        pub pipe: Object,
        /// Bytes read.
        pub len: u32,
    }
}

crate::event! {
    /// The running thread put a message into a queue.
    #[id(114)]
    pub struct QueueSend {
        /// The queue.
        pub queue: Object,
        /// Number of messages in it afterwards.
        pub depth: u32,
    }
}

crate::event! {
    /// The running thread took a message out of a queue.
    #[id(115)]
    pub struct QueueReceive {
        /// The queue.
        pub queue: Object,
        /// Number of messages in it afterwards.
        pub depth: u32,
    }
}

super::subject! {
    IpcSend,
    IpcReceive,
    PipeWrite,
    PipeRead,
    QueueSend,
    QueueReceive,
}
