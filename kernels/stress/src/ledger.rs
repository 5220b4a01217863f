//! The kernel's own counts. Tests compare the trace with them, and find them by the symbols
//! `LEDGER` and `HITS`.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::ring::long::Long;

use crate::{MAX_CPUS, MAX_DEPTH};

/// The counts of a CPU, which alone writes them.
#[repr(C)]
pub struct Counts {
    /// Number of returned tracing calls by depth, which is also the last sequence number.
    pub calls: [Long; MAX_DEPTH + 1],
    pub interrupts: Long,
    pub nmis: Long,
    /// Number of jumps of the clock.
    pub jumps: Long,
}

/// CPU `cpu` has the 64 bytes at `64 * (cpu + 1)`.
#[repr(C, align(4096))]
pub struct Ledger {
    magic: [u8; 64],
    pub cpus: [Counts; MAX_CPUS],
}

#[used]
#[unsafe(no_mangle)]
pub static LEDGER: Ledger = Ledger {
    magic: *b"KYMO-LEDGER-2: 64 bytes a CPU: 5 calls, irqs, NMIs, jumps       ",
    cpus: [const {
        Counts {
            calls: [const { Long::new(0) }; MAX_DEPTH + 1],
            interrupts: Long::new(0),
            nmis: Long::new(0),
            jumps: Long::new(0),
        }
    }; MAX_CPUS],
};

/// Number of interrupts before the instruction at `__text + index`.
#[used]
#[unsafe(no_mangle)]
pub static HITS: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];

/// Increments a count that only this context writes.
pub fn count(counter: &Long) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// Counts an interrupt at `pc`.
pub fn hit(pc: usize) {
    unsafe extern "C" {
        /// In link.ld: the beginning of the kernel's code.
        safe static __text: u8;
    }
    if let Some(hits) = HITS.get(pc.wrapping_sub(&raw const __text as usize)) {
        hits.fetch_add(1, Relaxed);
    }
}
