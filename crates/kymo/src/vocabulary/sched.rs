//! Scheduling: who runs, who wants to, and why not. Times on a processor are those between two
//! switches.

use super::{Object, Pid, Tid};
use crate::Text;

crate::enumeration! {
    /// What a thread does while it does not run.
    pub enum ThreadState: u8 {
        /// It could run.
        Runnable = 0,
        /// It waits for something: a lock, a message, input.
        Blocked = 1,
        /// It waits for a point in time.
        Sleeping = 2,
        /// It was taken out, and waits to be put back.
        Suspended = 3,
        /// It is over.
        Ended = 4,
    }
}

crate::enumeration! {
    /// Why a thread leaves its CPU.
    pub enum SwitchReason: u8 {
        /// Another one has a higher priority.
        Preempted = 0,
        /// Its share of time is used up.
        Expired = 1,
        /// It asked for it.
        Yielded = 2,
        /// It has to wait.
        Waits = 3,
        /// It, or another thread, suspended it.
        Suspended = 4,
        /// It ended.
        Ended = 5,
        /// It has nothing to do: it is the idle thread.
        Idle = 6,
    }
}

crate::event! {
    /// The scheduler gave this CPU to another thread.
    #[id(1)]
    pub struct SchedSwitch {
        /// The thread that leaves.
        pub prev_tid: Tid,
        /// The thread that runs from here on.
        pub next_tid: Tid,
        /// What the one that leaves does from here on.
        pub prev_state: ThreadState,
        /// Why it leaves.
        pub reason: SwitchReason,
        /// The priority of the one that runs, as the kernel counts them.
        pub next_prio: i16,
    }
}

crate::event! {
    /// A thread that waited can run.
    #[id(4)]
    pub struct SchedWakeup {
        /// The thread.
        pub tid: Tid,
        /// Who woke it: the running thread, or 0 where an interrupt did.
        pub waker_tid: Tid,
        /// The CPU that it is to run on.
        pub target_cpu: u32,
    }
}

crate::event! {
    /// A new thread can run for the first time.
    #[id(71)]
    pub struct SchedWakeupNew {
        /// The thread.
        pub tid: Tid,
        /// Who let it go: the running thread, or 0 where nobody did.
        pub waker_tid: Tid,
        /// The CPU that it is to run on.
        pub target_cpu: u32,
    }
}

crate::event! {
    /// The scheduler begins to look for the next thread.
    #[id(15)]
    pub struct SchedEnter {}
}

crate::event! {
    /// The scheduler has decided.
    #[id(16)]
    pub struct SchedExit {}
}

crate::event! {
    /// A thread was created.
    #[id(64)]
    pub struct ThreadCreate {
        /// The thread.
        pub tid: Tid,
        /// Its process.
        pub pid: Pid,
        /// Who created it; 0 at boot.
        pub parent_tid: Tid,
        /// Its priority.
        pub prio: i16,
    }
}

crate::event! {
    /// A thread is over. Its id may be used again.
    #[id(65)]
    pub struct ThreadExit {
        /// The thread.
        pub tid: Tid,
        /// Its process.
        pub pid: Pid,
        /// What it was doing when it was ended.
        pub prev_state: ThreadState,
    }
}

crate::event! {
    /// A thread was suspended.
    #[id(66)]
    pub struct ThreadSuspend {
        /// The thread.
        pub tid: Tid,
    }
}

crate::event! {
    /// A suspended thread goes on.
    #[id(67)]
    pub struct ThreadResume {
        /// The thread.
        pub tid: Tid,
    }
}

crate::event! {
    /// A thread asked to sleep.
    #[id(68)]
    pub struct ThreadDelay {
        /// The thread.
        pub tid: Tid,
        /// For how long, in ticks of the trace's clock.
        pub ticks: u64,
    }
}

crate::event! {
    /// A thread asked to be put behind the others; not recorded where it is pre-empted.
    #[id(69)]
    pub struct ThreadYield {
        /// The thread.
        pub tid: Tid,
    }
}

crate::event! {
    /// A thread's priority changed.
    #[id(70)]
    #[name("sched_pi_setprio")]
    pub struct SchedPriority {
        /// The thread.
        pub tid: Tid,
        /// What it was.
        pub oldprio: i16,
        /// What it is.
        pub newprio: i16,
        /// The lock whose waiter lent it, or 0.
        pub lock: Object,
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

crate::event! {
    /// A thread that existed when recording began, or when names were recorded again. It never
    /// revives one that has ended.
    #[id(48)]
    #[name("thread_state")]
    #[channel(Names)]
    pub struct ThreadStateDump {
        /// The thread.
        pub tid: Tid,
        /// Its process.
        pub pid: Pid,
        /// Its priority.
        pub prio: i16,
        /// What it does.
        pub state: ThreadState,
        /// The CPU that it runs on, or ran on last.
        pub cpu: u32,
        /// Its name.
        pub name: Text<16>,
    }
}

super::subject! {
    SchedSwitch,
    SchedWakeup,
    SchedWakeupNew,
    SchedEnter,
    SchedExit,
    ThreadCreate,
    ThreadExit,
    ThreadSuspend,
    ThreadResume,
    ThreadDelay,
    ThreadYield,
    SchedPriority,
    ThreadName,
    ThreadStateDump,
}
