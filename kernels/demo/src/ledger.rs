//! What the kernel itself knows of its operations. Tests hold the trace against it: the symbol `LEDGER` leads them to this page of guest RAM.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::event::Event;

use crate::{MAX_HARTS, arch};

/// Counters a hart has: one for each id below.
pub const IDS: usize = 160;

/// The counters.
#[repr(C, align(4096))]
pub struct Ledger {
    magic: [u8; 64],
    /// By hart, then by the id of the event that tells of the operation. Only that hart writes them.
    pub harts: [[AtomicU64; IDS]; MAX_HARTS],
}

#[used]
#[unsafe(no_mangle)]
pub static LEDGER: Ledger = Ledger {
    magic: *b"KYMO-LEDGER-2: 160 counters a hart, by the events' ids          ",
    harts: [const { [const { AtomicU64::new(0) }; IDS] }; MAX_HARTS],
};

/// Counts an operation that `E` tells of. Interrupts are masked: an operation is counted and recorded on one hart.
pub fn count<E: Event>() {
    const { assert!((E::ID as usize) < IDS) };
    let counter = &LEDGER.harts[arch::hart()][E::ID as usize];
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// An operation of the kernel: it is counted, and recorded. Stands where the operation is done, with interrupts masked.
macro_rules! record {
    ($event:ident { $($fields:tt)* }) => {{
        $crate::ledger::count::<$event>();
        kymo::trace_masked!($event { $($fields)* });
    }};
}
