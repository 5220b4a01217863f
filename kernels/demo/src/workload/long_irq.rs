//! A device whose interrupts take 20 us, except the last, which takes 200 us.

use crate::{thread, uart};

pub fn run() {
    uart::burden(20);
    uart::send(b"demo: these are short\n");
    uart::burden(200);
    uart::send(b"\n");
    uart::burden(0);
    // The timer interrupts at least once.
    thread::sleep(2_000);
}
