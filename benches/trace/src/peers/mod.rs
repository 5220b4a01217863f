//! One file a peer.

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

/// A ring that a thread owns, on lines of its own, and that is never freed.
#[repr(C, align(4096))]
struct Ring<R, const N: usize> {
    /// Where the next record goes, in whatever unit the peer counts.
    next: u64,
    /// A second number for the peer's use, constant or on the same line.
    commits: u64,
    /// Apart from the numbers.
    _line: [u64; 14],
    records: [R; N],
}

/// All peers that this build has, the floors first.
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

/// Makes a zeroed ring for a thread. Returns its address, which stays good.
fn make_ring<R, const N: usize>() -> *mut Ring<R, N> {
    let layout = std::alloc::Layout::new::<Ring<R, N>>();
    // SAFETY: the layout is not empty. Records are integers, which may be zero.
    let ring = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Ring<R, N>>();
    if ring.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    ring
}
