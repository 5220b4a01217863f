//! The processor's ports to devices.

use core::arch::asm;

/// Writes a byte.
///
/// # Safety
/// The device must not write to memory that is in use.
pub unsafe fn out(port: u16, value: u8) {
    // SAFETY: as promised.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// Writes two bytes.
///
/// # Safety
/// As [`out`].
pub unsafe fn out16(port: u16, value: u16) {
    // SAFETY: as promised.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nostack, preserves_flags)) };
}

/// Writes four bytes.
///
/// # Safety
/// As [`out`].
pub unsafe fn out32(port: u16, value: u32) {
    // SAFETY: as promised.
    unsafe {
        asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags))
    };
}

/// Reads a byte.
pub fn input(port: u16) -> u8 {
    let value;
    // SAFETY: no device of this machine changes memory when it is read.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) };
    value
}

/// Reads four bytes.
pub fn input32(port: u16) -> u32 {
    let value;
    // SAFETY: as above.
    unsafe {
        asm!("in eax, dx", in("dx") port, out("eax") value, options(nostack, preserves_flags))
    };
    value
}
