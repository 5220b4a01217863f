//! A device that interrupts: threads send lines through the serial port, byte by byte.

use super::together;
use crate::uart;

pub fn run(rounds: u32) {
    together([("lines.a", 5, lines), ("lines.b", 5, lines)], rounds);
}

fn lines(rounds: usize) {
    (0..rounds / 10).for_each(|_| uart::send(b"demo: sent by interrupts\n"));
}
