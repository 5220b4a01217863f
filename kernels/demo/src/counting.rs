//! Performance counters: each hart's, and the groups of each thread.
//!
//! A hart's counters are driven from its first [`attach`] on; until then the switch and the tick
//! look at one flag.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kymo::count::{Cpu, GroupSpec, Groups, Handle, Refused, Snapshot, Software};

use crate::arch::{self, pmu::Pmu};
use crate::lock::Spin;
use crate::thread::{Slot, THREADS};
use crate::{MAX_HARTS, sched};

/// Most groups of a thread, and of a hart.
const GROUPS: usize = 4;

/// What each hart counts; `None` until it is asked for.
static HARTS: [Spin<Option<Cpu<Pmu, GROUPS>>>; MAX_HARTS] = [const { Spin::new(None) }; MAX_HARTS];
static IN_USE: [AtomicBool; MAX_HARTS] = [const { AtomicBool::new(false) }; MAX_HARTS];
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
fn with_thread<R>(work: impl FnOnce(&mut Cpu<Pmu, GROUPS>, &mut Groups<GROUPS>, u64) -> R) -> R {
    let hart = arch::hart();
    let mut thread = THREAD_GROUPS[sched::running_here().slot].lock();
    let mut counters = HARTS[hart].lock();
    let counters = counters.get_or_insert_with(|| {
        let mut counters = Cpu::new(arch::pmu::new());
        counters.switch_in(&mut thread, now());
        IN_USE[hart].store(true, Relaxed);
        counters
    });
    work(counters, &mut thread, now())
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
    if IN_USE[arch::hart()].load(Relaxed) {
        switch_groups(prev, next);
    }
}

#[cold]
#[inline(never)]
fn switch_groups(prev: Slot, next: Slot) {
    if let Some(counters) = HARTS[arch::hart()].lock().as_mut() {
        counters.happened(Software::ContextSwitches, true);
        let (mut prev, mut next) = (THREAD_GROUPS[prev].lock(), THREAD_GROUPS[next].lock());
        counters.switch(&mut prev, &mut next, now());
    }
}

/// This hart's timer interrupt. Interrupts are masked.
#[inline(always)]
pub fn tick() {
    if IN_USE[arch::hart()].load(Relaxed) {
        tick_groups();
    }
}

#[cold]
#[inline(never)]
fn tick_groups() {
    with_thread(|counters, thread, now| counters.tick(thread, now));
}

/// A thread begins: it has none of the groups that the slot's last one had.
#[inline(never)]
pub fn begin(slot: Slot) {
    let mut groups = THREAD_GROUPS[slot].lock();
    if !groups.is_empty() {
        *groups = Groups::NONE;
    }
}
