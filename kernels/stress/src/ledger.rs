//! What the kernel itself knows of what it did. Tests hold the trace against it; the symbols
//! `LEDGER` and `HITS` lead them there.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::ring::long::Long;

use crate::{MAX_CPUS, MAX_DEPTH};

/// One CPU's counts. Only that CPU writes them.
#[repr(C)]
pub struct Counts {
    /// How many tracing calls have returned, by depth. It is also the sequence number of the last
    /// one.
    pub calls: [Long; MAX_DEPTH + 1],
    pub interrupts: Long,
    pub nmis: Long,
    /// How often the clock jumped.
    pub jumps: Long,
}

/// Each CPU has the 64 bytes at `64 * (cpu + 1)`.
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

/// How often an interrupt came before the instruction at `__text + index`.
#[used]
#[unsafe(no_mangle)]
pub static HITS: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];

/// Counts one more of what only this context counts.
pub fn count(counter: &Long) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// Counts one more interrupt at `pc`.
pub fn hit(pc: usize) {
    unsafe extern "C" {
        /// In link.ld: where the kernel's code begins.
        safe static __text: u8;
    }
    if let Some(hits) = HITS.get(pc.wrapping_sub(&raw const __text as usize)) {
        hits.fetch_add(1, Relaxed);
    }
}
