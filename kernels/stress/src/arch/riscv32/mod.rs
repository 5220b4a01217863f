//! RISC-V with 32 bits, without a firmware: everything in M-mode. The clock takes two reads, and a
//! carry may come between.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::Release};

pub use kymo::arch::riscv::{Mstatus as Status, quick_time};

use super::device_tree::DeviceTree;
use super::riscv::{PASSED_ON, STACK_SHIFT, kymo_block, other_hart, time, trap};
use crate::MAX_CPUS;
use crate::cmdline::Settings;

/// Numbers in `mcause` and `mie`.
pub const SOFTWARE: usize = 3;
pub const TIMER: usize = 7;
/// The core-local interruptor: software interrupts, times of the next timer interrupts, the clock.
const SOFTWARE_INTERRUPTS: usize = 0x200_0000;
const TIMERS: usize = 0x200_4000;
const CLOCK: usize = 0x200_bff8;
/// Ticks from boot until the low half of the clock overflows: 50 ms.
const CARRY_AFTER: u32 = 500_000;

static CPUS: AtomicUsize = AtomicUsize::new(0);

core::arch::global_asm!(
    include_str!("boot.s"),
    include_str!("../trap.s"),
    boot_hart = sym boot_hart,
    other_hart = sym other_hart,
    kymo_block = sym kymo_block,
    passed_on = sym PASSED_ON,
    trap = sym trap,
    max_cpus = const MAX_CPUS,
    stack_shift = const STACK_SHIFT,
    word = const size_of::<usize>(),
    // The numbers of mcause, mepc, mtval and mstatus.
    cause = const 0x342,
    pc = const 0x341,
    value = const 0x343,
    status = const 0x300,
);

/// Number of harts.
pub fn cpus() -> usize {
    CPUS.load(Relaxed)
}

/// Enables these interrupts.
pub fn enable(interrupts: usize) {
    // SAFETY: the trap entry and everything that the interrupts need are in place.
    unsafe { asm!("csrs mie, {}", in(reg) interrupts) };
}

pub fn mask() {
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("csrci mstatus, 8") };
}

pub fn unmask() {
    // SAFETY: interrupts may come anywhere, which is the point of this kernel.
    unsafe { asm!("csrsi mstatus, 8") };
}

/// Requests a timer interrupt.
pub fn arm(microseconds: u32) {
    set_timer(time() + 10 * u64::from(microseconds));
}

/// Sets the time of the timer interrupt. The high half is first set to its maximum, so that none
/// comes meanwhile.
fn set_timer(at: u64) {
    let register = TIMERS + 8 * hart();
    write(register + 4, u32::MAX);
    write(register, at as u32);
    write(register + 4, (at >> 32) as u32);
}

/// Interrupts another hart.
pub fn poke(cpu: usize, _turn: u64) {
    write(SOFTWARE_INTERRUPTS + 4 * cpu, 1);
}

/// Starts the other harts in the kernel.
pub fn start_others(_cpu: usize, settings: &'static Settings) {
    PASSED_ON.store(core::ptr::from_ref(settings).cast_mut(), Release);
}

/// Writes one byte to the serial port.
pub fn put(byte: u8) {
    // SAFETY: the data register of the machine's 16550; QEMU takes bytes as fast as they come.
    unsafe { (0x1000_0000 as *mut u8).write_volatile(byte) };
}

/// Writes a register of the core-local interruptor.
fn write(address: usize, value: u32) {
    // SAFETY: only called with addresses of its registers, which only affect interrupts.
    unsafe { (address as *mut u32).write_volatile(value) };
}

fn hart() -> usize {
    let id;
    // SAFETY: reads a number.
    unsafe { asm!("csrr {}, mhartid", out(reg) id, options(nomem, nostack, preserves_flags)) };
    id
}

/// Entry of hart 0. It sets the clock so that its low half overflows soon.
extern "C" fn boot_hart(cpu: usize, device_tree: *const [u32; 2]) -> ! {
    write(CLOCK, u32::MAX - CARRY_AFTER);
    // SAFETY: the machine passes a tree, and nobody changes it.
    let tree = unsafe { DeviceTree::at(device_tree) };
    CPUS.store(tree.cpus(), Relaxed);
    crate::boot(cpu, tree.command_line())
}

/// Clears another hart's request.
pub fn answer_software() {
    write(SOFTWARE_INTERRUPTS + 4 * hart(), 0);
}

/// Cancels the timer interrupt.
pub fn answer_timer() {
    set_timer(u64::MAX);
}
