//! The tables of counts: those of the kernel's own counters, and of the hardware's.

use std::fmt::Write as _;

use kymo::count::{EventKind, EventSpec, Hardware, Software};
use kymo_analysis::{Counters, Report};

use super::{Text, duration, grouped, name, number, percent};
use crate::dump::escape_controls;
use crate::summary::{count, thousands};

impl Text {
    pub(super) fn own_counters(&mut self, report: &Report) {
        let rows = report.own_counters.iter().map(|counter| {
            let cpus = counter.cpus.iter().filter(|(_, value)| **value != 0);
            let cpus = cpus.map(|(cpu, value)| format!("{cpu}: {}", grouped(*value)));
            [
                counter.name.clone(),
                grouped(counter.value),
                counter.unit.clone(),
                number(counter.per_second.map(|rate| format!("{rate:.1}"))),
                cpus.collect::<Vec<_>>().join(", "),
            ]
        });
        let head = ["counter", "value", "of", "per second", "by cpu"];
        self.table("The kernel's own counters", head, rows.collect());
    }

    pub(super) fn own_histograms(&mut self, report: &Report) {
        for histogram in &report.own_histograms {
            let most = histogram.buckets.iter().map(|bucket| bucket.count).max();
            let rows = histogram.buckets.iter().map(|bucket| {
                [
                    bounds(bucket.least, bucket.greatest),
                    thousands(bucket.count),
                    bar(bucket.count, most.unwrap_or(0)),
                ]
            });
            let rows: Vec<_> = rows.collect();
            let mean = number(histogram.mean.map(|mean| format!("{mean:.2}")));
            let percentiles = [histogram.p50, histogram.p90, histogram.p99, histogram.max];
            let [p50, p90, p99, max] = percentiles
                .map(|found| found.map_or_else(|| "-".to_owned(), |(a, b)| bounds(a, b)));
            let mut title = format!(
                "{}: {} of {}, mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}",
                histogram.name,
                count(histogram.count, "value", "values"),
                histogram.unit,
            );
            escape_controls(&mut title);
            if rows.is_empty() {
                let _ = writeln!(self.out, "\n{title}");
            } else {
                self.table(&title, ["from to", "values", ""], rows);
            }
        }
    }

    pub(super) fn counters(&mut self, report: &Report) {
        let Some(counters) = &report.counters else {
            return;
        };
        let columns = Columns::of(counters);
        let rows = counters.cpus.iter().map(|cpu| {
            let raw: Vec<_> = cpu.raw.iter().copied().map(Some).collect();
            let mut row = vec![cpu.cpu.to_string()];
            row.extend(columns.cells(&cpu.scaled, &raw));
            row.push(duration(cpu.time_enabled_ns));
            row.push(percent(cpu.time_running_ns, cpu.time_enabled_ns));
            row
        });
        let rows = rows.collect();
        self.wide_table(
            "Counters",
            columns.head(&["cpu"], &["in", "counting"]),
            rows,
        );
        if !counters.cpus_without.is_empty() {
            let cpus: Vec<_> = counters.cpus_without.iter().map(u64::to_string).collect();
            let cpus = cpus.join(", ");
            let _ = writeln!(self.out, "\nThese CPUs could not count: {cpus}.");
        }
        if counters.intervals_not_counted > 0 {
            let _ = writeln!(
                self.out,
                "\n{} of {} intervals between events with counts are in no table below: the group \
                 was not counting all the time.",
                thousands(counters.intervals_not_counted),
                thousands(counters.intervals)
            );
        }
        let some = |counts: &[u64]| counts.iter().copied().map(Some).collect::<Vec<_>>();
        let rows = counters.threads.iter().map(|of| {
            let mut row = vec![of.thread.as_ref().map_or_else(
                || "unknown".to_owned(),
                |thread| name(thread.tid, thread.name.as_ref()),
            )];
            row.extend(columns.cells(&some(&of.counts), &some(&of.counts)));
            row
        });
        let title = "Counted while threads ran, without interrupts";
        self.wide_table(title, columns.head(&["thread"], &[]), rows.collect());
        let each = columns.each();
        let rows = counters.system_calls.iter().map(|of| {
            let what = match (of.id, &of.name) {
                (Some(id), call) => name(id, call.as_ref()),
                (None, call) => number(call.as_ref()),
            };
            columns.row(what, of.calls, &some(&of.counts))
        });
        let rows = rows.collect();
        let head = columns.head(&["system call", "calls"], &[&each]);
        self.wide_table(
            "Counted in system calls, while their threads ran",
            head,
            rows,
        );
        let rows = counters.interrupts.iter().map(|of| {
            let what = match of.soft {
                true => name(format_args!("softirq {}", of.irq), of.name.as_ref()),
                false => name(of.irq, of.name.as_ref()),
            };
            columns.row(what, of.count, &some(&of.counts))
        });
        let rows = rows.collect();
        let head = columns.head(&["interrupt", "count"], &[&each]);
        self.wide_table("Counted in interrupts", head, rows);
    }
}

/// The columns of a table of counts: the events, and what is made of two of them.
struct Columns {
    names: Vec<String>,
    /// Heading, dividend, divisor, and whether it is a share.
    ratios: Vec<(String, usize, usize, bool)>,
}

impl Columns {
    fn of(counters: &Counters) -> Columns {
        let names = counters.events.iter();
        let specs: Vec<_> = names
            .map(|name| EventSpec::from_name(name.as_deref()?))
            .collect();
        let mut ratios = Vec::new();
        for (dividend, event) in specs.iter().enumerate() {
            let Some(by) = event.and_then(EventSpec::divisor) else {
                continue;
            };
            if let Some(divisor) = specs.iter().position(|event| *event == Some(by)) {
                let is_share = by.kind != EventKind::Hardware(Hardware::Cycles);
                let heading = match is_share {
                    true => format!("of {by}"),
                    false => "IPC".to_owned(),
                };
                ratios.push((heading, dividend, divisor, is_share));
            }
        }
        let clock = |event: &EventSpec| {
            matches!(
                event.kind,
                EventKind::Software(Software::CpuClock | Software::TaskClock)
            )
        };
        let names = counters.events.iter().zip(&specs).enumerate();
        let names = names.map(|(place, (name, spec))| match (name, spec) {
            (Some(name), Some(spec)) if clock(spec) => format!("{name} (ns)"),
            (Some(name), _) => name.clone(),
            (None, _) => format!("event {place}"),
        });
        Columns {
            names: names.collect(),
            ratios,
        }
    }

    fn head(&self, before: &[&str], after: &[&str]) -> Vec<String> {
        let before = before.iter().map(|&name| name.to_owned());
        let ratios = self.ratios.iter().map(|(heading, ..)| heading.clone());
        let after = after.iter().map(|&name| name.to_owned());
        let names = self.names.iter().cloned();
        before.chain(names).chain(ratios).chain(after).collect()
    }

    /// The heading of how much of the first event there is each time.
    fn each(&self) -> String {
        let first = self.names.first().map_or("", String::as_str);
        format!("{first} each")
    }

    /// The counts, and ratios of the raw ones.
    fn cells(&self, counts: &[Option<u64>], raw: &[Option<u64>]) -> Vec<String> {
        let count = |place| counts.get(place).copied().flatten();
        let shown = (0..self.names.len()).map(|place| number(count(place).map(thousands)));
        let raw = |place: &usize| raw.get(*place).copied().flatten();
        let ratios = self.ratios.iter().map(|(_, dividend, divisor, is_share)| {
            let (Some(part), Some(whole @ 1..)) = (raw(dividend), raw(divisor)) else {
                return "-".to_owned();
            };
            match is_share {
                true => percent(part, whole),
                false => format!("{:.2}", part as f64 / whole as f64),
            }
        });
        shown.chain(ratios).collect()
    }

    /// A row about something that happened so many times.
    fn row(&self, what: String, times: u64, counts: &[Option<u64>]) -> Vec<String> {
        let mut row = vec![what, thousands(times)];
        row.extend(self.cells(counts, counts));
        let first = counts.first().copied().flatten();
        row.push(number(
            first
                .and_then(|first| first.checked_div(times))
                .map(thousands),
        ));
        row
    }
}

/// The values of a bucket.
fn bounds(least: u64, greatest: u64) -> String {
    if least == greatest {
        thousands(least)
    } else {
        format!("{} to {}", thousands(least), thousands(greatest))
    }
}

/// A bar whose length is that part of 40 characters, at least one where there is any; behind it
/// blanks, because columns are aligned to the right.
fn bar(part: u64, most: u64) -> String {
    let length = (u128::from(part) * 40).checked_div(u128::from(most));
    let length = usize::try_from(length.unwrap_or(0)).unwrap_or(40);
    format!("{:<40}", "#".repeat(length.max(usize::from(part > 0))))
}
