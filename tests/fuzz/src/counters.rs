//! LLVM's coverage counters (one byte per edge), and the operands of comparisons.
//!
//! The compiler calls `__sanitizer_cov_8bit_counters_init` once for each module before `main`, and
//! the `__sanitizer_cov_trace_*` functions at each comparison. Without the pass there are no
//! counters, and these functions are never called.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The tables of counters: first byte and length.
static TABLES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// The latest unequal operands of comparisons, and the index of the next.
static PAIRS: [(AtomicU64, AtomicU64); 64] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 64];
static NEXT: AtomicUsize = AtomicUsize::new(0);

#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, end: *mut u8) {
    let table = (start as usize, end as usize - start as usize);
    if let Ok(mut tables) = TABLES.lock()
        && table.1 > 0
        && !tables.contains(&table)
    {
        tables.push(table);
    }
}

/// The number of counters.
pub(crate) fn count() -> usize {
    TABLES
        .lock()
        .map_or(0, |tables| tables.iter().map(|(_, length)| length).sum())
}

/// Clears all counters.
pub(crate) fn clear() {
    for &(start, length) in TABLES.lock().unwrap().iter() {
        // SAFETY: the linker made this table of bytes for the whole life of the process. The only
        // other thread that runs instrumented code is the one that watches; a count that it adds at
        // the same time may be lost, and no other harm can come of it.
        unsafe { std::ptr::write_bytes(start as *mut u8, 0, length) };
    }
    NEXT.store(0, Ordering::Relaxed);
}

/// Calls `visit` with the index and value of each nonzero counter.
///
/// This code is instrumented, too, so it checks whole blocks first, which the C library compares.
pub(crate) fn each(mut visit: impl FnMut(usize, u8)) {
    const BLOCK: usize = 128;
    static NOTHING: [u8; BLOCK] = [0; BLOCK];
    let mut copy = Vec::new();
    for &(start, length) in TABLES.lock().unwrap().iter() {
        let base = copy.len();
        copy.resize(base + length, 0);
        // SAFETY: the table is `length` bytes, as above, and `copy` has as many from `base` on.
        unsafe {
            std::ptr::copy_nonoverlapping(start as *const u8, copy.as_mut_ptr().add(base), length)
        };
    }
    for (number, block) in copy.chunks(BLOCK).enumerate() {
        if *block == NOTHING[..block.len()] {
            continue;
        }
        for (place, &count) in block.iter().enumerate() {
            if count != 0 {
                visit(number * BLOCK + place, count);
            }
        }
    }
}

/// Unequal operands of a comparison in the last run.
pub(crate) fn compared(place: usize) -> Option<(u64, u64)> {
    let count = NEXT.load(Ordering::Relaxed).min(PAIRS.len());
    let (a, b) = PAIRS.get(place.checked_rem(count)?)?;
    Some((a.load(Ordering::Relaxed), b.load(Ordering::Relaxed)))
}

fn note(a: u64, b: u64) {
    if a != b {
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % PAIRS.len();
        PAIRS[place].0.store(a, Ordering::Relaxed);
        PAIRS[place].1.store(b, Ordering::Relaxed);
    }
}

macro_rules! comparisons {
    ($($name:ident($operand:ty)),*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(a: $operand, b: $operand) {
                note(a.into(), b.into());
            }
        )*
    };
}

comparisons! {
    __sanitizer_cov_trace_cmp2(u16), __sanitizer_cov_trace_cmp4(u32), __sanitizer_cov_trace_cmp8(u64),
    __sanitizer_cov_trace_const_cmp2(u16), __sanitizer_cov_trace_const_cmp4(u32), __sanitizer_cov_trace_const_cmp8(u64)
}

/// Byte comparisons are solved by mutation alone.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_cmp1(_: u8, _: u8) {}

#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_const_cmp1(_: u8, _: u8) {}

/// `cases` has the number of cases, the bits of a value, and then the cases.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_switch(_: u64, _cases: *const u64) {}
