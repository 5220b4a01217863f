//! x86-64: the time stamp counter, and read-modify-write instructions without `lock`.

/// The time stamp counter. Not ordered against other instructions; its rate is constant where CPUID says "invariant TSC".
#[inline(always)]
pub fn tsc() -> u64 {
    // SAFETY: RDTSC reads a counter; it is there on every x86-64 processor.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Single instructions are atomic against interrupts of this CPU without a `lock` prefix, which costs 8 to 15 ns.
///
/// They are not atomic against other CPUs: invariant 1 of the ring says that no other CPU writes these words. Stores become visible
/// in program order on x86, so each of them is also a release.
pub(crate) mod local {
    use core::arch::asm;
    use core::sync::atomic::{AtomicU32, AtomicU64};

    #[inline(always)]
    pub(crate) fn compare_and_swap(word: &AtomicU64, old: u64, new: u64) -> bool {
        let found: u64;
        // SAFETY: an aligned word that only this CPU writes.
        unsafe {
            asm!("cmpxchg [{word}], {new}", word = in(reg) word.as_ptr(), new = in(reg) new,
                inlateout("rax") old => found, options(nostack));
        }
        found == old
    }

    #[inline(always)]
    pub(crate) fn add(word: &AtomicU32, value: u32) {
        // SAFETY: an aligned word that only this CPU writes.
        unsafe { asm!("add dword ptr [{word}], {value:e}", word = in(reg) word.as_ptr(), value = in(reg) value, options(nostack)) }
    }

    #[inline(always)]
    pub(crate) fn add_long(word: &AtomicU64, value: u64) {
        // SAFETY: an aligned word that only this CPU writes.
        unsafe { asm!("add qword ptr [{word}], {value}", word = in(reg) word.as_ptr(), value = in(reg) value, options(nostack)) }
    }
}
