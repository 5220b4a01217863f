//! x86-64: a call's number is in rax, its arguments as Linux has them, in rdi, rsi, rdx, r10 and r8;
//! its result comes in rax.

use core::arch::asm;

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
