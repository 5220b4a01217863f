//! Counting in a session: every CPU counts the same groups, and records what they have counted.
//!
//! [`Counting`] holds what is asked for. Each CPU notices a change when the kernel calls
//! [`Tracer::count`] there, and takes up the groups or gives them up. Groups that do not fit the
//! PMU together take turns, as a CPU's own groups do: each has its own times and counts.

use core::fmt;

use super::cpu::Cpu;
use super::event::EventSpec;
use super::group::{GroupSpec, MAX_EVENTS};
use super::groups::{Group, Groups, Handle};
use super::pmu::Pmu;
use crate::exclusive::{Claim, Exclusive};
use crate::platform::Platform;
use crate::ring::config::Error;
use crate::ring::payload::PayloadWriter;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::tracer::{COMPILED_IN, Tracer};
use crate::vocabulary::{CountedEvent, EventCount, GroupCount};
use crate::{NameEpoch, Refused, Text};

/// A step in the life of what a session counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A session is opened.
    Opens,
    /// The mode `count` begins.
    Begins,
    /// The mode `count` ends.
    Ends,
    /// The session is given up.
    Closes,
}

/// Most groups that a session counts on each CPU.
pub const MAX_GROUPS: usize = 4;

/// How often a CPU looks again at what is asked for while another one does.
const LOOKS: usize = 1_000;

/// The groups that every CPU is to count, and how often what they have counted is recorded.
pub struct Counting {
    asked: Exclusive<Asked>,
    /// How often counting began or ended: odd while there is something to count.
    changes: AtomicU32,
    named: NameEpoch,
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").finish_non_exhaustive()
    }
}

struct Asked {
    /// Those behind the first `None` are `None`.
    groups: [Option<GroupSpec>; MAX_GROUPS],
    /// Nanoseconds.
    period: u64,
    /// Whether the present session has counted them.
    is_used: bool,
}

impl Asked {
    fn groups(&self) -> impl Iterator<Item = &GroupSpec> {
        self.groups.iter().flatten()
    }
}

/// A CPU's part in the session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    /// The value of [`Counting::changes`] that the CPU has acted on.
    changes: u32,
    /// How many groups the session counts; 0 where it does not count.
    asked: u8,
    /// By number, the groups that the CPU counts; `None` for one that it could not take up.
    leaders: [Option<Handle>; MAX_GROUPS],
    period: u64,
    /// When the counts are to be recorded next.
    due: u64,
}

impl Recorded {
    pub(super) const NOTHING: Recorded = Recorded {
        changes: 0,
        asked: 0,
        leaders: [None; MAX_GROUPS],
        period: 0,
        due: 0,
    };
}

impl Counting {
    /// Nothing to count.
    #[allow(clippy::new_without_default)] // It is for statics.
    pub const fn new() -> Counting {
        let asked = Asked {
            groups: [None; MAX_GROUPS],
            period: 0,
            is_used: false,
        };
        Counting {
            asked: Exclusive::new(asked),
            changes: AtomicU32::new(0),
            named: NameEpoch::new(),
        }
    }

    /// Sets what is counted from the next beginning on: at most [`MAX_GROUPS`] groups. False if
    /// something else was counted before in this session: a trace has the names of one set of
    /// groups. One call at a time.
    pub(crate) fn set(&self, groups: impl Iterator<Item = GroupSpec> + Clone, period: u64) -> bool {
        let mut asked = self.asked.wait();
        let asked = asked.get();
        let len = groups.clone().count();
        if asked.is_used {
            let mut pairs = asked.groups.iter().zip(groups.clone());
            let is_other = len != asked.groups().count();
            if is_other || pairs.any(|(known, group)| known.as_ref() != Some(&group)) {
                return false;
            }
        }
        for (place, group) in asked.groups.iter_mut().zip(groups) {
            *place = Some(group);
        }
        for place in asked.groups.iter_mut().skip(len) {
            *place = None;
        }
        asked.period = period;
        // A start that was refused may have recorded the names of others.
        self.named.named_in(0);
        true
    }

    /// Takes a step, for a [`Ground`](crate::Ground) whose `turn_counting` calls it. One call at a
    /// time.
    ///
    /// # Errors
    /// For a beginning, [`Refused::Config`] where there are no groups, and what
    /// [`Platform::counting`] says of one.
    pub fn turn<P: Platform>(&self, turn: Turn) -> Result<(), Refused> {
        match turn {
            Turn::Opens => self.open(),
            Turn::Begins => return self.begin::<P>(),
            Turn::Ends => {
                self.switch(false);
                // Only groups can be refused.
                let _ = P::counting(None);
            }
            Turn::Closes => self.set_used(false),
        }
        Ok(())
    }

    /// Asks the kernel about each group, and has all CPUs count them.
    fn begin<P: Platform>(&self) -> Result<(), Refused> {
        const NO_GROUP: Refused = Refused::Config(Error::Config("the events to count (none)"));
        let last = self.len().checked_sub(1).ok_or(NO_GROUP)?;
        for number in 0..=last {
            let group = self.group(number).ok_or(NO_GROUP)?;
            // CPUs find all groups at once, when the kernel has accepted all but the last.
            self.switch(number == last);
            P::counting(Some(&group)).inspect_err(|_| {
                // CPUs may have begun, and the kernel has accepted the groups before this one.
                self.take_back();
                let _ = P::counting(None);
            })?;
        }
        self.set_used(true);
        Ok(())
    }

    /// A session begins. A CPU that missed the end of the one before finds out that it did.
    pub(crate) fn open(&self) {
        let changes = self.changes.load(Relaxed);
        self.changes.store(changes.wrapping_add(2), Relaxed);
    }

    /// Whether the present session counts, or has counted, what is asked for.
    pub(crate) fn set_used(&self, is_used: bool) {
        self.asked.wait().get().is_used = is_used;
    }

    /// How many groups are to be counted; 0 if that was never set.
    pub(crate) fn len(&self) -> usize {
        self.asked.wait().get().groups().count()
    }

    /// The group of this number, if so many are to be counted.
    pub(crate) fn group(&self, number: usize) -> Option<GroupSpec> {
        self.asked.wait().get().groups().nth(number).copied()
    }

    /// Begins to count, or ends it. One call at a time.
    pub(crate) fn switch(&self, on: bool) {
        let changes = self.changes.load(Relaxed);
        if (changes % 2 == 1) != on {
            // Partner: the acquire in `changes`.
            self.changes.store(changes.wrapping_add(1), Release);
        }
    }

    /// Ends what was refused after it had begun: unlike at an end, no CPU records last counts.
    pub(crate) fn take_back(&self) {
        let changes = self.changes.load(Relaxed);
        if changes % 2 == 1 {
            // Even, and not the next number, which a CPU takes for the end of what it counts.
            // Partner: the acquire in `changes`.
            self.changes.store(changes.wrapping_add(3), Release);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn claim(&self) -> Option<impl Sized + '_> {
        self.asked.claim()
    }

    #[inline]
    fn changes(&self) -> u32 {
        // Partners: the releases in `switch` and `take_back`.
        self.changes.load(Acquire)
    }

    /// What is asked for; `None` if another caller has it for long, as does the code that an
    /// interrupt interrupts.
    fn look(&self) -> Option<Claim<'_, Asked>> {
        let claim = || {
            let claim = self.asked.claim();
            if claim.is_none() {
                core::hint::spin_loop();
            }
            claim
        };
        (0..LOOKS).find_map(|_| claim())
    }

    /// Copies the group of this number, if there is one, and gives the period; `None` as for
    /// [`Self::look`].
    fn copy(&self, number: usize, to: &mut GroupSpec) -> Option<(bool, u64)> {
        let mut asked = self.look()?;
        let asked = asked.get();
        let group = asked.groups.get(number).and_then(Option::as_ref);
        if let Some(group) = group {
            *to = *group;
        }
        Some((group.is_some(), asked.period))
    }

    /// By number, how many events each group has: 0 behind the last one.
    fn lens(&self) -> Option<[u8; MAX_GROUPS]> {
        let mut asked = self.look()?;
        let len = |group: &Option<GroupSpec>| group.as_ref().map_or(0, |it| it.events().len());
        Some(asked.get().groups.each_ref().map(|group| len(group) as u8))
    }

    /// The event at this place of a group.
    fn event(&self, group: u8, place: u8) -> Option<EventSpec> {
        let mut asked = self.look()?;
        let group = asked.get().groups.get(usize::from(group))?.as_ref()?;
        group.events().get(usize::from(place)).copied()
    }
}

impl<P: Platform> Tracer<P> {
    /// Counts on this CPU what the session counts, and records it when that is due. The kernel
    /// calls this at every tick, and on every CPU when [`Platform::counting`] says that counting
    /// begins or ends. `now` is in nanoseconds, of the clock that `cpu` is used with; interrupts
    /// are masked.
    ///
    /// A CPU that cannot count a group, although the kernel has accepted it, records that once, and
    /// counts the others.
    #[inline]
    pub fn count<Q: Pmu, const N: usize, const M: usize>(
        counting: &Counting,
        cpu: &mut Cpu<Q, N>,
        thread: &mut Groups<M>,
        now: u64,
    ) {
        if !COMPILED_IN {
            return;
        }
        let changes = counting.changes();
        if cpu.recorded.changes != changes {
            Self::change_counting(counting, cpu, thread, now, changes);
        } else if cpu.recorded.asked > 0 && now >= cpu.recorded.due {
            Self::record_groups(counting, cpu, thread, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn change_counting<Q: Pmu, const N: usize, const M: usize>(
        counting: &Counting,
        cpu: &mut Cpu<Q, N>,
        thread: &mut Groups<M>,
        now: u64,
        changes: u32,
    ) {
        let before = cpu.recorded;
        if before.asked > 0 {
            // The last counts belong to the session that ends, and to none after it.
            if changes == before.changes.wrapping_add(1) {
                Self::record_groups(counting, cpu, thread, now);
            }
            cpu.change(thread, now, |_, own, _| give_up(own, &before.leaders));
            (cpu.recorded.asked, cpu.recorded.leaders) = (0, [None; MAX_GROUPS]);
        }
        if changes.is_multiple_of(2) {
            cpu.recorded.changes = changes;
            return;
        }
        // First, so that recording the names is not counted.
        Self::name_counted(counting);
        // Another CPU, or the code that this interrupts, may be looking too: then it is done at the
        // next tick.
        let Some((asked, leaders, period)) = take_up(counting, cpu, thread, now) else {
            return;
        };
        cpu.recorded = Recorded {
            changes,
            asked,
            leaders,
            period: period.max(1),
            due: now,
        };
        let numbers = 0..asked;
        for (number, _) in numbers.zip(leaders).filter(|(_, leader)| leader.is_none()) {
            Self::record_without(number);
        }
        Self::record_groups(counting, cpu, thread, now);
    }

    /// Records that this CPU does not count a group.
    fn record_without(group: u8) {
        if Self::is_on::<GroupCount>() {
            Self::record_in_place::<GroupCount>(GROUP_COUNT_WORDS, |out| {
                out.push_long(0);
                out.push_long(0);
                out.push(first_byte(group));
            });
        }
    }

    /// Records the names of the events, unless they were recorded in this name epoch.
    fn name_counted(counting: &Counting) {
        let due = counting.named.due();
        if let Some(epoch) = due.filter(|_| Self::is_on::<CountedEvent>())
            && Self::name_groups(counting)
        {
            counting.named.named_in(epoch);
        }
    }

    /// Records the names of all groups' events. False if some are missing, and are to be recorded
    /// at another time.
    #[cold]
    #[inline(never)]
    fn name_groups(counting: &Counting) -> bool {
        let Some(lens) = counting.lens() else {
            return false;
        };
        let groups = lens.iter().filter(|len| **len > 0).count() as u8;
        let mut are_named = true;
        for (group, events) in (0..groups).zip(lens) {
            for place in 0..events {
                let event = counting.event(group, place);
                are_named &= event.is_some_and(|event| {
                    let mut name = Text::EMPTY;
                    // What does not fit is cut off.
                    let _ = event.write_name(&mut name);
                    Self::record(CountedEvent {
                        group,
                        groups,
                        place,
                        events,
                        name,
                    })
                });
            }
        }
        are_named
    }

    /// Records the counts of now.
    #[inline(never)]
    fn record_groups<Q: Pmu, const N: usize, const M: usize>(
        counting: &Counting,
        cpu: &mut Cpu<Q, N>,
        thread: &mut Groups<M>,
        now: u64,
    ) {
        let recorded = &mut cpu.recorded;
        // On time again, unless some had to be left out.
        let is_late = now.saturating_sub(recorded.due) >= recorded.period;
        let since = if is_late { now } else { recorded.due };
        recorded.due = since.saturating_add(recorded.period);
        cpu.update(thread, now);
        if !Self::is_on::<GroupCount>() {
            return;
        }
        Self::name_counted(counting);
        for (number, group) in cpu.recorded_groups() {
            let members = group.members();
            Self::record_in_place::<GroupCount>(GROUP_COUNT_WORDS + 2 * members.len(), |out| {
                out.push_long(group.time_enabled);
                out.push_long(group.time_running);
                out.push(first_byte(number));
                put_counts(out, members.len(), members.iter().map(|member| member.raw));
            });
        }
    }

    /// Records what the session's groups that are on this CPU's PMU have counted until `now`, for
    /// the event of this id that was recorded just now: a record each. [`Platform::context`] calls
    /// it; interrupts are masked.
    ///
    /// Whether anything was recorded. Nothing is for an id that 16 bits do not hold, which no event
    /// has.
    pub fn event_count<Q: Pmu, const N: usize>(cpu: &Cpu<Q, N>, event: u32, now: u64) -> bool {
        if !COMPILED_IN || !Self::is_on::<EventCount>() {
            return false;
        }
        let Ok(event) = u16::try_from(event) else {
            return false;
        };
        let running = cpu.recorded_groups().filter(|(_, group)| group.is_running);
        running.fold(false, |is_any, (number, group)| {
            let len = group.members().len();
            // Read before the record is begun: a driver may trap, and the trap's handler record.
            let mut counts = [0; MAX_EVENTS];
            for (to, count) in counts.iter_mut().zip(cpu.counts_of(group, now)) {
                *to = count;
            }
            is_any
                | Self::record_in_place::<EventCount>(EVENT_COUNT_WORDS + 2 * len, |out| {
                    let [low, high] = event.to_ne_bytes();
                    out.push(u32::from_ne_bytes([low, high, number, 0]));
                    out.push(group.turns);
                    put_counts(out, len, counts.into_iter().take(len));
                })
        })
    }
}

/// Words of a [`GroupCount`] without its counts: two times, the group, and how many counts there
/// are.
const GROUP_COUNT_WORDS: usize = 6;
/// Words of an [`EventCount`] without its counts: the event with the group, the turns, and how many
/// counts there are.
const EVENT_COUNT_WORDS: usize = 3;

/// A word whose first byte in memory is this, and whose others are padding.
const fn first_byte(byte: u8) -> u32 {
    u32::from_ne_bytes([byte, 0, 0, 0])
}

/// The sequence of counts.
#[inline(always)]
fn put_counts(out: &mut PayloadWriter<'_>, len: usize, counts: impl Iterator<Item = u64>) {
    out.push(len as u32);
    counts.for_each(|count| {
        out.push_long(count);
    });
}

/// Detaches the session's groups.
fn give_up<const N: usize>(own: &mut Groups<N>, leaders: &[Option<Handle>; MAX_GROUPS]) {
    for leader in leaders.iter().flatten() {
        // Stale only if the kernel has detached it.
        let _ = own.detach_all(*leader);
    }
}

/// What a CPU has taken up: how many groups the session counts, the leaders of those that this CPU
/// can count, and the period.
type Taken = (u8, [Option<Handle>; MAX_GROUPS], u64);

/// Attaches all that is asked for at once, so that the groups begin together. `None` if another
/// caller has what is asked for: then nothing is attached. What is asked for stays as it is while
/// it is counted, so other CPUs may look between two groups.
#[inline(never)] // Its frame is large.
fn take_up<Q: Pmu, const N: usize, const M: usize>(
    counting: &Counting,
    cpu: &mut Cpu<Q, N>,
    thread: &mut Groups<M>,
    now: u64,
) -> Option<Taken> {
    cpu.change_with(thread, now, |pmu, room, own, _| {
        let (mut len, mut leaders, mut period) = (0, [None; MAX_GROUPS], 0);
        let mut group = GroupSpec::EMPTY;
        for (number, leader) in leaders.iter_mut().enumerate() {
            let Some((is_there, every)) = counting.copy(number, &mut group) else {
                give_up(own, &leaders);
                return None;
            };
            period = every;
            if !is_there {
                break;
            }
            *leader = own.attach_with(pmu, &group, room).ok();
            len += 1;
        }
        Some((len, leaders, period))
    })
}

impl<P: Pmu, const N: usize> Cpu<P, N> {
    /// Whether the CPU counts what the session does: it has [counted](Tracer::count) since that has
    /// changed. For kernels whose CPUs may record an [event's counts](Tracer::event_count) before.
    #[inline]
    pub fn has_noticed(&self, counting: &Counting) -> bool {
        self.recorded.changes == counting.changes()
    }

    /// The CPU's groups of the session, each with its number.
    #[inline]
    fn recorded_groups(&self) -> impl Iterator<Item = (u8, &Group)> {
        let leaders = self.recorded.leaders.iter();
        let groups = leaders.map(|leader| self.own().led_by((*leader)?));
        (0..self.recorded.asked)
            .zip(groups)
            .filter_map(|(number, group)| Some((number, group?)))
    }
}
