//! An allocator of physical frames, in runs of a power of two.

use kymo::vocabulary::{FrameAlloc, FrameFree};

use crate::arch::paging::PAGE;
use crate::lock::Spin;

/// Most frames that it manages: 128 MiB.
const MAX_FRAMES: usize = 32 << 10;

struct Frames {
    first: usize,
    count: usize,
    /// A bit per frame, set while it is allocated.
    used: [u64; MAX_FRAMES / 64],
    /// Index at which the last search ended.
    at: usize,
    free: usize,
}

static FRAMES: Spin<Frames> = Spin::new(Frames {
    first: 0,
    count: 0,
    used: [0; MAX_FRAMES / 64],
    at: 0,
    free: 0,
});

impl Frames {
    fn is_used(&self, index: usize) -> bool {
        self.used[index / 64] & 1 << (index % 64) != 0
    }

    fn flip(&mut self, index: usize) {
        self.used[index / 64] ^= 1 << (index % 64);
    }
}

/// Adds the free memory.
pub fn init(memory: core::ops::Range<usize>) {
    let mut frames = FRAMES.lock();
    frames.first = memory.start.next_multiple_of(PAGE);
    frames.count = ((memory.end - frames.first) / PAGE).min(MAX_FRAMES);
    frames.free = frames.count;
}

/// Allocates 2^`order` frames and gives the address of the first.
pub fn alloc(order: u32) -> Option<usize> {
    let mut frames = FRAMES.lock();
    let (size, count) = (1 << order, frames.count);
    // From the last position, once around.
    let starts = (frames.at.next_multiple_of(size)..count)
        .step_by(size)
        .chain((0..count).step_by(size));
    let fits = |&start: &usize| {
        start + size <= count && !(start..start + size).any(|index| frames.is_used(index))
    };
    let start = starts.take(2 * count).find(fits)?;
    (start..start + size).for_each(|index| frames.flip(index));
    frames.at = start + size;
    frames.free -= size;
    let address = frames.first + start * PAGE;
    record!(FrameAlloc {
        pfn: (address / PAGE) as u64,
        order
    });
    Some(address)
}

/// Allocates one zeroed frame.
pub fn alloc_zeroed() -> Option<usize> {
    let frame = alloc(0)?;
    // SAFETY: nobody else uses the frame, and memory is mapped at its own address.
    unsafe { core::ptr::write_bytes(frame as *mut u8, 0, PAGE) };
    Some(frame)
}

/// Frees what [`alloc`] gave.
pub fn free(address: usize, order: u32) {
    let mut frames = FRAMES.lock();
    let (start, size) = ((address - frames.first) / PAGE, 1 << order);
    for index in start..start + size {
        assert!(frames.is_used(index), "frame {address:#x} is free already");
        frames.flip(index);
    }
    frames.free += size;
    record!(FrameFree {
        pfn: (address / PAGE) as u64,
        order
    });
}

/// Number of free frames.
pub fn count_free() -> usize {
    FRAMES.lock().free
}
