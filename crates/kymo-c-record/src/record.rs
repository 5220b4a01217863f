//! Records and counts: what the header's inline functions call, the records once an event is on.
//! Nothing else calls these.
//!
//! Those for compact ids (below 30) take up to four words in registers. `_masked` ones are for
//! places where interrupts are masked already; their caller has read the clock, so that they call
//! nothing, and need no stack. Where records nest, they read the clock themselves, and have other
//! names: a header that reads it for them does not link, nor one that does not where it must.

use kymo::NameEpoch;
use kymo::counter::{HISTOGRAM_WORDS, uncounted};
use kymo::platform::{Interrupts, Platform};
use kymo::ring::layout::COMPACT_IDS;

use crate::port::{Port, PortInterrupts, kymo_memory_counters};

/// The tracer.
type Kymo = kymo::Tracer<Port>;

/// Runs `record` with interrupts masked, and gives it the time.
#[inline(always)]
fn masked<R>(record: impl FnOnce(u64) -> R) -> R {
    let saved = PortInterrupts::mask();
    let time = if cfg!(feature = "nmi") {
        0
    } else {
        Port::clock()
    };
    let recorded = record(time);
    PortInterrupts::restore(saved);
    recorded
}

/// Records an event with interrupts masked, at `time`. Where records nest, the ring reads the clock
/// when it reserves the record's place: an NMI may have recorded since `time`.
///
/// # Safety
/// Interrupts are masked, and `time` was read since.
#[inline(always)]
unsafe fn record_at(time: u64, id: u32, words: &[u32]) -> bool {
    #[cfg(feature = "nmi")]
    {
        let _ = time;
        // SAFETY: the caller's promise.
        unsafe { Kymo::record_raw_masked(id, words) }
    }
    #[cfg(not(feature = "nmi"))]
    // SAFETY: the caller's promise.
    unsafe {
        Kymo::record_raw_at(time, id, words)
    }
}

macro_rules! compact {
    ($($name:ident, $name_masked:ident = $nmi:literal($($word:ident),*);)*) => {$(
        /// Records an event with a compact id and these words.
        ///
        /// # Safety
        /// `id` is below 30, interrupts are masked, and `time` was read since.
        #[cfg_attr(not(feature = "nmi"), unsafe(no_mangle))]
        #[cfg_attr(feature = "nmi", unsafe(export_name = $nmi))]
        pub unsafe extern "C" fn $name_masked(time: u64, id: u32, $($word: u32),*) {
            // SAFETY: the caller's promise.
            unsafe {
                core::hint::assert_unchecked(id < COMPACT_IDS);
                record_at(time, id, &[$($word),*]);
            }
        }

        /// Records an event with a compact id and these words.
        ///
        /// # Safety
        /// `id` is below 30.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(id: u32, $($word: u32),*) {
            // SAFETY: the caller's promise; interrupts are masked.
            masked(|time| unsafe { $name_masked(time, id, $($word),*) });
        }
    )*};
}

compact! {
    kymo_record_0, kymo_record_0_masked = "kymo_record_0_masked_nmi"();
    kymo_record_1, kymo_record_1_masked = "kymo_record_1_masked_nmi"(a);
    kymo_record_2, kymo_record_2_masked = "kymo_record_2_masked_nmi"(a, b);
    kymo_record_3, kymo_record_3_masked = "kymo_record_3_masked_nmi"(a, b, c);
    kymo_record_4, kymo_record_4_masked = "kymo_record_4_masked_nmi"(a, b, c, d);
}

/// Records an event with these words.
///
/// # Safety
/// There are `len` words at `words`; interrupts are masked, and `time` was read since.
#[cfg_attr(not(feature = "nmi"), unsafe(no_mangle))]
#[cfg_attr(feature = "nmi", unsafe(export_name = "kymo_record_words_masked_nmi"))]
pub unsafe extern "C" fn kymo_record_words_masked(time: u64, id: u32, words: *const u32, len: u32) {
    // SAFETY: the caller's promise.
    unsafe { record_at(time, id, slice(words, len)) };
}

/// Records an event with these words.
///
/// # Safety
/// There are `len` words at `words`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_record_words(id: u32, words: *const u32, len: u32) {
    // SAFETY: the caller's promise; interrupts are masked.
    masked(|time| unsafe { kymo_record_words_masked(time, id, words, len) });
}

/// Records an event of the names channel with these words. Whether it was recorded.
///
/// # Safety
/// There are `len` words at `words`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_record_name(id: u32, words: *const u32, len: u32) -> bool {
    // SAFETY: the caller's promise.
    let words = unsafe { slice(words, len) };
    #[cfg(feature = "nmi")]
    return Kymo::record_raw_name(id, words);
    #[cfg(not(feature = "nmi"))]
    // SAFETY: interrupts are masked, and were before the clock was read.
    masked(|time| unsafe { Kymo::record_raw_name_at(time, id, words) })
}

/// The present name epoch, if a thing was not named in it; else 0, which is none. Its word is a
/// [`NameEpoch`].
#[unsafe(no_mangle)]
pub extern "C" fn kymo_name_due(named: &NameEpoch) -> u32 {
    named.due().unwrap_or(0)
}

/// Notes that the thing was named in this epoch.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_name_recorded(named: &NameEpoch, epoch: u32) {
    named.named_in(epoch);
}

/// # Safety
/// There are `len` words at `words`.
#[inline(always)]
unsafe fn slice<'a>(words: *const u32, len: u32) -> &'a [u32] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(words, len as usize) }
}

/// Whether interrupts are masked around an addition, which an interrupt would not disturb: where
/// there are several CPUs, the code must stay on its own, and `kymo_port_cpu` is only called with
/// interrupts masked.
const MASKS_TO_COUNT: bool = cfg!(not(feature = "one-cpu"));

/// Whether something may count between the load and the store of an addition that is not
/// [masked](MASKS_TO_COUNT): an interrupt, or an NMI.
const NESTS: bool = cfg!(any(feature = "one-cpu", feature = "nmi"));

/// Calls `count` with what keeps the code on its CPU.
#[inline(always)]
fn on_cpu(count: impl FnOnce()) {
    if MASKS_TO_COUNT {
        let saved = PortInterrupts::mask();
        count();
        PortInterrupts::restore(saved);
    } else {
        count();
    }
}

/// Additions and values that were lost, because their CPU has no control blocks.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_uncounted() -> usize {
    uncounted()
}

/// Adds to a counter or a gauge of this CPU, modulo the word's size. Nothing is counted where the
/// memory has no such word: `kymo_start` refuses the list then.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_count(word: u32, by: usize) {
    if word < kymo_memory_counters {
        // SAFETY: each CPU has that word.
        on_cpu(|| unsafe { Kymo::add_word::<NESTS>(word, by) });
    }
}

/// Adds to a counter or a gauge of this CPU, with interrupts masked.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_count_masked(word: u32, by: usize) {
    if word < kymo_memory_counters {
        // SAFETY: each CPU has that word.
        unsafe { Kymo::add_word::<false>(word, by) };
    }
}

/// Counts a value in the histogram of this CPU that begins with this word.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_observe(first: u32, value: u64) {
    if has_histogram(first) {
        // SAFETY: each CPU has its words.
        on_cpu(|| unsafe { Kymo::observe_word::<NESTS>(first, value) });
    }
}

/// Counts a value in the histogram of this CPU that begins with this word, with interrupts masked.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_observe_masked(first: u32, value: u64) {
    if has_histogram(first) {
        // SAFETY: each CPU has its words.
        unsafe { Kymo::observe_word::<false>(first, value) };
    }
}

#[inline(always)]
fn has_histogram(first: u32) -> bool {
    let words = kymo_memory_counters;
    words >= HISTOGRAM_WORDS && first <= words - HISTOGRAM_WORDS
}

/// Bit of a text's length that says: it was cut.
const CUT: u32 = 1 << 31;

/// Puts a text into `words` from word `at` on: its length, then its bytes. The text ends before a
/// NUL, or after `size` bytes; of a longer one than `max` bytes as many whole UTF-8 characters are
/// taken as fit, and it is marked as cut. A null pointer is an empty text. Returns the word behind
/// it.
///
/// # Safety
/// `text` is null, or leads to bytes up to a NUL or to `size`; there is room for one word and `max`
/// bytes, rounded up to words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_put_text(
    words: *mut u32,
    at: u32,
    text: *const u8,
    size: usize,
    max: u32,
) -> u32 {
    // The byte at an index up to which there is none that ends the text.
    let byte = |index: usize| {
        if text.is_null() || index >= size {
            return 0;
        }
        // SAFETY: the caller's promise.
        unsafe { *text.add(index) }
    };
    let mut len = 0;
    while len < max as usize && byte(len) != 0 {
        len += 1;
    }
    let mut head = 0;
    if byte(len) != 0 {
        head = CUT;
        // What follows must begin a character.
        while len > 0 && byte(len) & 0xc0 == 0x80 {
            len -= 1;
        }
    }
    let mut put = words.wrapping_add(at as usize);
    // SAFETY: the caller's promise.
    unsafe { put.write(head | len as u32) };
    let mut word = 0;
    for index in 0..len {
        word |= u32::from(byte(index)) << (index % 4 * 8);
        if index % 4 == 3 || index + 1 == len {
            put = put.wrapping_add(1);
            // SAFETY: as above.
            unsafe { put.write(word) };
            word = 0;
        }
    }
    at + 1 + len.div_ceil(4) as u32
}
