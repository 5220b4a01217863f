//! [`rtos_trace::RtosTrace`] over Kymo: an RTOS that calls the crate `rtos-trace` is recorded
//! without a change.
//!
//! The kernel implements Kymo's `Platform`, as for any port, and says with [`Port`] where its tasks
//! are noted. [`Trace`] then has all functions of the trait:
//! ```ignore
//! static TASKS: Table<16> = Table::new();
//!
//! impl Port for Board {
//!     type Interrupts = Primask;
//!     fn tasks() -> &'static Tasks { &TASKS }
//! }
//! type Trace = kymo_rtos_trace::Trace<Board>;
//! rtos_trace::global_trace! { Trace }
//! ```
//!
//! | the RTOS calls | recorded |
//! | --- | --- |
//! | `task_new`, `task_new_stackless` | `thread_create` |
//! | `task_send_info`, `task_new_stackless`, `name_marker` | `thread_name`, `user_name` |
//! | `task_terminate` | `thread_exit` |
//! | `task_ready_begin` | `sched_wakeup_new` the first time, then `sched_wakeup` |
//! | `task_exec_begin`, `system_idle` | `sched_switch` |
//! | `task_exec_end`, `task_ready_end` | the state of the task at the next `sched_switch` |
//! | `isr_enter`, `isr_exit`, `isr_exit_to_scheduler` | `irq_handler_entry`, `irq_handler_exit` |
//! | `marker`, `marker_begin`, `marker_end` | `mark`, `span_begin`, `span_end` |
//! | `start`, `stop` | nothing: the kernel starts its session itself |
//!
//! A task's number in the trace is its id. One CPU runs tasks.
#![no_std]
#![deny(missing_docs)]

mod tasks;

use core::marker::PhantomData;

use kymo::platform::{Interrupts, Masked, Platform};
use kymo::vocabulary::{
    IrqEnter, IrqExit, Mark, SchedSwitch, SchedWakeup, SchedWakeupNew, SpanBegin, SpanEnd,
    ThreadCreate, ThreadExit, ThreadName, ThreadStateDump, UserName,
};
use kymo::{Irq, Text, Tid, Tracer, Vocabulary};
use rtos_trace::{RtosTrace, TaskInfo};

pub use tasks::{Entry, Table, Tasks};

/// The events that tasks need.
pub const TASK_EVENTS: Vocabulary = kymo::vocabulary![
    SchedSwitch,
    SchedWakeup,
    SchedWakeupNew,
    ThreadCreate,
    ThreadExit,
    ThreadName,
    ThreadStateDump
];

/// All events that [`Trace`] records: to be listed in the kernel's vocabulary.
pub const EVENTS: Vocabulary = kymo::vocabulary![
    TASK_EVENTS;
    IrqEnter, IrqExit, Mark, SpanBegin, SpanEnd, UserName
];

/// What the port needs besides the platform.
pub trait Port: Platform<Reserve = Masked<<Self as Port>::Interrupts>> {
    /// What masks the interrupts, the same as in the platform's `Reserve`.
    type Interrupts: Interrupts;

    /// The tasks: a static [`Table`].
    fn tasks() -> &'static Tasks;

    /// The interrupt or exception that is being handled, in the processor's numbering; `None`
    /// outside of any. On Arm this is IPSR. On other processors it is not known by itself:
    /// [`Irq`] 0 for every handler, and readers find out who woke a task by the begin and end of
    /// handlers.
    fn interrupt() -> Option<Irq> {
        #[cfg(target_arch = "arm")]
        return Some(Irq(kymo::arch::arm::exception())).filter(|&irq| irq != Irq(0));
        #[cfg(not(target_arch = "arm"))]
        None
    }
}

/// The trait's functions, for `rtos_trace::global_trace!`, which takes one name:
/// `type Trace = kymo_rtos_trace::Trace<Board>;`
#[derive(Debug)]
pub struct Trace<P>(PhantomData<P>);

/// The number of the present handler; 0 where it is not known.
fn irq<P: Port>() -> Irq {
    P::interrupt().unwrap_or(Irq(0))
}

fn record<P: Port, E: kymo::event::Event>(event: impl FnOnce() -> E) {
    if Tracer::<P>::is_on::<E>() {
        Tracer::<P>::record(event());
    }
}

impl<P: Port> RtosTrace for Trace<P> {
    fn start() {}
    fn stop() {}

    fn task_new(id: u32) {
        P::tasks().created::<P>(Tid(id));
    }
    fn task_send_info(id: u32, info: TaskInfo) {
        P::tasks().named::<P>(Tid(id), info.name);
    }
    fn task_new_stackless(id: u32, name: &'static str, _: u32) {
        P::tasks().created::<P>(Tid(id));
        P::tasks().named::<P>(Tid(id), name);
    }
    fn task_terminate(id: u32) {
        P::tasks().ended::<P>(Tid(id));
    }
    fn task_exec_begin(id: u32) {
        P::tasks().begins::<P>(Tid(id));
    }
    fn task_exec_end() {
        P::tasks().stops::<P>();
    }
    fn task_ready_begin(id: u32) {
        P::tasks().ready::<P>(Tid(id));
    }
    fn task_ready_end(id: u32) {
        P::tasks().blocks::<P>(Tid(id));
    }

    fn system_idle() {
        P::tasks().idle::<P>();
    }

    fn isr_enter() {
        record::<P, _>(|| IrqEnter { irq: irq::<P>() });
    }
    fn isr_exit() {
        record::<P, _>(|| IrqExit { irq: irq::<P>() });
    }
    fn isr_exit_to_scheduler() {
        Self::isr_exit();
    }

    fn name_marker(id: u32, name: &'static str) {
        let name = tasks::trimmed(name);
        record::<P, _>(|| UserName {
            id,
            name: Text::new(name),
        });
    }
    fn marker(id: u32) {
        record::<P, _>(|| Mark { id, value: 0 });
    }
    fn marker_begin(id: u32) {
        record::<P, _>(|| SpanBegin { id });
    }
    fn marker_end(id: u32) {
        record::<P, _>(|| SpanEnd { id });
    }
}
