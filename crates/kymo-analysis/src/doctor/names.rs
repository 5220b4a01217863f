//! Threads, interrupts, system calls and locks without names.

use kymo_machine::{CallKey, Change, IrqLine, Machine};
use rustc_hash::FxHashMap;

use super::{Findings, Place, Remedy, Severity, list};
use crate::section::Report;

const THREAD: Remedy = Remedy {
    text: "Record `thread_name` where a thread is created, and `thread_state` in \
           the port's `dump_state` for those that exist already",
    page: "events.md#thread_name",
};
const IRQ: Remedy = Remedy {
    text: "Record `irq_name` where a handler is registered, or in the port's `dump_state`",
    page: "events.md#irq_name",
};
const CALL: Remedy = Remedy {
    text: "Record `syscall_name` for each call in the port's `dump_state`",
    page: "events.md#syscall_name",
};
const LOCK: Remedy = Remedy {
    text: "Record `lock_name` where a lock is made or first used",
    page: "events.md#lock_name",
};

/// Where each thing was met first.
#[derive(Debug, Default)]
pub(super) struct Names {
    threads: FxHashMap<u64, Place>,
    lines: FxHashMap<IrqLine, Place>,
    calls: FxHashMap<u64, Place>,
    locks: FxHashMap<u64, Place>,
}

impl Names {
    pub(super) fn take(&mut self, change: &Change, place: Place, machine: &Machine) {
        match *change {
            Change::Switch { prev, next, .. } => {
                for tid in [prev, next].map(|id| machine.thread(id).map(|of| of.tid)) {
                    self.threads.entry(tid.unwrap_or(0)).or_insert(place);
                }
            }
            Change::IrqEnter { line, .. } => {
                self.lines.entry(line).or_insert(place);
            }
            Change::CallEnter { call, .. } => {
                if let Some((CallKey::Number(number), _)) = machine.call(call) {
                    self.calls.entry(*number).or_insert(place);
                }
            }
            Change::LockAcquired { lock, .. } | Change::LockWait { lock, .. } => {
                self.locks.entry(lock).or_insert(place);
            }
            _ => {}
        }
    }

    pub(super) fn finish(&self, report: &Report, found: &mut Findings) {
        let threads = report.threads.iter();
        let threads = threads.filter(|of| of.name.is_none() && of.tid != 0 && !of.idle);
        let threads = threads.filter_map(|of| Some((of.tid, *self.threads.get(&of.tid)?)));
        tell(
            "Thread",
            "Threads",
            |tid| tid.to_string(),
            threads,
            THREAD,
            found,
        );
        let lines = report
            .interrupts
            .iter()
            .filter(|of| of.name.is_none() && !of.soft);
        let lines = lines.filter_map(|of| {
            let line = IrqLine::hard(of.irq);
            Some((of.irq, *self.lines.get(&line)?))
        });
        tell(
            "Interrupt",
            "Interrupts",
            |irq| irq.to_string(),
            lines,
            IRQ,
            found,
        );
        let calls = report.system_calls.iter().filter(|of| of.name.is_none());
        let calls = calls.filter_map(|of| Some((of.id?, *self.calls.get(&of.id?)?)));
        tell(
            "System call",
            "System calls",
            |id| id.to_string(),
            calls,
            CALL,
            found,
        );
        let locks = report.locks.iter().filter(|of| of.name.is_none());
        let locks = locks.filter_map(|of| Some((of.lock, *self.locks.get(&of.lock)?)));
        tell(
            "Lock",
            "Locks",
            |lock| format!("{lock:#x}"),
            locks,
            LOCK,
            found,
        );
    }
}

/// Reports what has no name.
fn tell(
    one: &str,
    several: &str,
    shown: fn(u64) -> String,
    nameless: impl Iterator<Item = (u64, Place)>,
    remedy: Remedy,
    found: &mut Findings,
) {
    let mut all: Vec<(u64, Place)> = nameless.collect();
    all.sort_by_key(|(number, _)| *number);
    all.dedup_by_key(|(number, _)| *number);
    let Some(first) = all.iter().map(|(_, place)| *place).min_by_key(|of| of.time) else {
        return;
    };
    let numbers: Vec<String> = all.iter().map(|(number, _)| shown(*number)).collect();
    let message = match numbers.as_slice() {
        [number] => format!("{one} {number} has no name"),
        numbers => format!("{several} {} have no names", list(numbers)),
    };
    found.add(Severity::Missing, "names", message, Some(first), remedy);
}
