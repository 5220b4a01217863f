//! The kernel's own counters. They count from boot on, whether a session records or not.

use kymo::counter::{Counters, Kind, Value};

use crate::console::println;
use crate::recording::MEMORY;
use crate::sched::Scheduler;

kymo::counter! {
    /// System calls that programs made.
    #[id(0)] #[unit(calls)]
    pub struct SystemCalls;
}
kymo::counter! {
    /// Switches from one thread to another.
    #[id(1)] #[unit(switches)] #[unnested]
    pub struct ContextSwitches;
}
kymo::counter! {
    /// Page faults of programs.
    #[id(2)] #[unit(faults)]
    pub struct PageFaults;
}
kymo::counter! {
    /// Interrupts.
    #[id(3)] #[unit(interrupts)]
    pub struct Interrupts;
}
kymo::counter! {
    /// Messages that were sent through ports.
    #[id(4)] #[unit(messages)] #[unnested]
    pub struct IpcMessages;
}
kymo::counter! {
    /// Threads that were put into a run queue.
    #[id(5)] #[unit(threads)] #[unnested]
    pub struct RunQueueEnqueues;
}
kymo::counter! {
    /// Threads that were taken out of a run queue.
    #[id(6)] #[unit(threads)] #[unnested]
    pub struct RunQueueDequeues;
}
kymo::gauge! {
    /// Threads in all run queues.
    #[id(7)] #[unit(threads)] #[unnested]
    pub struct RunQueueThreads;
}
kymo::histogram! {
    /// Length of a run queue after a thread was put into it.
    #[id(8)] #[unit(threads)] #[unnested]
    pub struct RunQueueLength;
}

/// All of them.
pub const COUNTERS: Counters = kymo::counters![
    SystemCalls,
    ContextSwitches,
    PageFaults,
    Interrupts,
    IpcMessages,
    RunQueueEnqueues,
    RunQueueDequeues,
    RunQueueThreads,
    RunQueueLength,
];

/// Compares the counters with the run queues. Nothing is put in or taken out meanwhile, since the
/// caller has the scheduler's lock.
pub fn check(scheduler: &Scheduler) {
    if !kymo::COMPILED_IN {
        return;
    }
    let [put_in, taken_out] = [
        MEMORY.total::<RunQueueEnqueues>(),
        MEMORY.total::<RunQueueDequeues>(),
    ];
    let ready = scheduler.count_ready();
    assert_eq!(
        put_in.wrapping_sub(taken_out),
        ready,
        "put in and taken out"
    );
    assert_eq!(
        MEMORY.total::<RunQueueThreads>(),
        ready as isize,
        "the gauge"
    );
}

/// Prints what was counted, for tests: a line for each, with the sum over all harts; of a histogram
/// how many values there are, and their sum.
pub fn print() {
    if !kymo::COMPILED_IN {
        return;
    }
    for counter in COUNTERS.list() {
        let harts = (0..MEMORY.cpus()).filter_map(|hart| MEMORY.value(hart, counter));
        let (mut sum, mut values) = (0, 0);
        for value in harts {
            match value {
                Value::Counter(count) => sum += count.cast_signed(),
                Value::Gauge(count) => sum += count,
                Value::Histogram(found) => {
                    sum += found.sum.cast_signed();
                    values += found.count();
                }
            }
        }
        let name = counter.name;
        match counter.kind {
            Kind::Histogram => println!("COUNTER {name}: {values} values, {sum} in all"),
            Kind::Counter | Kind::Gauge => println!("COUNTER {name}: {sum}"),
        }
    }
}
