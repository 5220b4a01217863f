//! The tables of counts: those of the kernel's own counters, and of the hardware's.

use kymo::count::{EventKind, EventSpec, Hardware, Software};
use kymo_analysis::{GroupCounters, OwnHistogram, Report};

use super::{Text, alike, by_name, name};
use crate::report::cell::Cell;
use crate::report::table::{Column, Table};
use crate::summary::{count, thousands};

impl Text<'_> {
    pub(super) fn own_counters(&mut self, report: &Report) {
        let columns = [
            Column::name("counter"),
            Column::number("value"),
            Column::text("of").joined(),
            Column::number("per second"),
            Column::items("by cpu"),
        ];
        let rows = report.own_counters.iter().map(|counter| {
            let cpus = counter.cpus.iter().filter(|(_, value)| **value != 0);
            let cpus = cpus.map(|(cpu, value)| format!("{cpu}: {}", grouped(*value)));
            vec![
                Cell::text(&counter.name),
                Cell::ranked(grouped(counter.value), counter.value as f64),
                Cell::text(&counter.unit),
                Cell::rate(counter.per_second),
                Cell::text(cpus.collect::<Vec<_>>().join(", ")),
            ]
        });
        self.table(Table::new("The kernel's own counters", columns).with(rows));
    }

    pub(super) fn own_histograms(&mut self, report: &Report) {
        for histogram in &report.own_histograms {
            let most = histogram.buckets.iter().map(|bucket| bucket.count).max();
            let rows = histogram.buckets.iter().map(|bucket| {
                vec![
                    Cell::text(bounds(bucket.least, bucket.greatest)),
                    Cell::count(bucket.count),
                    Cell::text(bar(bucket.count, most.unwrap_or(0))),
                ]
            });
            let title = sum_of(histogram);
            let columns = [
                Column::name("from to"),
                Column::number("values"),
                Column::text(""),
            ];
            match histogram.buckets.is_empty() {
                true => {
                    self.out.push('\n');
                    self.paragraph(0, title);
                }
                // The buckets are in their order, and belong together.
                false => self.whole_table(Table::new(title, columns).with(rows)),
            }
        }
    }

    pub(super) fn counters(&mut self, report: &Report) {
        let groups = report.counters.iter().flat_map(|all| &all.groups);
        let several = groups.clone().count() > 1;
        for counters in groups {
            // One that is not the first is not the only one: the others' records are missing.
            let which = match several || counters.group > 0 {
                true => format!(" (group {})", counters.group),
                false => String::new(),
            };
            self.group_counters(counters, &which);
        }
    }

    /// What a group has counted; `which` says which one, where there are several.
    fn group_counters(&mut self, counters: &GroupCounters, which: &str) {
        let columns = Columns::of(counters);
        let rows = counters.cpus.iter().map(|cpu| {
            let raw: Vec<_> = cpu.raw.iter().copied().map(Some).collect();
            let mut row = vec![Cell::ranked(cpu.cpu.to_string(), cpu.cpu as f64)];
            row.extend(columns.cells(&cpu.scaled, &raw));
            row.push(Cell::duration(cpu.time_enabled_ns));
            row.push(Cell::share(cpu.time_running_ns, cpu.time_enabled_ns));
            row
        });
        let head = columns.head(&["cpu"], &["in", "counting"]);
        self.table(Table::new(format!("Counters{which}"), head).with(rows));
        if !counters.cpus_without.is_empty() {
            let cpus: Vec<_> = counters.cpus_without.iter().map(u64::to_string).collect();
            self.out.push('\n');
            self.paragraph(
                0,
                format!("These CPUs could not count{which}: {}.", cpus.join(", ")),
            );
        }
        if counters.intervals_not_counted > 0 {
            self.out.push('\n');
            let sentence = format!(
                "{} of {} intervals between events with counts are in no table below{which}: the \
                 group was not counting all the time.",
                thousands(counters.intervals_not_counted),
                thousands(counters.intervals)
            );
            self.paragraph(0, sentence);
        }
        self.shared_counters(counters, &columns, which);
    }

    /// What was counted, by what ran meanwhile.
    fn shared_counters(&mut self, counters: &GroupCounters, columns: &Columns, which: &str) {
        let some = |counts: &[u64]| counts.iter().copied().map(Some).collect::<Vec<_>>();
        let is_each = self.style.each;
        let groups = by_name(&counters.threads, |of| {
            let called = of.thread.as_ref()?.name.as_deref();
            called.filter(|_| !is_each)
        });
        let mut sums: Vec<_> = groups
            .iter()
            .map(|group| {
                let first = group.first().and_then(|of| of.thread.as_ref());
                let thread = first.map_or_else(
                    || "unknown".to_owned(),
                    |of| alike(group.len() as u64, "threads", of.tid, of.name.as_ref()),
                );
                (thread, sum(group.iter().map(|of| &*of.counts)))
            })
            .collect();
        sums.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.first().copied()));
        let rows = sums.into_iter().map(|(thread, counts)| {
            let mut row = vec![Cell::text(thread)];
            row.extend(columns.cells(&some(&counts), &some(&counts)));
            row
        });
        let title = format!("Counted while threads ran, without interrupts{which}");
        self.table(Table::new(title, columns.head(&["thread"], &[])).with(rows));
        let each = columns.each();
        let rows = counters.system_calls.iter().map(|of| {
            let what = match (of.id, &of.name) {
                (Some(id), call) => name(id, call.as_ref()),
                (None, call) => call.clone().unwrap_or_else(|| "-".to_owned()),
            };
            columns.row(what, of.calls, &some(&of.counts))
        });
        let head = columns.head(&["system call", "calls"], &[&each]);
        let title = format!("Counted in system calls, while their threads ran{which}");
        self.table(Table::new(title, head).with(rows));
        let rows = counters.interrupts.iter().map(|of| {
            let what = match of.soft {
                true => name(format_args!("softirq {}", of.irq), of.name.as_ref()),
                false => name(of.irq, of.name.as_ref()),
            };
            columns.row(what, of.count, &some(&of.counts))
        });
        let head = columns.head(&["interrupt", "count"], &[&each]);
        let title = format!("Counted in interrupts{which}");
        self.table(Table::new(title, head).with(rows));
    }
}

/// The counts of several, event by event.
fn sum<'c>(all: impl Iterator<Item = &'c [u64]>) -> Vec<u64> {
    let mut sums = Vec::new();
    for counts in all {
        sums.resize(counts.len().max(sums.len()), 0_u64);
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = sum.saturating_add(*count);
        }
    }
    sums
}

/// The number of a histogram's values, their mean and their percentiles.
fn sum_of(histogram: &OwnHistogram) -> String {
    let mean = histogram.mean.map(|mean| format!("{mean:.2}"));
    let percentiles = [histogram.p50, histogram.p90, histogram.p99, histogram.max];
    let [p50, p90, p99, max] =
        percentiles.map(|found| found.map_or_else(|| "-".to_owned(), |(a, b)| bounds(a, b)));
    format!(
        "{}: {} of {}, mean {}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}",
        histogram.name,
        count(histogram.count, "value", "values"),
        histogram.unit,
        mean.as_deref().unwrap_or("-"),
    )
}

/// A number with its thousands set apart, and its sign.
fn grouped(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let value = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{sign}{}", thousands(value))
}

/// The columns of a table of counts: the events, and what is made of two of them.
struct Columns {
    names: Vec<String>,
    /// Heading, dividend, divisor, and whether it is a share.
    ratios: Vec<(String, usize, usize, bool)>,
}

impl Columns {
    fn of(counters: &GroupCounters) -> Columns {
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

    /// All columns: the first of `before` says what a row is about.
    fn head(&self, before: &[&str], after: &[&str]) -> Vec<Column> {
        let mut before = before.iter();
        let key = before.next().map(|&name| match name {
            "cpu" => Column::number(name),
            _ => Column::name(name),
        });
        let before = before.map(|&name| name.to_owned());
        let ratios = self.ratios.iter().map(|(heading, ..)| heading.clone());
        let after = after.iter().map(|&name| name.to_owned());
        let names = self.names.iter().cloned();
        let numbers = before.chain(names).chain(ratios).chain(after);
        key.into_iter().chain(numbers.map(Column::number)).collect()
    }

    /// The heading of how much of the first event there is each time.
    fn each(&self) -> String {
        let first = self.names.first().map_or("", String::as_str);
        format!("{first} each")
    }

    /// The counts, and ratios of the raw ones.
    fn cells(&self, counts: &[Option<u64>], raw: &[Option<u64>]) -> Vec<Cell> {
        let count = |place| counts.get(place).copied().flatten();
        let shown = (0..self.names.len()).map(|place| Cell::maybe(count(place), Cell::count));
        let raw = |place: &usize| raw.get(*place).copied().flatten();
        let ratios = self.ratios.iter().map(|(_, dividend, divisor, is_share)| {
            let (Some(part), Some(whole @ 1..)) = (raw(dividend), raw(divisor)) else {
                return Cell::unknown();
            };
            let ratio = part as f64 / whole as f64;
            match is_share {
                true => Cell::share(part, whole),
                false => Cell::ranked(format!("{ratio:.2}"), ratio),
            }
        });
        shown.chain(ratios).collect()
    }

    /// A row about something that happened so many times.
    fn row(&self, what: String, times: u64, counts: &[Option<u64>]) -> Vec<Cell> {
        let mut row = vec![Cell::text(what), Cell::count(times)];
        row.extend(self.cells(counts, counts));
        let first = counts.first().copied().flatten();
        let each = first.and_then(|first| first.checked_div(times));
        row.push(Cell::maybe(each, Cell::count));
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

/// A bar whose length is that part of 40 characters, at least one where there is any.
fn bar(part: u64, most: u64) -> String {
    let length = (u128::from(part) * 40).checked_div(u128::from(most));
    let length = usize::try_from(length.unwrap_or(0)).unwrap_or(40);
    "#".repeat(length.max(usize::from(part > 0)))
}
