//! Kymo in a user-space program: each thread has a ring, and the program writes its own trace.
//!
//! A thread takes the role of a CPU: it claims a ring at its first event and releases it when it
//! ends, so at most [`Options::max_threads`] threads record at a time. Events of further threads
//! are counted as lost, in a separate stream, the session's own: what starting and stopping record
//! on a thread without a ring is there too. The clock is the time stamp counter on x86-64, and the
//! monotonic clock in nanoseconds elsewhere.
//!
//! # Invariants
//! - Only a thread itself writes its block, from its first event to its end.
//! - Only a thread that starts or stops a session writes the session's own block, one at a time;
//!   others only add to its count of discarded events, atomically. The writer's own additions to
//!   that count are no atomic ones: they come behind the switches, when others add no more.
//! - Rings are never unmapped, so a thread may outlive a session.
//! - A program has one session at a time; all sessions have the sizes of the first.
//!
//! A vocabulary with [`THREADS`] has each thread's number and name, and the program's, in the trace.
//! With [`Options::sampling`], the program's threads are sampled too: see [`Sampling`].
//!
//! # Example
//! ```
//! use kymo::{Tid, trace};
//! use kymo_hosted::{Hosted, Options};
//!
//! kymo::event! {
//!     /// A worker finished a piece of work.
//!     #[id(21)]
//!     pub struct PieceDone { pub worker: Tid, pub piece: u32 }
//! }
//! static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![PieceDone];
//! type Kymo = kymo::Tracer<Hosted>; // `trace!` finds it at the crate's root.
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let session = kymo_hosted::start(&Options::default(), &VOCABULARY)?;
//!     trace!(PieceDone { worker: Tid(1), piece: 7 });
//!     let directory = std::env::temp_dir().join(format!("trace-{}", std::process::id()));
//!     println!("{} events written", session.save(&directory)?.events());
//! #   let _ = std::fs::remove_dir_all(directory);
//!     Ok(())
//! }
//! ```
#![deny(missing_docs)]

#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "unsupported.rs"
)]
mod sampling;
mod threads;

use std::cell::Cell;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kymo::platform::{
    Blocks, ByPointer, Control, ControlPointer, ControlWord, Local, LocalCas, Platform, Switches,
};
use kymo::ring::Reserve;
use kymo::ring::layout::{CONTROL_SIZE, REGION_ALIGN};
use kymo::ring::reader::View;
use kymo::ring::source::Live;
use kymo::vocabulary::{MAX_CALLERS, ProcessStateDump, Sample, StackCopy, ThreadStateDump};
use kymo::{
    ChannelKind, Clock, Config, Consumer, Error, Memory, Overflow, Session, Tracer, Vocabulary,
};
use kymo_capture::{Summary, TraceError, TraceWriter};

/// The platform of a user-space program.
#[derive(Debug)]
pub struct Hosted;

// SAFETY: `Local` gives the block that this thread claimed; no other thread uses it before this one
// ends. The kernel may preempt a thread inside a record, but no other thread writes its ring
// meanwhile. Regions are never unmapped.
unsafe impl Platform for Hosted {
    #[cfg(target_arch = "x86_64")]
    type Reserve = kymo::arch::x86_64::TscCas;
    #[cfg(not(target_arch = "x86_64"))]
    type Reserve = LocalCas;
    type Local = HostedLocal;

    #[inline(always)]
    fn clock() -> u64 {
        #[cfg(target_arch = "x86_64")]
        return kymo::arch::x86_64::tsc();
        #[cfg(not(target_arch = "x86_64"))]
        return monotonic_nanos();
    }

    #[inline(always)]
    fn switches() -> Option<&'static Switches> {
        Some(&SWITCHES)
    }

    /// Claims a ring at a thread's first event, which finds no room in the empty block.
    fn claim(control: &Control) -> Option<&'static Control> {
        let kind = ChannelKind::ALL
            .into_iter()
            .zip(&NO_RING)
            .find(|(_, none)| std::ptr::eq(*none, control));
        kind.and_then(|(kind, _)| claim().map(|cpu| HostedLocal::control(cpu, kind)))
    }

    /// Waits, for at most a second, until no ring holds a record that is reserved but not written.
    /// A thread that was preempted between its switch test and its reservation cannot be detected:
    /// it may still add that record, to memory that remains valid. If counts must be exact, join
    /// the threads, or keep them from recording, before stopping the session.
    fn synchronize() {
        let Some(memory) = MEMORY.get().map(|rings| rings.memory) else {
            return;
        };
        wait_until_quiet(&memory);
    }

    /// How samples are taken, and the threads that hold rings. Others are named when they get one.
    fn dump_state() {
        record_settings();
        with_a_ring(|| {
            if Tracer::<Hosted>::is_on::<ThreadStateDump>() {
                threads::dump();
            }
        });
    }
}

/// Records how samples are taken, if they are.
fn record_settings() {
    type Settings = kymo::vocabulary::Sampling;
    if let Some(settings) = sampling::settings()
        && Tracer::<Hosted>::is_on::<Settings>()
    {
        Tracer::<Hosted>::record(settings);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn monotonic_nanos() -> u64 {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

thread_local! {
    static BLOCK: Cell<*const Control> = const { Cell::new(NO_RING.as_ptr()) };
    /// Releases the thread's ring when the thread ends.
    static CLAIM: Cell<Option<Claim>> = const { Cell::new(None) };
}

/// The blocks of threads without a ring. They are all zero, so the hot path finds no room in them
/// and need not check for a ring.
// SAFETY: a block is integers, which may be zero.
static NO_RING: [Control; ChannelKind::ALL.len()] = unsafe { std::mem::zeroed() };
/// The event switches, outside the block because a thread has no ring before its first event.
static SWITCHES: Switches = Switches::new();
/// The program's rings, which the first session allocates and all others reuse: a thread keeps its
/// ring across sessions.
static MEMORY: OnceLock<Rings> = OnceLock::new();
/// Rings that no thread holds.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Rings {
    memory: Memory,
    options: Options,
    /// One for each ring, if the program is sampled.
    samplers: sampling::Samplers,
}

/// Waits, for at most a second, until every reserved record is written; returns whether it is. This
/// asks the rings' control blocks, as there is no region while one is being laid out.
fn wait_until_quiet(memory: &Memory) -> bool {
    let began = Instant::now();
    while !memory.is_quiet() {
        if began.elapsed() > Duration::from_secs(1) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[derive(Debug)]
struct Claim {
    ring: u32,
}

impl Drop for Claim {
    fn drop(&mut self) {
        sampling::leave();
        threads::leave(self.ring);
        // Events that this thread's other destructors or signal handlers still record find no ring
        // and are counted: see `claim`.
        BLOCK.set(NO_RING.as_ptr());
        free().push(self.ring);
    }
}

fn free() -> std::sync::MutexGuard<'static, Vec<u32>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Thread-local [`Local`].
#[derive(Debug)]
pub struct HostedLocal;

/// This thread's first block.
#[derive(Debug)]
pub struct ThreadBlock;

// SAFETY: `BLOCK` points to the block that this thread claimed, or to those that nobody writes.
unsafe impl ControlPointer for ThreadBlock {
    const NEVER_NULL: bool = true;

    #[inline(always)]
    fn get() -> *const Control {
        BLOCK.get()
    }
}

// SAFETY: as `ByPointer<ThreadBlock>`.
unsafe impl Local for HostedLocal {
    type Cpu = Blocks;

    #[inline(always)]
    fn is_on<W: ControlWord>() -> bool {
        ByPointer::<ThreadBlock>::is_on::<W>()
    }
    #[inline(always)]
    fn cpu() -> Option<Blocks> {
        ByPointer::<ThreadBlock>::cpu()
    }
    #[inline(always)]
    unsafe fn load_word<W: ControlWord>(cpu: Blocks) -> usize {
        // SAFETY: the caller's promise.
        unsafe { ByPointer::<ThreadBlock>::load_word::<W>(cpu) }
    }
    #[inline(always)]
    unsafe fn load<W: ControlWord>(cpu: Blocks) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { ByPointer::<ThreadBlock>::load::<W>(cpu) }
    }
    #[inline(always)]
    unsafe fn store<W: ControlWord>(cpu: Blocks, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { ByPointer::<ThreadBlock>::store::<W>(cpu, value) };
    }
    #[inline(always)]
    unsafe fn publish_word<W: ControlWord>(cpu: Blocks, value: usize) {
        // SAFETY: the caller's promise.
        unsafe { ByPointer::<ThreadBlock>::publish_word::<W>(cpu, value) };
    }
    #[inline(always)]
    fn control(cpu: Blocks, kind: ChannelKind) -> &'static Control {
        ByPointer::<ThreadBlock>::control(cpu, kind)
    }
    #[inline(always)]
    fn counters(cpu: Blocks) -> *const std::sync::atomic::AtomicUsize {
        ByPointer::<ThreadBlock>::counters(cpu)
    }
}

/// The number of this thread's ring, claiming one if it has none; `None` if no session was started
/// or all rings are taken. A thread whose signal handlers record must call it beforehand, because
/// claiming takes a lock.
pub fn ring_number() -> Option<u32> {
    let cpu = if has_ring() {
        HostedLocal::cpu()
    } else {
        claim()
    };
    cpu.map(|cpu| HostedLocal::control(cpu, ChannelKind::Events).cpu())
}

/// Claims a ring for this thread if it has none, so that it is sampled from here on. Returns
/// whether it is. Only a thread that records nothing must call this: every other is sampled from
/// its first event on, and the one that starts the session from the start.
pub fn sample_this_thread() -> bool {
    ring_number().is_some() && sampling::is_sampled()
}

/// Whether the calling thread has a ring.
fn has_ring() -> bool {
    !std::ptr::eq(BLOCK.get(), NO_RING.as_ptr())
}

/// Claims a ring for the calling thread, which has none; counts the event that finds none.
#[cold]
#[inline(never)]
fn claim() -> Option<Blocks> {
    let claimed = take_ring();
    if claimed.is_none()
        && let Some(own) = session_block()
        // SAFETY: regions are never unmapped; see the invariants for who writes the block.
        && let Some(uncounted) = unsafe { own.as_ref() }
    {
        uncounted.count_discarded();
    }
    claimed
}

/// The block of the ring that no thread holds, the last: the session's own.
fn session_block() -> Option<*const Control> {
    let rings = MEMORY.get()?;
    Some(rings.memory.control(rings.options.max_threads))
}

/// Runs a function that records as part of a session's start or stop. A calling thread without a
/// ring has the session's own meanwhile, so none of the threads' is taken for this. The caller has
/// the lock [`one_at_a_time`].
fn with_a_ring<T>(run: impl FnOnce() -> T) -> T {
    /// Takes the session's ring from the thread, also on a panic.
    struct Borrowed;
    impl Drop for Borrowed {
        fn drop(&mut self) {
            BLOCK.set(NO_RING.as_ptr());
        }
    }
    let _borrowed = match session_block() {
        Some(own) if !has_ring() => {
            BLOCK.set(own);
            Some(Borrowed)
        }
        _ => None,
    };
    run()
}

/// Takes a free ring for the calling thread, which has none, and records whose it is.
fn take_ring() -> Option<Blocks> {
    let rings = MEMORY.get()?;
    // A thread that is ending must not take the lock: it may already hold it.
    let ring = if CLAIM.try_with(|_| ()).is_ok() {
        free().pop()?
    } else {
        return None;
    };
    let block = rings.memory.control(ring);
    CLAIM.with(|claim| claim.set(Some(Claim { ring })));
    BLOCK.set(block);
    // What this records, or makes others record, finds the ring. No sample comes before: the thread
    // has no timer yet.
    threads::enter(ring);
    if let Some(sampler) = rings.samplers.get(ring as usize) {
        sampling::enter(sampler);
    }
    ByPointer::<ThreadBlock>::cpu()
}

/// Options of a program's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of threads that can record at a time.
    pub max_threads: u32,
    /// Packet size in bytes.
    pub packet_size: u32,
    /// Packets per ring, a power of two.
    pub packets: u32,
    /// Policy for a full ring.
    pub overflow: Overflow,
    /// How the program's threads are sampled; `None` if they are not.
    pub sampling: Option<Sampling>,
}

/// How a program's threads are sampled: by a timer for each, which counts its processor time. So a
/// thread that sleeps or waits takes no samples.
///
/// This is for Linux, on x86-64 and AArch64. A thread is sampled if it has a ring: see
/// [`sample_this_thread`]. The vocabulary must have [`SAMPLES`]. The chain of callers is found by
/// frame pointers, with which the program is built by `-C force-frame-pointers=yes`; or see
/// [`stack_bytes`](Self::stack_bytes).
///
/// The timers send SIGPROF. A handler that the program had for it before gets the signals of all
/// other senders, and a thread that is sampled does not block it. System calls that are
/// interrupted go on, as far as the system lets them (`sigaction(2)`, `SA_RESTART`).
///
/// Linux looks at these timers at its ticks, of which many systems have 250 a second. Samples that
/// are asked for beyond that are counted as missed.
///
/// ```
/// use kymo_hosted::{Options, Sampling};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let sampling = Some(Sampling::default());
///     let options = Options { sampling, ..Options::default() };
///     let session = kymo_hosted::start(&options, &kymo_hosted::SAMPLES)?;
///     println!("{}", (0..1_000_000_u64).map(|number| number.pow(2) % 7).sum::<u64>());
///     let directory = std::env::temp_dir().join(format!("samples-{}", std::process::id()));
///     session.save(&directory)?;
///     // kymo flame /tmp/samples-1234 -o out.svg
/// #   let _ = std::fs::remove_dir_all(directory);
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Samples for each second of a thread's processor time, on average: 1 to 100,000. The distance
    /// varies by up to a quarter.
    pub hz: u32,
    /// Most callers of a sample, up to [`MAX_CALLERS`].
    pub depth: u32,
    /// Packets in each thread's ring of samples, a power of two.
    pub packets: u32,
    /// Most bytes of the stack that are copied with each sample, from the stack pointer on; 0 for
    /// none. This is for programs without frame pointers: `kymo flame` and the other verbs then
    /// find the callers by the tables (`.eh_frame`) of the program's files. 8192 is enough for most
    /// programs; each KiB makes a sample 1.1 KiB longer. At most 65,536, and a quarter of the ring.
    pub stack_bytes: u32,
}

impl Default for Sampling {
    /// 100 samples a second with all their callers, 1 MiB for each thread.
    fn default() -> Self {
        Sampling {
            hz: 100,
            depth: MAX_CALLERS as u32,
            packets: 256,
            stack_bytes: 0,
        }
    }
}

/// The events with the numbers and names of the program and its threads: `kymo report`, `kymo dump
/// --names` and `kymo export` show them. Each thread records its own at its first event, and a
/// session that begins later those of the threads that have rings.
/// `static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![kymo_hosted::THREADS; PieceDone];`
pub const THREADS: Vocabulary = kymo::vocabulary![ProcessStateDump, ThreadStateDump];

/// The events of a program that is sampled, [`THREADS`] among them:
/// `static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![kymo_hosted::SAMPLES; PieceDone];`
pub const SAMPLES: Vocabulary = kymo::vocabulary![
    Sample,
    StackCopy,
    kymo::vocabulary::Sampling,
    ProcessStateDump,
    ThreadStateDump,
];

impl Default for Options {
    /// 8 threads with 1 MiB each; the newest events are kept.
    fn default() -> Self {
        Options {
            max_threads: 8,
            packet_size: 4096,
            packets: 256,
            overflow: Overflow::Overwrite,
            sampling: None,
        }
    }
}

impl Options {
    fn samples_packets(&self) -> u32 {
        self.sampling.map_or(0, |sampling| sampling.packets)
    }

    /// Whether rings for these options serve for the others too.
    fn have_sizes_of(&self, other: &Options) -> bool {
        let sizes = |options: &Options| {
            let Options {
                max_threads,
                packet_size,
                packets,
                ..
            } = *options;
            [max_threads, packet_size, packets, options.samples_packets()]
        };
        sizes(self) == sizes(other)
    }
}

/// A program's session.
#[derive(Debug)]
pub struct HostedSession {
    session: Session<Hosted>,
    is_sampled: bool,
}

/// Starts to record every event of `vocabulary` on every thread. Takes about 20 ms to measure the
/// clock's frequency.
///
/// # Errors
/// Those of [`Tracer::start`]; also if an earlier session of this program had other sizes, as
/// threads keep their rings. [`Error::Running`] also if a thread is still inside a record of an
/// earlier session after a second. [`Error::Sampling`] if the program cannot be sampled.
pub fn start(options: &Options, vocabulary: &'static Vocabulary) -> Result<HostedSession, Error> {
    let names_packets = 16;
    let config = Config {
        // One more than rings: the last one counts events of threads without a ring.
        cpus: options.max_threads.saturating_add(1),
        packet_size: options.packet_size,
        packets: options.packets,
        names_packets,
        samples_packets: options.samples_packets(),
        overflow: options.overflow,
        consumer: Consumer::Kernel,
        clock: clock(),
        seed: u64::from(std::process::id()),
        hosted: true,
        ..Config::DEFAULT
    };
    config.check(
        config.cpus,
        vocabulary.max_record_words(config.channels()),
        LocalCas::KIND,
    )?;
    check_sampling(options)?;
    let _one_at_a_time = one_at_a_time();
    let rings = match MEMORY.get() {
        Some(rings) if !rings.options.have_sizes_of(options) => {
            return Err(Error::Config(
                "the size of a program's second session (that of the first)",
            ));
        }
        Some(rings) => rings,
        None => {
            let rings = Rings {
                memory: allocate(&config)?,
                options: *options,
                samplers: sampling::samplers(match options.sampling {
                    Some(_) => options.max_threads,
                    None => 0,
                }),
            };
            *free() = (0..options.max_threads).rev().collect();
            MEMORY.get_or_init(|| rings)
        }
    };
    // What a thread writes later would be taken for a record of the new session.
    if !wait_until_quiet(&rings.memory) {
        return Err(Error::Running);
    }
    let start = || Tracer::start(rings.memory, &config, vocabulary);
    let session = match &options.sampling {
        Some(sampling) if kymo::COMPILED_IN => {
            sampled(sampling, rings, &config, vocabulary, start)?
        }
        _ => start()?,
    };
    Ok(HostedSession {
        session,
        is_sampled: options.sampling.is_some(),
    })
}

/// Sessions start and stop one at a time.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_sampling(options: &Options) -> Result<(), Error> {
    match options.sampling {
        Some(sampling) if !(1..=100_000).contains(&sampling.hz) => {
            Err(Error::Config("the rate of samples (1 to 100,000 a second)"))
        }
        Some(sampling) if sampling.packets == 0 => Err(Error::Config(
            "the number of packets of samples (at least 4)",
        )),
        Some(sampling) if sampling.stack_bytes > most_stack_bytes(options, &sampling) => {
            Err(Error::Config(
                "the number of bytes of a stack (at most 65,536, and a quarter of the ring)",
            ))
        }
        _ => Ok(()),
    }
}

fn most_stack_bytes(options: &Options, sampling: &Sampling) -> u32 {
    let ring = sampling.packets.saturating_mul(options.packet_size);
    (ring / 4).min(1 << 16)
}

/// Starts the session, and the timers of all threads that have a ring; the calling thread gets one.
fn sampled(
    sampling: &Sampling,
    rings: &Rings,
    config: &Config,
    vocabulary: &Vocabulary,
    start: impl FnOnce() -> Result<Session<Hosted>, Error>,
) -> Result<Session<Hosted>, Error> {
    sampling::prepare(sampling, vocabulary)?;
    ring_number().ok_or(Error::Sampling("all rings are taken; raise max_threads"))?;
    let session = start()?;
    let ticks_per_second = config.clock.frequency_hz;
    if let Err(error) = sampling::begin(sampling, rings.samplers, ticks_per_second) {
        sampling::end();
        // It runs.
        let _ = session.stop();
        return Err(error);
    }
    Ok(session)
}

/// Zeroed memory that is never freed.
fn allocate(config: &Config) -> Result<Memory, Error> {
    let packets = [config.packets, config.names_packets, config.samples_packets];
    let rings = packets.iter().fold(0_usize, |sum, &packets| {
        sum.saturating_add(packets as usize)
    });
    let size = rings
        .checked_mul(config.packet_size as usize)
        .and_then(|size| size.checked_mul(config.cpus as usize));
    // 1 MiB is more than header, control blocks and metadata need.
    let size = size.and_then(|size| {
        size.checked_add((1 << 20) + ChannelKind::ALL.len() * CONTROL_SIZE * config.cpus as usize)
    });
    // Aligned here because an aligned allocation would touch every page to zero it.
    let align = (config.packet_size as usize).max(REGION_ALIGN);
    let layout = size
        .and_then(|size| std::alloc::Layout::from_size_align(size.checked_add(align)?, 16).ok());
    let layout = layout.ok_or(Error::Config("the size of the rings"))?;
    // SAFETY: the size is not zero.
    let base = unsafe { std::alloc::alloc_zeroed(layout) };
    if base.is_null() {
        return Err(Error::Memory(layout.size()));
    }
    let offset = base.align_offset(align).min(align);
    // SAFETY: `offset` and the rest lie within the allocation, which is aligned there and never
    // freed.
    Ok(unsafe { Memory::new(base.add(offset), layout.size() - align, config.cpus) })
}

/// The clock's description: frequency measured against the monotonic clock, offset from the wall
/// clock.
fn clock() -> Clock {
    let (begin, ticks) = (Instant::now(), Hosted::clock());
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    std::thread::sleep(Duration::from_millis(20));
    let (nanos, passed) = (
        begin.elapsed().as_nanos().max(1),
        Hosted::clock().wrapping_sub(ticks),
    );
    let frequency = if cfg!(target_arch = "x86_64") {
        u128::from(passed) * 1_000_000_000 / nanos
    } else {
        1_000_000_000
    };
    let frequency_hz = u64::try_from(frequency).unwrap_or(1).max(1);
    // Wall-clock time of tick 0, in ticks.
    let origin =
        wall.as_nanos() as i128 * i128::from(frequency_hz) / 1_000_000_000 - i128::from(ticks);
    Clock {
        frequency_hz,
        offset_seconds: origin.div_euclid(i128::from(frequency_hz)) as i64,
        offset_ticks: origin.rem_euclid(i128::from(frequency_hz)) as u64,
        absolute: true,
    }
}

impl HostedSession {
    /// A writer of the trace to a directory during the recording: call its [`TraceWriter::poll`]
    /// with [`live`](Self::live), or with [`Overflow::Discard`] its [`TraceWriter::consume`], which
    /// also frees the packets that it has read.
    ///
    /// # Errors
    /// [`TraceError::Io`]; without the feature `trace` always [`TraceError::Region`] with
    /// `NoMagic`, as there is no region then. ([`save`](Self::save) writes nothing.)
    pub fn writer(&self, directory: &Path) -> Result<TraceWriter, TraceError> {
        let writer = TraceWriter::create(directory, &self.session.live())?;
        if self.is_sampled {
            sampling::note(directory)?;
        }
        Ok(writer)
    }

    /// The memory, for a reader.
    pub fn live(&self) -> Live {
        self.session.live()
    }

    /// Stops recording.
    ///
    /// # Errors
    /// [`Error::NotRunning`] after an earlier call.
    pub fn stop(&self) -> Result<(), Error> {
        // Samples of a session that begins meanwhile go on.
        let _one_at_a_time = one_at_a_time();
        if self.is_sampled && self.session.is_running() {
            sampling::end();
        }
        with_a_ring(|| self.session.stop())
    }

    /// How many threads are not sampled, though they have a ring: the system had no timer for them.
    pub fn threads_without_timer(&self) -> u32 {
        sampling::without_timer()
    }

    /// Stops recording and writes the content of the rings as a CTF trace directory. Returns the
    /// events written and lost. Without the feature `trace` there is nothing to write, and nothing
    /// is written.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn save(&self, directory: &Path) -> Result<Summary, TraceError> {
        if !kymo::COMPILED_IN {
            return Ok(Summary::default());
        }
        // The session may already be stopped.
        let _ = self.stop();
        let mut writer = self.writer(directory)?;
        let live = self.session.live();
        // A thread may still be inside a record, so read first what is certain, as from a running
        // session.
        while writer.poll(&live, View::Live)? > 0 {}
        writer.poll(&live, View::PostMortem)?;
        writer.finish(&live)
    }
}

/// The fields of a tracepoint are checked whether tracing is compiled in or out: `cargo xtask test
/// unit` runs these examples both ways. This compiles:
/// ```
/// use kymo::{Irq, trace, vocabulary::IrqEnter};
/// type Kymo = kymo::Tracer<kymo_hosted::Hosted>;
/// fn main() {
///     trace!(IrqEnter { irq: Irq(7) });
/// }
/// ```
/// A wrong type:
/// ```compile_fail,E0308
/// use kymo::{Irq, trace, vocabulary::IrqEnter};
/// type Kymo = kymo::Tracer<kymo_hosted::Hosted>;
/// fn main() {
///     trace!(IrqEnter { irq: 7 });
/// }
/// ```
/// A missing field:
/// ```compile_fail,E0063
/// use kymo::{Irq, trace, vocabulary::IrqEnter};
/// type Kymo = kymo::Tracer<kymo_hosted::Hosted>;
/// fn main() {
///     trace!(IrqEnter {});
/// }
/// ```
/// An unknown field:
/// ```compile_fail,E0560
/// use kymo::{Irq, trace, vocabulary::IrqEnter};
/// type Kymo = kymo::Tracer<kymo_hosted::Hosted>;
/// fn main() {
///     trace!(IrqEnter { irq: Irq(7), cpu: 1 });
/// }
/// ```
/// An unknown name:
/// ```compile_fail,E0425
/// use kymo::{Irq, trace, vocabulary::IrqEnter};
/// type Kymo = kymo::Tracer<kymo_hosted::Hosted>;
/// fn main() {
///     trace!(IrqEnter { irq: Irq(number) });
/// }
/// ```
#[cfg(doctest)]
mod fields_are_checked {}
