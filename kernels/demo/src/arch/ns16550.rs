//! The serial port of PCs and of RISC-V's `virt`, an ns16550. How its registers are reached is the
//! business of `serial`.

use super::serial::{get, set};

const DATA: usize = 0;
const LINE_STATUS: usize = 5;
/// A byte was received.
const HAS_DATA: u8 = 1;
const INTERRUPTS: usize = 1;
/// Enables the interrupt when a byte can be sent.
const CAN_SEND: u8 = 1 << 1;

/// The next byte that was received, if any.
pub fn receive() -> Option<u8> {
    (get(LINE_STATUS) & HAS_DATA != 0).then(|| get(DATA))
}

/// Sends a byte, when the port can.
pub fn send(byte: u8) {
    set(DATA, byte);
}

/// Has the port interrupt, or not, while a byte can be sent.
pub fn interrupt_when_free(on: bool) {
    set(INTERRUPTS, if on { CAN_SEND } else { 0 });
}
