//! Work whose division among functions is known: the kernel's part of the program `known`. Tests
//! compare it with the samples.

use crate::abi::PART;
use crate::arch;

/// 35 parts with interrupts on, in functions that call each other, or 20 with interrupts masked.
pub fn work(masked: bool) {
    if masked {
        known_masked();
    } else {
        arch::restore(true);
        known_outer();
        arch::mask();
    }
}

/// 20 parts.
#[inline(never)]
fn known_masked() {
    arch::spin(20 * PART);
}

/// 15 parts of its own.
#[inline(never)]
fn known_outer() {
    arch::spin(15 * PART);
    known_inner();
    known_inlined();
}

/// 10 parts.
#[inline(never)]
fn known_inner() {
    arch::spin(10 * PART);
}

/// 10 parts, in the code of its caller.
#[inline(always)]
fn known_inlined() {
    arch::spin(10 * PART);
}
