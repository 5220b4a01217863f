//! What Kymo asks of this kernel, and what it is asked at boot.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::boot::Options;
use kymo::{Config, Overflow, Refused};

use crate::abi::{Rings, rights};
use crate::cmdline::Settings;
use crate::console::println;
use crate::sched::SCHEDULER;
use crate::{MAX_HARTS, SETTINGS, arch, process};

/// The memory that is recorded into.
pub static REGION: kymo::RegionMemory<{ 80 << 20 }, { MAX_HARTS as u32 }> =
    kymo::RegionMemory::new();

/// The sessions over it.
pub static RECORDER: kymo::Recorder<arch::Virt, MAX_HARTS> =
    kymo::Recorder::new(REGION.memory(), &kymo::vocabulary::ALL);

/// The mode `trace`.
const TRACE: u32 = kymo::Mode::Trace as u32;

/// A session over all harts. What `rings` has zeros for is as the command line says.
pub fn config(settings: &Settings, rings: &Rings) -> Config {
    unsafe extern "C" {
        /// In link.ld: the id that the linker gave this image, so that a trace names the image
        /// which wrote it.
        safe static __build_id: [u8; 20];
    }
    // FNV-1a: another command line, another session.
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
        packet_size: either(rings.packet_size, settings.packet_size),
        packets: either(rings.packets, settings.packets),
        names_packets: either(rings.names_packets, 16),
        // This, and the reader, follow from the flags of `start`.
        clock: kymo::Clock::at(arch::timer::FREQUENCY),
        phys: &raw const REGION as u64, // memory is mapped where it is
        build_id: __build_id,
        seed: settings.line.bytes().fold(0xCBF2_9CE4_8422_2325, hash),
        ..Config::DEFAULT
    }
}

/// The flags in effect.
static FLAGS: AtomicU32 = AtomicU32::new(0);

pub fn flags() -> u32 {
    FLAGS.load(Relaxed)
}

/// Begins to record the events that `options` name. Gives the number of channels.
pub fn start(
    mode: u32,
    flags: u32,
    config: &Config,
    options: &Options<'_>,
) -> Result<u32, Refused> {
    let started = RECORDER.start_with(mode, flags, Some(config), |name| options.records(name))?;
    let rolls = started.overflow == Overflow::Overwrite;
    FLAGS.store(if rolls { kymo::flags::ROLLING } else { 0 }, Relaxed);
    Ok(started.channels)
}

/// Before anything else is there: begins to record, if the command line does not say otherwise.
pub fn start_at_boot(settings: &Settings) -> Result<(), Refused> {
    if !kymo::COMPILED_IN {
        println!("demo: built without tracing: nothing is recorded");
        return Ok(());
    }
    if !settings.records_from_boot() {
        return Ok(());
    }
    let options = &settings.kymo;
    let config = options.apply(&config(settings, &Rings::default()));
    let channels = start(TRACE, options.flags(kymo::flags::ROLLING), &config, options)?;
    println!(
        "demo: recording on {} harts, {channels} channels",
        config.cpus
    );
    Ok(())
}

/// Ends recording. Gives the number of channels.
pub fn stop(mode: u32) -> Result<u32, Refused> {
    if flags() & kymo::flags::ROLLING != 0 {
        // The state that was recorded at the start may be gone. Where this is refused, so is what
        // follows.
        let _ = RECORDER.snapshot(mode);
    }
    RECORDER.stop(mode)
}

/// The machine is about to be switched off: what was recorded stays as it is.
pub fn end() {
    // Refused where nothing is recorded.
    let _ = RECORDER.stop(TRACE);
}

/// Whether whoever calls may: the kernel, or a process with the right.
pub fn is_permitted() -> bool {
    process::rights() & rights::PERF != 0
}

/// Records every process and thread, so that a session that starts late knows what each does. Names
/// are recorded before their things are used.
pub fn dump_state() {
    process::dump_state();
    SCHEDULER.lock().dump_state();
}

/// What the command line says; for calls that come later.
pub fn settings() -> Settings {
    *SETTINGS.lock()
}
