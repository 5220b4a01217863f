//! The events that sessions counted themselves, beside those in the trace.

use crate::change::{Change, Contradiction};

/// Sum of what sessions counted until their ends (`kymo_session_end`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    counted: u64,
    /// Events of the trace that no session counted, because whoever wrote the trace inserted them.
    inserted: u64,
}

impl Totals {
    /// Takes note of a session's end and of inserted events; other changes have no effect.
    #[inline]
    pub fn add(&mut self, change: &Change) {
        match *change {
            Change::SessionEnd {
                recorded,
                discarded,
            } => {
                // The session's end is an event itself, and is not in its own count.
                let counted = recorded.saturating_add(discarded).saturating_add(1);
                self.counted = self.counted.saturating_add(counted);
            }
            Change::Contradiction(Contradiction::ClockStep { .. }) => self.inserted += 1,
            _ => {}
        }
    }

    /// Number of events that the sessions counted and that are neither among the trace's events nor
    /// among those that it reports as lost. 0 if no session's end is in the trace.
    pub fn missing(&self, events: u64, lost: u64) -> u64 {
        let recorded = events.saturating_sub(self.inserted);
        self.counted.saturating_sub(recorded.saturating_add(lost))
    }
}
