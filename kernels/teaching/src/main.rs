//! A small kernel in the manner of xv6, for riscv64 on QEMU `virt` with `-bios none`: processes
//! with sleep and wakeup, a scheduler context for each hart, and a command line on the UART.
//!
//! Its processes are threads of the kernel: there is no user mode and no paging.

#![no_std]
#![no_main]

mod console;
mod cpu;
mod process;
mod programs;
mod shell;
mod sleep_lock;
mod spin_lock;
mod start;
mod trace;
mod trap;

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use trace::Kymo;

core::arch::global_asm!(
    include_str!("entry.s"),
    max_cpus = const cpu::MAX_CPUS,
    stack_bits = const start::STACK_SIZE.ilog2(),
);

/// Set by hart 0 when what all harts share is ready.
static READY: AtomicBool = AtomicBool::new(false);

/// How many harts have arrived in `main`: a kernel without a device tree learns it no earlier.
static ONLINE: AtomicUsize = AtomicUsize::new(0);

/// Where each hart arrives in supervisor mode, with interrupts disabled.
extern "C" fn main() -> ! {
    if cpu::id() == 0 {
        console::init();
        trap::init();
        println!("teaching: a kernel in the manner of xv6");
        trace::start();
        process::spawn("sh", shell::run, 0).expect("the table is empty");
        READY.store(true, Ordering::Release);
    } else {
        while !READY.load(Ordering::Acquire) {
            core::hint::spin_loop();
        }
    }
    trap::init_hart();
    ONLINE.fetch_add(1, Ordering::Relaxed);
    process::scheduler()
}

/// Ends QEMU with this exit code, by the test device.
fn power_off(code: u32) -> ! {
    const TEST_DEVICE: *mut u32 = 0x10_0000 as *mut u32;
    let word = if code == 0 {
        0x5555
    } else {
        code << 16 | 0x3333
    };
    // SAFETY: QEMU virt has its test device at this address; nothing else is there.
    unsafe { TEST_DEVICE.write_volatile(word) };
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    cpu::disable_interrupts();
    let _ = writeln!(console::Uart, "hart {}: {info}", cpu::id());
    let _ = trace::HISTORY.dump_on_panic(&mut console::Uart, cpu::id() as u32, 8);
    power_off(1)
}
