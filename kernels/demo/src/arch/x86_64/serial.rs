//! The serial port: its registers, and the hart that it interrupts.

use super::port::{input, out};
use super::{apic, hart, trap};

pub use crate::arch::ns16550::{interrupt_when_free, receive, send};

/// Its first port, and its pin at the interrupt controller.
const PORT: u16 = 0x3F8;
const PIN: u32 = 4;
/// Its interrupt in the trace.
pub const IRQ: u32 = trap::SERIAL as u32;

const LINE_STATUS: usize = 5;
/// A byte can be sent.
const CAN_SEND: u8 = 1 << 5;

pub fn set(register: usize, value: u8) {
    // SAFETY: a register of the device, which does not touch memory.
    unsafe { out(PORT + register as u16, value) };
}

pub fn get(register: usize) -> u8 {
    input(PORT + register as u16)
}

/// Writes one byte.
pub fn put(byte: u8) {
    while get(LINE_STATUS) & CAN_SEND == 0 {}
    set(0, byte);
}

/// Routes its interrupts to this hart.
pub fn route_here() {
    apic::route(PIN, IRQ, hart());
}

/// Ends the handling of its interrupt on this hart, and routes the next one to `to`.
pub fn complete(to: usize) {
    // The next one may come at once when this one is completed.
    apic::route(PIN, IRQ, to);
    apic::complete();
}
