//! Samples of where the harts are. Three kinds of drivers, to be copied: each hart's own timer, the
//! timer of one hart, set aside, that interrupts the others, and a counter of each hart.
//!
//! A hart takes a sample in its timer interrupt, in the interrupt or NMI that the second driver's
//! hart has sent, or in its counters' interrupt. It takes no lock: [`sched::running_here`] says
//! which thread runs, and the page tables which memory can be read.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use core::sync::atomic::{
    Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use kymo::count::Hardware;
use kymo::sample::{Interrupted, Memory, Registers, Sampler, Window};
use kymo::vocabulary::{CpuMode, Sample, Sampling, SamplingDriver};

use crate::arch::paging::{self, PAGE, USER};
use crate::interrupt::EARLY;
use crate::sched::{self, Running};
use crate::{Kymo, MAX_HARTS, arch, counting, smp, thread};

static SAMPLER: Sampler<MAX_HARTS> = Sampler::new();

/// When each hart's next sample is due; 0 before the first.
static NEXT: [AtomicU64; MAX_HARTS] = [const { AtomicU64::new(0) }; MAX_HARTS];
/// By hart: samples that another hart has asked it for, and that it has not taken yet.
static ASKED: [AtomicU32; MAX_HARTS] = [const { AtomicU32::new(0) }; MAX_HARTS];

/// Samples of all harts that were due so far.
static DUE: AtomicU64 = AtomicU64::new(0);
/// Those among them that came too late: a later sample counts them as missed.
static MISSED: AtomicU64 = AtomicU64::new(0);
/// Those that a hart had not taken when the settings changed, or the session ended.
static NEVER_TAKEN: AtomicU64 = AtomicU64::new(0);

/// How many samples were due since boot, how many of them a later one counts as missed, and how
/// many other harts have asked for and nobody has taken.
pub fn counts() -> (u64, u64, u64) {
    let asked = ASKED.iter().map(|asked| u64::from(asked.load(Relaxed)));
    let open = NEVER_TAKEN.load(Relaxed) + asked.sum::<u64>();
    (DUE.load(Relaxed), MISSED.load(Relaxed), open)
}

/// Priority of the thread that keeps a hart for itself.
const PRIO: i16 = i16::MAX;

/// Where interrupted code was.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub registers: Registers,
    /// Whether it was a program.
    pub is_user: bool,
}

/// Takes samples with these settings from now on.
pub fn set(sampling: &Sampling) {
    for (next, asked) in NEXT.iter().zip(&ASKED) {
        next.store(0, Relaxed);
        NEVER_TAKEN.fetch_add(asked.swap(0, AcqRel).into(), Relaxed);
    }
    SAMPLER.set(sampling);
    CHANGES.fetch_add(1, Release);
}

/// How often the settings have changed, and the last change that each hart has noticed.
static CHANGES: AtomicU32 = AtomicU32::new(0);
static NOTICED: [AtomicU32; MAX_HARTS] = [const { AtomicU32::new(0) }; MAX_HARTS];

/// A hart's tick: its counter interrupts as the settings say.
pub fn on_tick() {
    let changes = CHANGES.load(Acquire);
    if NOTICED[arch::hart()].swap(changes, Relaxed) != changes {
        counting::overflow_after(counted());
    }
}

/// What a counter is to count, and how many of these lie between two samples.
fn counted() -> Option<(Hardware, u64)> {
    let Sampling { driver, period, .. } = SAMPLER.settings();
    let event = driver.counts()?;
    (period > 0).then_some((event, period))
}

/// The interrupt of a hart's counters: it takes a sample if a period has ended.
#[cfg(not(target_arch = "x86_64"))] // It has no counters.
pub fn on_overflow(at: &Place) {
    let ended = counting::overflow();
    // None are wanted any more, if the settings have changed since the last tick.
    if let (Some(missed), Some(_)) = (ended, counted()) {
        DUE.fetch_add(missed + 1, Relaxed);
        take(at, u32::try_from(missed).unwrap_or(u32::MAX));
    }
}

/// The hart that is set aside to interrupt the others, plus 1; 0 for none.
static DRIVES: AtomicUsize = AtomicUsize::new(0);

fn drives(hart: usize) -> bool {
    DRIVES.load(Relaxed) == hart + 1
}

/// When a hart's next sample is due. One that is asked for the first time since `set` gets a time.
fn next_of(hart: usize) -> u64 {
    match NEXT[hart].load(Relaxed) {
        0 => {
            let next = arch::timer::time().saturating_add(SAMPLER.next(hart));
            NEXT[hart].store(next, Relaxed);
            next
        }
        next => next,
    }
}

/// When this hart's timer must interrupt for a sample. A hart notices at its next tick that samples
/// are wanted.
pub fn due() -> u64 {
    let hart = arch::hart();
    if SAMPLER.period() == 0 {
        u64::MAX
    } else if SAMPLER.is_driven_by(SamplingDriver::Timer) {
        next_of(hart)
    } else if drives(hart) {
        smp::others().map(next_of).min().unwrap_or(u64::MAX)
    } else {
        u64::MAX
    }
}

/// How many samples of a hart are due; sets the time of the next.
fn count_due(hart: usize, now: u64) -> u32 {
    // First: another hart may end the sampling at any time.
    let period = SAMPLER.period();
    let due = next_of(hart);
    if period == 0 || now + period / EARLY < due {
        return 0;
    }
    let late = now.saturating_sub(due) / period;
    // On time again, unless some had to be left out.
    let from = if late > 0 { now } else { due };
    NEXT[hart].store(from.saturating_add(SAMPLER.next(hart)), Relaxed);
    DUE.fetch_add(late + 1, Relaxed);
    u32::try_from(late + 1).unwrap_or(u32::MAX)
}

/// The timer interrupt calls this: it takes a sample if one is due, or asks other harts for theirs.
pub fn on_timer(now: u64, at: &Place) {
    let hart = arch::hart();
    if due() == u64::MAX {
        return;
    }
    if drives(hart) {
        for other in smp::others() {
            let count = count_due(other, now);
            if count > 0 {
                ASKED[other].fetch_add(count, AcqRel);
                arch::ask_for_sample(other);
            }
        }
    } else if let count @ 1.. = count_due(hart, now) {
        take(at, count - 1);
    }
}

/// Takes the sample for which another hart has interrupted this one, if it has.
pub fn on_request(at: &Place) -> bool {
    let asked = ASKED[arch::hart()].swap(0, AcqRel);
    if asked > 0 {
        take(at, asked - 1);
    }
    asked > 0
}

/// Records where this hart was. `missed` samples were due before and could not be taken.
fn take(at: &Place, missed: u32) {
    let (hart, running) = (arch::hart(), sched::running_here());
    let mode = match at.is_user {
        true => CpuMode::User,
        false if arch::is_waiting(at.registers.ip) => CpuMode::Idle,
        false => CpuMode::Kernel,
    };
    let interrupted = Interrupted {
        registers: at.registers,
        mode,
        tid: running.tid,
        period: SAMPLER.period(),
        missed,
    };
    let memory = Here { hart, running };
    // SAFETY: an interrupt's handler masks interrupts.
    let is_recorded = unsafe { Kymo::sample_masked(&SAMPLER, hart, &interrupted, &memory) };
    // If its session has not ended just now, the trace counts what it loses.
    if is_recorded || Kymo::is_on::<Sample>() {
        MISSED.fetch_add(missed.into(), Relaxed);
    } else {
        NEVER_TAKEN.fetch_add(u64::from(missed) + 1, Relaxed);
    }
}

/// Records who called a tracepoint.
pub fn stack(event: u32, fp: usize) {
    let (hart, running) = (arch::hart(), sched::running_here());
    let memory = Here { hart, running };
    Kymo::event_stack(&SAMPLER, hart, (event, fp), running.tid, &memory);
}

/// The memory of the thread on this hart.
struct Here {
    hart: usize,
    running: Running,
}

impl Memory for Here {
    fn kernel_text(&self) -> Range<usize> {
        arch::text()
    }

    fn kernel_stack(&self, address: usize) -> Option<Window> {
        let stack = match self.running.slot {
            idle if idle == self.hart => arch::boot_stack(idle),
            slot => thread::stack(slot),
        };
        // SAFETY: stacks are statics, mapped at their own addresses.
        let window = || unsafe { Window::new(stack.clone(), stack.start as *const u8) };
        stack.contains(&address).then(window)
    }

    fn user_registers(&self) -> Option<Registers> {
        let has_program = paging::active() != paging::kernel_space();
        has_program.then(|| arch::context::user_registers(thread::stack_top(self.running.slot)))
    }

    fn user_text(&self) -> Range<usize> {
        USER
    }

    fn user_stack(&self, address: usize) -> Option<Window> {
        if !USER.contains(&address) {
            return None;
        }
        let page = address / PAGE * PAGE;
        // SAFETY: the space in which this hart is; the tables of such a space are not freed, and
        // only this hart changes them.
        let (frame, _) = unsafe { paging::translate(paging::active(), page) }?;
        // SAFETY: memory is mapped at its own address, so a frame can always be read.
        Some(unsafe { Window::new(page..page + PAGE, frame as *const u8) })
    }
}

/// Harts that run threads: those online but for one set aside.
pub fn count_harts() -> usize {
    smp::count_online() - usize::from(DRIVES.load(Relaxed) != 0)
}

/// Whether this machine has the driver: one that sets a hart aside needs two harts, and one that
/// counts a counter that interrupts after `count` events.
pub fn has(driver: SamplingDriver, count: u64) -> bool {
    match (driver, driver.counts()) {
        (SamplingDriver::Timer, _) => true,
        (_, Some(event)) => counting::can_overflow(event, count),
        (other, None) => other == arch::REMOTE_DRIVER && arch::harts() > 1,
    }
}

/// Sets a hart aside if the others are to be asked for samples. Called when threads can be created.
pub fn drive_if_asked() {
    /// Whether the thread that keeps the hart has begun, and not ended.
    static KEEPS: AtomicBool = AtomicBool::new(false);
    fn keep(_: usize) {
        let interrupts = arch::mask();
        DRIVES.store(arch::hart() + 1, Relaxed);
        arch::restore(interrupts);
        while is_remote() {
            arch::wait_for_interrupt();
        }
        DRIVES.store(0, Relaxed);
        KEEPS.store(false, Relaxed);
        // They may have been asked again meanwhile, and have found this thread.
        drive_if_asked();
    }
    if is_remote() && !KEEPS.swap(true, AcqRel) {
        // No other thread is as urgent, so that this one stays on its hart, and alone there.
        thread::spawn("sampler", PRIO, keep, 0);
    }
}

fn is_remote() -> bool {
    SAMPLER.period() > 0 && SAMPLER.is_driven_by(arch::REMOTE_DRIVER)
}
