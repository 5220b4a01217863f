//! The part of a trace that a report is about.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use kymo_ctf::ItemRef;
use kymo_machine::{Change, Doing};

/// Where an item lies in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is before the part, or has no time: it only counts for the state.
    Before,
    /// It belongs to the part. A loss does if any of it may be inside.
    Inside,
    /// It begins behind the part, as everything does that follows.
    Behind,
}

impl Place {
    /// Where an item lies with regard to the time from `from` to `to`, both included, in nanoseconds
    /// from the clock's origin; `None` is unbounded.
    pub fn of(item: &ItemRef<'_>, from: Option<i128>, to: Option<i128>) -> Place {
        let (begin, end) = match item {
            ItemRef::Event(event) => (event.nanos(), event.nanos()),
            ItemRef::Loss(loss) => (loss.begin_nanos, loss.end_nanos),
            _ => return Place::Inside,
        };
        if to.is_some_and(|to| begin.is_some_and(|begin| begin > to)) {
            return Place::Behind;
        }
        let is_loss = matches!(item, ItemRef::Loss(_));
        let is_inside = match (from, to) {
            (None, None) => true,
            _ => end.map_or(is_loss, |end| from.is_none_or(|from| end >= from)),
        };
        match is_inside {
            true => Place::Inside,
            false => Place::Before,
        }
    }
}

/// The part of a trace that a report is about; by default, all of it.
///
/// The state at its beginning comes from the events before it: which thread runs, what each thread
/// does, and names. Times of threads and CPUs are counted inside the part only. Other durations
/// (waits, system calls, interrupts) count in full if their last event is selected.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its begin, in nanoseconds from the clock's origin; `None` for the trace's.
    pub from_ns: Option<i64>,
    /// Its end, in nanoseconds from the clock's origin; `None` for the trace's.
    pub to_ns: Option<i64>,
    /// Numbers of its CPUs; empty for all.
    pub cpus: Vec<RangeInclusive<u64>>,
    /// Numbers of its threads; `None` for all.
    pub threads: Option<HashSet<u64>>,
    /// Whether some events of the times, CPUs and threads above are left out, so that what threads
    /// did is counted from the selected events alone.
    pub only_some_events: bool,
}

impl Part {
    /// Whether it is less than the whole trace.
    pub fn is_partial(&self) -> bool {
        self.from_ns.is_some()
            || self.to_ns.is_some()
            || !self.cpus.is_empty()
            || self.threads.is_some()
            || self.only_some_events
    }

    pub(crate) fn has_cpu(&self, cpu: u64) -> bool {
        self.cpus.is_empty() || self.cpus.iter().any(|range| range.contains(&cpu))
    }

    pub(crate) fn has_thread(&self, tid: u64) -> bool {
        let threads = self.threads.as_ref();
        threads.is_none_or(|threads| threads.contains(&tid))
    }

    /// Whether the time is after the part.
    pub(crate) fn is_past(&self, time: i64) -> bool {
        self.to_ns.is_some_and(|to| time > to)
    }

    /// Whether a change ends a system call or an interrupt that began before the part.
    pub(crate) fn began_before(&self, change: &Change) -> bool {
        let since = match *change {
            Change::IrqExit { since, .. } => since.map(|(since, _)| since),
            Change::CallExit { since, .. } => since,
            _ => None,
        };
        let from = self.from_ns;
        since.is_some_and(|since| from.is_some_and(|from| since < from))
    }

    /// What a change is in this part; `None` if it is nothing there. `is_selected` is whether the
    /// item that made it is selected.
    pub(crate) fn clip(&self, change: &Change, is_selected: bool) -> Option<Change> {
        match *change {
            Change::Doing {
                thread,
                was,
                since,
                until,
                now,
            } => {
                let is_meant = is_selected || !self.only_some_events;
                let is_here = match was {
                    Doing::Running(cpu) => self.has_cpu(cpu),
                    _ => true,
                };
                let since = self.from_ns.map_or(since, |from| since.max(from));
                let until = self.to_ns.map_or(until, |to| until.min(to));
                (is_meant && is_here && since < until).then_some(Change::Doing {
                    thread,
                    was,
                    since,
                    until,
                    now,
                })
            }
            // What is unknown from now on, or again known, matters to what follows.
            Change::Lost { .. }
            | Change::Regained { .. }
            | Change::Forgot { .. }
            | Change::Recognised { .. } => Some(*change),
            _ => is_selected.then_some(*change),
        }
    }
}
