//! The kernel's own counts of its operations. Tests compare the trace with them: they find these
//! pages of guest RAM by their symbols.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::event::Event;

use crate::{MAX_HARTS, arch};

/// Counters per hart: one for each id below.
pub const IDS: usize = 192;

/// The counters.
#[repr(C, align(4096))]
pub struct Ledger {
    magic: [u8; 64],
    /// By hart, then by id of the operation's event. Only that hart writes them.
    pub harts: [[AtomicU64; IDS]; MAX_HARTS],
}

/// All operations since boot.
#[used]
#[unsafe(no_mangle)]
pub static LEDGER: Ledger = Ledger::new();

/// Operations while their event was on: what all sessions since boot contain together, if nothing
/// was lost.
#[used]
#[unsafe(no_mangle)]
pub static RECORDED: Ledger = Ledger::new();

impl Ledger {
    const fn new() -> Ledger {
        Ledger {
            magic: *b"KYMO-LEDGER-2: 192 counters a hart, by the events' ids          ",
            harts: [const { [const { AtomicU64::new(0) }; IDS] }; MAX_HARTS],
        }
    }

    /// Counts an operation with the event `E`. Interrupts are masked, so that it is counted and
    /// recorded on the same hart.
    pub fn count<E: Event>(&self) {
        const { assert!((E::ID as usize) < IDS) };
        // An NMI on this hart may count in the middle of this.
        self.harts[arch::hart()][E::ID as usize].fetch_add(1, Relaxed);
    }
}

/// Records and counts a name once in each name epoch, before an event with the named id. Interrupts
/// must be masked.
macro_rules! name {
    ($named:expr, $event:ident { $($fields:tt)* }) => {
        $crate::Kymo::named(&$named, || {
            $crate::ledger::LEDGER.count::<$event>();
            $crate::ledger::RECORDED.count::<$event>();
            $event { $($fields)* }
        })
    };
}

/// The tracepoint of an operation. It reads the switch once, so that count and record agree.
macro_rules! traced {
    ($event:ident { $($fields:tt)* }) => {
        if $crate::Kymo::is_on::<$event>() {
            $crate::ledger::RECORDED.count::<$event>();
            let event = $event { $($fields)* };
            // SAFETY: the tracepoint stands where interrupts are masked.
            unsafe { $crate::Kymo::record_masked(event) };
            $crate::Kymo::context_of::<$event>();
        }
    };
}

/// Counts and records an operation of the kernel. Placed at the operation, with interrupts masked.
macro_rules! record {
    ($event:ident { $($fields:tt)* }) => {{
        $crate::ledger::LEDGER.count::<$event>();
        traced!($event { $($fields)* });
    }};
}
