//! Performance counters: each hart's own groups, which are the session's and the one that makes
//! samples, and the groups of each thread.
//!
//! Until somebody counts, the places that feed the counters look at one flag.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use kymo::count::{
    self, Cpu, EventSpec, GroupSpec, Groups, Handle, Hardware, MAX_GROUPS, Refused, Snapshot,
    Software,
};

use crate::arch::{self, pmu::Pmu};
use crate::lock::Spin;
use crate::recording::RECORDER;
use crate::thread::{Slot, THREADS};
use crate::{Kymo, MAX_HARTS, sched, smp};

/// Most groups of a thread.
const GROUPS: usize = 4;
/// Most groups of a hart: those of the session, and the one that makes samples. Each is more than a
/// kilobyte, and a hart's counters are made on the stack of the thread that asks for them first.
const OF_HART: usize = MAX_GROUPS + 1;

/// What each hart counts; `None` until it is asked for.
static HARTS: [Spin<Option<Cpu<Pmu, OF_HART>>>; MAX_HARTS] = [const { Spin::new(None) }; MAX_HARTS];
/// The group by whose overflows each hart takes samples.
static OVERFLOWING: [Spin<Option<Handle>>; MAX_HARTS] = [const { Spin::new(None) }; MAX_HARTS];
/// By hart, event, and whether it was in the kernel: how often software events have happened that
/// the hart's counters do not know of yet.
static HAPPENED: [[[AtomicU32; 2]; Software::ALL.len()]; MAX_HARTS] =
    [const { [const { [const { AtomicU32::new(0) }; 2] }; Software::ALL.len()] }; MAX_HARTS];

/// Tells a hart's counters what has happened.
fn take_note(counters: &mut Cpu<Pmu, OF_HART>, hart: usize) {
    for (event, counts) in Software::ALL.iter().zip(&HAPPENED[hart]) {
        for (in_kernel, count) in [false, true].into_iter().zip(counts) {
            if count.load(Relaxed) > 0 {
                (0..count.swap(0, Relaxed)).for_each(|_| counters.happened(*event, in_kernel));
            }
        }
    }
}

/// Whether a thread or a session has asked for counters. From then on a thread's groups follow it
/// to any hart.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// The groups of each thread.
static THREAD_GROUPS: [Spin<Groups<GROUPS>>; THREADS] =
    [const { Spin::new(Groups::NONE) }; THREADS];

/// The clock in nanoseconds.
fn now() -> u64 {
    let time = u128::from(arch::timer::time()) * 1_000_000_000;
    (time / u128::from(arch::timer::frequency())) as u64
}

/// Calls `work` with this hart's counters and the groups of the thread that runs here. Interrupts
/// must be masked.
fn with_thread<R>(work: impl FnOnce(&mut Cpu<Pmu, OF_HART>, &mut Groups<GROUPS>, u64) -> R) -> R {
    let hart = arch::hart();
    let mut thread = THREAD_GROUPS[sched::running_here().slot].lock();
    let mut counters = HARTS[hart].lock();
    let counters = started(&mut counters, &mut thread);
    IN_USE.store(true, Relaxed);
    take_note(counters, hart);
    work(counters, &mut thread, now())
}

/// This hart's counters, which count for the thread that runs here.
#[inline(never)]
fn started<'c>(
    counters: &'c mut Option<Cpu<Pmu, OF_HART>>,
    thread: &mut Groups<GROUPS>,
) -> &'c mut Cpu<Pmu, OF_HART> {
    if let Some(counters) = counters {
        return counters;
    }
    begin_counters(counters).switch_in(thread, now());
    counters.as_mut().expect("they were made")
}

/// Makes a hart's counters. They are larger than its frame should be.
#[inline(never)]
fn begin_counters(counters: &mut Option<Cpu<Pmu, OF_HART>>) -> &mut Cpu<Pmu, OF_HART> {
    counters.insert(Cpu::new(arch::pmu::new()))
}

/// Calls `work` with interrupts masked.
fn masked<R>(work: impl FnOnce() -> R) -> R {
    let on = arch::mask();
    let result = work();
    arch::restore(on);
    result
}

/// Counts with a group of the running thread's.
pub fn attach(group: &GroupSpec) -> Result<Handle, Refused> {
    masked(|| {
        with_thread(|counters, thread, now| {
            counters.change(thread, now, |pmu, _, thread| thread.attach(pmu, group))
        })
    })
}

/// Ends a group of the running thread's.
pub fn detach(group: Handle) -> Result<usize, Refused> {
    masked(|| {
        with_thread(|counters, thread, now| {
            counters.change(thread, now, |_, _, thread| thread.detach_all(group))
        })
    })
}

/// Reads a group of the running thread's.
pub fn read(group: Handle) -> Result<Snapshot, Refused> {
    masked(|| with_thread(|counters, thread, now| counters.read(thread, group, now)))
}

/// This hart goes from one thread to another. Interrupts are masked.
#[inline(always)]
pub fn switch(prev: Slot, next: Slot) {
    if IN_USE.load(Relaxed) {
        switch_groups(prev, next);
    }
}

#[cold]
#[inline(never)]
fn switch_groups(prev: Slot, next: Slot) {
    let hart = arch::hart();
    let mut counters = HARTS[hart].lock();
    let (mut prev, mut next) = (THREAD_GROUPS[prev].lock(), THREAD_GROUPS[next].lock());
    // A hart begins with the first thread that has groups.
    if counters.is_none() && next.is_empty() {
        return;
    }
    if counters.is_none() {
        started(&mut counters, &mut next);
    } else if let Some(counters) = counters.as_mut() {
        take_note(counters, hart);
        counters.switch(&mut prev, &mut next, now());
    }
}

/// A software event happened on this hart, in the kernel or in a program. Interrupts are masked.
#[inline(always)]
pub fn happened(event: Software, in_kernel: bool) {
    #[cold]
    #[inline(never)]
    fn count(event: Software, in_kernel: bool) {
        let hart = arch::hart();
        HAPPENED[hart][event as usize][usize::from(in_kernel)].fetch_add(1, Relaxed);
        // This may be an NMI that has come while the hart has its counters.
        if let Some(mut counters) = HARTS[hart].try_lock()
            && let Some(counters) = counters.as_mut()
        {
            take_note(counters, hart);
        }
    }
    if IN_USE.load(Relaxed) {
        count(event, in_kernel);
    }
}

/// Every hart is to count the session's groups from now on, of which this is one, or nothing any
/// more.
pub fn of_session(group: Option<&GroupSpec>) -> Result<(), kymo::Refused> {
    if let Some(group) = group {
        // All harts have the same PMU.
        masked(|| with_thread(|counters, _, _| count::check(counters.pmu(), group)))
            .map_err(kymo::Refused::Count)?;
    }
    masked(|| {
        notice();
        // Every other hart answers after it has noticed.
        smp::synchronize();
    });
    Ok(())
}

/// This hart looks what the session counts. Interrupts are masked.
#[inline(always)]
pub fn notice() {
    if IN_USE.load(Relaxed) {
        notice_session();
    }
}

#[cold]
#[inline(never)]
fn notice_session() {
    with_thread(|counters, thread, now| Kymo::count(RECORDER.counting(), counters, thread, now));
}

/// Records what this hart has counted, for an event that was recorded just now; not if that is an
/// NMI's which has come while the hart has its counters.
#[cold]
#[inline(never)]
pub fn record(event: u32) {
    if let Some(counters) = HARTS[arch::hart()].try_lock()
        && let Some(counters) = counters.as_ref()
    {
        Kymo::event_count(counters, event, now());
    }
}

/// Whether somebody counts, so that the counters are not free.
pub fn is_in_use() -> bool {
    IN_USE.load(Relaxed)
}

/// This hart's timer interrupt. Interrupts are masked.
#[inline(always)]
pub fn tick() {
    if IN_USE.load(Relaxed) {
        tick_groups();
    }
}

#[cold]
#[inline(never)]
fn tick_groups() {
    with_thread(|counters, thread, now| {
        counters.tick(thread, now);
        Kymo::count(RECORDER.counting(), counters, thread, now);
    });
}

/// A thread begins: it has none of the groups that the slot's last one had.
#[inline(never)]
pub fn begin(slot: Slot) {
    let mut groups = THREAD_GROUPS[slot].lock();
    if !groups.is_empty() {
        groups.clear().expect("the last thread has left its hart");
    }
}

/// So many events of a counter, which interrupts after them.
fn periodic(event: Hardware, period: u64) -> Result<GroupSpec, Refused> {
    let event = EventSpec::hardware(event);
    GroupSpec::new(&[EventSpec { period, ..event }])
}

/// Whether a counter of this hart can interrupt after so many events. Interrupts are masked.
pub fn can_overflow(event: Hardware, period: u64) -> bool {
    let can = |pmu: &Pmu| {
        let group = periodic(event, period);
        group.is_ok_and(|group| Groups::<1>::NONE.clone().attach(pmu, &group).is_ok())
    };
    match HARTS[arch::hart()].lock().as_ref() {
        Some(counters) => can(counters.pmu()),
        None => can(&arch::pmu::new()),
    }
}

/// From now on a counter of this hart interrupts after so many events, again and again, or none
/// does. Interrupts are masked.
#[inline(never)]
pub fn overflow_after(asked: Option<(Hardware, u64)>) {
    let mut group = OVERFLOWING[arch::hart()].lock();
    if group.is_none() && asked.is_none() {
        return;
    }
    with_thread(|counters, thread, now| {
        counters.change(thread, now, |pmu, own, _| {
            if let Some(old) = group.take() {
                // It is the hart's, and on no PMU meanwhile.
                let _ = own.detach_all(old);
            }
            let spec = asked.and_then(|(event, period)| periodic(event, period).ok());
            *group = spec.and_then(|spec| own.attach(pmu, &spec).ok());
        });
    });
}

/// The interrupt of this hart's counters. Gives how many periods more than one have ended, if
/// one has. Interrupts are masked.
#[cfg(not(target_arch = "x86_64"))] // It has no counters.
#[inline(never)]
pub fn overflow() -> Option<u64> {
    let mut thread = THREAD_GROUPS[sched::running_here().slot].lock();
    let mut ended = None;
    if let Some(counters) = HARTS[arch::hart()].lock().as_mut() {
        counters.overflow(&mut thread, now(), |overflow| {
            if !overflow.is_of_thread {
                ended = Some(overflow.missed);
            }
        });
    }
    ended
}
