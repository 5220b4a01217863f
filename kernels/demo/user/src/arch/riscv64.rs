//! riscv64: a call's number is in a7, its arguments in a0 to a4; its result comes in a0.

use core::arch::asm;

/// The addresses of programs begin here.
pub const USER: usize = 0x4000_0000;
/// An address of the kernel's image.
pub const KERNEL: usize = 0x8020_0000;

/// A system call.
///
/// # Safety
/// The call must write only to memory that the caller may pass for writing.
pub unsafe fn call(number: usize, [a, b, c, d, e]: [usize; 5]) -> isize {
    let result;
    // SAFETY: the kernel changes only a0, and memory as promised.
    unsafe {
        asm!("ecall", in("a7") number, inlateout("a0") a => result, in("a1") b, in("a2") c, in("a3") d, in("a4") e);
    }
    result
}

/// Executes two instructions as often as this.
#[inline(always)]
pub fn spin(rounds: usize) {
    // SAFETY: this only counts.
    unsafe {
        asm!("2: addi {0}, {0}, -1", "bnez {0}, 2b", inout(reg) rounds => _, options(nomem, nostack))
    };
}

/// Executes an illegal instruction.
pub fn give_up() -> ! {
    // SAFETY: the kernel ends the process here.
    unsafe { asm!("unimp", options(noreturn)) }
}

/// From a frame's two words to where its frame pointer points.
pub const BEHIND_FRAME: usize = 16;

/// Spins with this frame pointer, and then makes the call `work` with it. The symbol `$name`, which
/// only one place may declare, is the code that has this frame pointer.
#[macro_export]
macro_rules! with_frame_pointer {
    ($name:literal, $pointer:expr, $rounds:expr) => {
        // SAFETY: s0 is as before behind this, and the call writes no memory.
        unsafe {
            core::arch::asm!(
                "mv {kept}, s0",
                "mv s0, {pointer}",
                "2: addi {rounds}, {rounds}, -1",
                "bnez {rounds}, 2b",
                "ecall",
                "nop",
                concat!(".globl ", $name),
                concat!(".set ", $name, ", 2b"),
                concat!(".size ", $name, ", . - 2b"),
                "mv s0, {kept}",
                kept = out(reg) _,
                pointer = in(reg) $pointer,
                rounds = inout(reg) $rounds => _,
                in("a7") $crate::abi::Call::Work as usize,
                inlateout("a0") 0_usize => _,
            )
        }
    };
}
