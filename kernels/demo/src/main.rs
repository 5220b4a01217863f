//! A small kernel whose every operation is an event: threads, locks and memory on up to 8 harts.
//!
//! It runs a workload, and switches the machine off. Each operation is also counted in a ledger, which tests hold the trace against.

#![no_std]
#![no_main]

#[macro_use]
mod ledger;
mod console;

mod arch;
mod cmdline;
mod frame;
mod interrupt;
mod ipc;
mod lock;
mod mutex;
mod process;
mod queue;
mod sched;
mod semaphore;
mod smp;
mod syscall;
mod thread;
mod workload;

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use cmdline::Settings;
use console::println;
use kymo::vocabulary::IrqName;
use kymo::{Irq, Text};

use crate::lock::Spin;
use crate::sched::SCHEDULER;

/// Harts that the kernel has room for.
pub const MAX_HARTS: usize = 8;

/// The tracer. `trace!` finds it by this name at the crate's root.
type Kymo = kymo::Tracer<arch::Virt>;

/// The memory that it records into.
static REGION: kymo::RegionMemory<{ 48 << 20 }, { MAX_HARTS as u32 }> = kymo::RegionMemory::new();

fn config(settings: &Settings, line: &str, harts: usize) -> kymo::Config {
    unsafe extern "C" {
        /// In link.ld: the id that the linker gave this image, so that a trace names the image which wrote it.
        safe static __build_id: [u8; 20];
    }
    // FNV-1a: another command line, another session.
    let seed = line.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    kymo::Config {
        cpus: harts as u32,
        packet_size: settings.packet_size,
        packets: settings.packets,
        names_packets: 16,
        mode: settings.mode,
        consumer: settings.consumer,
        clock: kymo::Clock { frequency_hz: arch::timer::FREQUENCY, offset_seconds: 0, offset_ticks: 0, absolute: false },
        phys: &raw const REGION as u64, // memory is mapped where it is
        build_id: __build_id,
        seed,
        hosted: false,
    }
}

/// What the command line says.
static SETTINGS: Spin<Settings> = Spin::new(Settings::DEFAULT);
/// What is recorded.
static SESSION: Spin<Option<kymo::Session<arch::Virt>>> = Spin::new(None);

/// The hart that boots comes here, with interrupts masked and the memory that is free; the others wait in the firmware.
fn boot(line: &str, memory: Range<usize>) -> ! {
    let refuse = |why: core::fmt::Arguments<'_>| -> ! {
        println!("demo: {why}");
        arch::exit(2)
    };
    let harts = arch::harts();
    if harts > MAX_HARTS {
        refuse(format_args!("{harts} harts are too many: start QEMU with -smp {MAX_HARTS} at most."));
    }
    let settings = cmdline::parse(line)
        .unwrap_or_else(|word| refuse(format_args!("cannot use \"{word}\" on the command line, which takes {}.", cmdline::KEYS)));
    *SETTINGS.lock() = settings;
    if settings.record {
        let session = Kymo::start(REGION.memory(), &config(&settings, line, harts), &kymo::vocabulary::ALL);
        let session = session.unwrap_or_else(|error| refuse(format_args!("cannot record with \"{line}\": {error}.")));
        *SESSION.lock() = Some(session);
        println!("demo: recording on {harts} harts");
    }

    for (irq, name) in arch::INTERRUPTS {
        record!(IrqName { irq: Irq(irq), name: Text::new(name) });
    }
    syscall::tell_names();
    frame::init(memory);
    interrupt::set_period(settings.tick_us * (arch::timer::FREQUENCY / 1_000_000), harts);
    arch::uart::init(harts);
    SCHEDULER.lock().adopt(harts);
    let here = arch::hart();
    (0..harts).filter(|&other| other != here).for_each(arch::start);
    come_online();
    // This hart leaves for the first thread from here, and comes back when there is nothing to do.
    thread::spawn("main", 10, main, 0);
    idle()
}

/// Every other hart, with interrupts masked.
fn join() -> ! {
    come_online();
    idle()
}

/// This hart ticks from here on, answers, and runs threads.
fn come_online() {
    interrupt::start_ticks();
    smp::come_online();
    SCHEDULER.lock().come_online();
}

/// What a hart does when there is nothing to do. Its interrupts find it something.
fn idle() -> ! {
    arch::restore(true);
    loop {
        arch::wait_for_interrupt();
    }
}

/// The first thread.
fn main(_: usize) {
    let settings = *SETTINGS.lock();
    while smp::count_online() < arch::harts() {
        thread::yield_now();
    }
    let free = frame::count_free();
    settings.workload.run(settings.rounds);
    assert_eq!(frame::count_free(), free, "memory was lost");

    // Nothing is counted or recorded from here on.
    arch::mask();
    smp::park_others();
    if let Some(session) = SESSION.lock().take() {
        session.stop().expect("nobody else has stopped it");
    }
    for (hart, counters) in ledger::LEDGER.harts.iter().enumerate() {
        let total: u64 = counters.iter().map(|counter| counter.load(Relaxed)).sum();
        if total > 0 {
            println!("hart {hart}: {total} operations");
        }
    }
    arch::exit(0)
}
