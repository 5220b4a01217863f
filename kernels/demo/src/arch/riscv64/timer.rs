//! Time: the `time` register, and each hart's timer interrupt.

use super::sbi;

/// Ticks of the clock per second.
pub fn frequency() -> u64 {
    10_000_000
}

/// The clock of all harts.
pub fn time() -> u64 {
    kymo::arch::riscv::time()
}

/// Requests this hart's next timer interrupt, and cancels a pending one. The harts' interrupts are
/// `phase` ticks of the clock apart: QEMU with `-icount` runs one hart at a time, from one timer
/// interrupt to the next.
pub fn arm(period: u64, phase: u64) {
    sbi::set_timer(((time() - phase) / period + 1) * period + phase);
}

/// Stops this hart's timer interrupts.
pub fn disarm() {
    sbi::set_timer(u64::MAX);
}
