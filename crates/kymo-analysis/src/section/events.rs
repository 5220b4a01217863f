//! All events: how many there are of each name.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kymo_ctf::EventRef;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{End, percent};

/// Events of a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EventCount {
    /// Their name.
    pub name: String,
    /// Number of events.
    pub count: u64,
    /// Events in a second of the trace's time; `None` if it has no length.
    pub per_second: Option<f64>,
    /// Their part of all events, in percent.
    pub share_percent: f64,
}

/// The counts, by where the names of event classes are: these are shared.
#[derive(Debug, Default)]
pub(crate) struct Events(FxHashMap<usize, (Arc<str>, u64)>);

impl Events {
    #[inline]
    pub(crate) fn add(&mut self, event: &EventRef<'_>) {
        let name = &event.class().name;
        match self.0.get_mut(&name.as_ptr().addr()) {
            Some((_, count)) => *count += 1,
            None => self.meet(name),
        }
    }

    #[cold]
    fn meet(&mut self, name: &Arc<str>) {
        self.0.insert(name.as_ptr().addr(), (Arc::clone(name), 1));
    }

    /// The counts, the most frequent first.
    pub(crate) fn finish(&self, end: &End<'_>) -> Vec<EventCount> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in self.0.values() {
            *sums.entry(name).or_default() += count;
        }
        let rows = sums.into_iter().map(|(name, count)| EventCount {
            name: name.to_owned(),
            count,
            per_second: end.per_second(count),
            share_percent: percent(count, end.events),
        });
        let mut rows: Vec<EventCount> = rows.collect();
        rows.sort_by_key(|row| Reverse(row.count));
        rows
    }

    pub(crate) fn live(&self) -> usize {
        self.0.len()
    }
}
