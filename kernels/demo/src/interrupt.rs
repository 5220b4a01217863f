//! Interrupts: what each does, and what is looked at when one is over.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::vocabulary::{IrqEnter, IrqExit, IrqName};
use kymo::{Irq, NameEpoch, Text};

use crate::sched::{SCHEDULER, settle};
use crate::{arch, smp};

/// Between two ticks, in ticks of the clock.
static PERIOD: AtomicU64 = AtomicU64::new(0);
static HARTS: AtomicU64 = AtomicU64::new(1);

/// Sets the time between two ticks of a hart.
pub fn set_period(ticks: u64, harts: usize) {
    PERIOD.store(ticks, Relaxed);
    HARTS.store(harts as u64, Relaxed);
}

/// Has this hart tick.
pub fn start_ticks() {
    let period = PERIOD.load(Relaxed);
    arch::timer::arm(period, arch::hart() as u64 * period / HARTS.load(Relaxed));
}

/// When each was named last.
static NAMED: [NameEpoch; arch::INTERRUPTS.len()] =
    [const { NameEpoch::new() }; arch::INTERRUPTS.len()];

/// An interrupt, with what is to be done.
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

/// The timer's.
pub fn tick() {
    start_ticks();
    SCHEDULER.lock().tick();
}

/// Another hart's: it has put something into this hart's queue, or waits for an answer.
pub fn asked() {
    smp::answer();
}

/// A trap is over: this hart may have to stop, or to do something else.
pub fn leave() {
    smp::park_if_asked();
    settle(SCHEDULER.lock());
}
