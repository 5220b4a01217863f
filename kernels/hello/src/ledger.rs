//! What the kernel itself knows of the events it made. Tests hold the trace against it, also after
//! a kill: the symbol `LEDGER` leads them to this page of guest RAM.

use core::sync::atomic::{AtomicU64, Ordering::Release};

/// The first words of a hart: how many tracing calls have returned, by event. After them:
/// [`LAST_MARKER`].
pub enum Calls {
    Switch,
    IrqEnter,
    IrqExit,
    ThreadName,
    Marker,
}

/// The first of two words, one a thread: the sequence number of its last marker whose call has
/// returned.
pub const LAST_MARKER: usize = 5;

/// Each hart has the 64 bytes at `64 * (hart + 1)`, and only that hart writes them.
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

/// Counts one more call. An interrupt may come in between and count too, so this is one instruction
/// (`amoadd`).
pub fn count(hart: usize, calls: Calls) {
    LEDGER.harts[hart][calls as usize].fetch_add(1, Release);
}
