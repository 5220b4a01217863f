//! Page faults, messages, samples, worst cases, contradictions, and events by name.

use kymo_analysis::{Report, WorstCase};

use super::{Text, alike, by_name, counts, name, thread};
use crate::missed::{self, Sampler};
use crate::report::cell::Cell;
use crate::report::table::{Column, Table};
use crate::summary::thousands;

impl Text<'_> {
    pub(super) fn page_faults(&mut self, report: &Report) {
        let Some(faults) = &report.page_faults else {
            return;
        };
        let rows = faults.processes.iter().map(|process| {
            let what = process.pid.map_or_else(
                || "unknown".to_owned(),
                |pid| name(pid, process.name.as_ref()),
            );
            vec![Cell::text(what), Cell::count(process.count)]
        });
        let title = format!("Page faults: {}", thousands(faults.count));
        let columns = [Column::name("process"), Column::number("faults")];
        self.table(Table::new(title, columns).with(rows));
        let rows = faults.threads.iter().map(|row| {
            vec![
                Cell::text(thread(row.thread.as_ref())),
                Cell::count(row.count),
                Cell::count(row.user),
                Cell::count(row.kernel),
                Cell::text(counts(&row.causes)),
            ]
        });
        let columns = [
            Column::name("thread"),
            Column::number("faults"),
            Column::number("user"),
            Column::number("kernel"),
            Column::items("cause"),
        ];
        self.table(Table::new("Page faults by thread", columns).with(rows));
    }

    pub(super) fn messages(&mut self, report: &Report) {
        let columns = [
            Column::name("by"),
            Column::number("sent"),
            Column::number("received"),
            Column::number("bytes sent"),
            Column::number("bytes received"),
        ];
        let rows = report.messages.iter().map(|row| {
            let path = row.path.as_ref();
            let path = path.map_or_else(String::new, |path| format!(", {path} path"));
            vec![
                Cell::text(format!("{}{path}", row.mechanism)),
                Cell::count(row.sent),
                Cell::count(row.received),
                Cell::count(row.sent_bytes),
                Cell::count(row.received_bytes),
            ]
        });
        self.table(Table::new("Messages", columns).with(rows));
    }

    /// All events by name; those that no other table uses also by process and by thread.
    pub(super) fn events(&mut self, report: &Report) {
        let columns = [
            Column::name("event"),
            Column::number("count"),
            Column::number("per second"),
            Column::number("share"),
        ];
        let rows = report.event_counts.iter().map(|row| {
            vec![
                Cell::text(&row.name),
                Cell::count(row.count),
                Cell::rate(row.per_second),
                Cell::percent(row.share_percent, 1),
            ]
        });
        self.table(Table::new("Events", columns).with(rows));
        let rows = report.other_events.iter().filter_map(|row| {
            let process = name(row.pid?, row.process.as_ref());
            Some(vec![
                Cell::text(&row.name),
                Cell::text(process),
                Cell::count(row.count),
                Cell::rate(row.per_second),
            ])
        });
        let columns = [
            Column::name("event"),
            Column::name("process"),
            Column::number("count"),
            Column::number("per second"),
        ];
        let table = Table::new("Events by process", columns).keyed_by(2);
        self.table(table.with(rows));
        let rows = report.other_events_by_thread.iter().map(|row| {
            vec![
                Cell::text(thread(Some(&row.thread))),
                Cell::maybe(row.pid, |pid| Cell::ranked(pid.to_string(), pid as f64)),
                Cell::count(row.count),
                Cell::rate(row.per_second),
            ]
        });
        let columns = [
            Column::name("thread"),
            Column::number("pid"),
            Column::number("count"),
            Column::number("per second"),
        ];
        self.table(Table::new("Events by thread", columns).with(rows));
    }

    pub(super) fn samples(&mut self, report: &Report, sampler: Sampler) {
        let Some(samples) = &report.samples else {
            return;
        };
        let each = self.style.each;
        let groups = by_name(&samples.threads, |of| {
            of.thread.name.as_deref().filter(|_| !each)
        });
        let mut sums: Vec<_> = groups
            .iter()
            .filter_map(|group| {
                let first = &group.first()?.thread;
                let number = group.len() as u64;
                let thread = alike(number, "threads", first.tid, first.name.as_ref());
                let share: f64 = group.iter().map(|of| of.share_percent).sum();
                let user: u64 = group.iter().map(|of| of.user).sum();
                let kernel: u64 = group.iter().map(|of| of.kernel).sum();
                Some((thread, share, user, kernel))
            })
            .collect();
        sums.sort_by_key(|(.., user, kernel)| std::cmp::Reverse(user + kernel));
        let mut rows = Vec::new();
        for (thread, share, user, kernel) in sums {
            rows.push(vec![
                Cell::text(thread),
                Cell::count(user + kernel),
                Cell::percent(share, 1),
                Cell::count(user),
                Cell::count(kernel),
            ]);
        }
        for (what, number) in [
            ("unknown", samples.threadless),
            ("(idle CPUs)", samples.idle),
        ] {
            if number > 0 {
                rows.push(vec![Cell::text(what), Cell::count(number)]);
            }
        }
        let title = format!(
            "Samples: {}; {}. kymo hot and kymo flame show the functions.",
            thousands(samples.count),
            missed::told(samples.missed, samples.count, sampler)
        );
        let columns = [
            Column::name("thread"),
            Column::number("samples"),
            Column::number("of busy CPUs"),
            Column::number("in a program"),
            Column::number("in the kernel"),
        ];
        self.table(Table::new(title, columns).with(rows));
    }

    /// The longest of each kind come first, then the second ones.
    pub(super) fn worst_cases(&mut self, report: &Report) {
        let columns = [
            Column::text("what"),
            Column::name("which"),
            Column::number("lasts").worst(),
            Column::number("from"),
            Column::text("on"),
            Column::name("thread"),
        ];
        let mut cases: Vec<(usize, &WorstCase)> = Vec::new();
        for case in &report.worst_cases {
            let before = cases.iter().filter(|(_, other)| other.kind == case.kind);
            cases.push((before.count(), case));
        }
        cases.sort_by_key(|(place, _)| *place);
        let rows = cases.into_iter().map(|(_, case)| {
            let cpu = case.cpu.map(|cpu| format!("cpu{cpu}"));
            let of = case.thread.as_ref().map(|of| thread(Some(of)));
            vec![
                Cell::text(case.kind.label()),
                Cell::text(&case.name),
                Cell::duration(case.nanos()),
                self.time(Some(case.begin_ns)),
                Cell::text(cpu.unwrap_or_default()),
                Cell::text(of.unwrap_or_default()),
            ]
        });
        let table = Table::new("Worst cases", columns).with(rows);
        self.table(table);
    }

    pub(super) fn contradictions(&mut self, report: &Report) {
        let columns = [
            Column::name("rule"),
            Column::number("count"),
            Column::number("first at"),
            Column::text("on").joined(),
            Column::items("what"),
        ];
        let found = &report.contradictions;
        let rows = found.counts.iter().map(|(rule, count)| {
            let mut row = vec![Cell::text(*rule), Cell::count(*count)];
            if let Some(first) = found.first.iter().find(|first| first.rule == *rule) {
                row.extend([
                    self.time(Some(first.time_ns)),
                    Cell::text(format!("cpu{}", first.cpu)),
                    Cell::text(&first.message),
                ]);
            }
            row
        });
        let table = Table::new("What does not fit together", columns).with(rows);
        self.table(table);
    }
}
