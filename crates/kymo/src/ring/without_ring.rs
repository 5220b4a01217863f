//! Records that find no ring: those of CPUs that the session was not started for. No packet tells
//! that they were lost, so they are counted here, and a session's end says how many.
//!
//! A CPU has control blocks beyond those of the session, or none at all. In the first case its
//! switches are those of the session, and the slow path finds that the block has no packets. In the
//! second the switches are those of the session's first CPU.
//!
//! # Invariants
//! - The hot path asks nothing of this: it tests for a ring, or for room, in any case.
//! - The count goes up only, for as long as the kernel runs. A session notes what it was when it
//!   began, so that it never has to be reset under those who count.

use super::layout::{CONTROL_SIZE, Control};
use crate::channel::ChannelKind;
use crate::sync::{AtomicU8, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Records that found no ring.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Address of the first control block of the session that runs, 0 for none.
static SESSION: AtomicUsize = AtomicUsize::new(0);

/// Counts a record that found no ring; returns that it was not recorded.
#[cold]
#[inline(never)]
pub(crate) fn count() -> bool {
    COUNT.fetch_add(1, Relaxed);
    false
}

/// Counts a record whose block has no packet size: it belongs to no session, or a session is being
/// laid out over it. That one is the earlier session's, and ends with it.
pub(crate) fn count_closed(control: &Control) {
    if control.packets.load(Relaxed) == 0 {
        count();
    }
}

/// How many records found no ring. Compare it with what it was, by a wrapping subtraction.
pub(crate) fn counted() -> usize {
    COUNT.load(Relaxed)
}

/// From here on the switches of `first`, the first block of a region, are those of CPUs without any
/// block.
pub(crate) fn begin(first: &'static Control) {
    // Partner: the acquire in `is_on`.
    SESSION.store(core::ptr::from_ref(first).expose_provenance(), Release);
}

/// The session whose first block is `first` has ended. If another one has begun meanwhile, nothing
/// changes.
pub(crate) fn end(first: &'static Control) {
    let first = core::ptr::from_ref(first).addr();
    let _ = SESSION.compare_exchange(first, 0, Relaxed, Relaxed);
}

/// Whether an event is on, for a CPU without a block: `offset` and `mask` are its switch's.
#[cold]
#[inline(never)]
pub(crate) fn is_on(offset: usize, mask: u8) -> bool {
    // Partner: the release in `begin`.
    let first = SESSION.load(Acquire);
    if first == 0 || offset >= ChannelKind::ALL.len() * CONTROL_SIZE {
        return false;
    }
    let switch: *const AtomicU8 = core::ptr::with_exposed_provenance(first + offset);
    // SAFETY: a byte of the first CPU's blocks, in memory that stays mapped for ever, and that is
    // only ever touched atomically.
    unsafe { (*switch).load(Relaxed) & mask != 0 }
}
