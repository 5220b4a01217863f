//! Work whose instructions are known, for tests of counters in a Linux guest.

/// Executes a loop of two instructions so many times, which must not be 0.
#[cfg(target_arch = "aarch64")]
pub fn spin(loops: u64) {
    // SAFETY: the loop changes no memory, and no register but its own.
    unsafe {
        std::arch::asm!(
            "2: subs {left}, {left}, #1",
            "b.ne 2b",
            left = inout(reg) loops => _,
            options(nomem, nostack)
        );
    }
}

/// Elsewhere nobody counts it.
#[cfg(not(target_arch = "aarch64"))]
pub fn spin(loops: u64) {
    (0..loops).for_each(|at| {
        std::hint::black_box(at);
    });
}
