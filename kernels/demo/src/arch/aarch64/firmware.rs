//! Calls of the firmware, and of QEMU: PSCI (Arm DEN 0022), and semihosting (Arm's specification
//! for AArch64), which has an exit code where PSCI has none.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

const SYSTEM_OFF: usize = 0x8400_0008;
const CPU_ON: usize = 0xC400_0003;
const AFFINITY_INFO: usize = 0xC400_0004;

/// Whether the kernel has asked QEMU for an exit code, which it need not know.
static ASKED: AtomicBool = AtomicBool::new(false);

fn call(function: usize, arguments: [usize; 3]) -> isize {
    let result;
    // SAFETY: a PSCI call changes x0 to x3, and no call below passes memory to be written.
    unsafe {
        asm!("hvc 0", inlateout("x0") function => result, inlateout("x1") arguments[0] => _,
            inlateout("x2") arguments[1] => _, inlateout("x3") arguments[2] => _);
    }
    result
}

/// Whether the machine has a hart of this id.
pub fn hart_exists(id: usize) -> bool {
    call(AFFINITY_INFO, [id, 0, 0]) >= 0
}

/// Starts hart `id` at `entry`; it sees everything written before this call.
pub fn start_hart(id: usize, entry: usize) {
    let error = call(CPU_ON, [id, entry, 0]);
    assert_eq!(error, 0, "the firmware does not start hart {id}");
}

/// Switches the machine off.
pub fn switch_off() -> ! {
    call(SYSTEM_OFF, [0; 3]);
    unreachable!("QEMU goes on")
}

/// Ends QEMU with this exit code, if its semihosting is enabled. Otherwise the instruction is an
/// exception, in which [`was_asked`] is true.
pub fn exit_with(code: u32) {
    const EXIT_EXTENDED: u32 = 0x20;
    const APPLICATION_EXIT: usize = 0x2_0026;
    ASKED.store(true, Relaxed);
    let reason = [APPLICATION_EXIT, code as usize];
    // SAFETY: QEMU reads the two words.
    unsafe { asm!("hlt 0xf000", inlateout("w0") EXIT_EXTENDED => _, in("x1") reason.as_ptr()) };
}

/// Whether QEMU was asked for an exit code: an exception after that is its answer.
pub fn was_asked() -> bool {
    ASKED.load(Relaxed)
}
