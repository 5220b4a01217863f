//! Which event is on which counter.

use super::event::{EventKind, EventSpec, Exclude, Software};
use super::group::MAX_EVENTS;
use super::pmu::{MAX_COUNTERS, Pmu};

/// Stands for no counter: the kernel counts the event.
pub(super) const NO_COUNTER: u8 = u8::MAX;

/// What a counter counts.
type Use = (EventKind, Exclude);

/// The counters that can count an event, and interrupt if it has a period.
pub(super) fn counters<P: Pmu>(pmu: &P, event: &EventSpec) -> u64 {
    let counters = pmu.counters(event.kind, event.exclude);
    match event.period {
        0 => counters,
        _ => counters & pmu.interrupting(),
    }
}

/// Events on counters.
///
/// Events that are the same share a counter, so their counts are the same, and PMUs that can have
/// an event on one counter only are no special case. An event with a period needs its counter's
/// end, so two of these do not share.
///
/// Others find their counters by augmenting paths (Kuhn 1955): an event takes one of its counters
/// that is free, or one whose event can move to another. So a group is left out only if there is no
/// way at all to count it besides those that are on already.
#[derive(Debug)]
pub(super) struct Matching {
    /// By counter, the counters that its event could have; 0 where it is free.
    can: [u64; MAX_COUNTERS],
    /// By counter, the index of its use.
    of: [u8; MAX_COUNTERS],
    uses: [Use; MAX_COUNTERS],
    /// The uses that have a period.
    periodic: u64,
    len: usize,
}

impl Matching {
    pub(super) const NONE: Matching = Matching {
        can: [0; MAX_COUNTERS],
        of: [0; MAX_COUNTERS],
        uses: [(EventKind::Software(Software::CpuClock), Exclude::NOTHING); MAX_COUNTERS],
        periodic: 0,
        len: 0,
    };

    /// Forgets all events.
    pub(super) fn clear(&mut self) {
        // What stands in the other places was forgotten with these.
        self.can = [0; MAX_COUNTERS];
        (self.periodic, self.len) = (0, 0);
    }

    /// Adds a group's events, if all fit, and gives what [`counter`](Matching::counter) wants to
    /// know of each: [`NO_COUNTER`] for those that the kernel counts.
    pub(super) fn add<'e, P: Pmu>(
        &mut self,
        pmu: &P,
        events: impl Iterator<Item = &'e EventSpec>,
    ) -> Option<[u8; MAX_EVENTS]> {
        let (can, of) = (self.can, self.of);
        let (periodic, len) = (self.periodic, self.len);
        let mut added = [NO_COUNTER; MAX_EVENTS];
        for (place, event) in added.iter_mut().zip(events) {
            if event.kind.slots() == 0 {
                continue;
            }
            match self.find(pmu, event).or_else(|| self.find_new(pmu, event)) {
                Some(index) => *place = index as u8,
                None => {
                    (self.can, self.of) = (can, of);
                    (self.periodic, self.len) = (periodic, len);
                    return None;
                }
            }
        }
        Some(added)
    }

    /// The use that an event can share. One with a period shares only a counter that interrupts,
    /// which is then the only kind that the use can move to.
    fn find<P: Pmu>(&mut self, pmu: &P, event: &EventSpec) -> Option<usize> {
        let uses = self.uses.get(..self.len)?.iter().enumerate();
        let mut equal = uses.filter(|(_, there)| **there == (event.kind, event.exclude));
        let has_period = event.period > 0;
        let is_free = |index: usize| !has_period || self.periodic & 1 << index == 0;
        let (index, _) = equal.find(|(index, _)| is_free(*index))?;
        if has_period {
            let counter = usize::from(self.counter(index as u8));
            let can = self.can.get_mut(counter)?;
            if pmu.interrupting() & 1 << counter == 0 {
                return None;
            }
            *can &= pmu.interrupting();
        }
        self.periodic |= u64::from(has_period) << index;
        Some(index)
    }

    /// A use of its own for an event, if it finds a counter.
    fn find_new<P: Pmu>(&mut self, pmu: &P, event: &EventSpec) -> Option<usize> {
        let index = self.len;
        *self.uses.get_mut(index)? = (event.kind, event.exclude);
        let can = counters(pmu, event);
        let mut visited = 0;
        if !self.place(can, index as u8, P::FIXED, &mut visited) {
            return None;
        }
        self.len += 1;
        self.periodic &= !(1 << index);
        self.periodic |= u64::from(event.period > 0) << index;
        Some(index)
    }

    /// Finds a counter among those that an event can have. Each counter is visited once, so the
    /// depth is at most the number of counters that it could possibly use.
    fn place(&mut self, can: u64, of: u8, fixed: u64, visited: &mut u64) -> bool {
        // Counters for one event only come first.
        for mut counters in [can & fixed, can & !fixed] {
            while counters != 0 {
                let counter = counters.trailing_zeros() as usize;
                counters &= counters - 1;
                if *visited & 1 << counter != 0 {
                    continue;
                }
                *visited |= 1 << counter;
                let (there, whose) = match (self.can.get(counter), self.of.get(counter)) {
                    (Some(there), Some(whose)) => (*there, *whose),
                    _ => continue,
                };
                if there == 0 || self.place(there, whose, fixed, visited) {
                    if let Some(place) = self.can.get_mut(counter) {
                        *place = can;
                    }
                    if let Some(place) = self.of.get_mut(counter) {
                        *place = of;
                    }
                    return true;
                }
            }
        }
        false
    }

    /// The counter of an event that was [added](Matching::add).
    pub(super) fn counter(&self, added: u8) -> u8 {
        let mut counters = self.can.iter().zip(&self.of);
        let counter = counters.position(|(can, whose)| *can != 0 && *whose == added);
        counter.map_or(NO_COUNTER, |counter| counter as u8)
    }
}
