//! Interrupts, by line.

use std::collections::BTreeMap;

use kymo_machine::{IrqLine, passed};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{Durations, End, percent};
use crate::histogram::Histogram;

/// An interrupt line.
#[derive(Clone, Debug, Serialize)]
pub struct Interrupt {
    /// Its number.
    pub irq: u64,
    /// Whether it is a soft interrupt of Linux; these have a separate numbering.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub soft: bool,
    /// Its name.
    pub name: Option<String>,
    /// Number of lines that the row adds up: those of this name in
    /// [`Report::interrupts_by_name`](super::Report::interrupts_by_name), otherwise 1.
    pub alike: u64,
    /// Number of occurrences.
    pub count: u64,
    /// From entry to exit, nested handlers included.
    pub durations: Durations,
    /// Time in its handlers, without nested ones, in percent of all CPUs' time.
    pub share_percent: f64,
    /// Most handlers open at its beginning, itself included.
    pub nesting: usize,
    /// Time at which its longest handler began.
    pub longest_at_ns: Option<i64>,
    /// CPU of its longest handler.
    pub longest_cpu: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// Time without nested handlers, in nanoseconds.
    own: u64,
    durations: Histogram,
    nesting: usize,
    longest_at: Option<(i64, u64)>,
}

impl State {
    /// Adds the figures of another line.
    fn absorb(&mut self, other: &State) {
        if other.durations.max() > self.durations.max() {
            self.longest_at = other.longest_at;
        }
        self.count += other.count;
        self.own = self.own.saturating_add(other.own);
        self.durations.merge(&other.durations);
        self.nesting = self.nesting.max(other.nesting);
    }
}

fn row(line: IrqLine, state: &State, end: &End<'_>) -> Interrupt {
    Interrupt {
        irq: line.number(),
        soft: line.is_soft(),
        name: end.machine.irq(line).map(str::to_owned),
        alike: 1,
        count: state.count,
        durations: Durations::of(&state.durations),
        share_percent: percent(state.own, end.cpu_time()),
        nesting: state.nesting,
        longest_at_ns: state.longest_at.map(|(at, _)| at),
        longest_cpu: state.longest_at.map(|(_, cpu)| cpu),
    }
}

/// Each line's figures.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    lines: FxHashMap<IrqLine, State>,
    nesting: usize,
}

impl Interrupts {
    /// A handler begins; `depth` handlers are open, this one included.
    pub(crate) fn enter(&mut self, line: IrqLine, depth: usize) {
        let state = self.lines.entry(line).or_default();
        state.count += 1;
        state.nesting = state.nesting.max(depth);
        self.nesting = self.nesting.max(depth);
    }

    /// A handler that began before the reported part of the trace ends in it.
    pub(crate) fn began_before(&mut self, line: IrqLine) {
        self.lines.entry(line).or_default().count += 1;
    }

    /// A handler ends. `since` is its begin and its time without nested handlers.
    pub(crate) fn exit(
        &mut self,
        line: IrqLine,
        since: Option<(i64, u64)>,
        now: i64,
        cpu: Option<u64>,
    ) {
        let state = self.lines.entry(line).or_default();
        let Some((since, own)) = since else {
            // The handler began before the trace, or in a loss.
            state.count += 1;
            return;
        };
        let whole = passed(since, now);
        if state.durations.max().is_none_or(|max| whole > max) {
            state.longest_at = cpu.map(|cpu| (since, cpu));
        }
        state.durations.add(whole);
        state.own = state.own.saturating_add(own);
    }

    /// Most handlers open at once on one CPU.
    pub(crate) fn nesting(&self) -> usize {
        self.nesting
    }

    /// Each line, and the lines with lines of the same name added up.
    pub(crate) fn finish(&self, end: &End<'_>) -> (Vec<Interrupt>, Vec<Interrupt>) {
        let lines = self.lines.iter().filter(|(_, state)| state.count > 0);
        let lines: BTreeMap<_, _> = lines.collect();
        let each = lines.iter().map(|(line, state)| row(**line, state, end));
        let mut names: BTreeMap<(bool, &str), (IrqLine, u64, State)> = BTreeMap::new();
        let mut by_name = Vec::new();
        for (line, state) in &lines {
            match end.machine.irq(**line) {
                Some(name) => {
                    let key = (line.is_soft(), name);
                    let (_, alike, sum) = names.entry(key).or_insert((**line, 0, State::default()));
                    *alike += 1;
                    sum.absorb(state);
                }
                None => by_name.push(row(**line, state, end)),
            }
        }
        by_name.extend(names.values().map(|(line, alike, sum)| Interrupt {
            alike: *alike,
            ..row(*line, sum, end)
        }));
        by_name.sort_by_key(|row| (row.soft, row.irq));
        (each.collect(), by_name)
    }

    pub(crate) fn live(&self) -> usize {
        let states = self.lines.values();
        states.map(|state| 1 + state.durations.buckets()).sum()
    }
}
