//! x86-64: a call's number is in rax, its arguments as Linux has them, in rdi, rsi, rdx, r10 and
//! r8; its result comes in rax.

use core::arch::asm;

/// The addresses of programs begin here.
pub const USER: usize = 0x4000_0000;
/// An address of the kernel's image.
pub const KERNEL: usize = 0x20_0000;

/// A system call.
///
/// # Safety
/// The call must write only to memory that the caller may pass for writing.
pub unsafe fn call(number: usize, [a, b, c, d, e]: [usize; 5]) -> isize {
    let result;
    // SAFETY: the kernel changes only rax, and memory as promised.
    unsafe {
        asm!("int 0x80", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e);
    }
    result
}

/// Executes two instructions as often as this.
#[inline(always)]
pub fn spin(rounds: usize) {
    // SAFETY: this only counts.
    unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack)) };
}

/// Executes an illegal instruction.
pub fn give_up() -> ! {
    // SAFETY: the kernel ends the process here.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// From a frame's two words to where its frame pointer points.
pub const BEHIND_FRAME: usize = 0;

/// Spins with this frame pointer, and then makes the call `work` with it. The symbol `$name`, which
/// only one place may declare, is the code that has this frame pointer.
#[macro_export]
macro_rules! with_frame_pointer {
    ($name:literal, $pointer:expr, $rounds:expr) => {
        // SAFETY: rbp is as before behind this, and the call writes no memory.
        unsafe {
            core::arch::asm!(
                "mov {kept}, rbp",
                "mov rbp, {pointer}",
                "2: dec {rounds}",
                "jnz 2b",
                "int 0x80",
                "nop",
                concat!(".globl ", $name),
                concat!(".set ", $name, ", 2b"),
                concat!(".size ", $name, ", . - 2b"),
                "mov rbp, {kept}",
                kept = out(reg) _,
                pointer = in(reg) $pointer,
                rounds = inout(reg) $rounds => _,
                inlateout("rax") $crate::abi::Call::Work as usize => _,
                in("rdi") 0_usize,
            )
        }
    };
}
