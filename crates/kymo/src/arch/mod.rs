//! What differs by processor: one file each, with what the ring or a port needs from it.

#[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
pub mod riscv;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

#[cfg(all(target_arch = "x86_64", not(any(miri, all(test, loom)))))]
pub(crate) use x86_64::local;

/// Operations that are atomic against interrupts on this CPU. Processors without a cheaper form use
/// the full atomic one, and so do the models, and Miri, which does not interpret assembly.
#[cfg(all(
    target_pointer_width = "64",
    any(not(target_arch = "x86_64"), miri, all(test, loom))
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
