//! The serial port: its registers, and the hart that it interrupts.

use super::{hart, plic};

pub use crate::arch::ns16550::{interrupt_when_free, receive, send};

/// Its byte-wide registers, and its source number at the interrupt controller.
pub const BASE: usize = 0x1000_0000;
pub const SOURCE: u32 = 10;

pub fn set(register: usize, value: u8) {
    // SAFETY: a register of the device, which is mapped.
    unsafe { ((BASE + register) as *mut u8).write_volatile(value) };
}

pub fn get(register: usize) -> u8 {
    // SAFETY: a register of the device, which is mapped.
    unsafe { ((BASE + register) as *const u8).read_volatile() }
}

/// Routes its interrupts to this hart.
pub fn route_here() {
    plic::route(SOURCE, hart(), hart());
}

/// Ends the handling of its interrupt on this hart, and routes the next one to `to`.
pub fn complete(to: usize) {
    plic::complete(SOURCE);
    plic::route(SOURCE, hart(), to);
}
