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

/// Requests this hart's next timer interrupt at this time, and cancels a pending one.
pub fn arm(at: u64) {
    sbi::set_timer(at);
}

/// Stops this hart's timer interrupts.
pub fn disarm() {
    sbi::set_timer(u64::MAX);
}
