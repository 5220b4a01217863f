//! Counting in a session: every CPU counts one group, and records what it has counted.
//!
//! [`Counting`] holds what is asked for. Each CPU notices a change when the kernel calls
//! [`Tracer::count`] there, and takes up the group or gives it up.

use core::fmt::{self, Write};

use super::cpu::Cpu;
use super::event::EventSpec;
use super::group::GroupSpec;
use super::groups::{Group, Groups, Handle};
use super::pmu::Pmu;
use crate::exclusive::Exclusive;
use crate::platform::Platform;
use crate::ring::payload::PayloadWriter;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::tracer::{COMPILED_IN, Tracer};
use crate::vocabulary::{CountedEvent, EventCount, GroupCount};
use crate::{NameEpoch, Text};

/// The group that every CPU is to count, and how often what it has counted is recorded.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    group: Option<GroupSpec>,
    /// Nanoseconds.
    period: u64,
    /// Whether the present session has counted it.
    is_used: bool,
}

/// A CPU's part in the session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    /// The value of [`Counting::changes`] that the CPU has acted on.
    changes: u32,
    /// `None` where nothing is counted, or the group could not be taken up.
    leader: Option<Handle>,
    period: u64,
    /// When the counts are to be recorded next.
    due: u64,
}

impl Recorded {
    pub(super) const NOTHING: Recorded = Recorded {
        changes: 0,
        leader: None,
        period: 0,
        due: 0,
    };
}

impl Counting {
    pub(crate) const fn new() -> Counting {
        let asked = Asked {
            group: None,
            period: 0,
            is_used: false,
        };
        Counting {
            asked: Exclusive::new(asked),
            changes: AtomicU32::new(0),
            named: NameEpoch::new(),
        }
    }

    /// Sets what is counted from the next beginning on. False if something else was counted before
    /// in this session: a trace has the names of one group. One call at a time.
    pub(crate) fn set(&self, group: &GroupSpec, period: u64) -> bool {
        let mut asked = self.asked.wait();
        let asked = asked.get();
        if asked.is_used && asked.group != Some(*group) {
            return false;
        }
        *asked = Asked {
            group: Some(*group),
            period,
            is_used: asked.is_used,
        };
        true
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

    /// What is to be counted; `None` if that was never set.
    pub(crate) fn group(&self) -> Option<GroupSpec> {
        self.asked.wait().get().group
    }

    /// Begins to count, or ends it. One call at a time.
    pub(crate) fn switch(&self, on: bool) {
        let changes = self.changes.load(Relaxed);
        if (changes % 2 == 1) != on {
            // Partner: the acquire in `changes`.
            self.changes.store(changes.wrapping_add(1), Release);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn claim(&self) -> Option<impl Sized + '_> {
        self.asked.claim()
    }

    #[inline]
    fn changes(&self) -> u32 {
        // Partner: the release in `switch`.
        self.changes.load(Acquire)
    }
}

impl<P: Platform> Tracer<P> {
    /// Counts on this CPU what the session counts, and records it when that is due. The kernel
    /// calls this at every tick, and on every CPU when [`Platform::counting`] says that counting
    /// begins or ends. `now` is in nanoseconds, of the clock that `cpu` is used with; interrupts
    /// are masked.
    ///
    /// A CPU that cannot count the group, although the kernel has accepted it, records no counts,
    /// once.
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
        } else if cpu.recorded.leader.is_some() && now >= cpu.recorded.due {
            Self::record_group(counting, cpu, thread, now);
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
        if let Some(leader) = before.leader {
            // The last counts belong to the session that ends, and to none after it.
            if changes == before.changes.wrapping_add(1) {
                Self::record_group(counting, cpu, thread, now);
            }
            // Stale only if the kernel has detached it.
            let _ = cpu.change(thread, now, |_, own, _| own.detach_all(leader));
            cpu.recorded.leader = None;
        }
        if changes.is_multiple_of(2) {
            cpu.recorded.changes = changes;
            return;
        }
        // Another CPU, or the code that this interrupts, may be looking too: then it is done at the
        // next tick.
        let Some(asked) = counting.asked.claim().map(|mut asked| *asked.get()) else {
            return;
        };
        let leader = asked.group.as_ref().and_then(|group| {
            // First, so that recording the names is not counted.
            Self::name_counted(counting, group.events().iter());
            cpu.change(thread, now, |pmu, own, _| own.attach(pmu, group).ok())
        });
        cpu.recorded = Recorded {
            changes,
            leader,
            period: asked.period.max(1),
            due: now,
        };
        match leader {
            Some(_) => Self::record_group(counting, cpu, thread, now),
            None => Self::record_nothing(),
        }
    }

    /// Says that this CPU does not count.
    fn record_nothing() {
        if Self::is_on::<GroupCount>() {
            Self::record_in_place::<GroupCount>(5, |_| {});
        }
    }

    /// Records the names of the events, unless they were recorded in this name epoch.
    fn name_counted<'e>(counting: &Counting, events: impl ExactSizeIterator<Item = &'e EventSpec>) {
        let Some(epoch) = counting
            .named
            .due()
            .filter(|_| Self::is_on::<CountedEvent>())
        else {
            return;
        };
        let len = events.len() as u32;
        let mut are_named = true;
        for (place, event) in (0..).zip(events) {
            let mut name = Text::EMPTY;
            // What does not fit is cut off.
            let _ = write!(name, "{event}");
            are_named &= Self::record(CountedEvent {
                place,
                events: len,
                name,
            });
        }
        if are_named {
            counting.named.named_in(epoch);
        }
    }

    /// Records the counts of now.
    #[inline(never)]
    fn record_group<Q: Pmu, const N: usize, const M: usize>(
        counting: &Counting,
        cpu: &mut Cpu<Q, N>,
        thread: &mut Groups<M>,
        now: u64,
    ) {
        let recorded = &mut cpu.recorded;
        // On time again, unless some had to be left out.
        let late = now.saturating_sub(recorded.due) / recorded.period;
        let next = recorded.due.saturating_add(recorded.period);
        recorded.due = if late > 0 {
            now + recorded.period
        } else {
            next
        };
        cpu.update(thread, now);
        if let Some(group) = cpu.recorded_group()
            && Self::is_on::<GroupCount>()
        {
            let members = group.members();
            Self::name_counted(counting, members.iter().map(|member| &member.spec));
            Self::record_in_place::<GroupCount>(5 + 2 * members.len(), |out| {
                out.push_long(group.time_enabled);
                out.push_long(group.time_running);
                put_counts(out, members.len(), members.iter().map(|member| member.raw));
            });
        }
    }

    /// Records what this CPU's group of the session has counted until `now`, for the event of this
    /// id that was recorded just now. [`Platform::context`] calls it; interrupts are masked.
    pub fn event_count<Q: Pmu, const N: usize>(cpu: &Cpu<Q, N>, event: u32, now: u64) -> bool {
        if !COMPILED_IN || !Self::is_on::<EventCount>() {
            return false;
        }
        let Some(group) = cpu.recorded_group() else {
            return false;
        };
        let len = group.members().len();
        Self::record_in_place::<EventCount>(3 + 2 * len, |out| {
            out.push(event);
            out.push(group.turns);
            put_counts(out, len, cpu.counts_of(group, now));
        })
    }
}

/// The sequence of counts.
#[inline(always)]
fn put_counts(out: &mut PayloadWriter<'_>, len: usize, counts: impl Iterator<Item = u64>) {
    out.push(len as u32);
    counts.for_each(|count| {
        out.push_long(count);
    });
}

impl<P: Pmu, const N: usize> Cpu<P, N> {
    /// The CPU's group of the session.
    #[inline]
    fn recorded_group(&self) -> Option<&Group> {
        self.own().led_by(self.recorded.leader?)
    }
}
