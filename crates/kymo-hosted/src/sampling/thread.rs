//! A thread as its signal handler knows it: its stack, its timer, its name.

use std::cell::Cell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use kymo::sample::{Interrupted, Memory, Sampler, Window};
use kymo::vocabulary::{Address, CpuMode, NAME_BYTES, STACK_WORDS, StackCopy};
use kymo::{Error, NameEpoch, Sequence, Text, Tid, Tracer};

use super::signal::{self, Place, Timer};
use super::{PERIOD, PERIOD_TICKS, STACK_BYTES, images, name};
use crate::Hosted;

const WORD: usize = size_of::<usize>();
/// Most bytes of a stack that samples look at.
const MOST_STACK: usize = 128 << 20;
/// Bytes of a thread's name in Linux, with the zero behind it.
const THREAD_NAME: usize = 16;

thread_local! {
    /// Never destroyed, so that the handler may ask for it at any time.
    pub(super) static THREAD: Thread = const { Thread::new() };
}

/// Lowest and highest address of code of the program and its libraries.
static CODE: [AtomicUsize; 2] = [AtomicUsize::new(usize::MAX), AtomicUsize::new(0)];

/// Updates the range of code: libraries may have been loaded since the last time.
pub(super) fn find_code() {
    images::for_each(|image| {
        CODE[0].fetch_min(image.code.start, Relaxed);
        CODE[1].fetch_max(image.code.end, Relaxed);
    });
}

/// A thread's data for its signal handler.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its ring's sampler; null where it has no ring.
    sampler: AtomicPtr<Sampler<1>>,
    timer: Timer,
    /// Processor time at which the next sample is due.
    next: AtomicU64,
    /// Whether its handler is at work.
    inside: AtomicBool,
    tid: AtomicU32,
    /// Its `pthread_t`, by which other threads find its clock.
    handle: AtomicUsize,
    /// First address of its stack, and the address behind the stack.
    stack: [AtomicUsize; 2],
    name: Cell<[u8; THREAD_NAME]>,
    pub(super) named: NameEpoch,
}

impl Thread {
    const fn new() -> Thread {
        Thread {
            sampler: AtomicPtr::new(null_mut()),
            timer: Timer::new(),
            next: AtomicU64::new(0),
            inside: AtomicBool::new(false),
            tid: AtomicU32::new(0),
            handle: AtomicUsize::new(0),
            stack: [AtomicUsize::new(0), AtomicUsize::new(0)],
            name: Cell::new([0; THREAD_NAME]),
            named: NameEpoch::new(),
        }
    }

    pub(super) fn tid(&self) -> Tid {
        Tid(self.tid.load(Relaxed))
    }

    /// For the thread itself, whose handler asks.
    pub(super) fn name(&self) -> Text<NAME_BYTES> {
        let bytes = self.name.get();
        let name = CStr::from_bytes_until_nul(&bytes).ok();
        Text::new(name.and_then(|name| name.to_str().ok()).unwrap_or(""))
    }

    pub(super) fn set_sampler(&self, sampler: Option<&'static Sampler<1>>) {
        let sampler = sampler.map_or(null_mut(), |sampler| std::ptr::from_ref(sampler).cast_mut());
        self.sampler.store(sampler, Release);
    }

    fn sampler(&self) -> Option<&'static Sampler<1>> {
        // SAFETY: `samplers` are never freed, and everything in them is atomic.
        unsafe { self.sampler.load(Relaxed).as_ref() }
    }

    /// Fills in name, numbers and stack of the calling thread, to which `self` belongs.
    pub(super) fn find_itself(&self) {
        let mut name = [0; THREAD_NAME];
        // SAFETY: PR_GET_NAME writes up to 16 bytes, the last of them zero.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        self.name.set(name);
        // SAFETY: these ask for numbers of the calling thread.
        let (tid, handle) = unsafe { (libc::gettid(), libc::pthread_self()) };
        self.tid.store(tid as u32, Relaxed);
        self.handle.store(handle as usize, Relaxed);
        let stack = own_stack();
        self.stack[0].store(stack.start, Relaxed);
        self.stack[1].store(stack.end, Relaxed);
    }

    pub(super) fn is_inside(&self) -> bool {
        self.inside.load(SeqCst)
    }

    pub(super) fn has_timer(&self) -> bool {
        self.timer.is_there()
    }

    /// Creates and sets the timer. The caller holds `THREADS`.
    ///
    /// # Errors
    /// [`Error::Sampling`].
    pub(super) fn start_timer(&self) -> Result<(), Error> {
        let handle = self.handle.load(Relaxed) as libc::pthread_t;
        let clock = signal::clock_of(handle)?;
        let first = self.sampler().map_or(1, |sampler| sampler.next(0));
        let next = signal::time_of(clock).saturating_add(first);
        self.next.store(next, Relaxed);
        self.timer.create(clock, self.tid.load(Relaxed))?;
        self.timer.set(next);
        Ok(())
    }

    /// Deletes the timer. The caller holds `THREADS`.
    pub(super) fn stop_timer(&self) {
        self.timer.delete();
    }

    /// Takes a sample if one is due, and sets the timer. Called by the thread's signal handler,
    /// with the place of the interrupted code.
    pub(super) fn on_timer(&self, place: &Place) {
        // Partner: `end`, which stores `PERIOD` before it loads this.
        self.inside.store(true, SeqCst);
        let period = PERIOD.load(SeqCst);
        if period > 0
            && let Some(sampler) = self.sampler()
        {
            if let Some(missed) = self.count_due(signal::own_time(), period, sampler) {
                name(self);
                self.copy_stack(place, STACK_BYTES.load(Relaxed) as usize);
                let at = Interrupted {
                    registers: place.registers,
                    mode: CpuMode::User,
                    tid: self.tid(),
                    period: PERIOD_TICKS.load(Relaxed),
                    missed,
                };
                let sp = place.sp;
                Tracer::<Hosted>::sample(sampler, 0, &at, &Own { thread: self, sp });
            }
            // A time in the past would bring the signal at once, again and again.
            let soon = signal::own_time() + period / 2;
            self.timer.set(self.next.load(Relaxed).max(soon));
        }
        self.inside.store(false, Release);
    }

    /// Records up to so many bytes of the stack.
    fn copy_stack(&self, place: &Place, bytes: usize) {
        if bytes == 0 || !Tracer::<Hosted>::is_on::<StackCopy>() {
            return;
        }
        let own = Own {
            thread: self,
            sp: place.sp,
        };
        let Some(used) = own.used() else {
            return;
        };
        let end = used.end.min(used.start.saturating_add(bytes));
        for address in (used.start..end).step_by(STACK_WORDS * WORD) {
            let mut words = [Address(0); STACK_WORDS];
            let count = (end - address).div_ceil(WORD).min(STACK_WORDS);
            for (index, word) in words.iter_mut().enumerate().take(count) {
                let at: *const usize = std::ptr::with_exposed_provenance(address + index * WORD);
                // SAFETY: what is used of the stack is mapped, and a stack ends with a whole word.
                *word = Address(unsafe { at.read_volatile() } as u64);
            }
            Tracer::<Hosted>::record(StackCopy {
                tid: self.tid(),
                sp: Address(place.sp as u64),
                fp: Address(place.registers.fp as u64),
                link: Address(place.link as u64),
                address: Address(address as u64),
                words: Sequence::new(words.get(..count).unwrap_or(&[])),
            });
        }
    }

    /// How many samples were due before the one that is due now, if one is; sets the time of the
    /// next.
    fn count_due(&self, now: u64, period: u64, sampler: &Sampler<1>) -> Option<u32> {
        let due = self.next.load(Relaxed);
        let late = now.checked_sub(due)? / period;
        // On time again, unless some had to be left out.
        let from = if late > 0 { now } else { due };
        self.next.store(from + sampler.next(0), Relaxed);
        Some(u32::try_from(late).unwrap_or(u32::MAX))
    }
}

/// The calling thread's stack; empty where the system does not tell.
fn own_stack() -> Range<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut size) = (null_mut(), 0);
    // SAFETY: the attributes are read only where the first call has filled them in, and are
    // destroyed then.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        let got = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if got != 0 {
            return 0..0;
        }
    }
    let start = start.expose_provenance();
    let end = start.saturating_add(size);
    // Without a limit, the main thread's reaches down to whatever was mapped below it.
    start.max(end.saturating_sub(MOST_STACK))..end
}

/// The memory of the thread that the handler runs on.
struct Own<'a> {
    thread: &'a Thread,
    /// Stack pointer of the interrupted code.
    sp: usize,
}

impl Own<'_> {
    /// What is in use of the stack, from a whole word on. `None` if the code is on another stack: a
    /// coroutine's, a signal handler's.
    fn used(&self) -> Option<Range<usize>> {
        let [start, end] = [0, 1].map(|index| self.thread.stack[index].load(Relaxed));
        let used = self.sp & !(WORD - 1)..end;
        (start..end).contains(&self.sp).then_some(used)
    }
}

impl Memory for Own<'_> {
    fn kernel_text(&self) -> Range<usize> {
        0..0
    }

    fn kernel_stack(&self, _: usize) -> Option<Window> {
        None
    }

    fn user_text(&self) -> Range<usize> {
        CODE[0].load(Relaxed)..CODE[1].load(Relaxed)
    }

    fn user_stack(&self, address: usize) -> Option<Window> {
        let used = self.used()?;
        let at = std::ptr::with_exposed_provenance(used.start);
        // SAFETY: from the stack pointer upwards a running thread's stack is mapped; the main
        // thread's, which grows, is mapped in one piece.
        used.contains(&address)
            .then(|| unsafe { Window::new(used.clone(), at) })
    }
}
