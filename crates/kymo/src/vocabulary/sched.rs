//! Scheduling: switches, wake-ups, and the creation and end of threads.

use super::{Cpu, NAME_BYTES, Object, Pid, Tid};
use crate::Text;

crate::enumeration! {
    /// The state of a thread that does not run.
    pub enum ThreadState: u8 {
        /// It is ready to run.
        Runnable = 0,
        /// It waits for something: a lock, a message, input.
        Blocked = 1,
        /// It waits for a point in time.
        Sleeping = 2,
        /// It is suspended until it is resumed.
        Suspended = 3,
        /// It has ended.
        Ended = 4,
    }
}

crate::enumeration! {
    /// The reason why a thread leaves its CPU.
    pub enum SwitchReason: u8 {
        /// Another thread has a higher priority.
        Preempted = 0,
        /// Its time slice is used up.
        Expired = 1,
        /// It yielded the CPU.
        Yielded = 2,
        /// It must wait.
        Waits = 3,
        /// It, or another thread, suspended it.
        Suspended = 4,
        /// It ended.
        Ended = 5,
        /// It is the idle thread.
        Idle = 6,
    }
}

crate::event! {
    /// This CPU switched to another thread.
    #[id(1)]
    pub struct SchedSwitch {
        /// The thread that leaves the CPU.
        pub prev_tid: Tid,
        /// The thread that runs from now on.
        pub next_tid: Tid,
        /// The new state of the leaving thread.
        pub prev_state: ThreadState,
        /// The reason of the switch.
        pub reason: SwitchReason,
        /// The priority of the new thread, in the kernel's numbering.
        pub next_prio: i16,
    }
}

crate::event! {
    /// A waiting thread became ready to run.
    #[id(4)]
    pub struct SchedWakeup {
        /// The thread.
        pub tid: Tid,
        /// The running thread that woke it, 0 for an interrupt, or 4294967295 (`Tid::UNKNOWN`):
        /// then an interrupt if this CPU is in one, and else the thread that runs on this CPU.
        pub waker_tid: Tid,
        /// The CPU on which it will run, or 4294967295 (`Cpu::UNKNOWN`) if that is not decided yet.
        pub target_cpu: Cpu,
    }
}

crate::event! {
    /// A new thread became ready to run for the first time.
    #[id(71)]
    pub struct SchedWakeupNew {
        /// The thread.
        pub tid: Tid,
        /// The running thread that started it, 0 if there is none, or 4294967295 (`Tid::UNKNOWN`)
        /// as in `sched_wakeup`.
        pub waker_tid: Tid,
        /// The CPU on which it will run, or 4294967295 (`Cpu::UNKNOWN`) if that is not decided yet.
        pub target_cpu: Cpu,
    }
}

crate::event! {
    /// The scheduler begins to choose the next thread.
    #[id(15)]
    pub struct SchedEnter {}
}

crate::event! {
    /// The scheduler has chosen.
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
        /// The thread that created it, or 0 at boot.
        pub parent_tid: Tid,
        /// Its priority.
        pub prio: i16,
    }
}

crate::event! {
    /// A thread ended. Its id may be reused.
    #[id(65)]
    pub struct ThreadExit {
        /// The thread.
        pub tid: Tid,
        /// Its process.
        pub pid: Pid,
        /// Its state before.
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
    /// A suspended thread was resumed.
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
        /// The duration in ticks of the trace's clock.
        pub ticks: u64,
    }
}

crate::event! {
    /// A thread yielded its CPU of its own accord.
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
        /// The old priority.
        pub oldprio: i16,
        /// The new priority.
        pub newprio: i16,
        /// The lock whose waiter lent the priority, or 0.
        pub lock: Object,
    }
}

crate::event! {
    /// A run queue became longer or shorter.
    #[id(72)]
    #[name("sched_run_queue")]
    pub struct RunQueue {
        /// The CPU whose queue it is, or 4294967295 (`Cpu::UNKNOWN`) for a queue that CPUs share.
        pub cpu: Cpu,
        /// Number of threads that are ready and do not run.
        pub len: u32,
    }
}

crate::event! {
    /// The name of a thread.
    #[id(32)]
    #[channel(Names)]
    pub struct ThreadName {
        /// The thread.
        pub tid: Tid,
        /// Its name.
        pub name: Text<NAME_BYTES>,
    }
}

crate::event! {
    /// A thread that existed when recording began, or when names were recorded again. This event
    /// never revives an ended thread.
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
        /// Its state.
        pub state: ThreadState,
        /// The CPU on which it runs or ran last, or 4294967295 (`Cpu::UNKNOWN`).
        pub cpu: Cpu,
        /// Its name.
        pub name: Text<NAME_BYTES>,
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
    RunQueue,
    ThreadName,
    ThreadStateDump,
}
