//! What differs by processor: one file each, with what the ring or a port needs from it.

use crate::sync::AtomicUsize;
#[cfg(not(all(target_arch = "x86_64", not(any(miri, all(test, loom))))))]
use crate::sync::Ordering::Relaxed;

#[cfg(target_arch = "aarch64")]
pub mod aarch64;
#[cfg(target_arch = "arm")]
pub mod arm;
#[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
pub mod riscv;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

#[cfg(all(target_arch = "aarch64", not(any(miri, all(test, loom)))))]
pub(crate) use aarch64::local;
#[cfg(all(target_arch = "x86_64", not(any(miri, all(test, loom)))))]
pub(crate) use x86_64::local;

/// The frame pointer, where the code is built with one; 0 where this processor's is not known.
#[inline(always)]
pub(crate) fn frame_pointer() -> usize {
    #[allow(unused_macros)] // On processors whose register is not known.
    macro_rules! register {
        ($instruction:literal) => {{
            let fp: usize;
            // SAFETY: copies a register.
            unsafe {
                core::arch::asm!(
                    $instruction,
                    out(reg) fp,
                    options(nomem, nostack, preserves_flags)
                )
            };
            fp
        }};
    }
    #[cfg(miri)]
    return 0;
    #[cfg(all(not(miri), any(target_arch = "riscv64", target_arch = "riscv32")))]
    return register!("mv {}, s0");
    #[cfg(all(not(miri), target_arch = "x86_64"))]
    return register!("mov {}, rbp");
    #[cfg(all(not(miri), target_arch = "aarch64"))]
    return register!("mov {}, x29");
    #[cfg(not(any(
        miri,
        target_arch = "riscv64",
        target_arch = "riscv32",
        target_arch = "x86_64",
        target_arch = "aarch64"
    )))]
    0
}

/// Whether [`add_word`] is atomic against other CPUs too.
pub(crate) const ATOMIC_ADD: bool = !cfg!(target_arch = "x86_64");

/// Adds to a word, modulo its size; atomic against whatever interrupts it on this CPU.
#[inline(always)]
pub(crate) fn add_word(word: &AtomicUsize, by: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, all(test, loom)))))]
    local::add_word(word, by);
    // One instruction on RISC-V; a pair of exclusive ones, or one with LSE, on AArch64.
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, all(test, loom))))))]
    word.fetch_add(by, Relaxed);
}

/// Operations that are atomic against interrupts on this CPU. Processors without a cheaper form use
/// the full atomic one, and so do the models, and Miri, which does not interpret assembly.
#[cfg(all(
    target_pointer_width = "64",
    any(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        miri,
        all(test, loom)
    )
))]
pub(crate) mod local {
    use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

    pub(crate) fn compare_and_swap(word: &AtomicU64, old: u64, new: u64) -> bool {
        word.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn add(word: &AtomicU32, value: u32) {
        word.fetch_add(value, Release);
    }

    /// # Safety
    /// `count` words from `words` on are mapped and only ever used as atomics.
    pub(crate) unsafe fn zero(words: *const AtomicU32, count: usize) {
        for index in 0..count {
            // SAFETY: the caller's promise.
            unsafe { (*words.add(index)).store(0, Relaxed) };
        }
    }

    pub(crate) fn add_long(word: &AtomicU64, value: u64) {
        word.fetch_add(value, Release);
    }
}
