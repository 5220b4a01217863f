//! Kymo's platform, and the recording from boot on.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::boot::Options;
use kymo::{Config, Memory, Overflow, Refused};

use crate::abi::{self, rights};
use crate::cmdline::Settings;
use crate::console::println;
use crate::sched::SCHEDULER;
use crate::{MAX_HARTS, SETTINGS, arch, counters, counting, process, sampling, time};

unsafe extern "C" {
    /// In link.ld: the memory to record into, which nobody clears at boot.
    static __trace: u8;
}

/// The memory to record into.
pub static MEMORY: Memory =
    // SAFETY: link.ld has this many bytes for it, on a page of their own, and the frames of memory
    // begin behind them.
    unsafe { Memory::new((&raw const __trace).cast_mut(), 80 << 20, MAX_HARTS as u32) }
            .with_counters(counters::COUNTERS.words());

/// The recorder over it.
pub static RECORDER: kymo::Recorder<arch::Machine, MAX_HARTS> =
    kymo::Recorder::new(MEMORY, &kymo::vocabulary::ALL);

/// The mode `trace`.
const TRACE: u32 = kymo::Mode::Trace as u32;

/// The configuration of a session over all harts. Zeros in `asked` stand for the command line's
/// values.
pub fn config(settings: &Settings, asked: &abi::Session) -> Config {
    unsafe extern "C" {
        /// In link.ld: the id that the linker gave this image, so that a trace names the image
        /// which wrote it.
        safe static __build_id: [u8; 20];
    }
    // FNV-1a: each command line gives another session id.
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    let either = |asked: u64, default| {
        if asked == 0 {
            default
        } else {
            u32::try_from(asked).unwrap_or(u32::MAX)
        }
    };
    Config {
        cpus: arch::harts() as u32,
        packet_size: either(asked.packet_size, settings.packet_size),
        packets: either(asked.packets, settings.packets),
        names_packets: either(asked.names_packets, 16),
        samples_packets: either(asked.samples_packets, 0),
        // This, and the reader, follow from the flags of `start`.
        clock: kymo::Clock::at(arch::timer::frequency()),
        counters_period: time::ticks(settings.counters_us),
        phys: &raw const __trace as u64, // memory is mapped at its own address
        build_id: __build_id,
        seed: settings.line.bytes().fold(0xCBF2_9CE4_8422_2325, hash),
        ..Config::DEFAULT
    }
}

/// The flags in effect.
static FLAGS: AtomicU32 = AtomicU32::new(0);

fn set_flags(overflow: Overflow) {
    let rolls = overflow == Overflow::Overwrite;
    FLAGS.store(if rolls { kymo::flags::ROLLING } else { 0 }, Relaxed);
}

pub fn flags() -> u32 {
    let samples = match RECORDER.channels().samples {
        true => kymo::flags::SAMPLES,
        false => 0,
    };
    FLAGS.load(Relaxed) | samples
}

/// Starts to record the events that `options` name, and gives the number of channels.
pub fn start(
    mode: u32,
    flags: u32,
    config: &Config,
    options: &Options<'_>,
) -> Result<u32, Refused> {
    if mode == kymo::Mode::Count as u32 {
        let groups = options.groups().map_err(Refused::Count)?;
        RECORDER.set_counting(mode, groups, options.count_ns())?;
    }
    let started = RECORDER.start_with(mode, flags, Some(config), |name| options.records(name))?;
    set_flags(started.overflow);
    sampling::drive_if_asked();
    Ok(started.channels)
}

/// Takes up what a session has left in the memory before the machine was reset, if any: `perf stop`
/// sends it. Called before the first event.
pub fn reopen() -> bool {
    // Refused if tracing is compiled out.
    let Ok(Some(remains)) = RECORDER.reopen(TRACE) else {
        return false;
    };
    set_flags(remains.overflow);
    let counts = RECORDER.history().counts();
    println!(
        "demo: the last session has left {} channels: {} events retained, {} overwritten",
        remains.channels, counts.retained, counts.overwritten
    );
    true
}

/// Starts to record at boot, unless the command line says otherwise.
pub fn start_at_boot(settings: &Settings) -> Result<(), Refused> {
    if !kymo::COMPILED_IN {
        println!("demo: built without tracing: nothing is recorded");
        return Ok(());
    }
    if !settings.records_from_boot() {
        return Ok(());
    }
    let config = config(settings, &abi::Session::default());
    let started = RECORDER.start_as(&settings.kymo, kymo::flags::ROLLING, &config)?;
    set_flags(started.overflow);
    println!(
        "demo: recording on {} harts, {} channels",
        config.cpus, started.channels
    );
    Ok(())
}

/// Stops recording, and gives the number of channels.
pub fn stop(mode: u32) -> Result<u32, Refused> {
    if flags() & kymo::flags::ROLLING != 0 {
        // The state recorded at the start may be overwritten. If this is refused, so is the stop.
        let _ = RECORDER.snapshot(mode);
    }
    RECORDER.stop(mode)
}

/// Records the state again, if events are recorded.
pub fn snapshot() {
    // Refused if they are not.
    let _ = RECORDER.snapshot(TRACE);
}

/// Ends the mode `count` before power-off, while every hart can still record what it has counted.
pub fn end_counting() {
    // Refused if it is not recorded.
    let _ = RECORDER.stop(kymo::Mode::Count as u32);
}

/// Stops recording before power-off, so that the rings stay as they are.
pub fn end() {
    for mode in kymo::Mode::ALL {
        // Refused if it is not recorded.
        let _ = RECORDER.stop(mode as u32);
    }
}

/// Whether the caller may record: the kernel, or a process with the right.
pub fn is_permitted() -> bool {
    process::rights() & rights::PERF != 0
}

/// Records who called a tracepoint, and what this hart has counted, as the session asks. All
/// tracepoints are where interrupts are masked; some are in NMIs.
pub fn context(event: u32, fp: usize) {
    let context = RECORDER.context(event);
    if context.stack {
        sampling::stack(event, fp);
    }
    if context.counts {
        counting::record(event);
    }
}

/// Records every process and thread, and every mutex that is held, so that a session that starts
/// late has the state of each. Names of other objects are recorded before their use.
pub fn dump_state() {
    process::dump_state();
    let scheduler = SCHEDULER.lock();
    scheduler.dump_state();
    scheduler.dump_mutexes();
}

/// The settings of the command line, for later calls.
pub fn settings() -> Settings {
    *SETTINGS.lock()
}
