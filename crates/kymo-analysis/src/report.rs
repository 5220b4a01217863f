//! What an analysis gives. Serialised as it is: `kymo report --json`.
//!
//! Times are nanoseconds from the clock's origin, durations nanoseconds. `None` is unknown.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything. Tables without rows are those for which the trace has no events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The earliest time in the trace.
    pub begin_ns: Option<i64>,
    /// The time of the last event.
    pub end_ns: Option<i64>,
    /// Events in the trace.
    pub events: u64,
    /// Events without a CPU or a time: they are counted, and say nothing more here.
    pub events_without_place: u64,
    /// What is not in the trace.
    pub losses: Losses,
    /// Streams that could not be read to their ends, a sentence each.
    pub damage: Vec<String>,
    /// The clocks.
    pub clocks: Vec<ClockHealth>,
    /// CPUs, by number.
    pub cpus: Vec<CpuUse>,
    /// Threads, most CPU time first.
    pub threads: Vec<Thread>,
    /// System calls, most time first.
    pub system_calls: Vec<SystemCall>,
    /// Interrupt lines, by number.
    pub interrupts: Vec<Interrupt>,
    /// Most handlers that were open at once on one CPU.
    pub interrupt_nesting: usize,
    /// From a wake-up until the thread ran.
    pub wake_latency: Option<WakeLatency>,
    /// Locks, longest wait first.
    pub locks: Vec<Lock>,
    /// Page faults.
    pub page_faults: Option<PageFaults>,
    /// Messages, by mechanism and path.
    pub messages: Vec<Messages>,
    /// What does not fit together. Nothing, in the trace of a kernel that records what it does.
    pub contradictions: Contradictions,
}

/// A thread by number and, where it is known, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadRef {
    /// Its number.
    pub tid: u64,
    /// Its name.
    pub name: Option<String>,
}

/// What is not in the trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Losses {
    /// Events that the tracer counted and did not store.
    pub events: u64,
    /// Packets that are missing. Where Kymo wrote the trace, their events are among `events`.
    pub packets: u64,
    /// The first hundred.
    pub intervals: Vec<Loss>,
    /// How many more there are.
    pub intervals_not_listed: u64,
}

/// One loss: it lies somewhere between two times.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    /// The stream file.
    pub stream: String,
    /// The CPU.
    pub cpu: Option<u64>,
    /// `events` or `packets`.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// Not before this.
    pub begin_ns: Option<i64>,
    /// Not after this.
    pub end_ns: Option<i64>,
}

/// A clock, and what its stamps look like.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClockHealth {
    /// Its name.
    pub name: String,
    /// Ticks a second.
    pub frequency_hz: u64,
    /// Whether its origin is known outside of the trace (the Unix epoch).
    pub absolute: bool,
    /// Events with the very time of the event before them in their stream: the clock is coarse, or
    /// stepped back and was held. Names and state dumps are not looked at.
    pub equal_stamps: u64,
    /// The smallest difference of two stamps of one stream that is not 0, in ticks.
    pub smallest_step_ticks: Option<u64>,
}

/// Use of one CPU. `busy + idle + unknown` is the time of the trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u64,
    /// A thread ran that is not idle.
    pub busy_ns: u64,
    /// The idle thread ran.
    pub idle_ns: u64,
    /// It is not known what ran: before the first switch, and after losses.
    pub unknown_ns: u64,
    /// In interrupt handlers; part of the other three.
    pub interrupts_ns: u64,
    /// Switches.
    pub switches: u64,
}

/// Time blocked for a lock.
#[derive(Clone, Debug, Serialize)]
pub struct LockBlock {
    /// The lock.
    pub lock: u64,
    /// Its name.
    pub name: Option<String>,
    /// How long.
    pub ns: u64,
}

/// One thread. The times, `unknown_ns` included, are its life in the trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Thread {
    /// Its process.
    pub pid: Option<u64>,
    /// Its number.
    pub tid: u64,
    /// Its CPU, of threads that every CPU has under the same number 0.
    pub cpu: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Its last priority, as the kernel counts them.
    pub priority: Option<i64>,
    /// Whether it is what a CPU runs when there is nothing to do.
    pub idle: bool,
    /// On a CPU.
    pub cpu_ns: u64,
    /// That, as a part of all CPUs' time that is known, in percent.
    pub share_percent: f64,
    /// It could have run.
    pub runnable_ns: u64,
    /// Blocked, for a lock or anything else.
    pub blocked_ns: u64,
    /// The part of that for locks: off the CPU between `lock_wait` and `lock_acquired`. Longest
    /// first.
    pub blocked_on: Vec<LockBlock>,
    /// It waited for a point in time.
    pub sleeping_ns: u64,
    /// Suspended.
    pub suspended_ns: u64,
    /// It is not known what it did.
    pub unknown_ns: u64,
    /// How often it left a CPU, by reason; by what it did then where the trace has no reasons.
    pub switches: BTreeMap<String, u64>,
    /// From wake-up until it ran.
    pub wake_latency: Durations,
    /// What it did when the trace ended.
    pub last_state: String,
}

/// A distribution. Percentiles are at most 1/64 too large; count, sum and maximum are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Durations {
    /// How many have both ends in the trace.
    pub count: u64,
    /// All together.
    pub total_ns: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Maximum.
    pub max_ns: Option<u64>,
}

/// One system call.
#[derive(Clone, Debug, Serialize)]
pub struct SystemCall {
    /// Its number, where the trace has numbers.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Calls; those whose beginning is not in the trace are counted by their ends.
    pub count: u64,
    /// Those that gave a negative result.
    pub errors: u64,
    /// From entry to exit, the time off the CPU included.
    pub durations: Durations,
}

/// One interrupt line.
#[derive(Clone, Debug, Serialize)]
pub struct Interrupt {
    /// Its number.
    pub irq: u64,
    /// What it is for.
    pub name: Option<String>,
    /// How often it came.
    pub count: u64,
    /// From entry to exit, handlers that came inside included.
    pub durations: Durations,
    /// Time of its handlers alone, in percent of all CPUs' time.
    pub share_percent: f64,
    /// Most handlers that were open when it began, itself included.
    pub nesting: usize,
    /// When the longest one began.
    pub longest_at_ns: Option<i64>,
    /// On which CPU.
    pub longest_cpu: Option<u64>,
}

/// From a wake-up until the thread ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WakeLatency {
    /// Of all threads.
    pub durations: Durations,
    /// The five longest.
    pub worst: Vec<WorstWake>,
}

/// One of the longest.
#[derive(Clone, Debug, Serialize)]
pub struct WorstWake {
    /// How long.
    pub latency_ns: u64,
    /// When it was woken.
    pub woken_ns: i64,
    /// When it ran.
    pub ran_ns: i64,
    /// The thread.
    pub thread: ThreadRef,
    /// Who woke it; `None` where `by_interrupt`, or not known.
    pub waker: Option<ThreadRef>,
    /// Whether an interrupt did.
    pub by_interrupt: bool,
    /// The CPU that it ran on.
    pub cpu: u64,
}

/// One lock.
#[derive(Clone, Debug, Serialize)]
pub struct Lock {
    /// Its number or address.
    pub lock: u64,
    /// Its name.
    pub name: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// How often somebody got it.
    pub acquired: u64,
    /// How often after a wait.
    pub contended: u64,
    /// How often somebody gave up.
    pub failed: u64,
    /// Waits, whether they got it or not.
    pub wait: Durations,
    /// How long it was held. Semaphores are not held by anybody.
    pub hold: Durations,
    /// Longest total first.
    pub waiters: Vec<Waiter>,
    /// The longest wait.
    pub longest_wait: Option<LongestWait>,
}

/// A thread that waited for a lock.
#[derive(Clone, Debug, Serialize)]
pub struct Waiter {
    /// The thread, where it is known.
    pub thread: Option<ThreadRef>,
    /// How often.
    pub count: u64,
    /// How long.
    pub total_ns: u64,
    /// How long at most.
    pub max_ns: u64,
}

/// The longest wait for a lock. Whether a larger priority is the more urgent one is the kernel's to
/// say.
#[derive(Clone, Debug, Serialize)]
pub struct LongestWait {
    /// How long.
    pub ns: u64,
    /// When it began.
    pub begin_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// Who waited.
    pub waiter: Option<ThreadRef>,
    /// With which priority.
    pub waiter_priority: Option<i64>,
    /// Who had the lock when the wait began.
    pub owner: Option<ThreadRef>,
    /// With which priority, when the wait began.
    pub owner_priority: Option<i64>,
}

/// Page faults.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageFaults {
    /// All.
    pub count: u64,
    /// By process, most first.
    pub processes: Vec<ProcessFaults>,
    /// By thread, most first.
    pub threads: Vec<ThreadFaults>,
}

/// Page faults of a process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessFaults {
    /// The process; `None` where it is not known.
    pub pid: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// How many.
    pub count: u64,
}

/// Page faults of a thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadFaults {
    /// The thread; `None` where it is not known.
    pub thread: Option<ThreadRef>,
    /// How many.
    pub count: u64,
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
    /// By what was tried.
    pub causes: BTreeMap<String, u64>,
}

/// Messages of one mechanism on one path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Messages {
    /// `ipc`, `pipe` or `queue`.
    pub mechanism: &'static str,
    /// The path, where there are several.
    pub path: Option<String>,
    /// Sent or written.
    pub sent: u64,
    /// Received or read.
    pub received: u64,
    /// Bytes sent, where the events say it.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

/// What does not fit together, and of which no duration was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contradictions {
    /// How many, by rule.
    pub counts: BTreeMap<&'static str, u64>,
    /// The first hundred.
    pub first: Vec<Contradiction>,
}

/// An event that contradicts what was recorded before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// The rule, a short name that does not change.
    pub rule: &'static str,
    /// When.
    pub time_ns: i64,
    /// On which CPU.
    pub cpu: u64,
    /// What, as a sentence without a full stop.
    pub message: String,
}
