//! Interrupts, and the work when a trap ends.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::vocabulary::{IrqEnter, IrqExit, IrqName};
use kymo::{Irq, NameEpoch, Text};

use crate::sched::{SCHEDULER, settle};
use crate::{arch, smp};

/// Time between two timer interrupts, in ticks of the clock.
static PERIOD: AtomicU64 = AtomicU64::new(0);
static HARTS: AtomicU64 = AtomicU64::new(1);

/// Sets the time between two timer interrupts of a hart.
pub fn set_period(ticks: u64, harts: usize) {
    PERIOD.store(ticks, Relaxed);
    HARTS.store(harts as u64, Relaxed);
}

/// Starts this hart's timer interrupts.
pub fn start_ticks() {
    let period = PERIOD.load(Relaxed);
    arch::timer::arm(period, arch::hart() as u64 * period / HARTS.load(Relaxed));
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
    record!(IrqEnter { irq: Irq(irq) });
    handler();
    record!(IrqExit { irq: Irq(irq) });
}

/// The timer interrupt.
pub fn tick() {
    start_ticks();
    SCHEDULER.lock().tick();
}

/// The interrupt by another hart, which has filled this hart's queue or waits for an answer.
pub fn asked() {
    smp::answer();
}

/// The end of a trap: this hart may have to stop, or to switch.
pub fn leave() {
    smp::park_if_asked();
    settle(SCHEDULER.lock());
}
