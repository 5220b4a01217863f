//! RISC-V, QEMU's `virt`: the writer masks interrupts, so they come between two records. There are no NMIs.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use kymo::arch::riscv::kernel_word;
use kymo::event::Event;

use super::device_tree::DeviceTree;
use crate::cmdline::Settings;
use crate::cpu::Cpu;
use crate::{MAX_CPUS, REGION, VOCABULARY};

const STACK_SHIFT: usize = 15;
/// As `scause` and `sie` number them.
const SOFTWARE: usize = 1;
const TIMER: usize = 5;
const INTERRUPT: usize = 1 << (usize::BITS - 1);

core::arch::global_asm!(
    include_str!("boot.s"),
    boot_hart = sym boot_hart,
    other_hart = sym other_hart,
    kymo_block = sym kymo_block,
    trap = sym trap,
    max_cpus = const MAX_CPUS,
    stack_shift = const STACK_SHIFT,
);

pub struct Virt;

// SAFETY: boot.s points `tp` at the hart's control block before anything can trace, and nothing changes it afterwards; interrupts
// are masked by `sstatus` alone, and no code moves to another hart.
unsafe impl kymo::Platform for Virt {
    type Reserve = kymo::Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;

    #[inline(always)]
    fn clock() -> u64 {
        time().wrapping_add(cpu().offset())
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
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    if CPUS.load(Relaxed) == 0 {
        CPUS.store((0..).take_while(|&id| sbi(0x48_534D, 2, [id, 0, 0]) == 0).count(), Relaxed);
    }
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
    unsafe { asm!("csrs sie, {}", in(reg) 1 << TIMER | 1 << SOFTWARE) };
}

pub fn mask() {
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("csrci sstatus, 2") };
}

pub fn unmask() {
    // SAFETY: an interrupt disturbs nothing here: that is what this kernel is about.
    unsafe { asm!("csrsi sstatus, 2") };
}

/// Asks for a timer interrupt.
pub fn arm(microseconds: u32) {
    sbi(0x5449_4D45, 0, [(time() + 10 * u64::from(microseconds)) as usize, 0, 0]);
}

/// Interrupts another hart.
pub fn poke(cpu: usize, _turn: u64) {
    sbi(0x73_5049, 0, [1 << cpu, 0, 0]);
}

/// Has the other harts enter the kernel.
pub fn start_others(cpu: usize, settings: &'static Settings) {
    unsafe extern "C" {
        /// In boot.s.
        fn start_hart();
    }
    PASSED_ON.store(core::ptr::from_ref(settings).cast_mut(), Release);
    let entry = start_hart as *const () as usize;
    for other in (0..cpus()).filter(|&other| other != cpu) {
        let error = sbi(0x48_534D, 0, [other, entry, core::ptr::from_ref(settings) as usize]);
        assert_eq!(error, 0, "the firmware does not start hart {other}");
    }
}

/// Writes one byte to the serial port.
pub fn put(byte: u8) {
    sbi(1, 0, [byte.into(), 0, 0]);
}

/// Ends QEMU with this exit code, by its `sifive_test` device.
pub fn exit(code: u32) -> ! {
    let word = if code == 0 { 0x5555 } else { code << 16 | 0x3333 };
    // SAFETY: the device's only register is at this address on `virt`, and there is no paging.
    unsafe { (0x10_0000 as *mut u32).write_volatile(word) };
    unreachable!("QEMU goes on")
}

/// Whether a hart has come to boot.
static BOOTED: AtomicBool = AtomicBool::new(false);
/// What the other harts are told.
static PASSED_ON: AtomicPtr<Settings> = AtomicPtr::new(core::ptr::null_mut());

/// The hart that the firmware chose to boot.
extern "C" fn boot_hart(cpu: usize, device_tree: *const [u32; 2]) -> ! {
    // OpenSBI 1.1 lets a hart that is not asleep yet when it is started go where the first one went, instead of where it was told to.
    if BOOTED.swap(true, Relaxed) {
        loop {
            // SAFETY: the first hart stores what stays.
            if let Some(settings) = unsafe { PASSED_ON.load(Acquire).as_ref() } {
                other_hart(cpu, settings);
            }
            core::hint::spin_loop();
        }
    }
    // SAFETY: the firmware passes one, and nobody changes it.
    let tree = unsafe { DeviceTree::at(device_tree) };
    crate::boot(cpu, tree.command_line())
}

/// Every other hart.
extern "C" fn other_hart(cpu: usize, settings: &'static Settings) -> ! {
    crate::join(cpu, settings)
}

/// boot.s calls this for every interrupt and exception, with interrupts masked.
extern "C" fn trap(cause: usize, pc: usize, value: usize) {
    if cause == INTERRUPT | SOFTWARE {
        // SAFETY: takes the request back.
        unsafe { asm!("csrc sip, {}", in(reg) 1 << SOFTWARE) };
    } else {
        assert_eq!(cause, INTERRUPT | TIMER, "unexpected trap at {pc:#x}, value {value:#x}");
        // Takes the request back; the handler may ask for another one.
        sbi(0x5449_4D45, 0, [usize::MAX, 0, 0]);
    }
    cpu().interrupted(pc, false);
}

/// A call of the firmware (RISC-V SBI). Returns the error code, 0 for none.
fn sbi(extension: usize, function: usize, arguments: [usize; 3]) -> isize {
    let error;
    // SAFETY: an SBI call changes a0 and a1 only, and no call here hands out memory to write to.
    unsafe {
        asm!("ecall", inlateout("a0") arguments[0] => error, inlateout("a1") arguments[1] => _,
            in("a2") arguments[2], in("a6") function, in("a7") extension);
    }
    error
}
