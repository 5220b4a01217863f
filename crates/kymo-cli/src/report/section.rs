//! The sections of a report that can be chosen.

use clap::ValueEnum;

/// A section: a table, or several about one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// The use of each CPU.
    Cpus,
    /// Lengths of run queues.
    RunQueues,
    /// States of threads.
    Threads,
    /// System calls.
    SystemCalls,
    /// Interrupts.
    Interrupts,
    /// From a wake-up until the thread ran.
    WakeLatency,
    /// Locks, and waits for them.
    Locks,
    /// Page faults.
    PageFaults,
    /// Messages.
    Messages,
    /// The kernel's own counters and histograms.
    OwnCounters,
    /// Samples by thread.
    Samples,
    /// What the processors' counters have counted.
    Counters,
    /// What lasted longest, of each kind, and the largest losses.
    WorstCases,
    /// Events that contradict each other.
    Contradictions,
    /// Counts of all events; without --section, only if the trace has no scheduling events.
    Events,
}

impl Section {
    /// Its name on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Its members in the JSON object.
    pub fn members(self) -> &'static [&'static str] {
        match self {
            Section::Cpus => &["cpus"],
            Section::RunQueues => &["run_queues"],
            Section::Threads => &["threads", "threads_by_name"],
            Section::SystemCalls => &["system_calls"],
            Section::Interrupts => &["interrupts", "interrupts_by_name", "interrupt_nesting"],
            Section::WakeLatency => &["wake_latency"],
            Section::Locks => &["locks", "locks_by_name"],
            Section::PageFaults => &["page_faults"],
            Section::Messages => &["messages"],
            Section::OwnCounters => &["own_counters", "own_histograms"],
            Section::Samples => &["samples"],
            Section::Counters => &["counters"],
            Section::WorstCases => &["worst_cases"],
            Section::Contradictions => &["contradictions"],
            Section::Events => &["event_counts", "other_events", "other_events_by_thread"],
        }
    }
}
