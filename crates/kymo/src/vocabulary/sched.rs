//! Scheduling.

use super::Tid;
use crate::Text;

crate::event! {
    /// The scheduler gave this CPU to another thread.
    #[id(1)]
    pub struct SchedSwitch {
        /// The thread that leaves.
        pub prev_tid: Tid,
        /// The thread that runs from here on.
        pub next_tid: Tid,
    }
}

crate::event! {
    /// What a thread is called.
    #[id(32)]
    #[channel(Names)]
    pub struct ThreadName {
        /// The thread.
        pub tid: Tid,
        /// Its name.
        pub name: Text<16>,
    }
}
