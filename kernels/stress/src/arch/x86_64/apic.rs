//! Interrupts: the table, the timer, other CPUs.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed};

use super::machine::wait;
use crate::MAX_CPUS;
use crate::cmdline::Settings;

const STACK_SHIFT: usize = 15;
/// Start address of the other CPUs: a page below 1 MiB that the firmware no longer uses.
const TRAMPOLINE: usize = 0x8000;
const VECTOR: u32 = 32;
const SPURIOUS: u32 = 255;

core::arch::global_asm!(
    include_str!("boot.s"),
    enter = sym enter,
    interrupt = sym interrupt,
    nmi = sym nmi,
    exception = sym exception,
    trampoline = const TRAMPOLINE,
    max_cpus = const MAX_CPUS,
    stack_shift = const STACK_SHIFT,
    options(att_syntax),
);

/// Registers of the CPU's local APIC, by offset.
mod register {
    pub const END: usize = 0xB0;
    pub const SPURIOUS: usize = 0xF0;
    pub const COMMAND: usize = 0x300;
    pub const DESTINATION: usize = 0x310;
    pub const TIMER: usize = 0x320;
    pub const COUNT: usize = 0x380;
    pub const DIVIDE: usize = 0x3E0;
}

fn write(register: usize, value: u32) {
    // SAFETY: every CPU's local APIC is mapped there, and no register written here touches memory.
    unsafe { ((0xFEE0_0000 + register) as *mut u32).write_volatile(value) };
}

/// Interrupt descriptors. The first CPU fills them in before the others run.
static mut TABLE: [[u64; 2]; 256] = [[0; 2]; 256];

fn fill_table() {
    unsafe extern "C" {
        // In boot.s.
        fn interrupt_entry();
        fn nmi_entry();
        fn exception_entry();
        fn spurious_entry();
    }
    let set = |vector: usize, entry: unsafe extern "C" fn()| {
        let entry = entry as *const () as u64;
        // An interrupt gate, which masks interrupts, into the 64-bit code segment.
        let low = entry & 0xFFFF | 8 << 16 | 0x8E00 << 32 | (entry >> 16 & 0xFFFF) << 48;
        // SAFETY: no other CPU runs yet, and none of these vectors is expected.
        unsafe { TABLE[vector] = [low, entry >> 32] };
    };
    (0..32).for_each(|vector| set(vector, exception_entry));
    set(2, nmi_entry);
    set(VECTOR as usize, interrupt_entry);
    set(SPURIOUS as usize, spurious_entry);
}

/// Enables this CPU's interrupts, for when they are unmasked.
pub fn enable() {
    let table = &raw const TABLE as u64;
    let pointer = [
        4095,
        table as u16,
        (table >> 16) as u16,
        (table >> 32) as u16,
        (table >> 48) as u16,
    ];
    // SAFETY: the table is filled in and stays; the processor copies the pointer.
    unsafe { asm!("lidt [{}]", in(reg) &pointer) };
    write(register::SPURIOUS, 0x100 | SPURIOUS);
    write(register::DIVIDE, 0b1011); // by one
    write(register::TIMER, VECTOR); // once
}

/// Requests a timer interrupt. QEMU's timer counts nanoseconds.
pub fn arm(microseconds: u32) {
    write(register::COUNT, microseconds * 1000);
}

/// Interrupts another CPU, alternately by an interrupt and by an NMI.
pub fn poke(cpu: usize, turn: u64) {
    write(register::DESTINATION, (cpu as u32) << 24);
    write(
        register::COMMAND,
        if turn.is_multiple_of(2) {
            0x4000 | VECTOR
        } else {
            0x4400
        },
    );
}

/// Address of the `Settings` for the other CPUs.
static SETTINGS: AtomicUsize = AtomicUsize::new(0);

/// Starts the other CPUs in the kernel.
pub fn start_others(_cpu: usize, settings: &'static Settings) {
    unsafe extern "C" {
        // In boot.s.
        safe static trampoline: u8;
        safe static trampoline_end: u8;
    }
    SETTINGS.store(core::ptr::from_ref(settings) as usize, Relaxed);
    let (from, end) = (&raw const trampoline, &raw const trampoline_end);
    // SAFETY: nobody uses that page any more.
    unsafe { from.copy_to(TRAMPOLINE as *mut u8, end as usize - from as usize) };
    // To all but this one: INIT, and after a while the start (Intel SDM volume 3, 9.4.4).
    write(register::COMMAND, 0xC_4500);
    wait(10_000);
    write(register::COMMAND, 0xC_4600 | (TRAMPOLINE >> 12) as u32);
}

/// Entry of every CPU from boot.s; `start_information` is 0 on all but the first.
extern "C" fn enter(cpu: usize, start_information: *const u32) -> ! {
    if start_information.is_null() {
        // SAFETY: `start_others` stored it before it started this CPU.
        let settings = unsafe { &*(SETTINGS.load(Acquire) as *const Settings) };
        crate::join(cpu, settings)
    }
    fill_table();
    super::machine::set_up();
    // SAFETY: QEMU passes the 64-bit address of the command line at byte 24.
    let command_line = unsafe {
        let address = start_information.add(6).cast::<u64>().read_unaligned();
        if address == 0 {
            c""
        } else {
            core::ffi::CStr::from_ptr(address as *const core::ffi::c_char)
        }
    };
    crate::boot(cpu, command_line.to_str().unwrap_or("?"))
}

extern "C" fn interrupt(pc: usize) {
    write(register::END, 0);
    super::cpu().interrupted(pc, false);
}

extern "C" fn nmi(pc: usize) {
    super::cpu().interrupted(pc, true);
}

extern "C" fn exception(top: usize, next: usize) -> ! {
    panic!("unexpected exception: {top:#x}, {next:#x} on the stack")
}
