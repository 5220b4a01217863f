//! Whose counts are shown apart: CPUs, or threads.

use std::fs;

use kymo_perf::{Counters, Target, Total};
use serde_json::{Value, json};

use super::watch::Counts;

/// A CPU or thread, as a row names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// `CPU 3`, or a thread's name and number: `make-1234`.
    pub text: String,
    target: Target,
}

impl Label {
    fn of(target: Target) -> Label {
        let text = match target {
            Target::Process(thread) => match fs::read(format!("/proc/{thread}/comm")) {
                Ok(name) => {
                    let name = String::from_utf8_lossy(&name);
                    // A name may have any bytes, also those that a terminal obeys.
                    let name = name.trim_end_matches('\n').replace(char::is_control, "?");
                    format!("{name}-{thread}")
                }
                // It has just ended.
                Err(_) => format!("thread {thread}"),
            },
            target => target.to_string(),
        };
        Label { text, target }
    }

    /// The members that say whose counts an object of JSON has.
    pub fn members(&self) -> Value {
        let (thread, cpu) = self.target.numbers();
        let number = |number: i32| u32::try_from(number).ok();
        json!({ "target": self.text, "thread": number(thread), "cpu": number(cpu) })
    }
}

/// The labels of each group's targets, as they are called now.
pub fn labels(counters: &Counters, groups: usize) -> Vec<Vec<Label>> {
    let of_group = |group| counters.targets(group).into_iter().map(Label::of).collect();
    (0..groups).map(of_group).collect()
}

/// What a group has counted for each label; nothing where there are no labels. Several PMUs that
/// count for one CPU are added up.
pub fn parts(counts: &Counts<'_>, group: usize) -> Vec<(Label, Total)> {
    let mut parts: Vec<(Label, Total)> = Vec::new();
    let (Some(labels), Some(total)) = (counts.labels.get(group), counts.totals.get(group)) else {
        return parts;
    };
    for (label, total) in labels.iter().zip(total.by_target()) {
        match parts.iter_mut().find(|(of, _)| of == label) {
            Some((_, sum)) => sum.add_total(&total),
            None => parts.push((label.clone(), total)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kymo_perf::EventNames;

    use super::super::table;
    use super::*;

    /// K-22: CPUs stand below their event, and several PMUs of a CPU are one row.
    #[test]
    fn each_cpu_has_a_row() {
        let groups = EventNames::default()
            .groups("page-faults,{cs,faults}")
            .unwrap();
        let labels = [
            [Target::Cpu(0), Target::Cpu(1), Target::Cpu(0)]
                .map(Label::of)
                .to_vec(),
            [Target::Cpu(0), Target::Cpu(1)].map(Label::of).to_vec(),
        ];
        let totals = [&[[1, 0], [2, 0], [4, 0]][..], &[[8, 9], [1_600, 7]]];
        let totals = groups.iter().zip(totals).map(|(group, counts)| {
            let mut total = Total::default();
            for counts in counts {
                let events = group.spec.events().iter().copied();
                total.add(1_000, 1_000, events.zip(counts.iter().copied()));
            }
            total
        });
        let counts = Counts {
            groups: &groups,
            labels: &labels,
            totals: totals.collect(),
            readings: None,
            elapsed: Duration::from_secs(1),
            time: Duration::from_secs(1),
        };
        let words = |text: String| -> Vec<String> {
            let lines = text
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>());
            lines.map(|line| line.join(" ")).collect()
        };
        assert_eq!(
            words(table::total(&counts, false)),
            [
                "event raw scaled running per second",
                "page-faults 7 7 100.0 % 7.0",
                "CPU 0 5 5 100.0 % 5.0",
                "CPU 1 2 2 100.0 % 2.0",
                "",
                "cs 1,608 1,608 100.0 % 1608.0",
                "CPU 0 8 8 100.0 % 8.0",
                "CPU 1 1,600 1,600 100.0 % 1600.0",
                "faults 16 16 100.0 % 16.0",
                "CPU 0 9 9 100.0 % 9.0",
                "CPU 1 7 7 100.0 % 7.0",
                "",
                "1.000000 s elapsed",
            ]
        );
        let interval = words(table::interval(&counts, false));
        assert_eq!(interval.len(), 9, "{interval:?}");
        assert_eq!(interval[1], "1.000 CPU 0 5 5 100.0 % 5.0");
    }
}
