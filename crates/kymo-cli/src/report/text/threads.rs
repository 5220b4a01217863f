//! CPUs, run queues, threads and their wake-up latencies.

use std::cmp::Reverse;

use kymo_analysis::{CpuUse, Report, Thread};

use super::{Text, alike, counts, duration, lock_name, name, thread};
use crate::report::cell::Cell;
use crate::report::table::{Column, Table};
use crate::summary::count;

impl Text<'_> {
    pub(super) fn cpus(&mut self, report: &Report) {
        let known = |cpu: &CpuUse| {
            let parts = [cpu.switches, cpu.busy_ns, cpu.idle_ns, cpu.interrupts_ns];
            parts.iter().any(|part| *part > 0)
        };
        if !report.cpus.iter().any(known) {
            return;
        }
        let columns = Column::numbers([
            "cpu",
            "busy for",
            "busy",
            "idle",
            "unknown",
            "in interrupts",
            "switches",
        ]);
        let rows = report.cpus.iter().map(|cpu| {
            let span = cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns;
            vec![
                Cell::ranked(cpu.cpu.to_string(), cpu.cpu as f64),
                Cell::duration(cpu.busy_ns),
                Cell::share(cpu.busy_ns, span),
                Cell::share(cpu.idle_ns, span),
                Cell::share(cpu.unknown_ns, span),
                Cell::share(cpu.interrupts_ns, span),
                Cell::count(cpu.switches),
            ]
        });
        self.table(Table::new("CPUs", columns).with(rows));
    }

    pub(super) fn run_queues(&mut self, report: &Report) {
        let rows = report.run_queues.iter().map(|queue| {
            let cpu = queue.cpu.map(|cpu| cpu.to_string());
            vec![
                Cell::text(cpu.unwrap_or_else(|| "shared".to_owned())),
                Cell::maybe(queue.mean, |mean| Cell::ranked(format!("{mean:.2}"), mean)),
                Cell::count(queue.max),
                Cell::count(queue.enqueued),
                Cell::count(queue.dequeued),
            ]
        });
        let columns = Column::numbers(["cpu", "mean", "max", "enqueued", "dequeued"]);
        let title = "Run queues: threads that are ready and do not run";
        self.table(Table::new(title, columns).with(rows));
    }

    pub(super) fn threads(&mut self, report: &Report) {
        let is_known = |thread: &Thread| {
            let Thread {
                cpu_ns,
                runnable_ns,
                blocked_ns,
                sleeping_ns,
                suspended_ns,
                ..
            } = *thread;
            let times = [cpu_ns, runnable_ns, blocked_ns, sleeping_ns, suspended_ns];
            times.iter().any(|time| *time > 0) || !thread.switches.is_empty()
        };
        let threads = self.chosen(report);
        if !threads.iter().any(is_known) {
            return;
        }
        let columns = [
            Column::name("thread"),
            Column::number("pid"),
            Column::number("prio"),
            Column::number("on a CPU"),
            Column::number("share"),
            Column::number("runnable"),
            Column::number("blocked"),
            Column::number("sleeping"),
            Column::number("suspended"),
            Column::number("unknown"),
            Column::text("blocked on"),
            Column::items("at the end"),
            Column::items("why it left a CPU"),
        ];
        let rows = threads.iter().map(|thread| {
            let ranked = |number: String, rank: f64| Cell::ranked(number, rank);
            vec![
                Cell::text(label(thread)),
                Cell::maybe(thread.pid, |pid| ranked(pid.to_string(), pid as f64)),
                Cell::maybe(thread.priority, |prio| {
                    ranked(prio.to_string(), prio as f64)
                }),
                Cell::duration(thread.cpu_ns),
                Cell::percent(thread.share_percent, 1),
                Cell::time_spent(thread.runnable_ns),
                Cell::time_spent(thread.blocked_ns),
                Cell::time_spent(thread.sleeping_ns),
                Cell::time_spent(thread.suspended_ns),
                Cell::time_spent(thread.unknown_ns),
                Cell::text(blocked_on(thread)),
                Cell::text(&thread.last_state),
                Cell::text(counts(&thread.switches)),
            ]
        });
        let table = Table::new("Threads", columns).with(rows);
        self.table(table);
    }

    /// Each thread, or those of equal names as one.
    fn chosen<'r>(&self, report: &'r Report) -> &'r [Thread] {
        match self.style.each {
            true => &report.threads,
            false => &report.threads_by_name,
        }
    }

    pub(super) fn wake_latency(&mut self, report: &Report) {
        let Some(wake) = &report.wake_latency else {
            return;
        };
        let [p50, p90, p99, max] = Cell::spread(&wake.durations).map(|cell| cell.text);
        let title = format!(
            "Wake-up latency, until the thread that was woken ran: {}, p50 {p50}, p90 {p90}, \
             p99 {p99}, max {max}; the longest:",
            count(wake.durations.count, "time", "times")
        );
        let columns = [
            Column::name("thread"),
            Column::number("latency").worst(),
            Column::number("woken at"),
            Column::number("ran at"),
            Column::name("woken by"),
            Column::text("on"),
        ];
        let rows = wake.worst.iter().map(|worst| {
            let waker = match (worst.by_interrupt, &worst.waker) {
                (true, _) => "interrupt".to_owned(),
                (false, Some(waker)) => thread(Some(waker)),
                (false, None) => "unknown".to_owned(),
            };
            vec![
                Cell::text(thread(Some(&worst.thread))),
                Cell::duration(worst.latency_ns),
                self.time(Some(worst.woken_ns)),
                self.time(Some(worst.ran_ns)),
                Cell::text(waker),
                Cell::text(format!("cpu{}", worst.cpu)),
            ]
        });
        let table = Table::new(title, columns).with(rows);
        self.table(table);
        let threads = self.chosen(report).iter();
        let mut threads: Vec<&Thread> = threads
            .filter(|thread| thread.wake_latency.count > 0)
            .collect();
        threads.sort_by_key(|thread| (Reverse(thread.wake_latency.max_ns), thread.tid));
        let rows = threads.into_iter().map(|thread| {
            let times = Cell::count(thread.wake_latency.count);
            let mut row = vec![Cell::text(label(thread)), times];
            row.extend(Cell::spread(&thread.wake_latency));
            row
        });
        let columns = [Column::name("thread"), Column::number("times")];
        let columns = columns.into_iter().chain(Column::spread());
        self.table(Table::new("Wake-up latency by thread", columns).with(rows));
    }
}

/// A thread's name and number, or the name and how many have it. An idle thread has its CPU.
fn label(thread: &Thread) -> String {
    let called = thread.name.as_ref();
    match thread.cpu {
        Some(cpu) if thread.alike == 1 => name(format_args!("{}/{cpu}", thread.tid), called),
        _ => alike(thread.alike, "threads", thread.tid, called),
    }
}

/// The lock for which a thread was blocked most of the time, and that time if it is not all.
fn blocked_on(thread: &Thread) -> String {
    let Some(most) = thread.blocked_on.first() else {
        return String::new();
    };
    let lock = lock_name(most.lock, most.name.as_ref());
    match most.ns < thread.blocked_ns {
        true => format!("{} on {lock}", duration(most.ns)),
        false => lock,
    }
}
