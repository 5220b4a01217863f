//! The writers under test, and the tracepoints, which are out-of-line functions so that addresses
//! show where a signal occurred.

use std::cell::Cell;

use kymo::arch::x86_64::{TscCas, tsc};
use kymo::platform::{ByPointer, LocalCas, Platform};
use kymo::ring::source::Live;
use kymo::{Clock, Config, Consumer, Overflow, RegionMemory, Tracer};
use kymo_hosted::{Hosted, HostedLocal, Options};

use crate::event::{Call, Long, Medium, Short, THREADS, VOCABULARY, Wide};

/// A platform, and the functions that a run needs to start it.
pub trait Writer: Platform {
    /// Its name in the report.
    const NAME: &'static str;
    /// Bytes of a thread's ring of events.
    const RING: u64;

    /// Starts recording. Returns the memory, and a function that stops the recording.
    fn start(overflow: Overflow) -> (Live, Box<dyn FnOnce()>);

    /// Called first by each thread: claims a ring and returns its number.
    fn enter(thread: usize) -> u32;
}

/// The tracepoint of a call.
#[inline(always)]
pub(crate) fn record<P: Platform>(call: Call) {
    match call.id() {
        21 => short::<P>(call.seq, call.tag()),
        22 => long::<P>(call.seq, call.tag(), call.more()),
        23 => wide::<P>(call.seq, call.tag(), call.more()),
        _ => medium::<P>(call.seq, call.tag()),
    }
}

// Expanded by hand, as the tracer of `trace!` cannot be generic.

#[inline(never)]
fn short<P: Platform>(seq: u32, tag: u32) {
    if Tracer::<P>::is_on::<Short>() {
        Tracer::<P>::record(Short { seq, tag });
    }
}

#[inline(never)]
fn long<P: Platform>(seq: u32, tag: u32, more: [u32; 2]) {
    if Tracer::<P>::is_on::<Long>() {
        Tracer::<P>::record(Long { seq, tag, more });
    }
}

#[inline(never)]
fn wide<P: Platform>(seq: u32, tag: u32, more: [u32; 7]) {
    if Tracer::<P>::is_on::<Wide>() {
        Tracer::<P>::record(Wide { seq, tag, more });
    }
}

#[inline(never)]
fn medium<P: Platform>(seq: u32, tag: u32) {
    if Tracer::<P>::is_on::<Medium>() {
        Tracer::<P>::record(Medium { seq, tag });
    }
}

const PACKET_SIZE: u32 = 1024;
const PACKETS: u32 = 32;

fn start_hosted(overflow: Overflow) -> (Live, Box<dyn FnOnce()>) {
    let options = Options {
        max_threads: THREADS as u32,
        packet_size: PACKET_SIZE,
        packets: PACKETS,
        overflow,
        ..Options::default()
    };
    let session = kymo_hosted::start(&options, &VOCABULARY).expect("a hosted session");
    (
        session.live(),
        Box::new(move || session.stop().expect("it runs")),
    )
}

fn enter_hosted() -> u32 {
    kymo_hosted::ring_number().expect("a ring for each thread")
}

/// The unchanged hosted platform, with the hot path in assembly.
pub type Tsc = Hosted;

impl Writer for Hosted {
    const NAME: &'static str = "TscCas, hosted";
    const RING: u64 = PACKET_SIZE as u64 * PACKETS as u64;

    fn start(overflow: Overflow) -> (Live, Box<dyn FnOnce()>) {
        start_hosted(overflow)
    }
    fn enter(_: usize) -> u32 {
        enter_hosted()
    }
}

/// The hosted platform's rings with the portable writer.
#[derive(Debug)]
pub struct Portable;

// SAFETY: as for `Hosted`, whose blocks it uses.
unsafe impl Platform for Portable {
    type Reserve = LocalCas;
    type Local = HostedLocal;

    #[inline(always)]
    fn clock() -> u64 {
        tsc()
    }
    fn synchronize() {}
}

impl Writer for Portable {
    const NAME: &'static str = "LocalCas, hosted";
    const RING: u64 = PACKET_SIZE as u64 * PACKETS as u64;

    fn start(overflow: Overflow) -> (Live, Box<dyn FnOnce()>) {
        start_hosted(overflow)
    }
    fn enter(_: usize) -> u32 {
        enter_hosted()
    }
}

/// A platform like a kernel's: the block's address at `gs:0`, few packets of the smallest size, and
/// knowledge of the nesting depth.
#[derive(Debug)]
pub struct AtGs;

static REGION: RegionMemory<{ 64 << 10 }, THREADS> = RegionMemory::new();
const SMALL_PACKETS: u32 = 16;

thread_local! {
    /// Number of active handlers on this thread.
    pub(crate) static NESTING: Cell<u32> = const { Cell::new(0) };
}

// SAFETY: `enter` makes `gs` point to this thread's own block.
unsafe impl Platform for AtGs {
    type Reserve = TscCas;
    type Local = ByPointer<kymo::arch::x86_64::AtGs<0>>;

    #[inline(always)]
    fn clock() -> u64 {
        tsc()
    }
    /// Empty, as runs start and stop while no thread records.
    fn synchronize() {}
    fn nesting() -> u32 {
        NESTING.get()
    }
}

impl Writer for AtGs {
    const NAME: &'static str = "TscCas at gs";
    const RING: u64 = 256 * SMALL_PACKETS as u64;

    fn start(overflow: Overflow) -> (Live, Box<dyn FnOnce()>) {
        let clock = Clock::at(1_000_000_000);
        let config = Config {
            cpus: THREADS as u32,
            packet_size: 256,
            packets: SMALL_PACKETS,
            names_packets: 4,
            overflow,
            consumer: Consumer::Kernel,
            clock,
            hosted: true,
            ..Config::DEFAULT
        };
        let session =
            Tracer::<AtGs>::start(REGION.memory(), &config, &VOCABULARY).expect("a session");
        let live = session.live();
        let stop = move || {
            // No thread records any more: this one has the first ring for the session's end.
            Self::enter(0);
            session.stop().expect("it runs");
        };
        (live, Box::new(stop))
    }

    fn enter(thread: usize) -> u32 {
        const ARCH_SET_GS: libc::c_int = 0x1001;
        let cell = Box::leak(Box::new(REGION.control(thread as u32)));
        // SAFETY: nothing else in a program uses `gs` on this system; the cell is never freed.
        let status =
            unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, std::ptr::from_ref(cell)) };
        assert_eq!(status, 0, "gs cannot be set");
        thread as u32
    }
}
