//! SEGGER RTT up-buffers: rings in RAM that a debug probe empties while the CPU runs.
//!
//! The control block is laid out as SEGGER's manual of the J-Link (UM08001, "RTT") and its
//! `SEGGER_RTT.h` describe it; `int` and `unsigned` have 32 bits, a pointer is the target's:
//!
//! | what | where |
//! | --- | --- |
//! | id | 16 bytes: `SEGGER RTT` and zeros |
//! | counts of up-buffers and down-buffers | 32 bits each |
//! | for each up-buffer: name, buffer | two pointers |
//! | its size, write offset, read offset, flags | 32 bits each |
//!
//! The target advances the write offset, the host the read offset; a buffer is empty where they are
//! equal, so it holds one byte less than its size. The block has no down-buffers.
//!
//! A host finds the block by its id. [`Rtt::start`] writes that last, from its end to its
//! beginning, and the id stands in no constant, so that no host finds a block that is not ready or
//! a copy in flash.

#[cfg(test)]
#[cfg(loom)]
mod models;

use core::sync::atomic::AtomicPtr;
// Statics of users hold them, so that they are the core library's on every processor.
#[cfg(not(all(test, loom)))]
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

use super::Sink;
#[cfg(all(test, loom))]
use crate::sync::{AtomicU8, AtomicU32, Ordering, fence};

/// The id, from its end to its beginning.
const ID_REVERSED: &[u8; 10] = b"TTR REGGES";
/// Bytes of a name, its final zero included.
const NAME_LEN: usize = 16;

/// Memory of an up-buffer: place it where the probe can read it while the CPU runs.
#[derive(Debug)]
pub struct UpMemory<const SIZE: usize>([AtomicU8; SIZE]);

impl<const SIZE: usize> UpMemory<SIZE> {
    /// An empty buffer of at least 256 bytes; a trace of a small machine wants 1024 or more.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        const {
            assert!(
                SIZE >= 256 && SIZE <= 1 << 30,
                "an up-buffer has 256 bytes to 1 GiB"
            )
        };
        UpMemory([const { AtomicU8::new(0) }; SIZE])
    }

    /// The bytes, for [`Rtt::start`].
    pub fn bytes(&self) -> &[AtomicU8] {
        &self.0
    }
}

/// A control block.
#[derive(Debug)]
#[repr(C)]
pub struct Rtt<const UP: usize> {
    id: [AtomicU8; 16],
    up_count: AtomicU32,
    down_count: AtomicU32,
    up: [UpBlock; UP],
    /// Beside the block, so that hosts that have only the RAM can read them.
    names: [[AtomicU8; NAME_LEN]; UP],
}

#[derive(Debug)]
#[repr(C)]
struct UpBlock {
    name: AtomicPtr<u8>,
    buffer: AtomicPtr<u8>,
    size: AtomicU32,
    write: AtomicU32,
    read: AtomicU32,
    flags: AtomicU32,
}

impl<const UP: usize> Rtt<UP> {
    /// A block that no host finds yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        const { assert!(UP >= 1 && UP <= 64, "a block has 1 to 64 up-buffers") };
        Rtt {
            id: [const { AtomicU8::new(0) }; 16],
            up_count: AtomicU32::new(0),
            down_count: AtomicU32::new(0),
            up: [const {
                UpBlock {
                    name: AtomicPtr::new(core::ptr::null_mut()),
                    buffer: AtomicPtr::new(core::ptr::null_mut()),
                    size: AtomicU32::new(0),
                    write: AtomicU32::new(0),
                    read: AtomicU32::new(0),
                    flags: AtomicU32::new(0),
                }
            }; UP],
            names: [const { [const { AtomicU8::new(0) }; NAME_LEN] }; UP],
        }
    }

    /// Makes the block ready: each up-buffer with its name, of which the first 15 bytes count, and
    /// its memory. `kymo record --rtt` reads the first one that is named `Kymo`.
    ///
    /// The block and the buffers must stay where they are while a host may read them.
    pub fn start<'a>(&'a mut self, buffers: [(&str, &'a [AtomicU8]); UP]) -> [Up<'a>; UP] {
        let this: &'a Rtt<UP> = self;
        // What stayed in RAM over a reset is not found while it changes.
        for byte in &this.id {
            byte.store(0, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        this.up_count.store(UP as u32, Ordering::Relaxed);
        this.down_count.store(0, Ordering::Relaxed);
        let each = core::array::from_fn(|index| {
            let (block, place) = (&this.up[index], &this.names[index]);
            let (name, memory) = buffers[index];
            let padded = name.bytes().take(NAME_LEN - 1).chain([0; NAME_LEN]);
            for (place, byte) in place.iter().zip(padded) {
                place.store(byte, Ordering::Relaxed);
            }
            // Offsets are 32 bits; what is beyond is not used.
            let size = u32::try_from(memory.len()).unwrap_or(u32::MAX);
            let pointer = |bytes: &[AtomicU8]| bytes.as_ptr().cast::<u8>().cast_mut();
            block.name.store(pointer(place), Ordering::Relaxed);
            block.buffer.store(pointer(memory), Ordering::Relaxed);
            block.size.store(size, Ordering::Relaxed);
            block.write.store(0, Ordering::Relaxed);
            block.read.store(0, Ordering::Relaxed);
            block.flags.store(0, Ordering::Relaxed);
            Up::new(block, memory, 0)
        });
        // Partner: a host reads the rest after it has found the id.
        fence(Ordering::SeqCst);
        for (byte, &letter) in this.id[..ID_REVERSED.len()].iter().rev().zip(ID_REVERSED) {
            byte.store(letter, Ordering::Release);
        }
        each
    }

    /// An up-buffer of a block that was [started](Self::start), again: for callers that cannot keep
    /// what that returned. `memory` is the same, and `written` what [`Up::written`] said last;
    /// there is one caller at a time. `None` where there is no such buffer.
    pub fn up<'a>(&'a self, index: usize, memory: &'a [AtomicU8], written: u32) -> Option<Up<'a>> {
        Some(Up::new(self.up.get(index)?, memory, written))
    }
}

/// The target's end of an up-buffer. It is not `Clone`: an up-buffer has one writer.
#[derive(Debug)]
pub struct Up<'a> {
    block: &'a UpBlock,
    memory: &'a [AtomicU8],
    /// The write offset: the one in the block is for the host.
    write: usize,
}

impl<'a> Up<'a> {
    fn new(block: &'a UpBlock, memory: &'a [AtomicU8], written: u32) -> Up<'a> {
        // Offsets are 32 bits; what is beyond is not used.
        let size = memory.len().min(u32::MAX as usize);
        Up {
            block,
            memory: memory.get(..size).unwrap_or(memory),
            write: (written as usize).min(size.saturating_sub(1)),
        }
    }

    /// The place in the buffer where the next byte will stand.
    pub fn written(&self) -> u32 {
        self.write as u32
    }

    fn free(&self) -> usize {
        // Partner: the host's store after it has copied the bytes before the offset.
        let read = self.block.read.load(Ordering::Acquire) as usize;
        if read >= self.memory.len() {
            // No host that keeps to the rules writes this: nothing can be said to be read.
            0
        } else if read > self.write {
            read - self.write - 1
        } else {
            self.memory.len() - 1 - (self.write - read)
        }
    }
}

impl Sink for Up<'_> {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        let taken = self.free().min(bytes.len());
        let split = self.memory.split_at_checked(self.write);
        let (before, after) = split.unwrap_or((self.memory, &[]));
        for (place, &byte) in after.iter().chain(before).zip(bytes.iter().take(taken)) {
            place.store(byte, Ordering::Relaxed);
        }
        self.write += taken;
        if self.write >= self.memory.len() {
            self.write -= self.memory.len();
        }
        // Partner: the host copies the bytes before the offset after it has loaded that.
        self.block.write.store(self.write as u32, Ordering::Release);
        taken
    }

    fn room(&self) -> Option<usize> {
        Some(self.free())
    }
}
