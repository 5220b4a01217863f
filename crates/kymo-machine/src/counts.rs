//! What the processors' counters have counted, and whose it is.

use std::sync::Arc;

use kymo::count::MAX_EVENTS;
use kymo::event::Event;
use kymo::vocabulary::{IrqEnter, SyscallEnter};
use kymo_ctf::ValueRef;
use serde::{Deserialize, Serialize};

use crate::call::CallId;
use crate::change::Change;
use crate::irq::IrqLine;
use crate::machine::{At, Machine};
use crate::thread::ThreadId;

/// What ran on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// The thread, if it is known.
    pub thread: Option<ThreadId>,
    /// The system call that the thread was in.
    pub call: Option<CallId>,
    /// The interrupt whose handler ran on top of the thread.
    pub line: Option<IrqLine>,
    /// Whether the call, or the handler, began there.
    pub begins: bool,
}

/// A CPU's counts at an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    turns: u64,
    counts: Vec<u64>,
    /// What ran from there on.
    ran: Ran,
}

/// The counted events, and the counts of the last record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    names: Vec<Option<Arc<str>>>,
    last: Vec<u64>,
}

impl Counts {
    pub(crate) fn live(&self) -> usize {
        self.names.len() + self.last.len()
    }

    fn take(&mut self, counts: Option<ValueRef<'_>>) {
        self.last.clear();
        if let Some(ValueRef::Array(counts)) = counts {
            let counts = counts.iter().filter_map(|count| match count {
                ValueRef::UInt(count) => Some(count),
                _ => None,
            });
            self.last.extend(counts.take(MAX_EVENTS));
        }
    }
}

impl Machine {
    /// Names of the events that the session's group counts, in the order of the group; `None` for
    /// one that the trace does not name.
    pub fn counters(&self) -> &[Option<Arc<str>>] {
        &self.counts.names
    }

    /// The counts of the last [`Change::Counted`] or [`Change::GroupCounted`], in the order of
    /// [`counters`](Self::counters).
    pub fn counted(&self) -> &[u64] {
        &self.counts.last
    }

    pub(crate) fn counted_event(&mut self, place: Option<u64>, name: Option<&str>) {
        let place = place.and_then(|place| usize::try_from(place).ok());
        let Some(place) = place.filter(|place| *place < MAX_EVENTS) else {
            return;
        };
        let names = &mut self.counts.names;
        if place == 0 {
            // Another group, perhaps with fewer events.
            names.clear();
        }
        if names.len() <= place {
            names.resize(place + 1, None);
        }
        if let Some(known) = names.get_mut(place) {
            *known = name.map(Arc::from);
        }
    }

    pub(crate) fn group_count(
        &mut self,
        times: (Option<u64>, Option<u64>),
        counts: Option<ValueRef<'_>>,
        at: &At<'_, '_>,
    ) {
        self.counts.take(counts);
        if times.0 == Some(0)
            && let Some(cpu) = self.cpus.get_mut(at.cpu)
        {
            // The group counts from zero again.
            cpu.counts = None;
        }
        if let (Some(enabled), Some(running)) = times {
            self.change(Change::GroupCounted { enabled, running });
        }
    }

    /// What was counted since the record before on this CPU belongs to what ran from there on.
    pub(crate) fn event_count(
        &mut self,
        event: Option<u64>,
        turns: Option<u64>,
        counts: Option<ValueRef<'_>>,
        at: &At<'_, '_>,
    ) {
        self.counts.take(counts);
        let thread = self.current(at.cpu);
        let call = thread.and_then(|thread| self.call_in(thread));
        let Some(cpu) = self.cpus.get_mut(at.cpu) else {
            return;
        };
        let now = Seen {
            turns: turns.unwrap_or(1),
            counts: self.counts.last.clone(),
            ran: Ran {
                thread,
                call,
                line: cpu.handler(),
                begins: [SyscallEnter::ID, IrqEnter::ID]
                    .map(|id| Some(id.into()))
                    .contains(&event),
            },
        };
        let Some(before) = cpu.counts.replace(now) else {
            return;
        };
        let mut is_whole = turns == Some(before.turns) && before.turns.is_multiple_of(2);
        is_whole &= before.counts.len() == self.counts.last.len();
        for (count, before) in self.counts.last.iter_mut().zip(&before.counts) {
            is_whole &= *count >= *before;
            *count = count.wrapping_sub(*before);
        }
        if !is_whole {
            self.counts.last.clear();
        }
        let ran = before.ran;
        self.change(Change::Counted { ran, is_whole });
    }
}
