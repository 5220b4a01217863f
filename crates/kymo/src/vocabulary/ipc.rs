//! Messages between threads and processes.

use super::{Object, Tid};

crate::enumeration! {
    /// How a message went.
    pub enum IpcPath: u8 {
        /// From thread to thread, at once.
        Fast = 0,
        /// By way of a queue and the scheduler.
        Slow = 1,
    }
}

crate::event! {
    /// The running thread sends a message.
    #[id(13)]
    pub struct IpcSend {
        /// The port or endpoint.
        pub port: Object,
        /// Who gets it; 0 where that is not known.
        pub target_tid: Tid,
        /// Bytes.
        pub len: u32,
        /// How.
        pub path: IpcPath,
    }
}

crate::event! {
    /// The running thread has a message.
    #[id(14)]
    pub struct IpcReceive {
        /// The port or endpoint.
        pub port: Object,
        /// Who sent it; 0 where that is not known.
        pub source_tid: Tid,
        /// Bytes.
        pub len: u32,
        /// How.
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
        /// Messages in it from here on.
        pub depth: u32,
    }
}

crate::event! {
    /// The running thread took a message out of a queue.
    #[id(115)]
    pub struct QueueReceive {
        /// The queue.
        pub queue: Object,
        /// Messages in it from here on.
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
