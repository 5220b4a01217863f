//! Architecture code: one folder each, with the same functions, and what they have in common.

#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
mod device_tree;
#[cfg(any(target_arch = "riscv64", target_arch = "x86_64"))]
mod ns16550;
mod table;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
mod virtio_mmio;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

use core::ops::Range;

/// A hart boots with 2 to the power of this bytes of stack.
const BOOT_STACK_SHIFT: usize = 14;

/// The kernel's code.
pub fn text() -> Range<usize> {
    unsafe extern "C" {
        /// In link.ld.
        safe static __text: u8;
        safe static __text_end: u8;
    }
    &raw const __text as usize..&raw const __text_end as usize
}

/// The stack with which a hart has booted, and which its idle thread keeps.
pub fn boot_stack(hart: usize) -> Range<usize> {
    unsafe extern "C" {
        /// In boot.s.
        safe static boot_stacks: u8;
    }
    let start = &raw const boot_stacks as usize + (hart << BOOT_STACK_SHIFT);
    start..start + (1 << BOOT_STACK_SHIFT)
}
