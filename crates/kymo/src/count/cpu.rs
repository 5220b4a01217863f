//! The groups that a CPU counts now.

use super::event::{EventKind, EventSpec, Exclude, Software};
use super::group::{GroupSpec, Refused, Snapshot};
use super::groups::{Group, Groups, Handle, Member, check_with};
use super::matching::{Matching, NO_COUNTER};
use super::pmu::{MAX_COUNTERS, Pmu};
use super::session::Recorded;

/// A CPU's PMU, its own groups, and what the kernel counts on it.
///
/// Times are nanoseconds of one clock, the same on all CPUs.
#[derive(Debug)]
pub struct Cpu<P: Pmu, const N: usize = 4> {
    own: Groups<N>,
    counts: Counts<P>,
    /// Until when counts and times are up to date.
    until: u64,
    /// What the session counts here.
    pub(super) recorded: Recorded,
    room: Room,
}

/// What finding counters takes, while groups change: it is larger than an interrupt's stack should
/// hold.
#[derive(Debug)]
struct Room {
    matching: Matching,
    programmed: Programmed,
}

impl Room {
    const EMPTY: Room = Room {
        matching: Matching::NONE,
        programmed: Programmed {
            counters: 0,
            values: [0; MAX_COUNTERS],
        },
    };
}

/// What counts on a CPU.
#[derive(Debug)]
struct Counts<P> {
    pmu: P,
    /// Of each software event, how often it happened in the kernel and in programs.
    software: [[u64; 2]; Software::ALL.len()],
}

/// A counter has counted as many events as its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// What it counts.
    pub event: EventSpec,
    /// The event's handle.
    pub handle: Handle,
    /// Whether its group is the thread's, rather than the CPU's own.
    pub is_of_thread: bool,
    /// How many periods more have passed since the counter overflowed.
    pub missed: u64,
}

impl<P: Pmu, const N: usize> Cpu<P, N> {
    /// Nothing is counted.
    #[inline(always)] // It is made where it stays: on a stack, it would be large.
    pub const fn new(pmu: P) -> Cpu<P, N> {
        Cpu {
            own: Groups::ON_PMU,
            counts: Counts {
                pmu,
                software: [[0; 2]; Software::ALL.len()],
            },
            until: 0,
            recorded: Recorded::NOTHING,
            room: Room::EMPTY,
        }
    }

    /// The PMU.
    pub fn pmu(&self) -> &P {
        &self.counts.pmu
    }

    /// The PMU, for what groups are not for.
    pub fn pmu_mut(&mut self) -> &mut P {
        &mut self.counts.pmu
    }

    /// [`count::check`](super::check), which takes little stack here.
    ///
    /// # Errors
    /// As there.
    pub fn check(&mut self, group: &GroupSpec) -> Result<(), Refused> {
        check_with(&self.counts.pmu, group, &mut self.room.matching)
    }

    /// The CPU's own groups.
    pub fn own(&self) -> &Groups<N> {
        &self.own
    }

    /// A software event happened, in the kernel or in a program.
    #[inline]
    pub fn happened(&mut self, event: Software, in_kernel: bool) {
        self.happened_often(event, in_kernel, 1);
    }

    /// A software event happened so often, in the kernel or in a program.
    #[inline]
    pub fn happened_often(&mut self, event: Software, in_kernel: bool, times: u64) {
        let counts = self.counts.software.get_mut(event as usize);
        if let Some(count) = counts.and_then(|counts| counts.get_mut(usize::from(!in_kernel))) {
            *count = count.wrapping_add(times);
        }
    }

    /// A tracepoint was passed: groups that run and count it count one more.
    pub fn passed<const M: usize>(&mut self, thread: &mut Groups<M>, tracepoint: u64) {
        let groups = self.own.in_turn().chain(thread.in_turn());
        for group in groups.filter(|group| group.is_running) {
            for member in group.members_mut() {
                if member.spec.kind == EventKind::Tracepoint(tracepoint) {
                    member.raw = member.raw.saturating_add(1);
                }
            }
        }
    }

    /// A thread begins to run: its groups count from now on.
    pub fn switch_in<const M: usize>(&mut self, thread: &mut Groups<M>, now: u64) {
        let mut nobody = Groups::<0>::NONE;
        self.switch(&mut nobody, thread, now);
    }

    /// A thread runs no more: its groups count until now.
    pub fn switch_out<const M: usize>(&mut self, thread: &mut Groups<M>, now: u64) {
        let mut nobody = Groups::<0>::NONE;
        self.switch(thread, &mut nobody, now);
    }

    /// The CPU goes from one thread to another.
    pub fn switch<const M: usize, const L: usize>(
        &mut self,
        prev: &mut Groups<M>,
        next: &mut Groups<L>,
        now: u64,
    ) {
        self.update(prev, now);
        (prev.are_on, next.are_on) = (false, true);
        if prev.is_empty() && next.is_empty() {
            return;
        }
        self.take_off(prev);
        self.put_on(next, now);
    }

    /// Changes the CPU's own groups, or those of the thread that runs on it: `change` has both
    /// while they are off the PMU.
    pub fn change<const M: usize, R>(
        &mut self,
        thread: &mut Groups<M>,
        now: u64,
        change: impl FnOnce(&P, &mut Groups<N>, &mut Groups<M>) -> R,
    ) -> R {
        self.change_with(thread, now, |pmu, _, own, thread| change(pmu, own, thread))
    }

    /// [`change`](Self::change), with room for [`Groups::attach_with`].
    pub(super) fn change_with<const M: usize, R>(
        &mut self,
        thread: &mut Groups<M>,
        now: u64,
        change: impl FnOnce(&P, &mut Matching, &mut Groups<N>, &mut Groups<M>) -> R,
    ) -> R {
        self.update(thread, now);
        self.take_off(thread);
        (self.own.are_on, thread.are_on) = (false, false);
        let (pmu, room) = (&self.counts.pmu, &mut self.room.matching);
        let result = change(pmu, room, &mut self.own, thread);
        (self.own.are_on, thread.are_on) = (true, true);
        self.put_on(thread, now);
        result
    }

    /// The kernel's tick: groups that wait for the PMU have their turn.
    pub fn tick<const M: usize>(&mut self, thread: &mut Groups<M>, now: u64) {
        self.update(thread, now);
        let groups = self.own.slots.iter().chain(&thread.slots);
        let mut groups = groups.flatten();
        if groups.any(|group| group.is_enabled && !group.is_running) {
            // Whose groups were first had their turn; the other's are first next, if any of them
            // takes turns.
            let (of_thread, of_cpu) = (thread.take_turns(), self.own.take_turns());
            let is_threads = match thread.are_first {
                true => of_thread,
                false => !of_cpu,
            };
            if is_threads {
                thread.rotate();
                thread.are_first = !of_cpu;
            } else {
                self.own.rotate();
                thread.are_first = of_thread;
            }
            self.take_off(thread);
            self.put_on(thread, now);
        }
    }

    /// The counts of now of an event's group, which is one of the thread's.
    ///
    /// # Errors
    /// [`Refused::Stale`].
    pub fn read<const M: usize>(
        &mut self,
        thread: &mut Groups<M>,
        event: Handle,
        now: u64,
    ) -> Result<Snapshot, Refused> {
        self.update(thread, now);
        thread.read(event)
    }

    /// The counts of now of an event's group, which is one of the CPU's own.
    ///
    /// # Errors
    /// [`Refused::Stale`].
    pub fn read_own<const M: usize>(
        &mut self,
        thread: &mut Groups<M>,
        event: Handle,
        now: u64,
    ) -> Result<Snapshot, Refused> {
        self.update(thread, now);
        self.own.read(event)
    }

    /// The raw counts of now of the first `K` events of a group, which is one of the thread's. It
    /// reads their counters and does nothing else, so it is what code measures itself by. Clocks
    /// among the events show the time of the last update.
    ///
    /// `None` if the handle is stale or not a leader's, or if the group has fewer events.
    #[inline]
    pub fn raw<const M: usize, const K: usize>(
        &self,
        thread: &Groups<M>,
        leader: Handle,
    ) -> Option<[u64; K]> {
        let group = thread.led_by(leader)?;
        let members = group.members().get(..K)?;
        let mut counts = [0; K];
        for (count, member) in counts.iter_mut().zip(members) {
            *count = self.count_of(group, member, self.until);
        }
        Some(counts)
    }

    /// The raw counts of now of a group.
    #[inline]
    pub(super) fn counts_of<'c>(
        &'c self,
        group: &'c Group,
        now: u64,
    ) -> impl Iterator<Item = u64> + 'c {
        let members = group.members().iter();
        members.map(move |member| self.count_of(group, member, self.until.max(now)))
    }

    #[inline(always)]
    fn count_of(&self, group: &Group, member: &Member, now: u64) -> u64 {
        let value = match member.counter {
            NO_COUNTER => self.counts.uncounted(group, member, now),
            counter => self.counts.pmu.read(u32::from(counter)),
        };
        let counted = value.wrapping_sub(member.last) & member.ends;
        member.raw.wrapping_add(counted)
    }

    /// The PMU's interrupt: counters have overflowed. `each` is called for those with a period,
    /// which begins again where the last one ended.
    pub fn overflow<const M: usize>(
        &mut self,
        thread: &mut Groups<M>,
        now: u64,
        mut each: impl FnMut(Overflow),
    ) {
        let overflowed = self.counts.pmu.overflowed();
        self.update(thread, now);
        // The counters that were written, and by how much each was moved.
        let mut again = Programmed {
            counters: 0,
            values: [0; MAX_COUNTERS],
        };
        let own = self.own.slots.iter().enumerate();
        let own = own.map(|(slot, group)| (slot, group, false));
        let of_thread = thread.slots.iter().enumerate();
        let of_thread = of_thread.map(|(slot, group)| (slot, group, true));
        for (slot, group, is_of_thread) in own.chain(of_thread) {
            for member in group.iter().flat_map(Group::members) {
                let period = member.spec.period;
                if period == 0 || member.counters() & overflowed == 0 {
                    continue;
                }
                let counter = u32::from(member.counter);
                let width = self.counts.pmu.width(counter);
                // The counter went on from its end. What it counts between this reading and the
                // writing is lost, and nothing else.
                let beyond = self.counts.pmu.read(counter);
                let value = start_value(width, period - beyond % period);
                self.counts.pmu.write(counter, value);
                again.counters |= member.counters();
                if let Some(place) = again.values.get_mut(usize::from(member.counter)) {
                    *place = value.wrapping_sub(beyond);
                }
                each(Overflow {
                    event: member.spec,
                    handle: Handle::new(slot, member.id),
                    is_of_thread,
                    missed: member.pending.saturating_add(beyond / period),
                });
            }
        }
        if again.counters == 0 {
            return;
        }
        let groups = self.own.slots.iter_mut().chain(&mut thread.slots);
        for member in groups.flatten().flat_map(Group::members_mut) {
            let moved = again.values.get(usize::from(member.counter));
            if let Some(moved) = moved.filter(|_| member.counters() & again.counters != 0) {
                member.last = member.last.wrapping_add(*moved) & member.ends;
                member.pending = 0;
            }
        }
    }

    /// Brings counts and times up to date.
    pub(super) fn update<const M: usize>(&mut self, thread: &mut Groups<M>, now: u64) {
        let elapsed = now.saturating_sub(self.until);
        self.until = self.until.max(now);
        let now = self.until;
        let groups = self.own.slots.iter_mut().chain(&mut thread.slots);
        for group in groups.flatten().filter(|group| group.is_enabled) {
            group.time_enabled = group.time_enabled.saturating_add(elapsed);
            if group.is_running {
                group.time_running = group.time_running.saturating_add(elapsed);
                self.counts.update(group, now);
            }
        }
    }

    /// Ends the counting of all groups, which are up to date.
    fn take_off<const M: usize>(&mut self, thread: &mut Groups<M>) {
        let groups = self.own.slots.iter_mut().chain(&mut thread.slots);
        let pmu = &mut self.counts.pmu;
        let mut counters = 0;
        for group in groups.flatten().filter(|group| group.is_running) {
            group.is_running = false;
            for member in group.members_mut() {
                counters |= member.counters();
                let (period, value) = (member.spec.period, member.last);
                // How many events it lacks until its end: a counter that shows 0 has reached it, as
                // a period is shorter than the counter and so begins above 0.
                let left = match value {
                    0 => None,
                    _ => Some(member.ends.wrapping_sub(value).saturating_add(1)),
                };
                member.last = match (period, left) {
                    (0, _) => 0,
                    (_, Some(left)) if left <= period => left,
                    // It is past its end, and the interrupt has not come yet.
                    _ => {
                        member.pending = member.pending.saturating_add(1 + value / period);
                        period - value % period
                    }
                };
                member.counter = NO_COUNTER;
            }
        }
        pmu.stop(counters);
    }

    /// Puts groups on the PMU, in turn, as many as fit.
    fn put_on<const M: usize>(&mut self, thread: &mut Groups<M>, now: u64) {
        let Room {
            matching,
            programmed,
        } = &mut self.room;
        matching.clear();
        programmed.counters = 0;
        programmed.values = [0; MAX_COUNTERS];
        let mut choose = |group: &mut Group| self.counts.choose(group, matching);
        if thread.are_first {
            thread.in_turn().for_each(&mut choose);
            self.own.in_turn().for_each(&mut choose);
        } else {
            self.own.in_turn().for_each(&mut choose);
            thread.in_turn().for_each(&mut choose);
        }
        let (own, of_thread) = (&mut self.own.slots, &mut thread.slots);
        for group in own.iter_mut().chain(of_thread.iter_mut()).flatten() {
            if group.is_running {
                self.counts.assign(group, matching, programmed);
            }
        }
        for group in own.iter_mut().chain(of_thread.iter_mut()).flatten() {
            if group.is_running {
                self.counts.program(group, programmed);
            }
        }
        let now = self.until.max(now);
        let groups = own.iter_mut().chain(of_thread).flatten();
        let running = groups.filter(|group| group.is_running);
        let counters = running.fold(0, |counters, group| {
            counters | self.counts.begin(group, programmed, now)
        });
        let groups = self.own.slots.iter_mut().chain(&mut thread.slots).flatten();
        for group in groups.filter(|group| group.is_enabled) {
            let turned = group.is_running != group.turns.is_multiple_of(2);
            group.turns = group.turns.wrapping_add(turned.into());
        }
        self.counts.pmu.start(counters);
        // A firmware that starts counters is counted itself, and by each of them differently.
        let groups = self.own.slots.iter_mut().chain(&mut thread.slots).flatten();
        for group in groups.filter(|group| group.is_running) {
            for member in group.members_mut() {
                if member.counter != NO_COUNTER {
                    member.last = self.counts.pmu.read(u32::from(member.counter));
                }
            }
        }
    }
}

/// Counters that are programmed, and a value for each: that from which it counts.
#[derive(Debug)]
struct Programmed {
    counters: u64,
    values: [u64; MAX_COUNTERS],
}

impl<P: Pmu> Counts<P> {
    /// Decides whether the group runs besides those that were chosen before. Its members' counters
    /// are their places in the matching meanwhile.
    fn choose(&self, group: &mut Group, matching: &mut Matching) {
        if !group.is_enabled {
            return;
        }
        let specs = group.members().iter().map(|member| &member.spec);
        let Some(added) = matching.add(&self.pmu, specs) else {
            return;
        };
        for (member, place) in group.members_mut().iter_mut().zip(added) {
            member.counter = place;
        }
        group.is_running = true;
    }

    /// Gives the members of a chosen group their counters, and notes from what values these count:
    /// one that is shared, from that of the event with a period.
    fn assign(&self, group: &mut Group, matching: &Matching, programmed: &mut Programmed) {
        for member in group.members_mut() {
            if member.counter == NO_COUNTER {
                continue;
            }
            member.counter = matching.counter(member.counter);
            let left = match member.last {
                0 => member.spec.period,
                left => left,
            };
            let width = self.pmu.width(u32::from(member.counter));
            if let Some(place) = programmed.values.get_mut(usize::from(member.counter))
                && member.spec.period > 0
            {
                *place = start_value(width, left);
            }
        }
    }

    /// Programs the counters of a chosen group, each once. If one of them refuses its event, the
    /// group does not run, and the counters that only it has are free.
    fn program(&mut self, group: &mut Group, programmed: &mut Programmed) {
        let mut own = 0;
        for member in group.members() {
            let value = programmed.values.get(usize::from(member.counter));
            let Some(value) = value.filter(|_| programmed.counters & member.counters() == 0) else {
                continue;
            };
            let EventSpec { kind, exclude, .. } = member.spec;
            let counter = u32::from(member.counter);
            if !self.pmu.program(counter, kind, exclude, *value) {
                group.is_running = false;
                break;
            }
            own |= member.counters();
            programmed.counters |= member.counters();
        }
        if !group.is_running {
            self.pmu.stop(own);
            programmed.counters &= !own;
            for member in group.members_mut() {
                (member.counter, member.last) = (NO_COUNTER, 0);
            }
        }
    }

    /// Notes from what values the members of a group that runs count, and gives their counters.
    fn begin(&self, group: &mut Group, programmed: &Programmed, now: u64) -> u64 {
        group.members_mut().iter_mut().fold(0, |counters, member| {
            member.ends = match member.counter {
                NO_COUNTER => u64::MAX,
                counter => end(self.pmu.width(u32::from(counter))),
            };
            let value = programmed.values.get(usize::from(member.counter));
            member.last = value.map_or_else(|| self.software(&member.spec, now), |value| *value);
            counters | member.counters()
        })
    }

    /// Adds what the counters of a running group have counted since its last update.
    #[inline]
    fn update(&self, group: &mut Group, now: u64) {
        for member in group.members_mut() {
            let value = match member.counter {
                NO_COUNTER => self.software(&member.spec, now),
                counter => self.pmu.read(u32::from(counter)),
            };
            // Counters are updated before they can go round: their overflows interrupt, or the
            // kernel's ticks come soon enough.
            let counted = value.wrapping_sub(member.last) & member.ends;
            member.raw = member.raw.saturating_add(counted);
            member.last = value;
        }
    }

    /// The value of an event that has no counter; that of the last update, while its group does not
    /// run.
    #[cold]
    fn uncounted(&self, group: &Group, member: &Member, now: u64) -> u64 {
        match group.is_running {
            true => self.software(&member.spec, now),
            false => member.last,
        }
    }

    /// What the kernel has counted of an event.
    fn software(&self, spec: &EventSpec, now: u64) -> u64 {
        let EventKind::Software(event) = spec.kind else {
            // Tracepoints are added to each group.
            return 0;
        };
        if let Software::CpuClock | Software::TaskClock = event {
            return now;
        }
        let Exclude { kernel, user } = spec.exclude;
        match self.software.get(event as usize) {
            Some([in_kernel, in_user]) => {
                let of_kernel = if kernel { 0 } else { *in_kernel };
                of_kernel.wrapping_add(if user { 0 } else { *in_user })
            }
            None => 0,
        }
    }
}

impl Member {
    /// Its counter as a set.
    fn counters(&self) -> u64 {
        match self.counter {
            NO_COUNTER => 0,
            counter => 1 << counter,
        }
    }
}

/// The greatest value of a counter with so many bits.
const fn end(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// The value from which a counter overflows after so many events: 0 means its whole length.
const fn start_value(width: u32, left: u64) -> u64 {
    0_u64.wrapping_sub(left) & end(width)
}
