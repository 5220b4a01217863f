//! The kernel's own counts of its events. Tests compare the trace with them, also after a kill:
//! they find this page of guest RAM by the symbol `LEDGER`.

use core::sync::atomic::{AtomicU64, Ordering::Release};

/// Indices of a hart's first words: the number of returned tracing calls, by event. [`LAST_MARKER`]
/// follows.
pub enum Calls {
    Switch,
    IrqEnter,
    IrqExit,
    ThreadName,
    Marker,
}

/// Index of the first of two words, one per thread: the sequence number of its last marker whose
/// call has returned.
pub const LAST_MARKER: usize = 5;

/// Only hart `hart` writes its 64 bytes, at `64 * (hart + 1)`.
#[repr(C, align(4096))]
pub struct Ledger {
    magic: [u8; 64],
    pub harts: [[AtomicU64; 8]; crate::MAX_HARTS],
}

#[used]
#[unsafe(no_mangle)]
pub static LEDGER: Ledger = Ledger {
    magic: *b"KYMO-LEDGER-1: 64 bytes a hart: 5 counters, 2 last markers      ",
    harts: [const { [const { AtomicU64::new(0) }; 8] }; crate::MAX_HARTS],
};

/// Counts a call, in one instruction (`amoadd`), because an interrupt may count too.
pub fn count(hart: usize, calls: Calls) {
    LEDGER.harts[hart][calls as usize].fetch_add(1, Release);
}
