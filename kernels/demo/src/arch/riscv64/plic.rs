//! The platform's interrupt controller (RISC-V PLIC specification 1.0), which routes devices'
//! interrupts to harts.

/// Its registers.
pub const BASE: usize = 0x0c00_0000;
/// Per context: enabled sources, a bit each; then the threshold, followed by the claim register.
const ENABLE: usize = BASE + 0x2000;
const THRESHOLD: usize = BASE + 0x20_0000;

/// A hart has two contexts, for M-mode and for S-mode.
fn context(hart: usize) -> usize {
    2 * hart + 1
}

fn register(address: usize) -> *mut u32 {
    address as *mut u32
}

fn claim_register() -> *mut u32 {
    register(THRESHOLD + 0x1000 * context(super::hart()) + 4)
}

/// Enables the device interrupts that are routed to this hart.
pub fn open() {
    // SAFETY: a register of this hart's, which is mapped.
    unsafe { register(THRESHOLD + 0x1000 * context(super::hart())).write_volatile(0) };
}

/// Routes a source (below 32) to `to` instead of `from`. One hart at a time does this.
pub fn route(source: u32, from: usize, to: usize) {
    // SAFETY: mapped registers: the source's priority, and the words of the two harts.
    unsafe {
        register(BASE + 4 * source as usize).write_volatile(1);
        register(ENABLE + 0x80 * context(from)).write_volatile(0);
        register(ENABLE + 0x80 * context(to)).write_volatile(1 << source);
    }
}

/// Claims the source that interrupts this hart, unless another hart has. It does not interrupt
/// again before [`complete`].
pub fn claim() -> Option<u32> {
    // SAFETY: a register of this hart's; the read claims the source.
    let source = unsafe { claim_register().read_volatile() };
    (source != 0).then_some(source)
}

/// Ends the handling of a source.
pub fn complete(source: u32) {
    // SAFETY: a register of this hart's.
    unsafe { claim_register().write_volatile(source) };
}
