//! Records that find no ring: those of CPUs that the session was not started for. No packet tells
//! that they were lost, so the region counts them behind its header, where every reader of the
//! region finds the number: the kernel, a host beside it, and whoever has its memory later.
//!
//! A CPU has control blocks beyond those of the session, or none at all. In the first case its
//! switches are those of the session, and the slow path finds that the block has no packets. In the
//! second the switches are those of the session's first CPU.
//!
//! # Invariants
//! - The hot path asks nothing of this: it tests for a ring, or for room, in any case.
//! - [`SESSION`] is set before any event of the session is on, and cleared after all are off. So
//!   nobody counts before [`Memory::form`](super::region::Memory) has set the count to 0, but who
//!   has tested a switch of an earlier session.

use super::layout::{CONTROL_OFFSET, CONTROL_SIZE, Control, WITHOUT_RING_OFFSET};
use crate::channel::ChannelKind;
use crate::sync::{AtomicU8, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Address of the region of the session that runs, 0 for none.
static SESSION: AtomicUsize = AtomicUsize::new(0);

/// A place in the region of the session that runs.
fn place<T>(offset: usize) -> Option<*const T> {
    // Partner: the release in `begin`.
    let region = SESSION.load(Acquire);
    (region != 0).then(|| core::ptr::with_exposed_provenance(region + offset))
}

/// Counts a record that found no ring; returns that it was not recorded.
#[cold]
#[inline(never)]
pub(crate) fn count() -> bool {
    if let Some(counter) = place::<AtomicUsize>(WITHOUT_RING_OFFSET) {
        // SAFETY: an aligned word behind the region's header, in memory that stays mapped for ever,
        // and that is only ever touched atomically.
        unsafe { (*counter).fetch_add(1, Relaxed) };
    }
    false
}

/// Counts a record whose block has no packet size: it belongs to no session, or a session is being
/// laid out over it. That one is the earlier session's, and ends with it.
pub(crate) fn count_closed(control: &Control) {
    if control.packets.load(Relaxed) == 0 {
        count();
    }
}

/// From here on records without a ring are counted in the region at `base`, and the switches of its
/// first block are those of CPUs without any block.
pub(crate) fn begin(base: *mut u8) {
    // Partner: the acquire in `place`.
    SESSION.store(base.expose_provenance(), Release);
}

/// The session over the region at `base` has ended. If another one has begun meanwhile, nothing
/// changes.
pub(crate) fn end(base: *mut u8) {
    let _ = SESSION.compare_exchange(base.addr(), 0, Relaxed, Relaxed);
}

/// Whether an event is on, for a CPU without a block: `offset` and `mask` are its switch's.
#[cold]
#[inline(never)]
pub(crate) fn is_on(offset: usize, mask: u8) -> bool {
    if offset >= ChannelKind::ALL.len() * CONTROL_SIZE {
        return false;
    }
    let Some(switch) = place::<AtomicU8>(CONTROL_OFFSET + offset) else {
        return false;
    };
    // SAFETY: a byte of the first CPU's blocks, in memory that stays mapped for ever, and that is
    // only ever touched atomically.
    unsafe { (*switch).load(Relaxed) & mask != 0 }
}
