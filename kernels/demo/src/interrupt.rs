//! Interrupts, and the work when a trap ends.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::count::Software;
use kymo::vocabulary::{IrqEnter, IrqExit, IrqName};
use kymo::{Irq, NameEpoch, Text, count};

use crate::counters::Interrupts;
use crate::sampling::{self, Place};
use crate::sched::{SCHEDULER, settle};
use crate::{Kymo, MAX_HARTS, arch, counting, smp};

/// Time between two timer interrupts, in ticks of the clock.
static PERIOD: AtomicU64 = AtomicU64::new(0);
static HARTS: AtomicU64 = AtomicU64::new(1);

/// Sets the time between two timer interrupts of a hart.
pub fn set_period(ticks: u64, harts: usize) {
    PERIOD.store(ticks, Relaxed);
    HARTS.store(harts as u64, Relaxed);
}

/// When each hart's next tick is due.
static NEXT: [AtomicU64; MAX_HARTS] = [const { AtomicU64::new(0) }; MAX_HARTS];

/// Starts this hart's timer interrupts. The harts' are spread over the period: QEMU with `-icount`
/// runs one hart at a time, from one timer interrupt to the next.
pub fn start_ticks() {
    let (period, here) = (PERIOD.load(Relaxed), arch::hart());
    let phase = here as u64 * period / HARTS.load(Relaxed);
    // (The present tick may be a little early.)
    let from = arch::timer::time() - phase + period / EARLY;
    NEXT[here].store((from / period + 1) * period + phase, Relaxed);
    arm();
}

/// A timer may fire early by this part of a period: clocks differ. What is due then is done.
pub const EARLY: u64 = 16;

/// Requests this hart's next timer interrupt, for a tick or for a sample.
fn arm() {
    arch::timer::arm(NEXT[arch::hart()].load(Relaxed).min(sampling::due()));
}

/// Name epoch in which each line was last named.
static NAMED: [NameEpoch; arch::INTERRUPTS.len()] =
    [const { NameEpoch::new() }; arch::INTERRUPTS.len()];

/// Records an interrupt around `handle`.
pub fn handle(irq: u32, handler: impl FnOnce()) {
    for ((number, name), named) in arch::INTERRUPTS
        .into_iter()
        .zip(&NAMED)
        .filter(|((number, _), _)| *number == irq)
    {
        name!(
            *named,
            IrqName {
                irq: Irq(number),
                name: Text::new(name)
            }
        );
    }
    count!(Interrupts);
    record!(IrqEnter { irq: Irq(irq) });
    counting::happened(Software::Interrupts, true);
    handler();
    record!(IrqExit { irq: Irq(irq) });
}

/// The timer interrupt: a sample is due, or a tick, or both.
pub fn timer(irq: u32, at: &Place) {
    let now = arch::timer::time();
    sampling::on_timer(now, at);
    if now + PERIOD.load(Relaxed) / EARLY >= NEXT[arch::hart()].load(Relaxed) {
        handle(irq, || {
            start_ticks();
            SCHEDULER.lock().tick();
            counting::tick();
            sampling::on_tick();
            Kymo::tick();
        });
    } else {
        arm();
    }
}

/// The interrupt by another hart: it wants a sample, has filled this hart's queue, or waits for an
/// answer.
pub fn asked(irq: u32, at: &Place) {
    let is_sample = sampling::on_request(at);
    if smp::was_poked() || !is_sample {
        handle(irq, smp::answer);
    }
}

/// The end of a trap: this hart may have to stop, or to switch.
pub fn leave() {
    smp::park_if_asked();
    settle(SCHEDULER.lock());
}
