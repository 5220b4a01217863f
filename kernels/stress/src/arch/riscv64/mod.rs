//! RISC-V with 64 bits, in S-mode over OpenSBI.

use core::arch::asm;
use core::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

pub use kymo::arch::riscv::{Sstatus as Status, time as quick_time};

use super::device_tree::DeviceTree;
use super::riscv::{PASSED_ON, STACK_SHIFT, kymo_block, other_hart, time, trap};
use crate::MAX_CPUS;
use crate::cmdline::Settings;

/// Numbers in `scause` and `sie`.
pub const SOFTWARE: usize = 1;
pub const TIMER: usize = 5;

core::arch::global_asm!(
    include_str!("boot.s"),
    include_str!("../trap.s"),
    boot_hart = sym boot_hart,
    other_hart = sym other_hart,
    kymo_block = sym kymo_block,
    trap = sym trap,
    max_cpus = const MAX_CPUS,
    stack_shift = const STACK_SHIFT,
    word = const size_of::<usize>(),
    // The numbers of scause, sepc, stval and sstatus.
    cause = const 0x142,
    pc = const 0x141,
    value = const 0x143,
    status = const 0x100,
);

/// Number of harts.
pub fn cpus() -> usize {
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    if CPUS.load(Relaxed) == 0 {
        CPUS.store(
            (0..)
                .take_while(|&id| sbi(0x48_534D, 2, [id, 0, 0]) == 0)
                .count(),
            Relaxed,
        );
    }
    CPUS.load(Relaxed)
}

/// Enables these interrupts.
pub fn enable(interrupts: usize) {
    // SAFETY: the trap entry and everything that the interrupts need are in place.
    unsafe { asm!("csrs sie, {}", in(reg) interrupts) };
}

pub fn mask() {
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("csrci sstatus, 2") };
}

pub fn unmask() {
    // SAFETY: interrupts may come anywhere, which is the point of this kernel.
    unsafe { asm!("csrsi sstatus, 2") };
}

/// Requests a timer interrupt.
pub fn arm(microseconds: u32) {
    sbi(
        0x5449_4D45,
        0,
        [(time() + 10 * u64::from(microseconds)) as usize, 0, 0],
    );
}

/// Interrupts another hart.
pub fn poke(cpu: usize, _turn: u64) {
    sbi(0x73_5049, 0, [1 << cpu, 0, 0]);
}

/// Starts the other harts in the kernel.
pub fn start_others(cpu: usize, settings: &'static Settings) {
    unsafe extern "C" {
        /// In boot.s.
        fn start_hart();
    }
    PASSED_ON.store(core::ptr::from_ref(settings).cast_mut(), Release);
    let entry = start_hart as *const () as usize;
    for other in (0..cpus()).filter(|&other| other != cpu) {
        let error = sbi(
            0x48_534D,
            0,
            [other, entry, core::ptr::from_ref(settings) as usize],
        );
        assert_eq!(error, 0, "the firmware does not start hart {other}");
    }
}

/// Writes one byte to the serial port.
pub fn put(byte: u8) {
    sbi(1, 0, [byte.into(), 0, 0]);
}

/// Whether the boot hart has arrived.
static BOOTED: AtomicBool = AtomicBool::new(false);

/// Entry of the boot hart.
extern "C" fn boot_hart(cpu: usize, device_tree: *const [u32; 2]) -> ! {
    // OpenSBI 1.1 starts a hart that is not asleep yet at the boot hart's entry instead of the
    // requested one.
    if BOOTED.swap(true, Relaxed) {
        loop {
            // SAFETY: the first hart has stored a permanent address.
            if let Some(settings) = unsafe { PASSED_ON.load(Acquire).as_ref() } {
                other_hart(cpu, settings);
            }
            core::hint::spin_loop();
        }
    }
    // SAFETY: the firmware passes a tree, and nobody changes it.
    let tree = unsafe { DeviceTree::at(device_tree) };
    crate::boot(cpu, tree.command_line())
}

/// Clears another hart's request.
pub fn answer_software() {
    // SAFETY: clears a bit that only requests an interrupt.
    unsafe { asm!("csrc sip, {}", in(reg) 1 << SOFTWARE) };
}

/// Cancels the timer interrupt.
pub fn answer_timer() {
    sbi(0x5449_4D45, 0, [usize::MAX, 0, 0]);
}

/// Calls the firmware (RISC-V SBI), and gives the error code, 0 for none.
fn sbi(extension: usize, function: usize, arguments: [usize; 3]) -> isize {
    let error;
    // SAFETY: an SBI call changes only a0 and a1, and no call here passes memory to be written.
    unsafe {
        asm!("ecall", inlateout("a0") arguments[0] => error, inlateout("a1") arguments[1] => _,
            in("a2") arguments[2], in("a6") function, in("a7") extension);
    }
    error
}
