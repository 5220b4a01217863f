//! The state of an expectation while the trace is read.

use std::collections::HashMap;

use kymo_ctf::{Event, Loss};
use kymo_machine::Named;

use super::names::Names;
use super::pattern::{Fit, Need};
use crate::section::ThreadRef;

/// Most events or losses that a tally keeps; the rest are only counted.
const KEPT: usize = 10;
/// Most combinations of unnamed numbers that an expectation tracks.
const PENDING: usize = 4096;

/// An event or a loss that supports or violates an expectation.
#[derive(Clone, Debug)]
pub enum Found {
    /// An event.
    Event {
        /// The event.
        event: Event,
        /// The thread that ran on its CPU, if known; `None` for switches, whose fields name it.
        thread: Option<ThreadRef>,
        /// Begin (nanoseconds from the clock's origin) and length (nanoseconds) of the span that it
        /// ends, if the expectation is about spans.
        lasted: Option<(i64, u64)>,
    },
    /// A loss.
    Loss(Loss),
}

impl Found {
    pub(super) fn time(&self) -> i128 {
        match self {
            Found::Event { event, .. } => event.nanos().unwrap_or(i128::MIN),
            Found::Loss(loss) => loss.begin_nanos.unwrap_or(i128::MIN),
        }
    }

    pub(super) fn cpu(&self) -> Option<u64> {
        match self {
            Found::Event { event, .. } => event.cpu(),
            Found::Loss(loss) => loss.cpu,
        }
    }
}

/// The state of an expectation.
#[derive(Debug, Default)]
pub(super) struct State {
    /// A tally for each pattern of an order, else a single one.
    pub(super) tallies: Vec<Tally>,
    pub(super) pending: HashMap<(usize, Vec<Vec<Need>>), Tally>,
    /// Whether there were more pending combinations than can be tracked.
    pub(super) overrun: bool,
    /// Time of the last event.
    pub(super) last: Option<i128>,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    /// The first ones, by item number.
    pub(super) first: Vec<(u64, Found)>,
    /// Number of violations.
    pub(super) over: u64,
    /// The violations of lowest rank: the first, or those farthest off.
    pub(super) worst: Vec<(u64, Found)>,
}

impl Tally {
    pub(super) fn add(&mut self, at: u64, found: impl Fn() -> Found) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push((at, found()));
        }
    }

    /// Counts a violation; those with the lowest ranks are kept.
    pub(super) fn offend(&mut self, rank: u64, found: impl FnOnce() -> Found) {
        self.over += 1;
        let place = self.worst.partition_point(|(other, _)| *other <= rank);
        if place < KEPT {
            self.worst.insert(place, (rank, found()));
            self.worst.truncate(KEPT);
        }
    }

    pub(super) fn merge(&mut self, other: Tally) {
        fn join(to: &mut Vec<(u64, Found)>, from: Vec<(u64, Found)>) {
            to.extend(from);
            to.sort_by_key(|(rank, _)| *rank);
            to.truncate(KEPT);
        }
        self.count += other.count;
        self.over += other.over;
        join(&mut self.first, other.first);
        join(&mut self.worst, other.worst);
    }

    pub(super) fn live(&self) -> usize {
        1 + self.first.len() + self.worst.len()
    }
}

impl State {
    /// The tally for an event with this fit; `None` if it is not counted.
    pub(super) fn tally(&mut self, place: usize, fit: Fit) -> Option<&mut Tally> {
        match fit {
            Fit::No => None,
            Fit::Yes => self.tallies.get_mut(place),
            Fit::If(ways) => {
                let key = (place, ways);
                if self.pending.len() >= PENDING && !self.pending.contains_key(&key) {
                    self.overrun = true;
                    return None;
                }
                Some(self.pending.entry(key).or_default())
            }
        }
    }

    /// Settles the pending combinations with an object that has just got a name.
    pub(super) fn name(&mut self, named: Named, names: &Names<'_>) {
        let concerned = |ways: &[Vec<Need>]| {
            let mut needs = ways.iter().flatten();
            needs.any(|need| names.is(&need.number, named))
        };
        let keys: Vec<_> = self
            .pending
            .keys()
            .filter(|(_, ways)| concerned(ways))
            .cloned()
            .collect();
        for key in keys {
            let Some(tally) = self.pending.remove(&key) else {
                continue;
            };
            let (place, ways) = key;
            if let Some(to) = self.tally(place, Fit::If(ways).with(named, names)) {
                to.merge(tally);
            }
        }
    }
}
