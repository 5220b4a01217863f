//! What a session lost, as `finish` says it.

use crate::ring::reader::Losses;

/// What `finish` says about the session: totals of all channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Events that writers dropped because the ring was full, or no packet could hold them.
    pub discarded: u64,
    /// Events, among those discarded, that no packet could hold.
    pub too_large: u64,
    /// Events that were overwritten before they were read: the receiver was too slow, or there was
    /// none.
    pub overwritten: u64,
    /// How often a clock stepped back out of its window.
    pub clock_back: u64,
    /// Packets given up because a writer had died in them.
    pub abandoned: u64,
    /// Events, among those discarded, of CPUs that have no ring: the session was started for fewer.
    pub without_ring: u64,
}

impl Diagnostics {
    pub(super) fn add(&mut self, losses: &Losses) {
        self.discarded = self.discarded.saturating_add(losses.dropped);
        self.too_large = self.too_large.saturating_add(losses.too_large);
        self.overwritten = self.overwritten.saturating_add(losses.overwritten);
        self.clock_back = self.clock_back.saturating_add(losses.clock_back);
        self.abandoned = self.abandoned.saturating_add(losses.abandoned);
        self.without_ring = self.without_ring.saturating_add(losses.without_ring);
    }
}
