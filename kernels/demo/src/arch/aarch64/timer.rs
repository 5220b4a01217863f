//! Time: the virtual counter, and each hart's virtual timer (Arm ARM, D11 "The Generic Timer").

use core::arch::asm;

/// Its interrupt, which each hart has for itself.
pub const IRQ: u32 = 27;

/// Ticks of the clock per second.
pub fn frequency() -> u64 {
    kymo::arch::aarch64::frequency()
}

/// The clock of all harts.
pub fn time() -> u64 {
    kymo::arch::aarch64::time()
}

/// Requests this hart's next timer interrupt at this time, and cancels a pending one.
pub fn arm(at: u64) {
    // SAFETY: this hart's timer.
    unsafe {
        asm!("msr cntv_cval_el0, {}", "msr cntv_ctl_el0, {}", "isb", in(reg) at, in(reg) 1_u64)
    };
}

/// Stops this hart's timer interrupts.
pub fn disarm() {
    // SAFETY: this hart's timer.
    unsafe { asm!("msr cntv_ctl_el0, xzr", "isb") };
}
