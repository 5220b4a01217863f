//! Samples: an interrupt or NMI records which instruction it interrupted, and who called that code.
//!
//! A driver of the kernel's, such as its timer interrupt, calls [`Tracer::sample`] with what it
//! interrupted. The chain of callers is found by frame pointers, so build the kernel and its
//! programs with them (`-C force-frame-pointers=yes`). Every step is checked against what the
//! kernel says of its memory ([`Memory`]): a broken chain ends the sample's list of callers, and
//! the sample says why; it never faults.
//!
//! ```
//! use kymo::sample::{Interrupted, Memory, Registers, Sampler, Window};
//! use kymo::vocabulary::CpuMode;
//! use kymo::Tid;
//! # struct MyKernel;
//! # unsafe impl kymo::platform::ControlPointer for MyKernel {
//! #     fn get() -> *const kymo::platform::Control { core::ptr::null() }
//! # }
//! # unsafe impl kymo::platform::Platform for MyKernel {
//! #     type Reserve = kymo::platform::LocalCas;
//! #     type Local = kymo::platform::ByPointer<MyKernel>;
//! #     fn clock() -> u64 { 0 }
//! #     fn synchronize() {}
//! # }
//! # struct Frame { pc: usize, fp: usize, is_user: bool }
//! # fn stack_of_this_thread() -> core::ops::Range<usize> { 0..0 }
//! # fn this_thread() -> Tid { Tid(1) }
//! # fn this_cpu() -> usize { 0 }
//! # fn kernel_text() -> core::ops::Range<usize> { 0..0 }
//! type Kymo = kymo::Tracer<MyKernel>;
//! static SAMPLER: Sampler<4> = Sampler::new();
//! struct MyMemory;
//!
//! impl Memory for MyMemory {
//!     fn kernel_text(&self) -> core::ops::Range<usize> { kernel_text() }
//!     fn kernel_stack(&self, address: usize) -> Option<Window> {
//!         let stack = stack_of_this_thread();
//!         // SAFETY: the running thread's stack is mapped.
//!         let window = || unsafe { Window::new(stack.clone(), stack.start as _) };
//!         stack.contains(&address).then(window)
//!     }
//! }
//!
//! /// The timer interrupt calls this. Gives the ticks until the next one; `None` if nobody
//! /// samples.
//! fn tick(frame: &Frame) -> Option<u64> {
//!     let period = SAMPLER.period();
//!     if period == 0 {
//!         return None;
//!     }
//!     let at = Interrupted {
//!         registers: Registers { ip: frame.pc, fp: frame.fp },
//!         mode: if frame.is_user { CpuMode::User } else { CpuMode::Kernel },
//!         tid: this_thread(),
//!         period,
//!         missed: 0,
//!     };
//!     Kymo::sample(&SAMPLER, this_cpu(), &at, &MyMemory);
//!     Some(SAMPLER.next(this_cpu()))
//! }
//! ```
//!
//! # Invariants
//! - Only code on CPU `n` passes `n`. An interrupt may take a sample in the middle of another, and
//!   finishes first. So the places for callers are a stack: the inner sample gets what the outer
//!   one has left.
//! - Nothing is read that no [`Window`] vouches for.

#[cfg(test)]
#[cfg(loom)]
mod models;
mod period;
mod record;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod unwind;

pub use unwind::{Memory, Registers, Window};

use core::ops::Range;

use crate::event::{Enumeration, Event};
use crate::platform::Platform;
use crate::ring::Reserve;
use crate::sync::{AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
use crate::tracer::{COMPILED_IN, Tracer};
use crate::vocabulary::{
    ChainEnd, CpuMode, EventStack, MAX_CALLERS, Sample, Sampling, SamplingDriver, Tid,
};
use period::Period;
use record::Words;
use unwind::Callers;

/// What a sample records of the code that it interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Where the CPU was.
    pub registers: Registers,
    /// What it was doing.
    pub mode: CpuMode,
    /// The thread that ran.
    pub tid: Tid,
    /// Ticks of the clock that the sample stands for.
    pub period: u64,
    /// Samples that were due since the CPU's last one and could not be taken.
    pub missed: u32,
}

/// Places for the callers of a CPU's samples. Zeros are good ones.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Places {
    /// How many are in use, by samples that this CPU is taking.
    used: AtomicUsize,
    /// State of the generator of [`Sampler::next`].
    random: AtomicU32,
    /// Room for one sample that interrupts another, or a tracepoint that records its callers.
    places: [AtomicUsize; 2 * MAX_CALLERS],
}

/// The longest period of samples, in ticks or events: 2^63 - 1. (A period is drawn out by a quarter
/// at most, and 32-bit processors store it in two halves of which one has 31 bits.)
pub const LONGEST_PERIOD: u64 = i64::MAX as u64;

/// How samples are taken, on up to `CPUS` CPUs, and room for their callers: a static of the
/// kernel's. Can be changed at any time.
pub type Sampler<const CPUS: usize> = SamplerOver<[Places; CPUS]>;

/// A [`Sampler`] whose number of CPUs may be known only when the kernel runs: then its places are a
/// slice. Memory of zeros is one that takes no samples.
#[derive(Debug)]
#[repr(C)]
pub struct SamplerOver<C: ?Sized> {
    /// At most [`LONGEST_PERIOD`].
    period: Period,
    depth: AtomicU32,
    driver: AtomicU32,
    cpus: C,
}

/// The part of a sample that [`Callers::follow`] found.
struct Chain {
    kernel_callers: usize,
    kernel_end: ChainEnd,
    user_end: ChainEnd,
}

impl Chain {
    /// As the last fields before the callers: three bytes.
    #[inline(always)]
    fn packed(&self) -> u32 {
        self.kernel_callers as u32 | (self.kernel_end as u32) << 8 | (self.user_end as u32) << 16
    }

    /// The length of the sequence, which also says whether it was cut.
    #[inline(always)]
    fn len_word(&self, len: usize) -> u32 {
        let is_cut = self.kernel_end == ChainEnd::Cut || self.user_end == ChainEnd::Cut;
        len as u32 | u32::from(is_cut) << 31
    }
}

impl<const CPUS: usize> Default for Sampler<CPUS> {
    fn default() -> Self {
        Sampler::new()
    }
}

impl<const CPUS: usize> Sampler<CPUS> {
    /// A sampler with period 0, which takes no samples, and the greatest depth.
    pub const fn new() -> Self {
        Sampler {
            period: Period::new(0),
            depth: AtomicU32::new(MAX_CALLERS as u32),
            driver: AtomicU32::new(SamplingDriver::Timer as u32),
            cpus: [const {
                Places {
                    used: AtomicUsize::new(0),
                    random: AtomicU32::new(0),
                    places: [const { AtomicUsize::new(0) }; 2 * MAX_CALLERS],
                }
            }; CPUS],
        }
    }
}

impl<C: AsRef<[Places]> + ?Sized> SamplerOver<C> {
    /// Applies a session's settings: [`Platform::sampling`] calls this, then starts or stops its
    /// drivers. A longer period than [`LONGEST_PERIOD`] becomes that. Calls must not overlap.
    pub fn set(&self, sampling: &Sampling) {
        self.depth
            .store(sampling.depth.min(MAX_CALLERS as u32), Relaxed);
        self.driver.store(sampling.driver as u32, Relaxed);
        self.period
            .store(sampling.period.min(LONGEST_PERIOD), Relaxed);
    }

    /// The settings, to be recorded by [`Platform::dump_state`] where samples are taken.
    pub fn settings(&self) -> Sampling {
        let driver = u64::from(self.driver.load(Relaxed));
        Sampling {
            period: self.period(),
            depth: self.depth(),
            driver: SamplingDriver::from_value(driver).unwrap_or(SamplingDriver::Timer),
        }
    }

    /// Ticks of the clock between two samples of a CPU, on average; 0 where none are to be taken.
    #[inline]
    pub fn period(&self) -> u64 {
        self.period.load(Relaxed)
    }

    /// Most callers of a sample.
    #[inline]
    pub fn depth(&self) -> u32 {
        self.depth.load(Relaxed)
    }

    /// Whether this driver is to take the samples.
    #[inline]
    pub fn is_driven_by(&self, driver: SamplingDriver) -> bool {
        self.driver.load(Relaxed) == driver as u32
    }

    /// Ticks until the next sample of this CPU: the period, give or take up to a quarter, so that
    /// the samples do not keep step with a loop. Never 0.
    pub fn next(&self, cpu: usize) -> u64 {
        let period = self.period();
        let Some(places) = self.cpus.as_ref().get(cpu) else {
            return period.max(1);
        };
        // Marsaglia's xorshift with 32 bits of state, which must not be 0: Journal of Statistical
        // Software 8 (14), 2003.
        let mut x = places.random.load(Relaxed);
        if x == 0 {
            x = 0x9e37_79b9_u32.wrapping_mul(2 * cpu as u32 + 1);
        }
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        places.random.store(x, Relaxed);
        let spread = period / 2;
        let part = (u128::from(spread + 1) * u128::from(x)) >> 32;
        (period - spread / 2 + part as u64).max(1)
    }

    /// The places for the callers of a sample on this CPU.
    #[inline(always)]
    fn claim(&self, cpu: usize) -> Claim<'_> {
        let Some(own) = self.cpus.as_ref().get(cpu) else {
            return Claim {
                own: None,
                taken: 0..0,
            };
        };
        let begin = own.used.load(Relaxed);
        let end = (begin + self.depth.load(Relaxed) as usize).min(own.places.len());
        own.used.store(end, Relaxed);
        // A sample that interrupts this one finds `used` moved before any place is written, and has
        // left it as it was before this goes on.
        compiler_fence(SeqCst);
        Claim {
            own: Some(own),
            taken: begin..end,
        }
    }
}

/// Places that a sample has claimed, until it is dropped.
struct Claim<'a> {
    own: Option<&'a Places>,
    taken: Range<usize>,
}

impl Claim<'_> {
    #[inline(always)]
    fn places(&self) -> &[AtomicUsize] {
        let Some(own) = self.own else {
            return &[];
        };
        // SAFETY: `used` begins at 0, `claim` moves it to `end`, which is not below it nor above
        // the number of places, and `drop` puts it back.
        unsafe { own.places.get_unchecked(self.taken.clone()) }
    }
}

impl Drop for Claim<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        if let Some(own) = self.own {
            own.used.store(self.taken.start, Relaxed);
        }
    }
}

/// The chain of callers of interrupted code.
#[inline(always)]
fn unwind(
    callers: &mut Callers<'_>,
    registers: Registers,
    is_user: bool,
    memory: &impl Memory,
) -> Chain {
    let mut user = Some(registers);
    let mut kernel_end = ChainEnd::Absent;
    if !is_user {
        let stack = |address| memory.kernel_stack(address);
        let (fp, link, text) = (registers.fp, memory.link(), memory.kernel_text());
        kernel_end = callers.follow(fp, link, text, true, stack);
        user = memory.user_registers();
    }
    let kernel_callers = callers.len();
    let user_end = match user {
        Some(_) if kernel_end == ChainEnd::Cut => ChainEnd::Absent,
        Some(user) if !is_user && !memory.user_text().contains(&user.ip) => ChainEnd::NotCode,
        Some(user) if !is_user && !callers.push(user.ip) => ChainEnd::Cut,
        Some(user) => {
            let stack = |address| memory.user_stack(address);
            let link = memory.link().filter(|_| is_user);
            callers.follow(user.fp, link, memory.user_text(), false, stack)
        }
        None => ChainEnd::Absent,
    };
    Chain {
        kernel_callers,
        kernel_end,
        user_end,
    }
}

impl<P: Platform> Tracer<P> {
    /// Records a sample of what an interrupt or NMI has interrupted on this CPU, whose number is
    /// `cpu`, if samples are on. Returns whether one was recorded; one without room is counted.
    ///
    /// Takes no lock, causes no fault, and keeps no array of callers on the stack. With
    /// [`Masked`](crate::platform::Masked), an NMI must not call this: see [`Platform`].
    #[inline(always)]
    pub fn sample<C: AsRef<[Places]> + ?Sized>(
        sampler: &SamplerOver<C>,
        cpu: usize,
        at: &Interrupted,
        memory: &impl Memory,
    ) -> bool {
        if !COMPILED_IN || !Self::is_on::<Sample>() {
            return false;
        }
        let claim = sampler.claim(cpu);
        let words = sample_words(claim.places(), at, memory);
        P::Reserve::record::<P, Sample>(<Sample as Event>::ID, words)
    }

    /// [`sample`](Self::sample) for a caller that has already masked interrupts.
    ///
    /// # Safety
    /// See [`record_masked`](Self::record_masked).
    #[inline(always)]
    pub unsafe fn sample_masked<C: AsRef<[Places]> + ?Sized>(
        sampler: &SamplerOver<C>,
        cpu: usize,
        at: &Interrupted,
        memory: &impl Memory,
    ) -> bool {
        if !COMPILED_IN || !Self::is_on::<Sample>() {
            return false;
        }
        let claim = sampler.claim(cpu);
        let words = sample_words(claim.places(), at, memory);
        // SAFETY: the caller's promise.
        unsafe { P::Reserve::record_masked::<P, Sample>(<Sample as Event>::ID, words) }
    }

    /// Records who called a tracepoint. [`Platform::context`] passes its own arguments on to this.
    #[inline]
    pub fn event_stack<C: AsRef<[Places]> + ?Sized>(
        sampler: &SamplerOver<C>,
        cpu: usize,
        (event, fp): (u32, usize),
        tid: Tid,
        memory: &impl Memory,
    ) -> bool {
        if !COMPILED_IN {
            return false;
        }
        let claim = sampler.claim(cpu);
        let mut callers = Callers::new(claim.places());
        let mut chain = unwind(&mut callers, Registers { ip: 0, fp }, false, memory);
        // The first one found is the tracepoint.
        let found = callers.found();
        let (ip, callers) = match found.split_first() {
            Some((first, rest)) if chain.kernel_callers > 0 => {
                chain.kernel_callers -= 1;
                (first.load(Relaxed) as u64, rest)
            }
            _ => (0, found),
        };
        let words = Words {
            fields: [
                event,
                ip as u32,
                (ip >> 32) as u32,
                tid.0,
                chain.packed(),
                chain.len_word(callers.len()),
            ],
            callers,
        };
        P::Reserve::record::<P, EventStack>(<EventStack as Event>::ID, words)
    }
}

/// The words of a sample.
#[inline(always)]
fn sample_words<'a>(
    places: &'a [AtomicUsize],
    at: &Interrupted,
    memory: &impl Memory,
) -> Words<'a, 8> {
    let mut callers = Callers::new(places);
    let is_user = at.mode == CpuMode::User;
    let chain = unwind(&mut callers, at.registers, is_user, memory);
    let ip = at.registers.ip as u64;
    Words {
        fields: [
            ip as u32,
            (ip >> 32) as u32,
            at.tid.0,
            at.period as u32,
            (at.period >> 32) as u32,
            at.missed,
            at.mode as u32 | chain.packed() << 8,
            chain.len_word(callers.len()),
        ],
        callers: callers.found(),
    }
}
