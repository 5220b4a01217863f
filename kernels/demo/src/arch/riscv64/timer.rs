//! Time: the `time` register, and each hart's timer interrupt.

use super::sbi;

/// Ticks of the clock in a second.
pub const FREQUENCY: u64 = 10_000_000;

/// The clock of all harts.
pub fn time() -> u64 {
    kymo::arch::riscv::time()
}

/// Asks for this hart's next tick, and takes back the one that is pending. The harts take turns,
/// `phase` ticks of the clock apart: QEMU with `-icount` runs one hart at a time, from the tick of
/// one hart to the next tick of any.
pub fn arm(period: u64, phase: u64) {
    sbi::set_timer(((time() - phase) / period + 1) * period + phase);
}

/// No more ticks on this hart.
pub fn disarm() {
    sbi::set_timer(u64::MAX);
}
