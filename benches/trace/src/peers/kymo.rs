//! Kymo in a kernel's and in a program's configuration.

use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use kymo::arch::x86_64::{AtGs, TscCas, tsc};
use kymo::event::Event;
use kymo::platform::{ByPointer, Platform, Switches};
use kymo::ring::reader::View;
use kymo::{Clock, Config, Overflow, RegionMemory, Session, Tracer};
use kymo_capture::{Summary, TraceWriter};
use kymo_hosted::{Hosted, HostedSession, Options};

use crate::peer::{Peer, RING_BYTES, THREADS, babeltrace};

kymo::event! {
    /// The event.
    #[id(21)]
    pub struct TwoFields { pub a: u32, pub b: u32 }
}

kymo::event! {
    /// In no vocabulary, so always disabled.
    #[id(22)]
    pub struct Off { pub a: u32, pub b: u32 }
}

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![TwoFields];
/// Kymo's default.
const PACKET_SIZE: u32 = 4096;
const PACKETS: u32 = RING_BYTES as u32 / PACKET_SIZE;

/// A kernel's platform on x86-64: `gs:0` points to the CPU's block. Here `gs` belongs to the
/// thread.
struct Kernel;

// SAFETY: a block has one thread, which sets its `gs` before it records. No thread records when the
// session starts or stops.
unsafe impl Platform for Kernel {
    type Reserve = TscCas;
    type Local = ByPointer<AtGs<0>>;

    #[inline(always)]
    fn clock() -> u64 {
        tsc()
    }

    #[inline(always)]
    fn switches() -> Option<&'static Switches> {
        Some(&SWITCHES)
    }

    fn synchronize() {}
}

static SWITCHES: Switches = Switches::new();
static REGION: RegionMemory<{ 2 * RING_BYTES * THREADS }, THREADS> = RegionMemory::new();
static KERNEL: Mutex<Option<Session<Kernel>>> = Mutex::new(None);
static HOSTED: Mutex<Option<HostedSession>> = Mutex::new(None);

#[inline(always)]
fn write<P: Platform>(a: u32, b: u32) {
    if Tracer::<P>::is_on::<TwoFields>() {
        Tracer::<P>::record(TwoFields { a, b });
    }
}

#[inline(always)]
fn write_off<P: Platform>(a: u32, b: u32) {
    if Tracer::<P>::is_on::<Off>() {
        Tracer::<P>::record(Off { a, b });
    }
}

#[inline(never)]
extern "C" fn kernel_record(a: u32, b: u32) {
    write::<Kernel>(a, b);
}

#[inline(never)]
extern "C" fn kernel_off(a: u32, b: u32) {
    write_off::<Kernel>(a, b);
}

#[inline(never)]
extern "C" fn hosted_record(a: u32, b: u32) {
    write::<Hosted>(a, b);
}

#[inline(never)]
extern "C" fn hosted_off(a: u32, b: u32) {
    write_off::<Hosted>(a, b);
}

/// Points this thread's `gs` to the address of its block.
fn set_gs(thread: usize) -> Result<()> {
    const ARCH_SET_GS: libc::c_int = 0x1001;
    let cell = Box::leak(Box::new([REGION.control(thread as u32) as usize; 16]));
    ensure!(cell[0] != 0, "there is no block for thread {thread}");
    // SAFETY: user-space code of x86-64 Linux does not use `gs`.
    let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, cell.as_ptr()) };
    ensure!(
        result == 0,
        "arch_prctl refuses to set gs: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// Both peers, with their sessions started.
pub fn peers() -> Result<Vec<Peer>> {
    let config = Config {
        cpus: THREADS as u32,
        packet_size: PACKET_SIZE,
        packets: PACKETS,
        names_packets: 4,
        clock: Clock::at(1_000_000_000),
        hosted: true,
        ..Config::DEFAULT
    };
    let kernel = Tracer::<Kernel>::start(REGION.memory(), &config, &VOCABULARY)?;
    let options = Options {
        max_threads: THREADS as u32,
        packet_size: PACKET_SIZE,
        packets: PACKETS,
        overflow: Overflow::Overwrite,
        ..Options::default()
    };
    let hosted = kymo_hosted::start(&options, &VOCABULARY)?;
    put(&KERNEL, kernel)?;
    put(&HOSTED, hosted)?;
    let schema = TwoFields::SCHEMA;
    let kernel = Peer {
        name: "Kymo, kernel form",
        version: env!("CARGO_PKG_VERSION").to_owned(),
        configuration: "the address of the block at `gs`, the switches in a static; 64 packets of 4 KiB, the oldest is overwritten",
        bytes: 4 * (schema.header_words() + schema.max_payload_words()),
        record: kernel_record,
        off: Some(kernel_off),
        enter: set_gs,
        read_back: |calls, folder| {
            let session = take(&KERNEL)?;
            // This thread records the session's end, as no other records any more.
            set_gs(0)?;
            session.stop()?;
            let trace = folder.join("kymo-kernel");
            let live = session.live();
            let mut writer = TraceWriter::create(&trace, &live)?;
            while writer.poll(&live, View::PostMortem)? > 0 {}
            check(&writer.finish(&live)?, calls, &trace)
        },
    };
    let hosted = Peer {
        name: "Kymo, hosted",
        configuration: "`kymo-hosted`: the block by a thread-local pointer; 64 packets of 4 KiB, the oldest is overwritten",
        version: kernel.version.clone(),
        record: hosted_record,
        off: Some(hosted_off),
        enter: |_| {
            kymo_hosted::ring_number()
                .map(drop)
                .context("there is no ring for a thread")
        },
        read_back: |calls, folder| {
            let trace = folder.join("kymo-hosted");
            check(&take(&HOSTED)?.save(&trace)?, calls, &trace)
        },
        ..kernel
    };
    Ok(vec![kernel, hosted])
}

fn put<T>(place: &Mutex<Option<T>>, session: T) -> Result<()> {
    match place.lock() {
        Ok(mut place) => *place = Some(session),
        Err(_) => bail!("a session's lock is poisoned"),
    }
    Ok(())
}

fn take<T>(place: &Mutex<Option<T>>) -> Result<T> {
    place
        .lock()
        .ok()
        .and_then(|mut place| place.take())
        .context("there is no session")
}

/// Every call is in the trace or counted as lost, and the session's end is in the trace.
fn check(summary: &Summary, calls: &[u64; THREADS], trace: &Path) -> Result<Vec<[u32; 2]>> {
    let (told, called) = (summary.events() + summary.lost(), calls.iter().sum::<u64>());
    ensure!(
        told == called + 1,
        "{called} calls and the session's end, but {} events and {} lost",
        summary.events(),
        summary.lost()
    );
    babeltrace(trace)
}
