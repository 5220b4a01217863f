//! System calls and interrupts.

use kymo_analysis::Report;

use super::{Text, alike, name};
use crate::report::cell::Cell;
use crate::report::table::{Column, Table};

impl Text<'_> {
    pub(super) fn system_calls(&mut self, report: &Report) {
        let columns = [
            Column::name("system call"),
            Column::number("calls"),
            Column::number("errors"),
            Column::number("timed"),
        ];
        let columns = columns.into_iter().chain(Column::spread());
        let columns = columns.chain([Column::number("total")]);
        let rows = report.system_calls.iter().map(|call| {
            let what = match (call.id, &call.name) {
                (Some(id), call) => name(id, call.as_ref()),
                (None, call) => call.clone().unwrap_or_else(|| "-".to_owned()),
            };
            let mut row = vec![
                Cell::text(what),
                Cell::count(call.count),
                Cell::count(call.errors),
                Cell::count(call.durations.count),
            ];
            row.extend(Cell::spread(&call.durations));
            row.push(Cell::duration(call.durations.total_ns));
            row
        });
        self.table(Table::new("System calls", columns).with(rows));
    }

    pub(super) fn interrupts(&mut self, report: &Report) {
        let lines = match self.style.each {
            true => &report.interrupts,
            false => &report.interrupts_by_name,
        };
        let columns = [Column::name("interrupt"), Column::number("count")];
        let columns = columns.into_iter().chain(Column::spread());
        let columns = columns.chain([
            Column::number("of all CPUs"),
            Column::number("nesting"),
            Column::number("longest at"),
            Column::text("on").joined(),
        ]);
        let rows = lines.iter().map(|line| {
            let called = line.name.as_ref();
            let what = match line.soft {
                true => alike(
                    line.alike,
                    "lines",
                    format_args!("softirq {}", line.irq),
                    called,
                ),
                false => alike(line.alike, "lines", line.irq, called),
            };
            let cpu = line.longest_cpu.map(|cpu| format!("cpu{cpu}"));
            let mut row = vec![Cell::text(what), Cell::count(line.count)];
            row.extend(Cell::spread(&line.durations));
            row.extend([
                Cell::percent(line.share_percent, 2),
                Cell::count(line.nesting as u64),
                self.time(line.longest_at_ns),
                Cell::maybe(cpu, Cell::text),
            ]);
            row
        });
        let title = match report.interrupt_nesting {
            0 | 1 => "Interrupts, none inside of another one".to_owned(),
            most => format!("Interrupts, up to {most} inside of one another"),
        };
        let table = Table::new(title, columns).with(rows);
        self.table(table);
    }
}
