//! Groups: events that count at the same time or not at all.

use core::fmt;

use super::event::{EventKind, EventSpec, Software};
use super::scale::scale;

/// Most events of a group, its leader included.
pub const MAX_EVENTS: usize = 16;

/// The events of a group, the leader first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    events: [EventSpec; MAX_EVENTS],
    len: usize,
}

impl GroupSpec {
    /// Room for a group.
    pub(super) const EMPTY: GroupSpec = GroupSpec {
        events: [EventSpec::software(Software::CpuClock); MAX_EVENTS],
        len: 0,
    };

    /// A group of these events.
    ///
    /// # Errors
    /// [`Refused::Empty`], [`Refused::TooManyEvents`].
    pub const fn new(events: &[EventSpec]) -> Result<GroupSpec, Refused> {
        let Some(leader) = events.first() else {
            return Err(Refused::Empty);
        };
        if events.len() > MAX_EVENTS {
            return Err(Refused::TooManyEvents {
                leader: leader.kind,
                events: events.len(),
            });
        }
        let mut all = GroupSpec::EMPTY.events;
        let (events_of_all, _) = all.split_at_mut(events.len());
        events_of_all.copy_from_slice(events);
        Ok(GroupSpec {
            events: all,
            len: events.len(),
        })
    }

    /// Number of slots of a PMU that the events take.
    pub const fn slots(&self) -> usize {
        match self.events.split_at_checked(self.len) {
            Some((events, _)) => slots(events),
            None => 0,
        }
    }

    /// The events, the leader first.
    pub fn events(&self) -> &[EventSpec] {
        self.events.get(..self.len).unwrap_or_default()
    }

    /// The leader.
    pub fn leader(&self) -> EventSpec {
        let [leader, ..] = self.events;
        leader
    }

    /// Adds an event.
    ///
    /// # Errors
    /// [`Refused::TooManyEvents`].
    pub fn push(&mut self, event: EventSpec) -> Result<(), Refused> {
        let full = Refused::TooManyEvents {
            leader: self.leader().kind,
            events: self.len + 1,
        };
        *self.events.get_mut(self.len).ok_or(full)? = event;
        self.len += 1;
        Ok(())
    }

    /// The group with one event more.
    ///
    /// # Errors
    /// [`Refused::TooManyEvents`].
    pub fn with(&self, event: EventSpec) -> Result<GroupSpec, Refused> {
        let mut longer = *self;
        longer.push(event)?;
        Ok(longer)
    }

    /// Refuses groups that need more slots than a PMU has.
    ///
    /// # Errors
    /// [`Refused::TooManySlots`].
    pub const fn fits(&self, slots: usize) -> Result<(), Refused> {
        let needed = self.slots();
        match needed > slots {
            true => Err(Refused::TooManySlots {
                leader: self.events[0].kind,
                needed,
                slots,
            }),
            false => Ok(()),
        }
    }
}

/// A constant [`GroupSpec`] for a type of PMU. A group larger than the PMU does not compile.
///
/// ```
/// use kymo::count::pmu::Model;
/// use kymo::count::{EventSpec, GroupSpec, Hardware, group};
///
/// const CACHE: GroupSpec = group!(
///     Model<4>,
///     EventSpec::hardware(Hardware::CacheReferences),
///     EventSpec::hardware(Hardware::CacheMisses),
/// );
/// assert_eq!(CACHE.slots(), 2);
/// ```
/// Here are three events for two slots:
/// ```compile_fail
/// # use kymo::count::pmu::Model;
/// # use kymo::count::{EventKind, EventSpec, GroupSpec, group};
/// const EVENT: EventSpec = EventSpec::of(EventKind::Raw(1));
/// const GROUP: GroupSpec = group!(Model<2>, EVENT, EVENT, EVENT);
/// # println!("{GROUP:?}");
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __count_group {
    ($Pmu:ty, $($event:expr),+ $(,)?) => {{
        const EVENTS: &[$crate::count::EventSpec] = &[$($event),+];
        const GROUP: $crate::count::GroupSpec =
            $crate::count::FittingGroup::<
                { EVENTS.len() },
                { $crate::count::slots(EVENTS) },
                { <$Pmu as $crate::count::pmu::Pmu>::SLOTS },
            >::of(EVENTS);
        GROUP
    }};
}

/// Number of slots of a PMU that events take.
pub const fn slots(events: &[EventSpec]) -> usize {
    let (mut slots, mut at) = (0, 0);
    while at < events.len() {
        slots += events[at].kind.slots();
        at += 1;
    }
    slots
}

/// Checks a constant group of `EVENTS` events that takes `NEEDED` of a PMU's `SLOTS`. The numbers
/// are in its type, so that the compiler's message has them.
#[derive(Debug)]
pub struct FittingGroup<const EVENTS: usize, const NEEDED: usize, const SLOTS: usize>;

impl<const EVENTS: usize, const NEEDED: usize, const SLOTS: usize>
    FittingGroup<EVENTS, NEEDED, SLOTS>
{
    /// The group; used in a constant, it does not compile where the group cannot fit.
    #[track_caller]
    pub const fn of(events: &[EventSpec]) -> GroupSpec {
        const { assert!(EVENTS <= MAX_EVENTS, "a group has at most 16 events") };
        const {
            assert!(
                NEEDED <= SLOTS,
                "the group needs more slots than the PMU has"
            )
        };
        match GroupSpec::new(events) {
            Ok(group) => group,
            // Not reached: the macro passes at least one event.
            Err(_) => unreachable!(),
        }
    }
}

/// Why a call about groups was refused. A refused call has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// A group without events.
    Empty,
    /// More events than a group may have.
    TooManyEvents {
        /// The leader.
        leader: EventKind,
        /// How many.
        events: usize,
    },
    /// The group could never be on the PMU.
    TooManySlots {
        /// The leader.
        leader: EventKind,
        /// Slots that it needs.
        needed: usize,
        /// Slots that there are.
        slots: usize,
    },
    /// The PMU has enough slots, but its counters cannot count these events at the same time.
    NeverTogether {
        /// The leader.
        leader: EventKind,
    },
    /// Nothing here counts the event, or not for one mode of the processor only.
    NotSupported(EventSpec),
    /// The handle is of an event that was detached.
    Stale,
    /// Members cannot have members.
    NotALeader,
    /// A leader cannot be detached while it has members.
    HasMembers(usize),
    /// Each event's leader has a leader, and so on in a circle.
    Cycle,
    /// A CPU has the groups: [`Cpu::switch_out`](super::Cpu::switch_out) takes them off first.
    OnPmu,
    /// There is room for so many groups.
    TooManyGroups(usize),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Empty => f.write_str("the group has no events"),
            Refused::TooManyEvents { leader, events } => write!(
                f,
                "the group led by {leader} has {events} events, and a group has at most \
                 {MAX_EVENTS}"
            ),
            Refused::TooManySlots {
                leader,
                needed,
                slots,
            } => write!(
                f,
                "the group led by {leader} needs {needed} PMU slots, and the PMU has {slots}"
            ),
            Refused::NeverTogether { leader } => write!(
                f,
                "the PMU cannot count the events of the group led by {leader} at the same time: \
                 several need the same counter"
            ),
            Refused::NotSupported(event) => write!(f, "{event} cannot be counted here"),
            Refused::Stale => f.write_str("the event was detached"),
            Refused::NotALeader => {
                f.write_str("the event is a member of a group, so it cannot lead one")
            }
            Refused::HasMembers(1) => {
                f.write_str("the leader has a member: detach that first, or the whole group")
            }
            Refused::HasMembers(members) => write!(
                f,
                "the leader has {members} members: detach these first, or the whole group"
            ),
            Refused::Cycle => f.write_str("the leaders of these events form a circle"),
            Refused::OnPmu => f.write_str("the groups are being counted: take them off first"),
            Refused::TooManyGroups(groups) => write!(f, "there is room for {groups} groups"),
        }
    }
}

impl core::error::Error for Refused {}

/// Checks who leads whom, in a list of events of which each may name its leader by index.
///
/// # Errors
/// [`Refused::Cycle`], [`Refused::NotALeader`] for a leader with a leader,
/// [`Refused::Stale`] for an index without an event.
pub fn check_leaders(leaders: &[Option<usize>]) -> Result<(), Refused> {
    let leader_of = |event: usize| leaders.get(event).copied().ok_or(Refused::Stale);
    for (event, leader) in leaders.iter().enumerate() {
        let Some(leader) = *leader else {
            continue;
        };
        // Whoever goes on for longer than there are events goes round.
        let (mut at, mut steps) = (Some(leader), 0);
        while let Some(next) = at {
            if next == event || steps > leaders.len() {
                return Err(Refused::Cycle);
            }
            at = leader_of(next)?;
            steps += 1;
        }
        if leader_of(leader)?.is_some() {
            return Err(Refused::NotALeader);
        }
    }
    Ok(())
}

/// An event's count in a [`Snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberCount {
    /// The event's id, which no other event of the same owner ever had.
    pub id: u64,
    /// What was counted.
    pub event: EventSpec,
    /// The count.
    pub raw: u64,
    /// What the count would be had the group run all the time; `None` if it never ran.
    pub scaled: Option<u64>,
}

/// All counts of a group, taken at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The count of the event whose handle was read.
    pub raw: u64,
    /// What it would be had the group run all the time; `None` if it never ran.
    pub scaled: Option<u64>,
    /// Nanoseconds during which the group was enabled: of a thread's group, while the thread ran.
    pub time_enabled: u64,
    /// Nanoseconds of these during which it was on the PMU.
    pub time_running: u64,
    members: [MemberCount; MAX_EVENTS],
    len: usize,
}

impl Snapshot {
    /// The snapshot for the event with this id, of a group's ids, events and raw counts.
    ///
    /// # Errors
    /// [`Refused::Stale`] if no event has the id.
    pub fn new(
        id: u64,
        counts: impl IntoIterator<Item = (u64, EventSpec, u64)>,
        time_enabled: u64,
        time_running: u64,
    ) -> Result<Snapshot, Refused> {
        let scaled = |raw| scale(raw, time_enabled, time_running);
        let nothing = MemberCount {
            id: 0,
            event: EventSpec::software(Software::CpuClock),
            raw: 0,
            scaled: None,
        };
        let (mut members, mut len) = ([nothing; MAX_EVENTS], 0);
        for (place, (id, event, raw)) in members.iter_mut().zip(counts) {
            *place = MemberCount {
                id,
                event,
                raw,
                scaled: scaled(raw),
            };
            len += 1;
        }
        let known = members.get(..len).unwrap_or_default();
        let read = known.iter().find(|member| member.id == id);
        let raw = read.ok_or(Refused::Stale)?.raw;
        Ok(Snapshot {
            raw,
            scaled: scaled(raw),
            time_enabled,
            time_running,
            members,
            len,
        })
    }

    /// The counts of all events, the leader's first.
    pub fn members(&self) -> &[MemberCount] {
        self.members.get(..self.len).unwrap_or_default()
    }

    /// The count of the event with this id.
    pub fn member(&self, id: u64) -> Option<&MemberCount> {
        self.members().iter().find(|member| member.id == id)
    }
}
