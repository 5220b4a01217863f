//! The report's tables as text.

mod counters;
mod events;
mod head;
mod interrupts;
mod locks;
mod threads;

use std::collections::BTreeMap;
use std::fmt::Display;

use clap::ValueEnum as _;
use kymo_analysis::{Report, ThreadRef};

pub use head::sum;

use super::cell::Cell;
use super::layout;
use super::section::Section;
use super::table::{Look, Table};
use crate::dump::escape_controls;
use crate::missed::Sampler;
use crate::summary::thousands;

/// How a report is printed.
#[derive(Debug)]
pub struct Style {
    pub look: Look,
    /// Whether things with equal names have a row each.
    pub each: bool,
    /// The chosen sections; empty for those that the trace has events for.
    pub sections: Vec<Section>,
    /// Whether only a part of the trace is reported.
    pub is_partial: bool,
}

/// What the report is about, and the chosen tables, separated by blank lines.
pub fn tables(report: &Report, sampler: Sampler, style: &Style) -> String {
    let mut text = Text::new(report, style);
    text.trace(report);
    text.sections(report, sampler);
    text.out
}

/// The chosen tables alone.
pub fn only_tables(report: &Report, sampler: Sampler, style: &Style) -> String {
    let mut text = Text::new(report, style);
    text.sections(report, sampler);
    text.out
}

/// The sections to print: the chosen ones, or all that belong into a report of such a trace.
fn sections(report: &Report, style: &Style) -> Vec<Section> {
    let is_scheduled = report.cpus.iter().any(|cpu| cpu.switches > 0);
    let mut sections: Vec<Section> = match style.sections.is_empty() {
        true => Section::value_variants().to_vec(),
        false => style.sections.clone(),
    };
    if style.sections.is_empty() {
        sections.retain(|section| *section != Section::Events);
        if !is_scheduled {
            sections.insert(0, Section::Events);
        }
    }
    sections
}

/// A duration with its unit: four digits, or fewer below 1 us.
pub fn duration(ns: u64) -> String {
    let (unit, divisor) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = ns as f64 / divisor;
    let digits = if value < 10.0 {
        3
    } else if value < 100.0 {
        2
    } else {
        1
    };
    format!("{value:.digits$} {unit}")
}

/// A point in time, as seconds since the trace began; `-` if unknown.
pub fn seconds(begin: i64, time: Option<i64>) -> String {
    let Some(time) = time else {
        return "-".to_owned();
    };
    let since = i128::from(time) - i128::from(begin);
    let sign = if since < 0 { "-" } else { "" };
    let since = since.unsigned_abs();
    format!(
        "{sign}{}.{:09}",
        since / 1_000_000_000,
        since % 1_000_000_000
    )
}

/// A number and its name, if it has one.
fn name(number: impl Display, name: Option<&String>) -> String {
    name.map_or_else(|| number.to_string(), |name| format!("{name} ({number})"))
}

/// Things of one name, or one with its number: `worker (8 threads)`, `worker (12)`.
fn alike(alike: u64, what: &str, number: impl Display, called: Option<&String>) -> String {
    match called {
        Some(called) if alike > 1 => format!("{called} ({} {what})", thousands(alike)),
        _ => name(number, called),
    }
}

/// The rows that stand for things of one name, together, where the first of them stands; one without
/// a name by itself.
fn by_name<'r, R>(rows: &'r [R], called: impl Fn(&'r R) -> Option<&'r str>) -> Vec<Vec<&'r R>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&R>> = Vec::new();
    for row in rows {
        let called = called(row);
        let known = called.and_then(|called| places.get(called).copied());
        match known.and_then(|place| groups.get_mut(place)) {
            Some(group) => group.push(row),
            None => {
                places.extend(called.map(|called| (called, groups.len())));
                groups.push(vec![row]);
            }
        }
    }
    groups
}

fn thread(thread: Option<&ThreadRef>) -> String {
    thread.map_or_else(
        || "-".to_owned(),
        |thread| name(thread.tid, thread.name.as_ref()),
    )
}

/// The lock's name, or its address if it has none.
fn lock_name(lock: u64, name: Option<&String>) -> String {
    name.cloned().unwrap_or_else(|| format!("{lock:#x}"))
}

/// A list of things with the number of each.
fn counts<'c>(counts: impl IntoIterator<Item = (&'c String, &'c u64)>) -> String {
    let counts = counts.into_iter();
    let counts = counts.map(|(what, count)| format!("{what} {}", thousands(*count)));
    counts.collect::<Vec<_>>().join(", ")
}

/// Nanoseconds from `begin` to `end`; 0 if `end` is earlier.
fn passed(begin: i64, end: i64) -> u64 {
    u64::try_from(i128::from(end) - i128::from(begin)).unwrap_or(0)
}

struct Text<'s> {
    /// Points in time are counted from here.
    zero: i64,
    style: &'s Style,
    out: String,
}

impl<'s> Text<'s> {
    fn new(report: &Report, style: &'s Style) -> Text<'s> {
        Text {
            zero: report.zero_ns.unwrap_or(0),
            style,
            out: String::new(),
        }
    }

    fn sections(&mut self, report: &Report, sampler: Sampler) {
        let mut without = Vec::new();
        for section in sections(report, self.style) {
            let before = self.out.len();
            self.section(section, report, sampler);
            if self.out.len() == before {
                without.push(section.name());
            }
        }
        if !self.style.sections.is_empty() && !without.is_empty() {
            self.out.push('\n');
            let sentence = format!("The trace has no events for: {}.", without.join(", "));
            self.paragraph(0, sentence);
        }
    }

    fn section(&mut self, section: Section, report: &Report, sampler: Sampler) {
        match section {
            Section::Cpus => self.cpus(report),
            Section::RunQueues => self.run_queues(report),
            Section::Threads => self.threads(report),
            Section::SystemCalls => self.system_calls(report),
            Section::Interrupts => self.interrupts(report),
            Section::WakeLatency => self.wake_latency(report),
            Section::Locks => self.locks(report),
            Section::PageFaults => self.page_faults(report),
            Section::Messages => self.messages(report),
            Section::OwnCounters => {
                self.own_counters(report);
                self.own_histograms(report);
            }
            Section::Samples => self.samples(report, sampler),
            Section::Counters => self.counters(report),
            Section::WorstCases => self.worst_cases(report),
            Section::Contradictions => self.contradictions(report),
            Section::Events => self.events(report),
        }
    }

    fn table(&mut self, table: Table) {
        let text = self.style.look.print(table);
        self.out.push_str(&text);
    }

    /// A table of which every row is printed, in the given order.
    fn whole_table(&mut self, table: Table) {
        let text = self.style.look.print_whole(table);
        self.out.push_str(&text);
    }

    /// Lines that fit the terminal, each behind so many spaces.
    fn paragraph(&mut self, indent: usize, text: impl Into<String>) {
        self.write(indent, text.into(), |line, _| line.to_owned());
    }

    /// A paragraph about something that is wrong with the trace.
    fn alarm(&mut self, indent: usize, text: impl Into<String>) {
        self.write(indent, text.into(), layout::alarm);
    }

    fn write(&mut self, indent: usize, mut text: String, styled: impl Fn(&str, bool) -> String) {
        escape_controls(&mut text);
        let look = &self.style.look;
        for line in layout::wrap(&text, look.width.saturating_sub(indent)) {
            self.out.push_str(&" ".repeat(indent));
            self.out.push_str(&styled(&line, look.has_colors));
            self.out.push('\n');
        }
    }

    /// A point in time, as text.
    fn at(&self, time: Option<i64>) -> String {
        seconds(self.zero, time)
    }

    /// A point in time, as a cell.
    fn time(&self, time: Option<i64>) -> Cell {
        Cell::maybe(time, |time| {
            Cell::ranked(self.at(Some(time)), passed(self.zero, time) as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_four_digits_and_a_unit() {
        let texts = [0, 999, 1000, 12_345, 5_000_000, 999_949_999, 62_500_000_000].map(duration);
        assert_eq!(
            texts,
            [
                "0 ns", "999 ns", "1.000 us", "12.35 us", "5.000 ms", "999.9 ms", "62.50 s"
            ]
        );
    }
}
