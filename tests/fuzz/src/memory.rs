//! Peak memory of a run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static BASE: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with accounting.
pub(crate) struct Counting;

/// Starts counting.
pub(crate) fn begin() {
    let now = NOW.load(Ordering::Relaxed);
    BASE.store(now, Ordering::Relaxed);
    MOST.store(now, Ordering::Relaxed);
}

/// The peak since [`begin`], in bytes.
pub(crate) fn most() -> usize {
    MOST.load(Ordering::Relaxed)
        .saturating_sub(BASE.load(Ordering::Relaxed))
}

fn more(size: usize) {
    let now = NOW.fetch_add(size, Ordering::Relaxed) + size;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's promise is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is this one's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's promise is this one's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        more(size);
        // SAFETY: the caller's promise is this one's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
