//! Counters, gauges and histograms of the kernel's own: declared once like events, counted on the
//! CPU that the code runs on, read by whoever can read the region.
//!
//! A CPU's words stand behind its control blocks, on cache lines of its own. They count from the
//! first instruction on, whether a session runs or not, so that an increment needs no test: the
//! memory is there before the first session and after the last, and no session sets it back. What a
//! session counted is the difference of two readings.
//!
//! # What it costs
//! An increment is a load, an addition and a store where nothing that counts the same can interrupt
//! (`#[unnested]`): at most four instructions. Where an interrupt or an NMI may, it is one
//! instruction that reads and writes (`add` without `lock` on x86-64, `amoadd` on RISC-V, a pair of
//! exclusive instructions on AArch64): at most six. A histogram takes two of them, and finds the
//! bucket first.
//!
//! # What is where
//! - here: the declarations, and how code counts.
//! - `values`: what was counted, from memory.
//! - `declaration`: what the metadata says of them.
//! - `snapshot`: what was counted, as events of the stream: the kernel's, or those that a reader of
//!   its memory adds to a session that was not stopped.
//!
//! # Invariants
//! 1. Only code on a CPU changes that CPU's words, but for processors whose read-modify-write
//!    instructions are atomic for all of them.
//! 2. A word is only touched as an atomic of its own size, a machine word; it wraps around.
//! 3. `Platform::COUNTERS` lists every counter that the code counts, and a session does not start
//!    over memory with fewer words.

mod declaration;
mod snapshot;
mod values;

pub use declaration::{Declaration, PREFIX};
pub(crate) use snapshot::Records;
pub use values::{Distribution, Value};

use crate::arch;
use crate::platform::Platform;
use crate::ring::layout::COUNTERS_OFFSET;
use crate::ring::local::Local;
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use crate::tracer::{COMPILED_IN, Tracer};

/// Buckets of a histogram: one for 0, then one for each number of bits.
pub const BUCKETS: usize = 65;
/// Words of a histogram: its buckets, and behind them the sum of the values.
pub const HISTOGRAM_WORDS: u32 = BUCKETS as u32 + 1;
/// Most words of counters that a CPU can have.
pub const MOST_WORDS: u32 = 4096;

/// What a declaration declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down. Each CPU has what it has added; only the sum over all CPUs
    /// means something where one CPU takes away what another has added.
    Gauge,
    /// How often values of each order of magnitude came up, and the sum of all values.
    Histogram,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 3] = [Kind::Counter, Kind::Gauge, Kind::Histogram];

    /// Its name in the metadata of a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }

    /// How many words such a counter has on each CPU.
    pub const fn words(self) -> u32 {
        match self {
            Kind::Histogram => HISTOGRAM_WORDS,
            Kind::Counter | Kind::Gauge => 1,
        }
    }
}

/// A counter, a gauge or a histogram, as declared.
#[derive(Clone, Copy, Debug)]
pub struct CounterSchema {
    /// Number of its first word among its CPU's.
    pub id: u32,
    /// The name in the trace.
    pub name: &'static str,
    /// What it counts, in the plural: `threads`, `bytes`, `ticks`.
    pub unit: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// What it is.
    pub kind: Kind,
}

impl CounterSchema {
    /// How many words it has on each CPU.
    pub const fn words(&self) -> u32 {
        self.kind.words()
    }

    const fn end(&self) -> u32 {
        self.id.saturating_add(self.words())
    }
}

/// A declaration. [`counter!`](crate::counter!), [`gauge!`](crate::gauge!) and
/// [`histogram!`](crate::histogram!) implement it; nobody writes it by hand.
pub trait Declared: 'static {
    /// The declaration.
    const SCHEMA: CounterSchema;
    /// Whether code that counts it may be interrupted by code that counts it.
    const NESTS: bool;
}

/// A counter or a gauge.
pub trait Counted: Declared {
    /// What can be added: `usize` to a counter, `isize` to a gauge.
    type Step: Step;
}

/// A histogram.
pub trait Observed: Declared {}

/// What can be added to a counter or a gauge.
pub trait Step {
    /// One.
    const ONE: Self;
    /// It as a machine word, to be added modulo its size.
    fn word(self) -> usize;
    /// What a word stands for.
    fn of(word: usize) -> Self;
}

impl Step for usize {
    const ONE: usize = 1;
    #[inline(always)]
    fn word(self) -> usize {
        self
    }
    fn of(word: usize) -> usize {
        word
    }
}

impl Step for isize {
    const ONE: isize = 1;
    #[inline(always)]
    fn word(self) -> usize {
        self.cast_unsigned()
    }
    fn of(word: usize) -> isize {
        word.cast_signed()
    }
}

/// Every counter, gauge and histogram of a kernel, put together by
/// [`counters!`](crate::counters!).
#[derive(Clone, Copy, Debug)]
pub struct Counters(&'static [&'static CounterSchema]);

impl Counters {
    /// None at all.
    pub const NONE: Counters = Counters(&[]);

    /// Checks the declarations against each other.
    ///
    /// # Panics
    /// At compile time, where two claim one word or one name, or a text cannot stand in the
    /// metadata.
    pub const fn new(list: &'static [&'static CounterSchema]) -> Counters {
        let mut i = 0;
        while i < list.len() {
            assert!(
                list[i].end() <= MOST_WORDS,
                "the words of a CPU's counters are below 4096"
            );
            assert!(
                is_plain(list[i].name) && is_plain(list[i].unit),
                "a counter's name and unit have letters, digits and _ only"
            );
            let mut j = 0;
            while j < i {
                assert!(
                    list[j].end() <= list[i].id || list[i].end() <= list[j].id,
                    "two counters claim the same word: a histogram takes 66 from its id on"
                );
                assert!(
                    !same(list[j].name, list[i].name),
                    "two counters have the same name"
                );
                j += 1;
            }
            i += 1;
        }
        Counters(list)
    }

    /// The declarations.
    pub const fn list(&self) -> &'static [&'static CounterSchema] {
        self.0
    }

    /// Of each, the number of its first word and what it is.
    pub fn each(&self) -> impl Iterator<Item = (u32, Kind)> + Clone + use<> {
        self.0.iter().map(|schema| (schema.id, schema.kind))
    }

    /// How many words each CPU needs for them: `COUNTERS` of
    /// [`RegionMemory`](crate::RegionMemory).
    pub const fn words(&self) -> u32 {
        let (mut words, mut i) = (0, 0);
        while i < self.0.len() {
            if self.0[i].end() > words {
                words = self.0[i].end();
            }
            i += 1;
        }
        words
    }

    /// Whether this declaration is among them.
    const fn has(&self, schema: &CounterSchema) -> bool {
        let mut i = 0;
        while i < self.0.len() {
            if self.0[i].id == schema.id && same(self.0[i].name, schema.name) {
                return true;
            }
            i += 1;
        }
        false
    }
}

const fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !bytes[i].is_ascii_alphanumeric() && bytes[i] != b'_' {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// The bucket of a value: 0 has its own, and bucket `n` has the values of `n` bits, from `2^(n-1)`
/// to `2^n - 1`.
#[inline(always)]
pub fn bucket(value: u64) -> usize {
    if HAS_LEADING_ZEROS {
        (u64::BITS - value.leading_zeros()) as usize
    } else {
        by_bytes(value)
    }
}

/// Whether the processor has an instruction that counts leading zeros.
const HAS_LEADING_ZEROS: bool = cfg!(not(all(
    any(target_arch = "riscv32", target_arch = "riscv64"),
    not(target_feature = "zbb")
)));

/// [`bucket`] in a few instructions for small values and three more for each further byte, where
/// counting bits would take 40.
#[inline(always)]
fn by_bytes(value: u64) -> usize {
    let (mut rest, mut bits) = (value, 0);
    while rest >= 256 {
        rest >>= 8;
        bits += 8;
    }
    bits + BITS_OF_BYTE[rest as usize % 256] as usize
}

/// How many bits each byte has.
static BITS_OF_BYTE: [u8; 256] = {
    let (mut bits, mut byte) = ([0; 256], 1);
    while byte < 256 {
        bits[byte] = bits[byte / 2] + 1;
        byte += 1;
    }
    bits
};

/// The least and the greatest value of a bucket; those of the last one where there is no such
/// bucket.
pub const fn bounds(bucket: usize) -> (u64, u64) {
    match bucket {
        0 => (0, 0),
        1..64 => (1 << (bucket - 1), (1 << bucket) - 1),
        _ => (1 << 63, u64::MAX),
    }
}

/// What was counted on CPUs that have no control blocks, and so no counters.
static UNCOUNTED: AtomicUsize = AtomicUsize::new(0);

/// Increments that were lost because their CPU had no control blocks.
pub fn uncounted() -> usize {
    UNCOUNTED.load(Relaxed)
}

#[cold]
#[inline(never)]
fn count_uncounted() {
    UNCOUNTED.fetch_add(1, Relaxed);
}

impl<P: Platform> Tracer<P> {
    /// Adds to a counter or a gauge of this CPU; [`count!`](crate::count!) calls it.
    #[inline(always)]
    pub fn add<C: Counted>(by: C::Step) {
        const { Self::check(&C::SCHEMA) };
        // SAFETY: one of the words that `check` has found to be this CPU's.
        unsafe {
            if C::NESTS {
                Self::add_word::<true>(C::SCHEMA.id, by.word());
            } else {
                Self::add_word::<false>(C::SCHEMA.id, by.word());
            }
        }
    }

    /// Adds to the counter or gauge whose word has this number, modulo the word's size; for kernels
    /// that declare their counters in another language. With `NESTS`, code that counts the same may
    /// interrupt this; without, the caller keeps it off, and stays on its CPU.
    ///
    /// # Safety
    /// The memory of each CPU's control blocks has such a word.
    #[inline(always)]
    pub unsafe fn add_word<const NESTS: bool>(word: u32, by: usize) {
        Self::with_words::<NESTS>(|words| {
            // SAFETY: the caller's promise.
            increase::<NESTS>(unsafe { &*words.add(word as usize) }, by);
        });
    }

    /// Counts a value in a histogram of this CPU; [`observe!`](crate::observe!) calls it.
    ///
    /// The bucket is counted before the sum: whoever reads in between sees one without the other.
    #[inline(always)]
    pub fn observe<H: Observed>(value: u64) {
        const { Self::check(&H::SCHEMA) };
        // SAFETY: the words that `check` has found to be this CPU's.
        unsafe {
            if H::NESTS {
                Self::observe_word::<true>(H::SCHEMA.id, value);
            } else {
                Self::observe_word::<false>(H::SCHEMA.id, value);
            }
        }
    }

    /// Counts a value in the histogram whose first word has this number; `NESTS` as for
    /// [`add_word`](Self::add_word).
    ///
    /// # Safety
    /// The memory of each CPU's control blocks has [`HISTOGRAM_WORDS`] words from this one on.
    #[inline(always)]
    pub unsafe fn observe_word<const NESTS: bool>(first: u32, value: u64) {
        Self::with_words::<NESTS>(|words| {
            // SAFETY: the caller's promise: a word for each bucket, and one more.
            let (bucket, sum) = unsafe {
                let first = words.add(first as usize);
                (&*first.add(bucket(value)), &*first.add(BUCKETS))
            };
            increase::<NESTS>(bucket, 1);
            increase::<NESTS>(sum, value as usize);
        });
    }

    const fn check(schema: &CounterSchema) {
        assert!(
            P::COUNTERS.has(schema),
            "a counter is listed in `Platform::COUNTERS`"
        );
    }

    /// Calls `on` with this CPU's words, as long as they are this CPU's.
    #[inline(always)]
    fn with_words<const NESTS: bool>(on: impl FnOnce(*const AtomicUsize)) {
        if !COMPILED_IN {
            return;
        }
        // Where a read-modify-write instruction is atomic for all CPUs, it does not matter which
        // one's word it meets; and what is not to be interrupted, the caller has pinned.
        let pins = NESTS && !arch::ATOMIC_ADD;
        if pins {
            P::pin();
        }
        match P::Local::cpu() {
            Some(cpu) => on(P::Local::counters(cpu)),
            None => count_uncounted(),
        }
        if pins {
            P::unpin();
        }
    }
}

#[inline(always)]
fn increase<const NESTS: bool>(word: &AtomicUsize, by: usize) {
    if NESTS {
        arch::add_word(word, by);
    } else {
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }
}

/// Where a word stands, in bytes from its CPU's first control block.
pub(crate) const fn offset(word: u32) -> usize {
    COUNTERS_OFFSET + word as usize * size_of::<usize>()
}

/// Declares a counter: a number of each CPU's that only grows.
///
/// `#[id(N)]` is the number of its word among its CPU's, `#[unit(NAME)]` what it counts. With
/// `#[unnested]` the kernel promises that code which counts it is interrupted by nothing that
/// counts it, and stays on its CPU meanwhile (interrupts are masked, say); counts are lost where it
/// does not hold. The name in the trace is the struct's in snake case, or that of `#[name("..")]`.
///
/// ```
/// kymo::counter! {
///     /// Threads that became ready.
///     #[id(0)] #[unit(threads)]
///     pub struct SchedEnqueued;
/// }
/// kymo::gauge! {
///     /// Threads that are ready and do not run.
///     #[id(1)] #[unit(threads)] #[unnested]
///     pub struct SchedReady;
/// }
/// kymo::histogram! {
///     /// Time from a wake-up to the switch.
///     #[id(2)] #[unit(ticks)]
///     pub struct SchedDelay;
/// }
/// const COUNTERS: kymo::counter::Counters =
///     kymo::counters![SchedEnqueued, SchedReady, SchedDelay];
/// assert_eq!(COUNTERS.words(), 68);
/// ```
/// Two that claim one word do not compile:
/// ```compile_fail
/// kymo::histogram! { #[id(2)] #[unit(ticks)] pub struct SchedDelay; }
/// kymo::counter! { #[id(67)] #[unit(threads)] pub struct SchedEnqueued; }
/// const COUNTERS: kymo::counter::Counters = kymo::counters![SchedDelay, SchedEnqueued];
/// ```
#[macro_export]
macro_rules! counter {
    ($($declaration:tt)*) => { $crate::declare_counter! { Counter, { Step = usize }, $($declaration)* } };
}

/// Declares a gauge: a number that goes up and down. See [`counter!`](crate::counter!).
#[macro_export]
macro_rules! gauge {
    ($($declaration:tt)*) => { $crate::declare_counter! { Gauge, { Step = isize }, $($declaration)* } };
}

/// Declares a histogram of values by their number of bits. See [`counter!`](crate::counter!); it
/// takes 66 words from its id on.
#[macro_export]
macro_rules! histogram {
    ($($declaration:tt)*) => { $crate::declare_counter! { Histogram, {}, $($declaration)* } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! declare_counter {
    ($kind:ident, $step:tt, $(#[doc = $doc:literal])* #[id($id:literal)] #[unit($unit:ident)]
     $(#[name($ctf:literal)])? #[unnested] $vis:vis struct $name:ident;
    ) => {
        $crate::declare_counter! {
            @ $kind, $step, false, [$($doc),*], $id, $unit, [$($ctf)?], $vis, $name
        }
    };
    ($kind:ident, $step:tt, $(#[doc = $doc:literal])* #[id($id:literal)] #[unit($unit:ident)]
     $(#[name($ctf:literal)])? $vis:vis struct $name:ident;
    ) => {
        $crate::declare_counter! {
            @ $kind, $step, true, [$($doc),*], $id, $unit, [$($ctf)?], $vis, $name
        }
    };
    (@ $kind:ident, { $($step:tt)* }, $nests:literal, [$($doc:literal),*], $id:literal, $unit:ident,
     [$($ctf:literal)?], $vis:vis, $name:ident
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name;

        const _: () = {
            const SNAKE: [u8; $crate::event::snake_case_len(stringify!($name))] =
                $crate::event::snake_case(stringify!($name));
            impl $crate::counter::Declared for $name {
                const SCHEMA: $crate::counter::CounterSchema = $crate::counter::CounterSchema {
                    id: $id,
                    name: $crate::event::first_text(&[$($ctf,)? $crate::event::ascii(&SNAKE)]),
                    unit: stringify!($unit),
                    doc: concat!($($doc, "\n"),*),
                    kind: $crate::counter::Kind::$kind,
                };
                const NESTS: bool = $nests;
            }
            $crate::count_by! { $name, $($step)* }
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! count_by {
    ($name:ident, Step = $step:ty) => {
        impl $crate::counter::Counted for $name {
            type Step = $step;
        }
    };
    ($name:ident,) => {
        impl $crate::counter::Observed for $name {}
    };
}

/// Lists a kernel's counters, gauges and histograms, as a constant, for
/// [`Platform::COUNTERS`](crate::platform::Platform::COUNTERS). Two that claim one word or one name
/// do not compile.
#[macro_export]
macro_rules! counters {
    ($($declared:ty),* $(,)?) => {
        $crate::counter::Counters::new(
            const { &[$(&<$declared as $crate::counter::Declared>::SCHEMA),*] }
        )
    };
}

/// Adds to a counter or a gauge: `count!(SchedEnqueued)`, `count!(SchedReady, -1)`.
///
/// It counts whether a session runs or not. Without the feature `trace` it costs nothing. The
/// tracer is the calling crate's own `crate::Kymo`.
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // The caller's crate is meant: it names the platform.
macro_rules! count {
    ($counter:ty) => {
        crate::Kymo::add::<$counter>($crate::counter::Step::ONE)
    };
    ($counter:ty, $by:expr) => {
        crate::Kymo::add::<$counter>($by)
    };
}

/// Counts a value in a histogram: `observe!(SchedDelay, ticks)`.
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // As above.
macro_rules! observe {
    ($histogram:ty, $value:expr) => {
        crate::Kymo::observe::<$histogram>($value)
    };
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
