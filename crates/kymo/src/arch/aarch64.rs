//! AArch64: the virtual counter, and the block's address behind `tpidr_el1`.
//!
//! [`LocalCas`](crate::platform::LocalCas) is the way to reserve space: its compare-and-swap is a
//! pair of exclusive instructions, and the second one fails where an interrupt or pseudo-NMI has
//! come between.

use core::arch::asm;

use crate::ring::layout::Control;
use crate::ring::local::ControlPointer;

/// The virtual counter, `cntvct_el0`, in ticks of [`frequency`]. Not ordered against other
/// instructions: there is no `isb` before it.
#[inline(always)]
pub fn time() -> u64 {
    let now;
    // SAFETY: reads a counter.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}

/// Ticks of the counter per second, as the firmware has left them in `cntfrq_el0`.
#[inline(always)]
pub fn frequency() -> u64 {
    let frequency;
    // SAFETY: reads a register.
    unsafe {
        asm!(
            "mrs {}, cntfrq_el0",
            out(reg) frequency,
            options(pure, nomem, nostack, preserves_flags),
        )
    };
    frequency
}

/// The address of this CPU's first block stands `OFFSET` bytes behind where `tpidr_el1` points,
/// from before the CPU's first tracepoint on: `ByPointer<AtTpidr<8>>`. For kernels at EL1.
#[derive(Debug)]
pub struct AtTpidr<const OFFSET: usize>;

// SAFETY: the kernel that chooses it keeps the address of a block of this CPU there.
unsafe impl<const OFFSET: usize> ControlPointer for AtTpidr<OFFSET> {
    const NEVER_NULL: bool = true;

    #[inline(always)]
    fn get() -> *const Control {
        let pointer;
        // SAFETY: reads per-CPU data. It gives the same as long as the code stays on the CPU, so
        // that one reading serves a whole tracepoint.
        unsafe {
            asm!(
                "mrs {pointer}, tpidr_el1",
                "ldr {pointer}, [{pointer}, {offset}]",
                pointer = out(reg) pointer,
                offset = const OFFSET,
                options(pure, readonly, nostack, preserves_flags),
            )
        };
        pointer
    }
}
