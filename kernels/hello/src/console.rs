//! The serial console, and the way out. Only the boot hart prints, before the others start and after they are done, or a hart that
//! panics: that one must not wait for a lock, so there is none.

pub struct Serial;

impl core::fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(crate::sbi::put);
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

/// Ends QEMU with this exit code, by its `sifive_test` device.
pub fn exit(code: u32) -> ! {
    let word = if code == 0 { 0x5555 } else { code << 16 | 0x3333 };
    // SAFETY: the device's only register is at this address on `virt`, and there is no paging.
    unsafe { (0x10_0000 as *mut u32).write_volatile(word) };
    unreachable!("QEMU goes on")
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("hello: {info}");
    exit(7)
}
