//! The frames of physical memory, in runs of a power of two.

use kymo::vocabulary::{FrameAlloc, FrameFree};

use crate::arch::paging::PAGE;
use crate::lock::Spin;

/// Frames that can be kept account of: 128 MiB.
const MAX_FRAMES: usize = 32 << 10;

struct Frames {
    first: usize,
    count: usize,
    /// A bit for each, set while it is handed out.
    used: [u64; MAX_FRAMES / 64],
    /// Where the last one was found.
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

/// Hands over the memory that there is.
pub fn init(memory: core::ops::Range<usize>) {
    let mut frames = FRAMES.lock();
    frames.first = memory.start.next_multiple_of(PAGE);
    frames.count = ((memory.end - frames.first) / PAGE).min(MAX_FRAMES);
    frames.free = frames.count;
}

/// Takes 2 to the power of `order` frames. Gives the address of the first.
pub fn alloc(order: u32) -> Option<usize> {
    let mut frames = FRAMES.lock();
    let (size, count) = (1 << order, frames.count);
    // From where the last ones were, and once around.
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

/// Takes one frame, of zeros.
pub fn alloc_zeroed() -> Option<usize> {
    let frame = alloc(0)?;
    // SAFETY: the frame is nobody else's, and memory is mapped where it is.
    unsafe { core::ptr::write_bytes(frame as *mut u8, 0, PAGE) };
    Some(frame)
}

/// Gives back what [`alloc`] gave.
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

/// How many frames are free.
pub fn count_free() -> usize {
    FRAMES.lock().free
}
