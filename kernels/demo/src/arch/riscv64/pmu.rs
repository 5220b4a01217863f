//! The counters of a hart, by the firmware.

use core::arch::asm;

use kymo::count::pmu::riscv::{OVERFLOW_INTERRUPT, Sbi, Supervisor};

/// This hart's counters.
pub type Pmu = Sbi<Supervisor>;

/// The counters of this hart, all stopped. Their interrupt is on, if they have one.
pub fn new() -> Pmu {
    // SAFETY: the trap handler knows the interrupt.
    unsafe { asm!("csrs sie, {}", in(reg) 1 << OVERFLOW_INTERRUPT) };
    Sbi::new(Supervisor)
}
