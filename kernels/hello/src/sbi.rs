//! Firmware calls (RISC-V SBI; the console is the legacy one, because OpenSBI 1.1 has no other).

/// Returns the error code, 0 for none.
fn call(extension: usize, function: usize, arguments: [usize; 3]) -> isize {
    let error;
    // SAFETY: an SBI call changes only a0 and a1, and no call below passes memory to be written.
    unsafe {
        core::arch::asm!("ecall", inlateout("a0") arguments[0] => error, inlateout("a1") arguments[1] => _,
            in("a2") arguments[2], in("a6") function, in("a7") extension);
    }
    error
}

/// Writes one byte to the serial port.
pub fn put(byte: u8) {
    call(1, 0, [byte.into(), 0, 0]);
}

/// Requests this hart's next timer interrupt at `time`, and cancels a pending one.
pub fn set_timer(time: u64) {
    call(0x5449_4D45, 0, [time as usize, 0, 0]);
}

/// Whether the machine has a hart of this id.
pub fn hart_exists(id: usize) -> bool {
    call(0x48_534D, 2, [id, 0, 0]) == 0
}

/// Starts hart `id` at `entry` with `argument` in a1; it sees everything written before this call.
pub fn start_hart(id: usize, entry: usize, argument: usize) {
    let error = call(0x48_534D, 0, [id, entry, argument]);
    assert_eq!(error, 0, "the firmware does not start hart {id}");
}
