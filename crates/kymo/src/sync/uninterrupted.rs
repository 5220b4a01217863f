//! Atomics of processors without a compare-and-swap: Cortex-M0 and RV32 without the extension A.
//! They have one CPU, so that what no interrupt divides is atomic.
//!
//! Loads and stores are the processor's. What reads and writes runs with interrupts masked; none of
//! it is on a hot path. An NMI must not call Kymo here.

use core::sync::atomic::{self, Ordering};

/// Runs `critical` with this CPU's interrupts masked. Only privileged code can do that.
#[inline]
fn uninterrupted<T>(critical: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "arm")]
    {
        let primask: u32;
        // SAFETY: reads PRIMASK, then sets it; the memory clobber keeps `critical` behind.
        unsafe {
            core::arch::asm!("mrs {}, PRIMASK", "cpsid i", out(reg) primask, options(nostack))
        };
        let result = critical();
        if primask & 1 == 0 {
            // SAFETY: interrupts were not masked before.
            unsafe { core::arch::asm!("cpsie i", options(nostack)) };
        }
        result
    }
    #[cfg(target_arch = "riscv32")]
    {
        let mstatus: u32;
        // SAFETY: clears `mstatus.MIE`; the memory clobber keeps `critical` behind.
        unsafe { core::arch::asm!("csrrci {}, mstatus, 8", out(reg) mstatus, options(nostack)) };
        let result = critical();
        // SAFETY: sets the bit if it was set before.
        unsafe { core::arch::asm!("csrs mstatus, {}", in(reg) mstatus & 8, options(nostack)) };
        result
    }
    #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
    compile_error!("this processor has no compare-and-swap, and Kymo cannot mask its interrupts");
}

macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident($inner:ident): $value:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name(atomic::$inner);

        #[allow(dead_code)] // Each has the same functions.
        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$inner::new(value))
            }

            /// Loads the value.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Stores a value.
            #[inline(always)]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }

            pub(crate) fn fetch_add(&self, by: $value, _: Ordering) -> $value {
                uninterrupted(|| {
                    let before = self.0.load(Ordering::Relaxed);
                    self.0.store(before.wrapping_add(by), Ordering::Relaxed);
                    before
                })
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                uninterrupted(|| {
                    let before = self.0.load(Ordering::Relaxed);
                    if before != old {
                        return Err(before);
                    }
                    self.0.store(new, Ordering::Relaxed);
                    Ok(before)
                })
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, success, failure)
            }
        }
    )*};
}

atomics! {
    /// A byte.
    AtomicU8(AtomicU8): u8;
    /// A word.
    AtomicU32(AtomicU32): u32;
    /// A machine word.
    AtomicUsize(AtomicUsize): usize;
}
