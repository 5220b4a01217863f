//! The kernel's own counters as its memory has them, for the end of a trace.
//!
//! A session that is stopped records what was counted until then. Where a session was not stopped,
//! because its machine died or runs on, the stream has the counters as they were at the last
//! snapshot, if there was one at all. The memory has them as they are.

use kymo::counter::{Declaration, Kind, Value};
use kymo::ring::reader::{Region, Shapes};
use kymo::ring::source::Source;

/// The counters that a region's metadata declares.
pub(crate) struct OwnCounters {
    region: Region,
    /// The number of each one's first word, and what it is.
    declared: Vec<(u32, Kind)>,
}

impl OwnCounters {
    /// The counters of a region. Left out are those whose values could not be read or understood:
    /// the kernel's vocabulary lacks their event or has another one with its id, their words are
    /// not the region's, or another counter has claimed the words.
    pub(crate) fn of(region: Region, metadata: &[u8], shapes: &impl Shapes) -> OwnCounters {
        let metadata = String::from_utf8_lossy(metadata);
        let bits = 8 * u32::from(region.header().word_size);
        let is_recorded = |kind: Kind| {
            let event = kind.event();
            shapes.shape(event.id) == Some(event.shape())
        };
        let mut declared: Vec<_> = Declaration::all(&metadata)
            .filter(|declared| declared.bits == bits && is_recorded(declared.kind))
            .map(|declared| (declared.id, declared.kind))
            .collect();
        declared.sort_unstable_by_key(|&(id, _)| id);
        let mut end = 0;
        declared.retain(|&(id, kind)| {
            let own_end = id.saturating_add(kind.words());
            let is_free = id >= end && own_end <= region.counter_words();
            if is_free {
                end = own_end;
            }
            is_free
        });
        OwnCounters { region, declared }
    }

    /// The counters, and what a CPU has counted in each.
    pub(crate) fn values(
        &self,
        source: &impl Source,
        cpu: u32,
    ) -> impl Iterator<Item = (u32, Value)> {
        self.declared.iter().filter_map(move |&(id, kind)| {
            let value = self.region.counter_value(source, cpu, kind, id);
            Some((id, value.ok()?))
        })
    }
}
