//! Text on the serial port. Only the boot CPU prints, before the others start and after they are
//! done, or a CPU that panics: that one must not wait for a lock, so there is none.

pub struct Serial;

impl core::fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(crate::arch::put);
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        let _ = writeln!($crate::console::Serial, $($argument)*);
    }};
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("stress: {info}");
    crate::arch::exit(7)
}
