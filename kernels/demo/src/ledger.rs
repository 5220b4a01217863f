//! What the kernel itself knows of its operations. Tests hold the trace against it: the symbols
//! lead them to these pages of guest RAM.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::event::Event;

use crate::{MAX_HARTS, arch};

/// Counters a hart has: one for each id below.
pub const IDS: usize = 160;

/// The counters.
#[repr(C, align(4096))]
pub struct Ledger {
    magic: [u8; 64],
    /// By hart, then by the id of the event that tells of the operation. Only that hart writes
    /// them.
    pub harts: [[AtomicU64; IDS]; MAX_HARTS],
}

/// Every operation since boot.
#[used]
#[unsafe(no_mangle)]
pub static LEDGER: Ledger = Ledger::new();

/// Those that were done while their event was on: what all sessions since boot hold together, if
/// nothing was lost.
#[used]
#[unsafe(no_mangle)]
pub static RECORDED: Ledger = Ledger::new();

impl Ledger {
    const fn new() -> Ledger {
        Ledger {
            magic: *b"KYMO-LEDGER-2: 160 counters a hart, by the events' ids          ",
            harts: [const { [const { AtomicU64::new(0) }; IDS] }; MAX_HARTS],
        }
    }

    /// Counts an operation that `E` tells of. Interrupts are masked: an operation is counted and
    /// recorded on one hart.
    pub fn count<E: Event>(&self) {
        const { assert!((E::ID as usize) < IDS) };
        let counter = &self.harts[arch::hart()][E::ID as usize];
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }
}

/// A name, before an event that has the id of what it names: recorded once in each name epoch, and
/// then counted. With interrupts masked.
macro_rules! name {
    ($named:expr, $event:ident { $($fields:tt)* }) => {
        $crate::Kymo::named(&$named, || {
            $crate::ledger::LEDGER.count::<$event>();
            $crate::ledger::RECORDED.count::<$event>();
            $event { $($fields)* }
        })
    };
}

/// The tracepoint of an operation. The switch is looked at once, so that count and record are of
/// one mind.
macro_rules! traced {
    ($event:ident { $($fields:tt)* }) => {
        if $crate::Kymo::is_on::<$event>() {
            $crate::ledger::RECORDED.count::<$event>();
            $crate::Kymo::record_masked($event { $($fields)* });
        }
    };
}

/// An operation of the kernel: it is counted, and recorded. Stands where the operation is done,
/// with interrupts masked.
macro_rules! record {
    ($event:ident { $($fields:tt)* }) => {{
        $crate::ledger::LEDGER.count::<$event>();
        traced!($event { $($fields)* });
    }};
}
