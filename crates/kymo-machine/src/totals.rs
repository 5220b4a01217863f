//! The events that sessions counted themselves, beside those in the trace.

use crate::change::Change;

/// Sum of what sessions counted until their ends (`kymo_session_end`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals(u64);

impl Totals {
    /// Adds the count of a session, if the change is its end.
    #[inline]
    pub fn add(&mut self, change: &Change) {
        if let Change::SessionEnd {
            recorded,
            discarded,
        } = *change
        {
            // The session's end is an event itself, and is not in its own count.
            let counted = recorded.saturating_add(discarded).saturating_add(1);
            self.0 = self.0.saturating_add(counted);
        }
    }

    /// Number of events that the sessions counted and that are neither among the trace's events nor
    /// among those that it reports as lost. 0 if no session's end is in the trace.
    pub fn missing(&self, events: u64, lost: u64) -> u64 {
        self.0.saturating_sub(events.saturating_add(lost))
    }
}
