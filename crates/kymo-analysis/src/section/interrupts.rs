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

    pub(crate) fn finish(&self, end: &End<'_>) -> Vec<Interrupt> {
        let all = end.span().saturating_mul(end.machine.cpus().len() as u64);
        let lines = self.lines.iter().filter(|(_, state)| state.count > 0);
        let lines: BTreeMap<_, _> = lines.collect();
        let rows = lines.into_iter().map(|(line, state)| Interrupt {
            irq: line.number(),
            soft: line.is_soft(),
            name: end.machine.irq(*line).map(str::to_owned),
            count: state.count,
            durations: Durations::of(&state.durations),
            share_percent: percent(state.own, all),
            nesting: state.nesting,
            longest_at_ns: state.longest_at.map(|(at, _)| at),
            longest_cpu: state.longest_at.map(|(_, cpu)| cpu),
        });
        rows.collect()
    }

    pub(crate) fn live(&self) -> usize {
        let states = self.lines.values();
        states.map(|state| 1 + state.durations.buckets()).sum()
    }
}
