//! Samples of the program's own threads: where each of them was, at intervals of its processor
//! time.
//!
//! Every thread with a ring has a timer that counts the thread's processor time. When it expires,
//! the thread gets SIGPROF, and the handler records where the thread was and who called it; then it
//! sets the timer anew.
//!
//! # Invariants
//! - The handler takes no lock, allocates nothing and leaves `errno` as it was. SIGPROF is blocked
//!   while it runs, so it never interrupts itself.
//! - A [`Thread`] is written by its own thread, and by others only while they hold `THREADS`.
//!   It leaves `THREADS` before its thread ends.
//! - The handler says that it is `inside` before it asks for `PERIOD`, and [`end`] takes `PERIOD`
//!   away before it asks who is inside: when that is nobody, no sample is recorded any more, and no
//!   timer is set.
//! - Stack memory is read only between the stack pointer of the interrupted code and the stack's
//!   end, which are mapped.

mod images;
mod signal;
mod thread;

pub(crate) use images::note;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kymo::event::{Event, Vocabulary};
use kymo::sample::Sampler;
use kymo::vocabulary::{
    NAME_BYTES, Pid, ProcessStateDump, Sample, SamplingDriver, StackCopy, ThreadStateDump,
};
use kymo::{Error, Text, Tracer};

use crate::{Hosted, Sampling};
use thread::{THREAD, Thread};

/// The samplers, one for each ring.
pub(crate) type Samplers = &'static [Sampler<1>];

/// Average distance of two samples of a thread in nanoseconds of its processor time; 0 while none
/// are taken.
static PERIOD: AtomicU64 = AtomicU64::new(0);
/// Average distance of two samples of a thread in ticks of the trace's clock.
static PERIOD_TICKS: AtomicU64 = AtomicU64::new(0);
/// Most callers of a sample.
static DEPTH: AtomicU32 = AtomicU32::new(0);
/// Most bytes of a sample's stack.
static STACK_BYTES: AtomicU32 = AtomicU32::new(0);
/// Threads with a ring.
static THREADS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// Threads that got no timer since the session began.
static WITHOUT_TIMER: AtomicU32 = AtomicU32::new(0);
/// The program's name, found before a handler needs it.
static PROCESS: OnceLock<Text<NAME_BYTES>> = OnceLock::new();

/// A thread that has not ended.
#[derive(Debug)]
struct Entry(*const Thread);

// SAFETY: what it points to is atomic, and stays until its thread has taken it out of `THREADS`.
unsafe impl Send for Entry {}

impl Entry {
    fn thread(&self) -> &Thread {
        // SAFETY: the thread takes its entry away before it ends; see `leave`.
        unsafe { &*self.0 }
    }
}

fn threads() -> MutexGuard<'static, Vec<Entry>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a process that was forked, forgets the threads of the one that forked it: only the calling
/// thread is here, and has another number.
fn forget_parents(threads: &mut Vec<Entry>) {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if PROCESS.swap(process, Relaxed) != process {
        THREAD.with(|own| {
            threads.retain(|entry| std::ptr::eq(entry.0, own));
            own.find_itself();
        });
    }
}

/// Allocates samplers for this many rings, which are never freed.
pub(crate) fn samplers(rings: u32) -> Samplers {
    Vec::leak((0..rings).map(|_| Sampler::new()).collect())
}

/// Checks what can be checked before a session starts, and installs the handler.
///
/// # Errors
/// [`Error::Sampling`].
pub(crate) fn prepare(sampling: &Sampling, vocabulary: &Vocabulary) -> Result<(), Error> {
    let has = |id| vocabulary.events().iter().any(|event| event.id == id);
    let copies = sampling.stack_bytes > 0;
    if !has(<Sample as Event>::ID) || copies && !has(<StackCopy as Event>::ID) {
        return Err(Error::Sampling(
            "the vocabulary does not have kymo_hosted::SAMPLES",
        ));
    }
    PROCESS.get_or_init(crate::threads::program_name);
    signal::install()
}

/// How samples are taken, from [`begin`] to [`end`].
pub(crate) fn settings() -> Option<kymo::vocabulary::Sampling> {
    let period = PERIOD_TICKS.load(Relaxed);
    (period > 0).then(|| kymo::vocabulary::Sampling {
        period,
        depth: DEPTH.load(Relaxed),
        driver: SamplingDriver::ThreadTime,
    })
}

/// Begins to sample all threads that have a ring.
///
/// # Errors
/// [`Error::Sampling`] if the calling thread gets no timer.
pub(crate) fn begin(
    sampling: &Sampling,
    samplers: Samplers,
    ticks_per_second: u64,
) -> Result<(), Error> {
    let period = 1_000_000_000 / u64::from(sampling.hz);
    let ticks = ticks_per_second / u64::from(sampling.hz);
    PERIOD_TICKS.store(ticks.max(1), Relaxed);
    DEPTH.store(sampling.depth, Relaxed);
    STACK_BYTES.store(sampling.stack_bytes, Relaxed);
    WITHOUT_TIMER.store(0, Relaxed);
    crate::record_settings();
    thread::find_code();
    let mut threads = threads();
    forget_parents(&mut threads);
    for sampler in samplers {
        sampler.set(&kymo::vocabulary::Sampling {
            period,
            depth: sampling.depth,
            driver: SamplingDriver::ThreadTime,
        });
    }
    PERIOD.store(period, SeqCst);
    let mut own = Ok(());
    for entry in threads.iter() {
        let started = entry.thread().start_timer();
        if THREAD.with(|thread| std::ptr::eq(thread, entry.0)) {
            own = started;
        } else if started.is_err() {
            WITHOUT_TIMER.fetch_add(1, Relaxed);
        }
    }
    own
}

/// Ends sampling. When this returns, no handler records any more, unless one did not come to its
/// end within a second.
pub(crate) fn end() {
    PERIOD_TICKS.store(0, Relaxed);
    // Partner: the handler, which stores `inside` before it loads this.
    PERIOD.store(0, SeqCst);
    let began = Instant::now();
    let mut threads = threads();
    forget_parents(&mut threads);
    while threads.iter().any(|entry| entry.thread().is_inside()) {
        if began.elapsed() > Duration::from_secs(1) {
            break;
        }
        // A thread that ends must get at the list.
        drop(threads);
        std::thread::sleep(Duration::from_millis(1));
        threads = self::threads();
    }
    for entry in threads.iter() {
        entry.thread().stop_timer();
    }
}

/// Samples the calling thread, which has claimed a ring, from here on.
pub(crate) fn enter(sampler: &'static Sampler<1>) {
    THREAD.with(|thread| {
        thread.find_itself();
        signal::unblock();
        thread::find_code();
        let mut threads = threads();
        forget_parents(&mut threads);
        threads.push(Entry(thread));
        thread.set_sampler(Some(sampler));
        if PERIOD.load(SeqCst) > 0 && thread.start_timer().is_err() {
            WITHOUT_TIMER.fetch_add(1, Relaxed);
        }
    });
}

/// Stops sampling the calling thread, which is about to give its ring back.
pub(crate) fn leave() {
    THREAD.with(|thread| {
        let mut threads = threads();
        thread.set_sampler(None);
        thread.stop_timer();
        threads.retain(|entry| !std::ptr::eq(entry.0, thread));
    });
}

/// Whether the calling thread is being sampled.
pub(crate) fn is_sampled() -> bool {
    PERIOD.load(Relaxed) > 0 && THREAD.with(Thread::has_timer)
}

/// Threads that got no timer since the session began.
pub(crate) fn without_timer() -> u32 {
    WITHOUT_TIMER.load(Relaxed)
}

/// Names the process and the thread, unless they were named in this name epoch.
#[inline]
fn name(thread: &Thread) {
    let pid = Pid(std::process::id());
    Tracer::<Hosted>::named(&crate::threads::PROCESS_NAMED, || ProcessStateDump {
        pid,
        parent_pid: Pid(0),
        name: PROCESS.get().copied().unwrap_or(Text::new("")),
    });
    Tracer::<Hosted>::named(&thread.named, || ThreadStateDump {
        tid: thread.tid(),
        pid,
        prio: 0,
        state: kymo::vocabulary::ThreadState::Runnable,
        cpu: kymo::vocabulary::Cpu::UNKNOWN,
        name: thread.name(),
    });
}
