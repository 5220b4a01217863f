//! What the kernel does not record: the vocabulary's events that never came.

use kymo::vocabulary;

use super::{Counts, Findings, Remedy, Severity};
use crate::section::Report;

/// What a kernel that records no event of a subject misses, for each subject of
/// [`vocabulary::TYPES`], in its order.
/// The subjects behind them, from marks on, are not listed: a kernel may do without.
const SUBJECTS: [(&str, Remedy); 7] = [
    ("scheduling", page("events.md#scheduling")),
    (
        "interrupts and exceptions",
        page("events.md#interrupts-and-exceptions"),
    ),
    ("system calls", page("events.md#system-calls")),
    ("locks", page("events.md#locks")),
    ("memory", page("events.md#memory")),
    ("messages", page("events.md#messages")),
    ("processes", page("events.md#processes")),
];

const fn page(page: &'static str) -> Remedy {
    Remedy {
        text: "If the kernel has this, record it, and list the events in the vocabulary",
        page,
    }
}

const SILENT: Remedy = Remedy {
    text: "See that the places that record them are reached, and that `kymo=`, \
           `--events` or the kernel itself did not switch them off",
    page: "your-kernel.md#record",
};
const EMPTY: Remedy = Remedy {
    text: "See that the session is started before the kernel works, that the port gives \
           every CPU its blocks of the same memory, and that the events are listed and not switched \
           off",
    page: "your-kernel.md#start",
};

const UNKNOWN: Remedy = Remedy {
    text: "Record the vocabulary's events beside those of your own, where they say what happens",
    page: "your-kernel.md#the-events",
};

/// Number in [`vocabulary::TYPES`] from which subjects are the recording's own, or a program's.
const OWN: [usize; 4] = [8, 9, 10, 11];

/// Whether an event is of the recording itself: samples, counts, its end.
pub(super) fn is_the_recordings(name: &str) -> bool {
    let own = OWN.iter().filter_map(|place| vocabulary::TYPES.get(*place));
    let mut own = own.flat_map(|of| of.iter());
    own.any(|(_, of)| *of == name)
}

/// Reports a trace without events of what the kernel does.
pub(super) fn empty(report: &Report, found: &mut Findings) {
    let message = match report.events {
        0 => "The trace has no events".to_owned(),
        events => {
            format!("None of the {events} events of the trace is one of what the kernel does")
        }
    };
    found.add(Severity::Wrong, "empty", message, None, EMPTY);
}

/// Reports a trace in which no event is one that the rules use.
pub(super) fn unknown(report: &Report, found: &mut Findings) {
    let message = format!(
        "None of the {} events is one of those that are looked at: switches, wake-ups, interrupts, \
         system calls, locks, messages, names, samples and counts",
        report.events
    );
    found.add(Severity::Hint, "unknown-events", message, None, UNKNOWN);
}

/// Reports the events that never came, subject by subject.
pub(super) fn judge(counts: &Counts, declared: &[&str], found: &mut Findings) {
    let mut silent: Vec<&str> = Vec::new();
    for ((subject, remedy), events) in SUBJECTS.iter().zip(vocabulary::TYPES) {
        let never = events.iter().map(|(_, name)| *name);
        let never: Vec<&str> = never.filter(|name| counts.of(name) == 0).collect();
        let is_declared = |name: &&str| declared.binary_search(name).is_ok();
        silent.extend(never.iter().filter(|name| is_declared(name)));
        let not_hooked: Vec<&str> = never
            .iter()
            .copied()
            .filter(|of| !is_declared(of))
            .collect();
        let message = match (not_hooked.len(), events.len()) {
            (0, _) => continue,
            (none, all) if none == all => {
                format!("No event of {subject}: {}", not_hooked.join(", "))
            }
            _ => format!("Of {subject}, not: {}", not_hooked.join(", ")),
        };
        found.add(Severity::Hint, "not-hooked", message, None, *remedy);
    }
    if !silent.is_empty() {
        let message = format!(
            "In the vocabulary, but never recorded: {}",
            silent.join(", ")
        );
        found.add(Severity::Hint, "never-recorded", message, None, SILENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_those_of_the_vocabulary() {
        let firsts: Vec<&str> = vocabulary::TYPES.iter().map(|of| of[0].1).collect();
        let of_subjects = [
            "sched_switch",
            "irq_handler_entry",
            "sys_enter",
            "lock_wait",
            "page_fault",
            "ipc_send",
            "sched_process_fork",
        ];
        assert_eq!(firsts[..SUBJECTS.len()], of_subjects);
        let own = ["sample", "counted_event", "kymo_clock_back", "kymo_counter"];
        assert_eq!(OWN.map(|place| firsts[place]), own);
        assert!(is_the_recordings("sample") && !is_the_recordings("mark"));
    }
}
