//! The serial console, and the exit from QEMU. There is no lock, because a panicking hart must not
//! wait. Otherwise only the boot hart prints, before the others start and after they end.

use core::sync::atomic::{AtomicU32, Ordering};

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
    let word = if code == 0 {
        0x5555
    } else {
        code << 16 | 0x3333
    };
    // SAFETY: the device's only register is at this address on `virt`, and there is no paging.
    unsafe { (0x10_0000 as *mut u32).write_volatile(word) };
    unreachable!("QEMU goes on")
}

/// The first hart that panics, plus 1: it has the console for itself.
static PANICS: AtomicU32 = AtomicU32::new(0);

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let hart = crate::this_hart();
    // SAFETY: nothing else runs on this hart after this, not even interrupt handlers.
    unsafe { core::arch::asm!("csrci sstatus, 2") };
    match PANICS.compare_exchange(0, hart + 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            println!("hello: {info}");
            if kymo::COMPILED_IN {
                // Each hart's last records. Writing to the console cannot fail.
                let _ = crate::HISTORY.dump_on_panic(&mut Serial, hart, 32);
            }
        }
        // It panicked again while it printed.
        Err(first) if first == hart + 1 => {}
        Err(_) => loop {
            // SAFETY: this only waits.
            unsafe { core::arch::asm!("wfi") };
        },
    }
    exit(7)
}
