//! A thread that reads a line from the serial port and prints it.

use core::fmt::Write;

use crate::console::{Lines, println};
use crate::{thread, uart};

/// Time between two looks at the port, in microseconds.
const PAUSE: u64 = 1_000;

pub fn run() {
    thread::join(thread::spawn("echo", 5, echo, 0));
}

fn echo(_: usize) {
    println!("demo: type a line");
    let mut lines = Lines::new();
    write!(lines, "demo: read ").expect("lines take anything");
    loop {
        match uart::receive() {
            Some(b'\n' | b'\r') => break,
            Some(byte) => lines
                .write_char(char::from(byte))
                .expect("lines take anything"),
            None => thread::sleep(PAUSE),
        }
    }
    writeln!(lines).expect("lines take anything");
}
