//! RISC-V with 32 bits, QEMU's `virt` without a firmware: everything in M-mode. The clock takes two reads, and a carry may come between.

use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, Ordering::Release};

use kymo::arch::riscv::kernel_word;
use kymo::event::Event;

use super::device_tree::DeviceTree;
use crate::cmdline::Settings;
use crate::cpu::Cpu;
use crate::{MAX_CPUS, REGION, VOCABULARY};

const STACK_SHIFT: usize = 15;
/// As `mcause` and `mie` number them.
const SOFTWARE: usize = 3;
const TIMER: usize = 7;
/// The core-local interruptor: software interrupts, times of the next timer interrupts, the clock.
const SOFTWARE_INTERRUPTS: usize = 0x200_0000;
const TIMERS: usize = 0x200_4000;
const CLOCK: usize = 0x200_bff8;
/// So many ticks after the boot the low half of the clock is carried over: 50 ms.
const CARRY_AFTER: u32 = 500_000;

static CPUS: AtomicUsize = AtomicUsize::new(0);
/// What the other harts wait for.
static PASSED_ON: AtomicPtr<Settings> = AtomicPtr::new(core::ptr::null_mut());

const INTERRUPT: usize = 1 << (usize::BITS - 1);

core::arch::global_asm!(
    include_str!("boot.s"),
    boot_hart = sym boot_hart,
    other_hart = sym other_hart,
    kymo_block = sym kymo_block,
    passed_on = sym PASSED_ON,
    trap = sym trap,
    max_cpus = const MAX_CPUS,
    stack_shift = const STACK_SHIFT,
);

pub struct Virt;

// SAFETY: boot.s points `tp` at the hart's control block before anything can trace, and nothing changes it afterwards; interrupts
// are masked by `mstatus` alone, and no code moves to another hart.
unsafe impl kymo::Platform for Virt {
    type Reserve = kymo::Masked<kymo::arch::riscv::Mstatus>;
    type Local = kymo::arch::riscv::AtTp;

    #[inline(always)]
    fn clock() -> u64 {
        time() + cpu().offset()
    }

    #[inline(always)]
    fn quick_clock() -> u64 {
        kymo::arch::riscv::quick_time() + cpu().offset()
    }

    /// Nothing to wait for: the other harts enter the kernel after the start, and record no more before the stop.
    fn synchronize() {}
}

type Kymo = kymo::Tracer<Virt>;

/// What [`start`] gives.
pub type Recording = kymo::Session<Virt>;

/// What `tp` holds on hart `cpu`.
extern "C" fn kymo_block(cpu: u32) -> *const kymo::Control {
    REGION.control(cpu)
}

/// Begins to record. The clock can jump in any case.
pub fn start(config: &kymo::Config, _jumps: bool) -> Result<Recording, kymo::Error> {
    Kymo::start(REGION.memory(), config, &VOCABULARY)
}

/// Records an event.
pub fn record<E: Event>(event: E) {
    writer_masked(event);
}

/// A function of its own, so that tests see where in it interrupts come.
#[inline(never)]
fn writer_masked<E: Event>(event: E) {
    if Kymo::is_on::<E>() {
        Kymo::record(event);
    }
}

/// The hardware's clock.
pub fn time() -> u64 {
    kymo::arch::riscv::time()
}

/// Its ticks in a second.
pub fn frequency() -> u64 {
    10_000_000
}

/// How many harts there are.
pub fn cpus() -> usize {
    CPUS.load(Relaxed)
}

/// This hart.
pub fn cpu() -> &'static Cpu {
    // SAFETY: `tp` holds the block, and `adopt` stored there the address of what stays.
    unsafe { &*(kernel_word().load(Relaxed) as *const Cpu) }
}

/// Makes `cpu` what [`cpu`] gives on this hart.
///
/// # Safety
/// It stays where it is.
pub unsafe fn adopt(_id: usize, cpu: &Cpu) {
    // SAFETY: boot.s has set `tp`.
    unsafe { kernel_word() }.store(core::ptr::from_ref(cpu) as usize, Relaxed);
    // SAFETY: the trap entry is in place, and so is all that the interrupts need.
    unsafe { asm!("csrs mie, {}", in(reg) 1 << TIMER | 1 << SOFTWARE) };
}

pub fn mask() {
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("csrci mstatus, 8") };
}

pub fn unmask() {
    // SAFETY: an interrupt disturbs nothing here: that is what this kernel is about.
    unsafe { asm!("csrsi mstatus, 8") };
}

/// Asks for a timer interrupt.
pub fn arm(microseconds: u32) {
    set_timer(time() + 10 * u64::from(microseconds));
}

/// At this time the timer's interrupt comes. The high half goes up first, so that none comes meanwhile.
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

/// Has the other harts enter the kernel.
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
    // SAFETY: only called with addresses of its registers, which concern interrupts alone.
    unsafe { (address as *mut u32).write_volatile(value) };
}

fn hart() -> usize {
    let id;
    // SAFETY: reads a number.
    unsafe { asm!("csrr {}, mhartid", out(reg) id, options(nomem, nostack, preserves_flags)) };
    id
}

/// Ends QEMU with this exit code, by its `sifive_test` device.
pub fn exit(code: u32) -> ! {
    let word = if code == 0 { 0x5555 } else { code << 16 | 0x3333 };
    // SAFETY: the device's only register is at this address on `virt`, and there is no paging.
    unsafe { (0x10_0000 as *mut u32).write_volatile(word) };
    unreachable!("QEMU goes on")
}

/// Hart 0. The clock is set so that the carry between its halves comes soon.
extern "C" fn boot_hart(cpu: usize, device_tree: *const [u32; 2]) -> ! {
    write(CLOCK, u32::MAX - CARRY_AFTER);
    // SAFETY: the machine passes one, and nobody changes it.
    let tree = unsafe { DeviceTree::at(device_tree) };
    CPUS.store(tree.cpus(), Relaxed);
    crate::boot(cpu, tree.command_line())
}

/// Every other hart.
extern "C" fn other_hart(cpu: usize, settings: &'static Settings) -> ! {
    crate::join(cpu, settings)
}

/// boot.s calls this for every interrupt and exception, with interrupts masked.
extern "C" fn trap(cause: usize, pc: usize, value: usize) {
    if cause == INTERRUPT | SOFTWARE {
        // Takes the request back.
        write(SOFTWARE_INTERRUPTS + 4 * hart(), 0);
    } else {
        assert_eq!(cause, INTERRUPT | TIMER, "unexpected trap at {pc:#x}, value {value:#x}");
        // Takes the request back; the handler may ask for another one.
        set_timer(u64::MAX);
    }
    cpu().interrupted(pc, false);
}
