//! Frames that a function makes for wrong frame pointers. The program `broken` and the kernel's
//! workload of that name both compile this file.

use core::hint::black_box;

use super::BEHIND_FRAME;

/// Rounds of each spin: 100 us, as long as the period of the samples.
pub const SPIN: usize = 50_000;

/// Two words that a function keeps for its frame pointer.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Frame {
    pub caller: usize,
    pub address: usize,
}

impl Frame {
    /// The frame of a function that `broken_caller` has called, `call` bytes behind its start.
    pub fn called(call: usize, caller: usize) -> Frame {
        let address = broken_caller as *const () as usize + call;
        Frame { caller, address }
    }
}

/// The frame pointer for a frame at this address.
pub fn pointer(frame: *const Frame) -> usize {
    black_box(frame) as usize + BEHIND_FRAME
}

/// Tests find its address by its symbol.
#[unsafe(no_mangle)]
extern "C" fn broken_caller() {
    black_box(());
}
