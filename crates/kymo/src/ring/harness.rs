//! What the tests and the models of the ring stand on: a thread that is a CPU, memory, and records
//! that say whether they are whole.

use core::fmt;
use std::cell::Cell;

use super::layout::Control;
use super::local::ControlPointer;
use super::masked::Interrupts;
use super::reader::Shapes;
use super::region::{Contents, Memory};
use crate::event::Shape;

thread_local! {
    /// The block of the CPU that the thread is.
    pub(crate) static BLOCK: Cell<*const Control> = const { Cell::new(std::ptr::null()) };
}

/// This thread's [`BLOCK`].
pub(crate) struct Block;
// SAFETY: a test has one thread at a time be a CPU, and its blocks are in memory that is never
// freed.
unsafe impl ControlPointer for Block {
    fn get() -> *const Control {
        BLOCK.get()
    }
}

/// Interrupts that never come.
pub(crate) struct NoInterrupts;
// SAFETY: a test thread has no interrupts.
unsafe impl Interrupts for NoInterrupts {
    fn mask() -> usize {
        0
    }
    fn restore(_: usize) {}
}

/// Memory of `bytes` zeros for `cpus` CPUs; it is never freed.
pub(crate) fn leaked(bytes: usize, cpus: u32) -> Memory {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).unwrap();
    // SAFETY: the size is not zero; the memory is never freed.
    unsafe { Memory::new(std::alloc::alloc_zeroed(layout), bytes, cpus) }
}

/// The control block of the first CPU's events.
pub(crate) fn control(memory: &Memory) -> &'static Control {
    // SAFETY: the block of leaked memory.
    unsafe { &*memory.control(0) }
}

/// The word that a record has besides its number, by which the reader knows that it is whole.
pub(crate) fn check_of(seq: u32) -> u32 {
    seq.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995
}

/// The records that a region is formed for.
pub(crate) struct Records {
    /// Ids and shapes.
    pub(crate) shapes: &'static [(u32, Shape)],
    /// Words of the longest record, header included.
    pub(crate) longest: usize,
}

impl Contents for Records {
    fn shapes(&self) -> impl Iterator<Item = (u32, Shape)> {
        self.shapes.iter().copied()
    }

    fn longest_record(&self) -> usize {
        self.longest
    }

    fn counter_words(&self) -> u32 {
        0
    }

    fn write_metadata(&self, uuid: [u8; 16], out: &mut impl fmt::Write) -> fmt::Result {
        write!(out, "records of {uuid:02x?}")
    }
}

impl Shapes for Records {
    fn shape(&self, id: u32) -> Option<Shape> {
        let mut shapes = self.shapes.iter();
        shapes
            .find(|(other, _)| *other == id)
            .map(|&(_, shape)| shape)
    }
}
