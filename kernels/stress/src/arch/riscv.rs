//! RISC-V, QEMU's `virt`: the common part of 64 bits in S-mode and 32 bits in M-mode. The writer
//! masks interrupts, so they come between two records. There are no NMIs.

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use kymo::arch::riscv::kernel_word;
use kymo::event::Event;
use kymo::platform::{Control, Masked, Platform};

#[cfg(target_arch = "riscv32")]
use super::riscv32 as machine;
#[cfg(target_arch = "riscv64")]
use super::riscv64 as machine;
use crate::cmdline::Settings;
use crate::cpu::Cpu;
use crate::{REGION, VOCABULARY};
pub use machine::{arm, cpus, mask, poke, put, start_others, unmask};

/// For boot.s.
pub const STACK_SHIFT: usize = 15;
const INTERRUPT: usize = 1 << (usize::BITS - 1);

/// The settings for the other harts, once they are known.
pub static PASSED_ON: AtomicPtr<Settings> = AtomicPtr::new(core::ptr::null_mut());

pub struct Virt;

// SAFETY: boot.s points `tp` to the hart's control block before anything can trace, and nothing
// changes it afterwards. Only the mode's status register masks interrupts, and no code moves to
// another hart.
unsafe impl Platform for Virt {
    type Reserve = Masked<machine::Status>;
    type Local = kymo::arch::riscv::AtTp;

    #[inline(always)]
    fn clock() -> u64 {
        time().wrapping_add(cpu().offset())
    }

    #[inline(always)]
    fn quick_clock() -> u64 {
        machine::quick_time().wrapping_add(cpu().offset())
    }

    /// Returns at once: the other harts enter the kernel after the start, and have stopped
    /// recording before the stop.
    fn synchronize() {}
}

type Kymo = kymo::Tracer<Virt>;

/// The session of [`start`].
pub type Recording = kymo::Session<Virt>;

/// The value of `tp` on hart `cpu`.
pub extern "C" fn kymo_block(cpu: u32) -> *const Control {
    REGION.control(cpu)
}

/// Starts to record. The clock can always jump.
pub fn start(config: &kymo::Config, _jumps: bool) -> Result<Recording, kymo::Error> {
    Kymo::start(REGION.memory(), config, &VOCABULARY)
}

/// Records an event.
pub fn record<E: Event>(event: E) {
    writer_masked(event);
}

/// Out of line, so that tests see the interrupted instructions.
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

/// Ticks of the clock per second.
pub fn frequency() -> u64 {
    10_000_000
}

/// This hart.
pub fn cpu() -> &'static Cpu {
    // SAFETY: `tp` points to the block, and `adopt` stored a permanent address there.
    unsafe { &*(kernel_word().load(Relaxed) as *const Cpu) }
}

/// Sets the state that [`cpu`] gives on this hart.
///
/// # Safety
/// `cpu` must never move.
pub unsafe fn adopt(_id: usize, cpu: &Cpu) {
    // SAFETY: boot.s has set `tp`.
    unsafe { kernel_word() }.store(core::ptr::from_ref(cpu) as usize, Relaxed);
    machine::enable(1 << machine::TIMER | 1 << machine::SOFTWARE);
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

/// Entry of every hart but the first.
pub extern "C" fn other_hart(cpu: usize, settings: &'static Settings) -> ! {
    crate::join(cpu, settings)
}

/// trap.s calls this for every interrupt and exception, with interrupts masked.
pub extern "C" fn trap(cause: usize, pc: usize, value: usize) {
    // The request is cleared in any case; the handler may make another one.
    if cause == INTERRUPT | machine::SOFTWARE {
        machine::answer_software();
    } else {
        assert_eq!(
            cause,
            INTERRUPT | machine::TIMER,
            "unexpected trap at {pc:#x}, value {value:#x}"
        );
        machine::answer_timer();
    }
    cpu().interrupted(pc, false);
}
