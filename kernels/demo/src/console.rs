//! The serial console, which prints line by line.

use core::fmt::{self, Write};

use crate::arch;
use crate::lock::Spin;
use crate::recording::RECORDER;

static LINE: Spin<()> = Spin::new(());

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(arch::put);
        Ok(())
    }
}

/// Prints a line.
pub fn print(text: fmt::Arguments<'_>) {
    let _line = LINE.lock();
    write(text);
}

fn write(text: fmt::Arguments<'_>) {
    // Writing to the serial port cannot fail.
    let _ = writeln!(Serial, "{text}");
}

/// Prints a line.
macro_rules! println {
    ($($argument:tt)*) => { $crate::console::print(format_args!($($argument)*)) };
}
pub(crate) use println;

/// Collects text and prints each completed line at once, so that lines do not mix.
pub struct Lines {
    bytes: [u8; 256],
    len: usize,
}

impl Lines {
    pub const fn new() -> Lines {
        Lines {
            bytes: [0; 256],
            len: 0,
        }
    }

    fn print(&mut self) {
        // The last character may be cut.
        let text =
            core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("a line that is no text");
        println!("{text}");
        self.len = 0;
    }
}

impl Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' || self.len == self.bytes.len() {
                self.print();
            }
            if byte != b'\n' {
                self.bytes[self.len] = byte;
                self.len += 1;
            }
        }
        Ok(())
    }
}

/// Number of records of each hart that a panic prints.
const LAST: usize = 32;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    arch::mask();
    // Without the lock, which this hart may hold.
    write(format_args!("demo: {info}"));
    let _ = RECORDER
        .history()
        .dump_on_panic(&mut Serial, arch::hart() as u32, LAST);
    arch::exit(7)
}
