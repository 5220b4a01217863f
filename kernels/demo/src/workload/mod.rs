//! The workloads: fixed amounts of work, by name.

pub mod bench;
mod broken;
mod counts;
mod echo;
mod faults;
mod ipc;
mod irqs;
pub mod known;
mod lock_wait;
mod locks;
mod long_irq;
#[cfg(not(target_arch = "riscv64"))]
mod nmis;
mod page_faults;
mod switch;
mod trace_sched;
mod turns;

use core::fmt::{Arguments, Write};

use crate::process::{self, Line};
use crate::time::ticks;
use crate::{arch, thread};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Threads that take turns: yield, sleep, are suspended, run out of time.
    Switch,
    /// Threads that take turns and wake each other, a fixed amount of work.
    Turns,
    /// Threads that compete for locks.
    Locks,
    /// Processes with system calls and faults.
    Faults,
    /// Processes that send each other messages and bytes.
    Ipc,
    /// A device that interrupts.
    Irqs,
    /// All of the above, one after another.
    All,
    /// A thread waits 5 ms for a lock that a less urgent one holds.
    LockWait,
    /// An interrupt takes 200 us.
    LongIrq,
    /// A process touches 1,000 pages.
    PageFaults,
    /// A thread prints a line that it reads from the serial port.
    Echo,
    /// Processes with calls, faults and messages, into which NMIs come.
    #[cfg(not(target_arch = "riscv64"))]
    Nmis,
    /// The kernel's own operations, each measured and compared with its targets.
    Bench,
    /// Loops of known length, which are counted.
    Counts,
    /// Groups of counters that take turns.
    CountTurns,
    /// Frame pointers that lead astray, in the kernel and in programs.
    Broken,
    /// Two threads with one event of each kind, in the order of
    /// `tests/e2e/expectations/trace_sched.toml`.
    TraceSched,
}

impl Workload {
    /// The workload of this name on the command line.
    pub fn named(name: &str) -> Option<Workload> {
        match name {
            "switch" => Some(Workload::Switch),
            "turns" => Some(Workload::Turns),
            "locks" => Some(Workload::Locks),
            "faults" => Some(Workload::Faults),
            "ipc" => Some(Workload::Ipc),
            "irqs" => Some(Workload::Irqs),
            "all" => Some(Workload::All),
            "lock_wait" => Some(Workload::LockWait),
            "long_irq" => Some(Workload::LongIrq),
            "page_faults" => Some(Workload::PageFaults),
            "echo" => Some(Workload::Echo),
            #[cfg(not(target_arch = "riscv64"))]
            "nmis" => Some(Workload::Nmis),
            "broken" => Some(Workload::Broken),
            "bench" => Some(Workload::Bench),
            "counts" => Some(Workload::Counts),
            "count_turns" => Some(Workload::CountTurns),
            "trace_sched" => Some(Workload::TraceSched),
            _ => None,
        }
    }

    /// Runs the workload to its end, from a thread of its own. False if it says that it failed.
    pub fn run(self, rounds: u32) -> bool {
        if matches!(self, Workload::Switch | Workload::All) {
            switch::run(rounds);
        }
        if matches!(self, Workload::Locks | Workload::All) {
            locks::run(rounds);
        }
        if matches!(self, Workload::Faults | Workload::All) {
            faults::run(rounds);
        }
        if matches!(self, Workload::Ipc | Workload::All) {
            ipc::run(rounds);
        }
        if matches!(self, Workload::Irqs | Workload::All) {
            irqs::run(rounds);
        }
        match self {
            Workload::Turns => turns::run(rounds),
            Workload::LockWait => lock_wait::run(),
            Workload::LongIrq => long_irq::run(),
            Workload::PageFaults => page_faults::run(),
            Workload::Echo => echo::run(),
            #[cfg(not(target_arch = "riscv64"))]
            Workload::Nmis => nmis::run(rounds),
            Workload::Broken => broken::run(rounds),
            Workload::Counts => counts::run(),
            Workload::CountTurns => counts::take_turns(rounds),
            Workload::TraceSched => trace_sched::run(),
            Workload::Bench => return bench::run(rounds),
            _ => {}
        }
        true
    }
}

/// A worker: its name, priority, and function of the number of rounds.
type Worker = (&'static str, i16, fn(usize));

/// Starts the workers with the number of rounds, and waits until they end.
fn together<const N: usize>(workers: [Worker; N], rounds: u32) {
    let threads =
        workers.map(|(name, prio, work)| thread::spawn(name, prio, work, rounds as usize));
    threads.into_iter().for_each(thread::join);
}

/// Starts processes, each with its command line and priority, and waits until they end.
fn processes<const N: usize>(lines: [(Arguments<'_>, i16); N]) {
    let spawned = lines.map(|(words, prio)| {
        let mut line = Line::new();
        line.write_fmt(words).expect("a short command line");
        process::spawn(line, prio, 0).expect("there is room for a few processes")
    });
    spawned
        .into_iter()
        .for_each(|pid| assert_eq!(process::wait(pid), Ok(0), "process {}", pid.0));
}

/// Stands for the work of a real thread, as a number of steps.
fn compute(steps: usize) {
    (0..steps).for_each(|step| _ = core::hint::black_box(step));
}

/// Stands for the work of a real thread, as a time in microseconds.
pub fn compute_for(us: u64) {
    let end = arch::timer::time() + ticks(us);
    while arch::timer::time() < end {
        compute(100);
    }
}
