//! Devices behind I/O ports of QEMU's PC.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use kymo::arch::x86_64::tsc;

fn out(port: u16, value: u8) {
    // SAFETY: no port written here touches memory.
    unsafe {
        asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags))
    };
}

fn input(port: u16) -> u8 {
    let value;
    // SAFETY: as above.
    unsafe {
        asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags))
    };
    value
}

/// Ticks of the time stamp counter per second.
static FREQUENCY: AtomicU64 = AtomicU64::new(0);
static CPUS: AtomicUsize = AtomicUsize::new(0);

/// Silences the legacy interrupt controller, reads the number of CPUs, and measures the time stamp
/// counter.
pub fn set_up() {
    out(0x21, 0xFF);
    out(0xA1, 0xFF);
    // QEMU's fw_cfg: item 5 is the number of CPUs.
    // SAFETY: selects an item.
    unsafe {
        asm!("out dx, ax", in("dx") 0x510_u16, in("ax") 5_u16, options(nomem, nostack, preserves_flags))
    };
    CPUS.store(
        u16::from_le_bytes([input(0x511), input(0x511)]).into(),
        Relaxed,
    );
    // Channel 2 of the interval timer counts down once, at 1,193,182 Hz; port 0x61 starts it and
    // shows its end.
    const COUNT: u16 = 11_932; // 10 ms
    out(0x61, input(0x61) & !2 | 1);
    out(0x43, 0xB0);
    let [low, high] = COUNT.to_le_bytes();
    out(0x42, low);
    out(0x42, high);
    let begin = tsc();
    while input(0x61) & 0x20 == 0 {}
    FREQUENCY.store((tsc() - begin) * 1_193_182 / u64::from(COUNT), Relaxed);
}

/// Ticks of the time stamp counter per second, about.
pub fn frequency() -> u64 {
    FREQUENCY.load(Relaxed)
}

/// Number of CPUs.
pub fn cpus() -> usize {
    CPUS.load(Relaxed)
}

pub fn wait(microseconds: u64) {
    let begin = tsc();
    while tsc() - begin < frequency() * microseconds / 1_000_000 {
        core::hint::spin_loop();
    }
}

/// Writes one byte to the serial port.
pub fn put(byte: u8) {
    while input(0x3FD) & 0x20 == 0 {}
    out(0x3F8, byte);
}

/// Ends QEMU: code 0 by the power switch, with status 0; others by its device `isa-debug-exit`,
/// with status `2 * code + 1`.
pub fn exit(code: u32) -> ! {
    let (port, value) = if code == 0 {
        (0x604_u16, 0x2000)
    } else {
        (0xF4, code)
    };
    // SAFETY: no port written here touches memory.
    unsafe {
        if code == 0 {
            asm!("out dx, ax", in("dx") port, in("ax") value as u16);
        } else {
            asm!("out dx, eax", in("dx") port, in("eax") value);
        }
    }
    loop {
        core::hint::spin_loop();
    }
}
