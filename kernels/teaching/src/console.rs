//! The UART: text out by polling, lines in by interrupts.

use core::fmt::{self, Write};

use crate::process;
use crate::spin_lock::SpinLock;

/// The UART's line at the PLIC.
pub const IRQ: u32 = 10;

const UART: usize = 0x1000_0000;
const DATA: usize = 0;
const INTERRUPT_ENABLE: usize = 1;
const FIFO_CONTROL: usize = 2;
const LINE_STATUS: usize = 5;

/// Bytes of input that wait for a reader; a power of two.
const SIZE: usize = 256;

/// Positions count bytes since the start.
struct Input {
    bytes: [u8; SIZE],
    read: usize,
    /// End of the last complete line, and of the one being typed.
    lines: usize,
    typed: usize,
}

static INPUT: SpinLock<Input> = SpinLock::new(
    "console input",
    Input {
        bytes: [0; SIZE],
        read: 0,
        lines: 0,
        typed: 0,
    },
);

static OUTPUT: SpinLock<Uart> = SpinLock::new("console output", Uart);

/// Text out without the lock: only for a panic, when any hart may hold it.
pub struct Uart;

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while get(LINE_STATUS) & 0x20 == 0 {
                core::hint::spin_loop();
            }
            put(DATA, byte);
        }
        Ok(())
    }
}

fn get(register: usize) -> u8 {
    // SAFETY: a register of the UART of QEMU virt.
    unsafe { ((UART + register) as *const u8).read_volatile() }
}

fn put(register: usize, value: u8) {
    // SAFETY: a register of the UART of QEMU virt.
    unsafe { ((UART + register) as *mut u8).write_volatile(value) }
}

pub fn init() {
    put(FIFO_CONTROL, 0b111);
    put(INTERRUPT_ENABLE, 1);
}

pub fn print(text: fmt::Arguments<'_>) {
    // The UART takes every byte.
    let _ = OUTPUT.lock().write_fmt(text);
}

#[macro_export]
macro_rules! print {
    ($($part:tt)*) => { $crate::console::print(format_args!($($part)*)) };
}

#[macro_export]
macro_rules! println {
    ($($part:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($part)*))) };
}

/// Takes what was typed.
pub fn interrupt() {
    let mut input = INPUT.lock();
    while get(LINE_STATUS) & 1 != 0 {
        let byte = get(DATA);
        match byte {
            // Backspace and delete.
            0x08 | 0x7f => {
                if input.typed > input.lines {
                    input.typed -= 1;
                    print!("\x08 \x08");
                }
            }
            _ if input.typed - input.read == SIZE => {}
            _ => {
                let byte = if byte == b'\r' { b'\n' } else { byte };
                let at = input.typed % SIZE;
                input.bytes[at] = byte;
                input.typed += 1;
                print!("{}", byte as char);
                if byte == b'\n' || input.typed - input.read == SIZE {
                    input.lines = input.typed;
                    process::wakeup(channel());
                }
            }
        }
    }
}

/// Waits for a line; what is longer than `line` is cut. Returns it without its end.
pub fn read_line(line: &mut [u8]) -> &[u8] {
    let mut input = INPUT.lock();
    let mut length = 0;
    loop {
        while input.read == input.lines {
            input = process::sleep(channel(), input);
        }
        let byte = input.bytes[input.read % SIZE];
        input.read += 1;
        if byte == b'\n' {
            return &line[..length];
        }
        if length < line.len() {
            line[length] = byte;
            length += 1;
        }
    }
}

fn channel() -> usize {
    core::ptr::from_ref(&INPUT).addr()
}
