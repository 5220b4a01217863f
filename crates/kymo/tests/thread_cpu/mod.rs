//! What test platforms stand on: a thread that is whichever CPU the test says, without interrupts.
//! Unit tests, those beside this folder, and kymo-ctf's share it.
#![allow(dead_code, clippy::expect_used)] // Not each of them needs all.

use std::cell::Cell;
use std::marker::PhantomData;

use kymo::Memory;
use kymo::platform::{ByPointer, Control, ControlPointer, Interrupts, Platform};
use kymo::ring::Reserve;

thread_local! {
    /// The block of the CPU that the thread is.
    pub static BLOCK: Cell<*const Control> = const { Cell::new(std::ptr::null()) };
    /// A clock of the test's own, in ticks.
    pub static CLOCK: Cell<u64> = const { Cell::new(0) };
}

/// This thread's [`BLOCK`].
#[derive(Debug)]
pub struct Block;
// SAFETY: a test has one thread at a time be a CPU, and its blocks are in memory that is never
// freed.
unsafe impl ControlPointer for Block {
    fn get() -> *const Control {
        BLOCK.get()
    }
}

/// Interrupts that never come.
#[derive(Debug)]
pub struct NoInterrupts;
// SAFETY: a test thread has no interrupts.
unsafe impl Interrupts for NoInterrupts {
    fn mask() -> usize {
        0
    }
    fn restore(_: usize) {}
}

/// A machine of one thread, which is the CPU of [`BLOCK`], reads [`CLOCK`], and records with `R`.
/// The clock goes on by `STEP` ticks before each reading.
#[derive(Debug)]
pub struct OneThread<R, const STEP: u64 = 0>(PhantomData<R>);
// SAFETY: see `Block`.
unsafe impl<R: Reserve + 'static, const STEP: u64> Platform for OneThread<R, STEP> {
    type Reserve = R;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        CLOCK.set(CLOCK.get() + STEP);
        CLOCK.get()
    }
    fn synchronize() {}
}

/// Memory of `bytes` zeros for `cpus` CPUs; it is never freed.
pub fn leaked(bytes: usize, cpus: u32) -> Memory {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).expect("the size fits");
    // SAFETY: the size is not zero; the memory is never freed.
    unsafe { Memory::new(std::alloc::alloc_zeroed(layout), layout.size(), cpus) }
}
