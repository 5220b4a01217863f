//! The serial console. There is no lock, because a panicking CPU must not wait. Otherwise only the
//! boot CPU prints, before the others start and after they end.

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
