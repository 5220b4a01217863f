//! The serial port (Arm PL011, DDI 0183), and the hart that it interrupts.

use super::{gic, hart};

/// Its registers.
pub const BASE: usize = 0x0900_0000;
/// Its interrupt.
pub const IRQ: u32 = 33;

const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const CONTROL: usize = 0x30;
const INTERRUPT_MASK: usize = 0x38;
const INTERRUPTS: usize = 0x3C;

/// `FLAGS`: no byte was received; no byte can be sent.
const EMPTY: u32 = 1 << 4;
const FULL: u32 = 1 << 5;
/// The interrupt of the sending side.
const SENDS: u32 = 1 << 5;

fn set(register: usize, value: u32) {
    // SAFETY: a register of the device, which is mapped.
    unsafe { ((BASE + register) as *mut u32).write_volatile(value) };
}

fn get(register: usize) -> u32 {
    // SAFETY: a register of the device, which is mapped.
    unsafe { ((BASE + register) as *const u32).read_volatile() }
}

/// Switches it on. Called once, before anything is written.
pub fn prepare() {
    /// It is on, sends, and receives.
    const ON: u32 = 1 | 1 << 8 | 1 << 9;
    set(CONTROL, ON);
}

/// Writes one byte, when the port can send it.
pub fn put(byte: u8) {
    while get(FLAGS) & FULL != 0 {}
    send(byte);
}

/// The next byte that was received, if any.
pub fn receive() -> Option<u8> {
    (get(FLAGS) & EMPTY == 0).then(|| get(DATA) as u8)
}

/// Sends a byte, when the port can.
pub fn send(byte: u8) {
    set(DATA, byte.into());
}

/// Has the port interrupt, or not, while a byte can be sent. The port itself interrupts when it has
/// sent one, and nobody takes that back here: the first interrupt is the kernel's own.
pub fn interrupt_when_free(on: bool) {
    set(INTERRUPT_MASK, if on { SENDS } else { 0 });
    if on && get(INTERRUPTS) & SENDS == 0 {
        gic::pend(IRQ);
    }
}

/// Routes its interrupts to this hart.
pub fn route_here() {
    gic::enable_device(IRQ);
    gic::route(IRQ, hart());
}

/// Ends the handling of its interrupt on this hart, and routes the next one to `to`.
pub fn complete(to: usize) {
    // The next one may come at once when this one is completed.
    gic::route(IRQ, to);
    gic::complete(IRQ);
}
