//! The peers, one file each.

#[cfg(feature = "barectf")]
mod barectf;
mod floor;
mod kymo;
#[cfg(feature = "lttng")]
mod lttng;
mod plain;
mod tracing;

use anyhow::Result;

use crate::peer::Peer;

/// A ring of a thread, on cache lines of its own, which is never freed.
#[repr(C, align(4096))]
struct Ring<R, const N: usize> {
    /// Position of the next record, in the peer's unit.
    next: u64,
    /// A second number for the peer's use.
    commits: u64,
    /// On lines apart from the numbers.
    _line: [u64; 14],
    records: [R; N],
}

/// All peers of this build, the floors first.
pub fn all() -> Result<Vec<Peer>> {
    let mut peers = vec![
        floor::empty(),
        floor::clock(),
        floor::stores(),
        floor::compare_and_swap(),
    ];
    peers.extend(kymo::peers()?);
    #[cfg(feature = "barectf")]
    peers.push(barectf::peer());
    peers.push(plain::peer());
    peers.push(tracing::peer()?);
    #[cfg(feature = "lttng")]
    peers.push(lttng::peer()?);
    Ok(peers)
}

/// Creates a zeroed ring for a thread, and gives its permanent address.
fn make_ring<R, const N: usize>() -> *mut Ring<R, N> {
    let layout = std::alloc::Layout::new::<Ring<R, N>>();
    // SAFETY: the layout is not empty. Records are integers, which may be zero.
    let ring = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Ring<R, N>>();
    if ring.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    ring
}
