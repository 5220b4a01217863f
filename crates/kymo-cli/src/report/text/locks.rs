//! Locks, and waits for them.

use kymo_analysis::{Lock, Report};

use super::{Text, alike, lock_name, thread};
use crate::report::cell::Cell;
use crate::report::table::{Column, Table};
use crate::summary::thousands;

impl Text<'_> {
    pub(super) fn locks(&mut self, report: &Report) {
        let locks = match self.style.each {
            true => &report.locks,
            false => &report.locks_by_name,
        };
        let columns = [
            Column::name("lock"),
            Column::text("kind"),
            Column::number("acquired"),
            Column::number("after a wait"),
            Column::number("not got"),
            Column::number("wait p50"),
            Column::number("wait p90").joined(),
            Column::number("wait max").joined().worst(),
            Column::number("held p50"),
            Column::number("held p90").joined(),
            Column::number("held max").joined().worst(),
        ];
        let rows = locks.iter().map(|lock| {
            let [wait50, wait90, _, wait_max] = Cell::spread(&lock.wait);
            let [hold50, hold90, _, hold_max] = Cell::spread(&lock.hold);
            vec![
                Cell::text(label(lock)),
                Cell::maybe(lock.kind.as_ref(), Cell::text),
                Cell::count(lock.acquired),
                Cell::count(lock.contended),
                Cell::count(lock.failed),
                wait50,
                wait90,
                wait_max,
                hold50,
                hold90,
                hold_max,
            ]
        });
        self.table(Table::new("Locks", columns).with(rows));
        self.longest_waits(locks);
        self.waiters(locks);
    }

    fn longest_waits(&mut self, locks: &[Lock]) {
        let columns = [
            Column::name("lock"),
            Column::number("wait").worst(),
            Column::number("from"),
            Column::name("who waited"),
            Column::number("prio").joined(),
            Column::name("who had it"),
            Column::number("prio").joined(),
        ];
        let rows = locks.iter().filter_map(|lock| {
            let wait = lock.longest_wait.as_ref()?;
            let prio = |prio: Option<i64>| {
                Cell::maybe(prio, |prio| Cell::ranked(prio.to_string(), prio as f64))
            };
            Some(vec![
                Cell::text(label(lock)),
                Cell::duration(wait.ns),
                self.time(Some(wait.begin_ns)),
                Cell::text(thread(wait.waiter.as_ref())),
                prio(wait.waiter_priority),
                Cell::text(thread(wait.owner.as_ref())),
                prio(wait.owner_priority),
            ])
        });
        let table = Table::new("The longest wait for each lock", columns).with(rows);
        self.table(table);
    }

    fn waiters(&mut self, locks: &[Lock]) {
        let columns = [
            Column::name("lock"),
            Column::name("thread"),
            Column::number("waits"),
            Column::number("total"),
            Column::number("max").worst(),
        ];
        let rows = locks.iter().flat_map(|lock| {
            lock.waiters.iter().map(|waiter| {
                let thread = waiter.thread.as_ref();
                let thread = thread.map_or_else(
                    || "-".to_owned(),
                    |thread| alike(waiter.alike, "threads", thread.tid, thread.name.as_ref()),
                );
                vec![
                    Cell::text(label(lock)),
                    Cell::text(thread),
                    Cell::count(waiter.count),
                    Cell::duration(waiter.total_ns),
                    Cell::duration(waiter.max_ns),
                ]
            })
        });
        let table = Table::new("Waits by lock and thread", columns);
        self.table(table.keyed_by(2).with(rows));
    }
}

/// A lock's name, and how many have it.
fn label(lock: &Lock) -> String {
    let called = lock_name(lock.lock, lock.name.as_ref());
    match lock.alike {
        0 | 1 => called,
        alike => format!("{called} ({} locks)", thousands(alike)),
    }
}
