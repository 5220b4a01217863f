//! The serial console: a line at a time.

use crate::arch;
use crate::lock::Spin;

static LINE: Spin<()> = Spin::new(());

struct Serial;

impl core::fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(arch::put);
        Ok(())
    }
}

/// Prints a line.
pub fn print(text: core::fmt::Arguments<'_>) {
    let _line = LINE.lock();
    write(text);
}

fn write(text: core::fmt::Arguments<'_>) {
    use core::fmt::Write;
    // The serial port takes everything.
    let _ = writeln!(Serial, "{text}");
}

/// Prints a line.
macro_rules! println {
    ($($argument:tt)*) => { $crate::console::print(format_args!($($argument)*)) };
}
pub(crate) use println;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    arch::mask();
    // Without the lock, which this hart may have.
    write(format_args!("demo: {info}"));
    arch::exit(7)
}
