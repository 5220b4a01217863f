//! Interrupts and exceptions, from the processor's numbers to the kernel's functions.

use super::{disarm_software, hart};
use crate::interrupt;

/// What a trap saves, as trap.s lays it out.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// x0 to x31; the first is not used.
    pub registers: [usize; 32],
    /// Where the code goes on.
    pub pc: usize,
    /// `sstatus`.
    pub status: usize,
}

const INTERRUPT: usize = 1 << (usize::BITS - 1);
pub const SOFTWARE: usize = 1;
pub const TIMER: usize = 5;
/// `sstatus`: the trap came from the kernel.
const FROM_KERNEL: usize = 1 << 8;

/// trap.s calls this for every trap, with interrupts masked.
pub extern "C" fn trap(frame: &mut Frame, cause: usize, value: usize) {
    let kernel = frame.status & FROM_KERNEL != 0;
    match cause {
        _ if cause == INTERRUPT | SOFTWARE => interrupt::handle(SOFTWARE as u32, || {
            disarm_software();
            interrupt::asked();
        }),
        _ if cause == INTERRUPT | TIMER => interrupt::handle(TIMER as u32, interrupt::tick),
        _ => {
            let (pc, mode) = (frame.pc, if kernel { "the kernel" } else { "user mode" });
            panic!("exception {cause} on hart {} at {pc:#x} in {mode}, value {value:#x}", hart());
        }
    }
    interrupt::leave();
}
