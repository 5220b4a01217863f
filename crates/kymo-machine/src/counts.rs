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

/// What a group of a CPU's had counted at an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    group: u8,
    turns: u64,
    counts: Vec<u64>,
    /// What ran from there on.
    ran: Ran,
}

/// The counted events, and the counts of the last record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// By group.
    names: Vec<Vec<Option<Arc<str>>>>,
    last: Vec<u64>,
}

impl Counts {
    pub(crate) fn live(&self) -> usize {
        self.names.iter().map(Vec::len).sum::<usize>() + self.last.len()
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

/// A group's number; 0 where the trace has none, because its kernel counts one group at most.
fn number(group: Option<u64>) -> Option<u8> {
    u8::try_from(group.unwrap_or(0)).ok()
}

impl Machine {
    /// Names of the events that a group of the session's counts, in the order of the group; `None`
    /// for one that the trace does not name.
    pub fn counters(&self, group: u8) -> &[Option<Arc<str>>] {
        let names = self.counts.names.get(usize::from(group));
        names.map_or(&[], Vec::as_slice)
    }

    /// How many groups the session counts, as far as the trace has named their events.
    pub fn counter_groups(&self) -> usize {
        self.counts.names.len()
    }

    /// The counts of the last [`Change::Counted`] or [`Change::GroupCounted`], in the order of its
    /// group's [`counters`](Self::counters).
    pub fn counted(&self) -> &[u64] {
        &self.counts.last
    }

    /// `group` is the number of the event's group, and `all` how many groups there are; `place` is
    /// that of the event in its group, and `events` how many this has.
    pub(crate) fn counted_event(
        &mut self,
        (group, all): (Option<u64>, Option<u64>),
        (place, events): (Option<u64>, Option<u64>),
        name: Option<&str>,
    ) {
        let small = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
        let place = small(place).filter(|place| *place < MAX_EVENTS);
        let (Some(group), Some(place)) = (number(group), place) else {
            return;
        };
        let groups = &mut self.counts.names;
        // Another session may count fewer groups.
        let all = usize::from(number(all).unwrap_or(0)).max(usize::from(group) + 1);
        groups.resize(all, Vec::new());
        let Some(names) = groups.get_mut(usize::from(group)) else {
            return;
        };
        // Names that are known stay where a repetition is lost. Another session's group may have
        // fewer events.
        let events = small(events).unwrap_or(0).min(MAX_EVENTS);
        names.resize(events.max(place + 1), None);
        if let Some(known) = names.get_mut(place) {
            *known = name.map(Arc::from);
        }
    }

    pub(crate) fn group_count(
        &mut self,
        group: Option<u64>,
        times: (Option<u64>, Option<u64>),
        counts: Option<ValueRef<'_>>,
        at: &At<'_, '_>,
    ) {
        self.counts.take(counts);
        let Some(group) = number(group) else {
            return;
        };
        if times.0 == Some(0)
            && let Some(cpu) = self.cpus.get_mut(at.cpu)
        {
            // The group counts from zero again.
            cpu.counts.retain(|seen| seen.group != group);
        }
        if let (Some(enabled), Some(running)) = times {
            self.change(Change::GroupCounted {
                group,
                enabled,
                running,
            });
        }
    }

    /// What a group has counted since its record before on this CPU belongs to what ran from there
    /// on.
    pub(crate) fn event_count(
        &mut self,
        event: Option<u64>,
        group: Option<u64>,
        turns: Option<u64>,
        counts: Option<ValueRef<'_>>,
        at: &At<'_, '_>,
    ) {
        self.counts.take(counts);
        let Some(group) = number(group) else {
            return;
        };
        let thread = self.current(at.cpu);
        let call = thread.and_then(|thread| self.call_in(thread));
        let Some(cpu) = self.cpus.get_mut(at.cpu) else {
            return;
        };
        let now = Seen {
            group,
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
        let Some(seen) = cpu.counts.iter_mut().find(|seen| seen.group == group) else {
            cpu.counts.push(now);
            return;
        };
        let before = std::mem::replace(seen, now);
        // Odd: off the PMU. Earlier kernels recorded counts then, too.
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
        self.change(Change::Counted {
            group,
            ran,
            is_whole,
        });
    }
}
