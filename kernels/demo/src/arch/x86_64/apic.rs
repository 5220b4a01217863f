//! The interrupt controllers: each hart's local APIC (Intel SDM volume 3, chapter 11) with its
//! timer, and the IOAPIC (Intel 82093AA), which routes devices' interrupts to harts.

use super::{mask, restore, trap};

const LOCAL: usize = 0xFEE0_0000;
/// The local APIC's registers, by offset.
const END: usize = 0xB0;
const ENABLE: usize = 0xF0;
const COMMAND: usize = 0x300;
const DESTINATION: usize = 0x310;
const TIMER: usize = 0x320;
const INITIAL_COUNT: usize = 0x380;
const COUNT: usize = 0x390;
const DIVISOR: usize = 0x3E0;

/// Delivery of a command, beside its vector.
pub const FIXED: u32 = 0x4000;
pub const NMI: u32 = 0x4400;
/// To all harts but this one.
pub const INIT_OTHERS: u32 = 0xC_4500;
pub const START: u32 = 0x4600;
/// A command has not been delivered yet.
const PENDING: u32 = 1 << 12;

fn set(register: usize, value: u32) {
    // SAFETY: a register of this hart's, which is mapped.
    unsafe { ((LOCAL + register) as *mut u32).write_volatile(value) };
}

fn get(register: usize) -> u32 {
    // SAFETY: a register of this hart's, which is mapped.
    unsafe { ((LOCAL + register) as *const u32).read_volatile() }
}

/// Enables this hart's interrupts, for when they are unmasked.
pub fn enable() {
    const ENABLED: u32 = 1 << 8;
    const BY_ONE: u32 = 0b1011;
    set(ENABLE, ENABLED | trap::SPURIOUS as u32);
    set(DIVISOR, BY_ONE);
    set(TIMER, trap::TIMER as u32); // once
}

/// Requests a timer interrupt after this many ticks of the timer; 0 requests none.
pub fn arm(ticks: u32) {
    set(INITIAL_COUNT, ticks);
}

/// What is left of the ticks.
pub fn count() -> u64 {
    get(COUNT).into()
}

/// Ends the handling of an interrupt.
pub fn complete() {
    set(END, 0);
}

/// Sends a command to a hart.
pub fn command(hart: usize, command: u32) {
    // Both registers for one command.
    let interrupts = mask();
    while get(COMMAND) & PENDING != 0 {
        core::hint::spin_loop();
    }
    set(DESTINATION, (hart as u32) << 24);
    set(COMMAND, command);
    restore(interrupts);
}

/// Routes a pin of the IOAPIC to a hart, as this vector. One hart at a time does this.
pub fn route(pin: u32, vector: u32, hart: usize) {
    const IOAPIC: usize = 0xFEC0_0000;
    /// The interrupt is there while its line is high, and comes again if that is so at its end.
    const BY_LEVEL: u32 = 1 << 15;
    let write = |register: u32, value: u32| {
        // SAFETY: the device's two registers, which are mapped: the number of a register, and it.
        unsafe {
            (IOAPIC as *mut u32).write_volatile(register);
            ((IOAPIC + 0x10) as *mut u32).write_volatile(value);
        }
    };
    write(0x10 + 2 * pin + 1, (hart as u32) << 24);
    write(0x10 + 2 * pin, vector | BY_LEVEL);
}
