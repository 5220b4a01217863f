//! aarch64: a call's number is in x8, its arguments in x0 to x4; its result comes in x0.

use core::arch::asm;

/// The addresses of programs begin here.
pub const USER: usize = 0x8000_0000;
/// An address of the kernel's image.
pub const KERNEL: usize = 0x4020_0000;

/// A system call.
///
/// # Safety
/// The call must write only to memory that the caller may pass for writing.
pub unsafe fn call(number: usize, [a, b, c, d, e]: [usize; 5]) -> isize {
    let result;
    // SAFETY: the kernel changes only x0, and memory as promised.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
        );
    }
    result
}

/// Executes two instructions as often as this.
#[inline(always)]
pub fn spin(rounds: usize) {
    // SAFETY: this only counts.
    unsafe {
        asm!("2: subs {0}, {0}, 1", "b.ne 2b", inout(reg) rounds => _, options(nomem, nostack))
    };
}

/// Executes an illegal instruction.
pub fn give_up() -> ! {
    // SAFETY: the kernel ends the process here.
    unsafe { asm!("udf 0", options(noreturn)) }
}

/// From a frame's two words to where its frame pointer points.
pub const BEHIND_FRAME: usize = 0;

/// Spins with this frame pointer, and then makes the call `work` with it. The symbol `$name`, which
/// only one place may declare, is the code that has this frame pointer.
#[macro_export]
macro_rules! with_frame_pointer {
    ($name:literal, $pointer:expr, $rounds:expr) => {
        // SAFETY: x29 is as before behind this, and the call writes no memory.
        unsafe {
            core::arch::asm!(
                "mov {kept}, x29",
                "mov x29, {pointer}",
                "2: subs {rounds}, {rounds}, 1",
                "b.ne 2b",
                "svc 0",
                "nop",
                concat!(".globl ", $name),
                concat!(".set ", $name, ", 2b"),
                concat!(".size ", $name, ", . - 2b"),
                "mov x29, {kept}",
                kept = out(reg) _,
                pointer = in(reg) $pointer,
                rounds = inout(reg) $rounds => _,
                in("x8") $crate::abi::Call::Work as usize,
                inlateout("x0") 0_usize => _,
            )
        }
    };
}
