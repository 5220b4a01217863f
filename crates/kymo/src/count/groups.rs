//! The groups of an owner: a CPU, or a thread.

use super::event::{EventKind, EventSpec, Software};
use super::group::{GroupSpec, MAX_EVENTS, Refused, Snapshot};
use super::matching::{Matching, NO_COUNTER, counters};
use super::pmu::Pmu;

/// An event of a group, as [`Groups::attach`] and [`Groups::join`] give it. It stops working when
/// the event is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Place of the group.
    slot: usize,
    /// Id of the event.
    id: u64,
}

impl Handle {
    pub(super) const fn new(slot: usize, id: u64) -> Handle {
        Handle { slot, id }
    }

    /// The event's id in [`Snapshot::members`].
    pub const fn id(self) -> u64 {
        self.id
    }
}

/// The groups of a CPU or of a thread, at most `N`.
#[derive(Clone, Debug)]
pub struct Groups<const N: usize = 4> {
    pub(super) slots: [Option<Group>; N],
    /// The group that is put on the PMU first.
    pub(super) first: usize,
    next_id: u64,
    /// Whether a [`Cpu`](super::Cpu) has them.
    pub(super) are_on: bool,
    /// Whether a thread's groups are put on the PMU before those of the CPU.
    pub(super) are_first: bool,
}

/// A group, and what it has counted.
#[derive(Clone, Debug)]
pub(super) struct Group {
    members: [Member; MAX_EVENTS],
    len: usize,
    pub(super) is_enabled: bool,
    is_inherited: bool,
    /// Whether it was made by [`Groups::child`].
    is_copy: bool,
    /// Whether it counts.
    pub(super) is_running: bool,
    /// How often it began to count or ceased to: odd while it is enabled and does not count.
    pub(super) turns: u32,
    pub(super) time_enabled: u64,
    pub(super) time_running: u64,
}

/// An event of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) spec: EventSpec,
    pub(super) id: u64,
    /// What was counted until the last update.
    pub(super) raw: u64,
    /// Where it is counted; [`NO_COUNTER`] while the group does not run.
    pub(super) counter: u8,
    /// While the group runs: what the counter showed at the last update. Else, for an event with a
    /// period: how many events there are until its end, or 0 for a whole period.
    pub(super) last: u64,
    /// While the group runs: the greatest value of the counter.
    pub(super) ends: u64,
    /// Overflows that were not passed on before the group was taken off.
    pub(super) pending: u64,
}

impl Group {
    /// No events, at zero.
    const NONE: Group = Group {
        members: [Member {
            spec: EventSpec::software(Software::CpuClock),
            id: 0,
            raw: 0,
            counter: NO_COUNTER,
            last: 0,
            ends: u64::MAX,
            pending: 0,
        }; MAX_EVENTS],
        len: 0,
        is_enabled: true,
        is_inherited: false,
        is_copy: false,
        is_running: false,
        turns: 0,
        time_enabled: 0,
        time_running: 0,
    };

    /// Adds events to a group that has none. Their ids are `next_id` and those that follow.
    fn fill(&mut self, spec: &GroupSpec, next_id: u64) {
        let events = spec.events().iter().zip(next_id..);
        for (place, (spec, id)) in self.members.iter_mut().zip(events) {
            (place.spec, place.id) = (*spec, id);
        }
        self.len = spec.events().len();
    }

    /// Counts from zero.
    fn restart(&mut self) {
        (self.time_enabled, self.time_running) = (0, 0);
        for member in self.members_mut() {
            (member.raw, member.last, member.pending) = (0, 0, 0);
        }
    }

    /// The group of a thread that inherits this one: at zero, and on no PMU.
    fn child(&self) -> Group {
        let mut child = self.clone();
        child.restart();
        (child.is_copy, child.is_running, child.turns) = (true, false, 0);
        for member in child.members_mut() {
            (member.counter, member.ends) = (NO_COUNTER, u64::MAX);
        }
        child
    }

    /// Whether it may have to wait until others leave the PMU.
    fn takes_turns(&self) -> bool {
        let mut members = self.members().iter();
        self.is_enabled && members.any(|member| member.spec.kind.slots() > 0)
    }

    pub(super) fn members(&self) -> &[Member] {
        self.members.get(..self.len).unwrap_or_default()
    }

    pub(super) fn members_mut(&mut self) -> &mut [Member] {
        self.members.get_mut(..self.len).unwrap_or_default()
    }

    fn spec(&self) -> Result<GroupSpec, Refused> {
        let specs = self.members.map(|member| member.spec);
        GroupSpec::new(specs.get(..self.len).unwrap_or_default())
    }

    fn place_of(&self, id: u64) -> Option<usize> {
        self.members().iter().position(|member| member.id == id)
    }

    fn snapshot(&self, id: u64) -> Result<Snapshot, Refused> {
        Snapshot::new(id, self.counts(), self.time_enabled, self.time_running)
    }

    fn counts(&self) -> impl Iterator<Item = (u64, EventSpec, u64)> {
        let members = self.members().iter();
        members.map(|member| (member.id, member.spec, member.raw))
    }

    /// Adds what a copy of the group counted elsewhere, if it is one.
    fn absorb(&mut self, other: &Group) {
        let ids = |group: &Group| group.members.map(|member| member.id);
        if !other.is_copy || self.len != other.len || ids(self) != ids(other) {
            return;
        }
        self.time_enabled = self.time_enabled.saturating_add(other.time_enabled);
        self.time_running = self.time_running.saturating_add(other.time_running);
        for (member, more) in self.members_mut().iter_mut().zip(other.members()) {
            member.raw = member.raw.saturating_add(more.raw);
        }
    }
}

impl<const N: usize> Groups<N> {
    /// No groups.
    pub const NONE: Groups<N> = Groups {
        slots: [const { None }; N],
        first: 0,
        next_id: 1,
        are_on: false,
        are_first: false,
    };

    /// No groups, of which a [`Cpu`](super::Cpu) takes care.
    pub(super) const ON_PMU: Groups<N> = Groups {
        are_on: true,
        ..Groups::NONE
    };

    /// Adds a group, which counts from now on, and gives its leader's handle.
    ///
    /// # Errors
    /// [`Refused::TooManySlots`], [`Refused::NeverTogether`] and [`Refused::NotSupported`] if the
    /// PMU can never count it, [`Refused::TooManyGroups`] if there is no room,
    /// [`Refused::OnPmu`] if a CPU has the groups.
    pub fn attach<P: Pmu>(&mut self, pmu: &P, spec: &GroupSpec) -> Result<Handle, Refused> {
        let mut room = Matching::NONE;
        self.attach_with(pmu, spec, &mut room)
    }

    /// [`attach`](Self::attach), with the caller's room for what it tries: on a stack it is large.
    pub(super) fn attach_with<P: Pmu>(
        &mut self,
        pmu: &P,
        spec: &GroupSpec,
        room: &mut Matching,
    ) -> Result<Handle, Refused> {
        self.may_change()?;
        check_with(pmu, spec, room)?;
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.ok_or(Refused::TooManyGroups(N))?;
        let id = self.next_id;
        self.next_id += spec.events().len() as u64;
        if let Some(place) = self.slots.get_mut(slot) {
            // Made where it stays: it is larger than a kernel's stack should hold.
            place.insert(Group::NONE).fill(spec, id);
        }
        Ok(Handle { slot, id })
    }

    /// Adds an event to the group of a leader, and gives its handle. The whole group counts from
    /// zero again, so that all its counts are of the same time.
    ///
    /// # Errors
    /// [`Refused::NotALeader`], [`Refused::TooManyEvents`], and those of
    /// [`attach`](Groups::attach).
    pub fn join<P: Pmu>(
        &mut self,
        pmu: &P,
        leader: Handle,
        event: EventSpec,
    ) -> Result<Handle, Refused> {
        self.may_change()?;
        let id = self.next_id;
        let group = self.group_of_leader(leader)?;
        let spec = group.spec()?.with(event)?;
        check(pmu, &spec)?;
        let [none, ..] = Group::NONE.members;
        if let Some(place) = group.members.get_mut(group.len) {
            *place = Member {
                spec: event,
                id,
                ..none
            };
            group.len += 1;
        }
        group.restart();
        self.next_id += 1;
        let slot = leader.slot;
        Ok(Handle { slot, id })
    }

    /// The handles of a group's events, the leader's first.
    ///
    /// # Errors
    /// [`Refused::Stale`].
    pub fn handles(&self, of: Handle) -> Result<impl Iterator<Item = Handle> + '_, Refused> {
        let (group, slot) = (self.group(of)?, of.slot);
        let members = group.members().iter();
        Ok(members.map(move |member| Handle {
            slot,
            id: member.id,
        }))
    }

    /// Ends the counting of an event. The others of its group go on.
    ///
    /// # Errors
    /// [`Refused::HasMembers`] for a leader that has members, [`Refused::Stale`].
    pub fn detach(&mut self, event: Handle) -> Result<(), Refused> {
        self.may_change()?;
        let group = self.group_mut(event)?;
        match (group.place_of(event.id), group.len) {
            (Some(0), 1) => self.detach_all(event).map(drop),
            (Some(0), len) => Err(Refused::HasMembers(len - 1)),
            (Some(place), _) => {
                group.members.copy_within(place + 1.., place);
                group.len -= 1;
                Ok(())
            }
            (None, _) => Err(Refused::Stale),
        }
    }

    /// Ends the counting of a leader and of all its members, and gives how many members there
    /// were.
    ///
    /// # Errors
    /// [`Refused::NotALeader`], [`Refused::Stale`].
    pub fn detach_all(&mut self, leader: Handle) -> Result<usize, Refused> {
        self.may_change()?;
        let members = self.group_of_leader(leader)?.len - 1;
        if let Some(place) = self.slots.get_mut(leader.slot) {
            *place = None;
        }
        Ok(members)
    }

    /// Whether the event's group counts. It does from [`attach`](Groups::attach) on.
    ///
    /// # Errors
    /// [`Refused::Stale`], [`Refused::OnPmu`].
    pub fn enable(&mut self, event: Handle, is_enabled: bool) -> Result<(), Refused> {
        self.may_change()?;
        self.group_mut(event)?.is_enabled = is_enabled;
        Ok(())
    }

    /// Sets the counts and times of the event's group to zero.
    ///
    /// # Errors
    /// [`Refused::Stale`], [`Refused::OnPmu`].
    pub fn reset(&mut self, event: Handle) -> Result<(), Refused> {
        self.may_change()?;
        self.group_mut(event)?.restart();
        Ok(())
    }

    /// The counts of the event's group. While a CPU has the groups they are those of the last
    /// update, such as a tick; [`Cpu::read`](super::Cpu::read) gives those of now.
    ///
    /// # Errors
    /// [`Refused::Stale`].
    pub fn read(&self, event: Handle) -> Result<Snapshot, Refused> {
        self.group(event)?.snapshot(event.id)
    }

    /// Whether new threads count what this event's group counts, for it.
    ///
    /// # Errors
    /// [`Refused::Stale`], [`Refused::OnPmu`].
    pub fn inherit(&mut self, event: Handle, is_inherited: bool) -> Result<(), Refused> {
        self.may_change()?;
        self.group_mut(event)?.is_inherited = is_inherited;
        Ok(())
    }

    /// The groups of a thread that this one creates: those that are [inherited](Groups::inherit),
    /// at zero.
    #[must_use]
    pub fn child(&self) -> Groups<N> {
        let mut child = Groups {
            next_id: self.next_id,
            ..Groups::NONE
        };
        for (to, from) in child.slots.iter_mut().zip(&self.slots) {
            let from = from.as_ref().filter(|group| group.is_inherited);
            *to = from.map(Group::child);
        }
        child
    }

    /// Adds what a thread has counted with the groups that it [inherited](Groups::child) from this
    /// one, when it ends. Groups that have changed since are left as they are.
    pub fn absorb(&mut self, child: &Groups<N>) {
        for (group, of_child) in self.slots.iter_mut().zip(&child.slots) {
            if let (Some(group), Some(of_child)) = (group, of_child) {
                group.absorb(of_child);
            }
        }
    }

    /// Whether the event's group counts at this moment.
    pub fn runs(&self, event: Handle) -> bool {
        self.group(event).is_ok_and(|group| group.is_running)
    }

    /// Ends all groups, as when a thread ends. Their handles stay stale: new events get other ids.
    ///
    /// # Errors
    /// [`Refused::OnPmu`].
    pub fn clear(&mut self) -> Result<(), Refused> {
        self.may_change()?;
        self.slots = [const { None }; N];
        Ok(())
    }

    /// Whether there is nothing to count.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// The group of a leader.
    #[inline]
    pub(super) fn led_by(&self, leader: Handle) -> Option<&Group> {
        let group = self.slots.get(leader.slot)?.as_ref()?;
        let [first, ..] = &group.members;
        (first.id == leader.id).then_some(group)
    }

    /// The groups in the order in which they are put on the PMU.
    pub(super) fn in_turn(&mut self) -> impl Iterator<Item = &mut Group> {
        let (later, sooner) = self.slots.split_at_mut(self.first.min(N));
        sooner.iter_mut().chain(later).flatten()
    }

    /// Whether any of the groups may have to wait for the PMU.
    pub(super) fn take_turns(&self) -> bool {
        self.slots.iter().flatten().any(Group::takes_turns)
    }

    /// The next group that takes turns is first now.
    pub(super) fn rotate(&mut self) {
        let takes_turns = |slot: &Option<Group>| slot.as_ref().is_some_and(Group::takes_turns);
        let mut after = (self.first + 1)..N;
        let after = after.find(|slot| self.slots.get(*slot).is_some_and(takes_turns));
        let before = || self.slots.iter().position(takes_turns);
        self.first = after.or_else(before).unwrap_or(0);
    }

    fn may_change(&self) -> Result<(), Refused> {
        match self.are_on {
            true => Err(Refused::OnPmu),
            false => Ok(()),
        }
    }

    fn group(&self, of: Handle) -> Result<&Group, Refused> {
        let group = self.slots.get(of.slot).and_then(Option::as_ref);
        let group = group.filter(|group| group.place_of(of.id).is_some());
        group.ok_or(Refused::Stale)
    }

    fn group_mut(&mut self, of: Handle) -> Result<&mut Group, Refused> {
        let group = self.slots.get_mut(of.slot).and_then(Option::as_mut);
        let group = group.filter(|group| group.place_of(of.id).is_some());
        group.ok_or(Refused::Stale)
    }

    fn group_of_leader(&mut self, leader: Handle) -> Result<&mut Group, Refused> {
        let group = self.group_mut(leader)?;
        match group.place_of(leader.id) == Some(0) {
            true => Ok(group),
            false => Err(Refused::NotALeader),
        }
    }
}

/// Refuses a group that a PMU can never count.
///
/// # Errors
/// [`Refused::TooManySlots`], [`Refused::NotSupported`], [`Refused::NeverTogether`].
pub fn check<P: Pmu>(pmu: &P, spec: &GroupSpec) -> Result<(), Refused> {
    let mut room = Matching::NONE;
    check_with(pmu, spec, &mut room)
}

/// [`check`], with room for what it tries.
pub(super) fn check_with<P: Pmu>(
    pmu: &P,
    spec: &GroupSpec,
    room: &mut Matching,
) -> Result<(), Refused> {
    spec.fits(pmu.slots())?;
    for event in spec.events() {
        let is_counted = match event.kind {
            // Only counters interrupt.
            EventKind::Software(_) | EventKind::Tracepoint(_) if event.period > 0 => false,
            // Time passes, and tracepoints are passed, in any mode.
            EventKind::Software(Software::CpuClock | Software::TaskClock)
            | EventKind::Tracepoint(_) => !event.exclude.is_something(),
            EventKind::Software(_) => true,
            _ => event.period <= pmu.longest_period() && counters(pmu, event) != 0,
        };
        if !is_counted {
            return Err(Refused::NotSupported(*event));
        }
    }
    room.clear();
    match room.add(pmu, spec.events().iter()) {
        Some(_) => Ok(()),
        None => Err(Refused::NeverTogether {
            leader: spec.leader().kind,
        }),
    }
}
