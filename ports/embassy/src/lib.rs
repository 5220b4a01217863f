//! The hooks of embassy-executor's feature `trace`, over Kymo.
//!
//! `port!` makes all that an application on Cortex-M needs, and [`named`] gives a task its name:
//! ```ignore
//! // SAFETY: the clock records nothing, and neither do faults.
//! kymo_embassy::port!(unsafe impl Platform for Board {
//!     clock: time::ticks,
//!     events: [IrqEnter, IrqExit, IrqName],
//!     interrupts: [(25, "alarm")],
//!     memory: 32 << 10,
//!     tasks: 16,
//! });
//!
//! spawner.spawn(named::<Board, _>("blink", blink(led).unwrap()));
//! ```
//! Where the application has a platform of its own, [`hooks!`] defines only what the executor
//! calls.
//!
//! | the executor says | recorded |
//! | --- | --- |
//! | a task is spawned, and ready for the first time | `thread_create`, `sched_wakeup_new` |
//! | a task is polled | `sched_switch` to it |
//! | the poll has ended | the state at the next `sched_switch`: ready if it was woken meanwhile |
//! | a waiting task is woken, by an interrupt or a task | `sched_wakeup` |
//! | a task has ended | `thread_exit` |
//! | nothing is left to poll | `sched_switch` to what ran before: the idle thread, or the task that an interrupt's executor has interrupted |
//!
//! A task's number in the trace is its id in Embassy, which is an address. One CPU runs executors;
//! they may interrupt each other, up to eight deep.
#![no_std]
#![deny(missing_docs)]

use embassy_executor::SpawnToken;
use kymo::vocabulary::IrqName;
use kymo::{Clock, Config, Irq, Recorder, Text, Tid, Tracer};

#[doc(hidden)]
pub use kymo;
pub use kymo_rtos_trace::{Port, TASK_EVENTS as EVENTS, Table, Tasks};

/// Names a task that is about to be spawned.
pub fn named<P: Port, S>(name: &'static str, task: SpawnToken<S>) -> SpawnToken<S> {
    P::tasks().named::<P>(Tid(task.id()), name);
    task
}

/// What `port!` has made: the application's memory, and who records in it.
pub trait Board: Port + Sized {
    /// The door to the sessions.
    fn recorder() -> &'static Recorder<Self, 1>;

    /// The address of the memory.
    fn memory() -> usize;

    /// A configuration for this memory: a small machine's packets, and a clock of this frequency.
    fn config(frequency_hz: u64) -> Config {
        Config {
            packet_size: 512,
            packets: 16,
            names_packets: 4,
            clock: Clock::at(frequency_hz),
            phys: Self::memory() as u64,
            ..Config::DEFAULT
        }
    }
}

/// Makes a type with a platform for one Cortex-M, its memory, a recorder ([`Board`]), and what
/// embassy-executor calls ([`hooks!`]). Once in a program.
///
/// - `clock` is a function that returns 64 bits of ticks and never goes back.
/// - `events` are those of the vocabulary, or the application's own, besides [`EVENTS`].
/// - `interrupts` are exception numbers with their names, recorded at the start of a session; there
///   may be none. `events` must have `IrqName` then.
/// - `memory` is in bytes, `tasks` the most that have names.
///
/// # Safety
/// The clock neither records nor waits for somebody who does, and no fault handler and no NMI
/// records: interrupts are masked in PRIMASK while an event is written.
#[cfg(target_arch = "arm")]
#[macro_export]
macro_rules! port {
    (unsafe impl Platform for $board:ident {
        clock: $clock:path,
        events: [$($event:ty),* $(,)?],
        interrupts: [$(($irq:expr, $name:expr)),* $(,)?],
        memory: $memory:expr,
        tasks: $tasks:expr $(,)?
    }) => {
        /// The board, as Kymo sees it.
        #[derive(Debug)]
        pub struct $board;

        $crate::hooks!($board, tasks = $tasks);

        const _: () = {
            use $crate::kymo::platform::{ByPointer, Control, ControlPointer, Masked, Platform};

            static REGION: $crate::kymo::RegionMemory<{ $memory }, 1> =
                $crate::kymo::RegionMemory::new();
            static VOCABULARY: $crate::kymo::Vocabulary =
                $crate::kymo::vocabulary![$crate::EVENTS; $($event),*];
            static RECORDER: $crate::kymo::Recorder<$board, 1> =
                $crate::kymo::Recorder::new(REGION.memory(), &VOCABULARY);

            // SAFETY: there is one CPU, and the region is a static.
            unsafe impl ControlPointer for $board {
                const NEVER_NULL: bool = true;

                #[inline(always)]
                fn get() -> *const Control {
                    REGION.control(0)
                }
            }

            // SAFETY: as above; whoever wrote `unsafe impl` promises the rest.
            unsafe impl Platform for $board {
                type Reserve = Masked<$crate::Primask>;
                type Local = ByPointer<$board>;

                fn clock() -> u64 {
                    $clock()
                }
                fn synchronize() {}
                fn nesting() -> u32 {
                    $crate::kymo::arch::arm::exception()
                }
                fn dump_state() {
                    <$board as $crate::Port>::tasks().dump::<$board>();
                    $($crate::name_interrupt::<$board>($irq, $name);)*
                }
            }

            impl $crate::Board for $board {
                fn recorder() -> &'static $crate::kymo::Recorder<$board, 1> {
                    &RECORDER
                }
                fn memory() -> usize {
                    &raw const REGION as usize
                }
            }
        };
    };
}

#[doc(hidden)]
pub fn name_interrupt<P: Port>(irq: u32, name: &str) {
    if Tracer::<P>::is_on::<IrqName>() {
        Tracer::<P>::record(IrqName {
            irq: Irq(irq),
            name: Text::new(name),
        });
    }
}

/// Defines what embassy-executor's feature `trace` calls, for the platform of this name, whose
/// interrupts are masked by [`Primask`](kymo::arch) unless another type is named: `hooks!(Board,
/// tasks = 16)` or `hooks!(Board, tasks = 16, interrupts = Mstatus)`. Once in a program.
#[macro_export]
macro_rules! hooks {
    ($platform:ty, tasks = $tasks:expr) => {
        $crate::hooks!($platform, tasks = $tasks, interrupts = $crate::Primask);
    };
    ($platform:ty, tasks = $tasks:expr, interrupts = $interrupts:ty) => {
        impl $crate::Port for $platform {
            type Interrupts = $interrupts;
            fn tasks() -> &'static $crate::Tasks {
                static TASKS: $crate::Table<{ $tasks }> = $crate::Table::new();
                &TASKS
            }
        }
        const _: () = {
            use $crate::Port;

            #[unsafe(no_mangle)]
            fn _embassy_trace_poll_start(_: u32) {
                <$platform>::tasks().executor_begins::<$platform>();
            }
            #[unsafe(no_mangle)]
            fn _embassy_trace_task_new(_: u32, task: u32) {
                <$platform>::tasks().created::<$platform>($crate::tid(task));
            }
            #[unsafe(no_mangle)]
            fn _embassy_trace_task_end(_: u32, task: u32) {
                <$platform>::tasks().ended::<$platform>($crate::tid(task));
            }
            #[unsafe(no_mangle)]
            fn _embassy_trace_task_exec_begin(_: u32, task: u32) {
                <$platform>::tasks().begins::<$platform>($crate::tid(task));
            }
            #[unsafe(no_mangle)]
            fn _embassy_trace_task_exec_end(_: u32, _: u32) {
                <$platform>::tasks().stops::<$platform>();
            }
            #[unsafe(no_mangle)]
            fn _embassy_trace_task_ready_begin(_: u32, task: u32) {
                <$platform>::tasks().ready::<$platform>($crate::tid(task));
            }
            #[unsafe(no_mangle)]
            fn _embassy_trace_executor_idle(_: u32) {
                <$platform>::tasks().idle::<$platform>();
            }
        };
    };
}

#[cfg(target_arch = "arm")]
#[doc(hidden)]
pub use kymo::arch::arm::Primask;

#[doc(hidden)]
pub const fn tid(id: u32) -> Tid {
    Tid(id)
}
