//! A small kernel whose every operation is an event: threads, locks and memory on several harts,
//! and programs in user mode, one of which records.
//!
//! It runs what the command line says, and powers the machine off. Each operation is also counted
//! in a ledger, with which tests compare the trace.

#![no_std]
#![no_main]

#[macro_use]
mod ledger;
mod console;
mod counters;
mod counting;

#[path = "../user/src/abi.rs"]
mod abi;
mod arch;
mod cmdline;
mod frame;
mod interrupt;
mod ipc;
mod lock;
mod mutex;
mod perf;
mod port;
mod process;
mod program;
mod queue;
mod recording;
mod run;
mod sampling;
mod sched;
mod semaphore;
mod smp;
mod space;
mod syscall;
mod thread;
mod time;
mod uart;
mod virtio;
mod workload;

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use cmdline::Settings;
use console::println;

use crate::lock::Spin;
use crate::sched::SCHEDULER;

/// Most harts.
pub const MAX_HARTS: usize = 16;

/// The tracer. `trace!` finds it by this name at the crate's root.
type Kymo = kymo::Tracer<arch::Machine>;

/// The settings of the command line.
static SETTINGS: Spin<Settings> = Spin::new(Settings::DEFAULT);

/// Entry of the boot hart, with interrupts masked and the free memory; the other harts wait in the
/// firmware.
fn boot(line: &'static str, memory: Range<usize>) -> ! {
    let harts = arch::harts();
    if harts > MAX_HARTS {
        refuse(format_args!(
            "{harts} harts are too many: start QEMU with -smp {MAX_HARTS} at most."
        ));
    }
    let settings = cmdline::parse(line).unwrap_or_else(|word| {
        refuse(format_args!(
            "cannot use \"{word}\" on the command line, which takes {}.",
            cmdline::KEYS
        ))
    });
    let count = settings.kymo.apply(&kymo::Config::DEFAULT).sampling.period;
    let asked = settings.kymo.driver;
    match asked.filter(|driver| !sampling::has(*driver, count)) {
        None => {}
        Some(driver) if driver.counts().is_some() => refuse(format_args!(
            "no counter of this machine interrupts after {count} {driver:?}: use Timer, or {:?} \
             with two harts.",
            arch::REMOTE_DRIVER
        )),
        Some(driver) => refuse(format_args!(
            "this machine does not sample by {driver:?}: use Timer, or {:?} with two harts.",
            arch::REMOTE_DRIVER
        )),
    }
    *SETTINGS.lock() = settings;
    // What the last session has left is sent first: programs run later.
    let is_left = recording::reopen();
    recording::MEMORY.clear_counters();
    if !is_left {
        start_recording(&settings);
    }

    frame::init(memory);
    interrupt::set_period(time::ticks(settings.tick_us), harts);
    uart::init(harts);
    port::init();
    SCHEDULER.lock().adopt(harts);
    let here = arch::hart();
    (0..harts)
        .filter(|&other| other != here)
        .for_each(arch::start);
    come_online();
    // This hart switches to the first thread from here, and returns when it is idle.
    thread::spawn("main", run::WORKLOAD_PRIO, main, is_left.into());
    idle()
}

fn refuse(why: core::fmt::Arguments<'_>) -> ! {
    println!("demo: {why}");
    arch::exit(2)
}

fn start_recording(settings: &Settings) {
    recording::start_at_boot(settings).unwrap_or_else(|error| {
        refuse(format_args!(
            "cannot record with \"{}\": {error}.",
            settings.line
        ))
    });
}

/// Entry of every other hart, with interrupts masked.
fn join() -> ! {
    come_online();
    idle()
}

/// Starts this hart's timer, its answers and its scheduling.
fn come_online() {
    interrupt::start_ticks();
    smp::come_online();
    SCHEDULER.lock().come_online();
}

/// The loop of an idle hart. Its interrupts find it work.
fn idle() -> ! {
    arch::restore(true);
    loop {
        arch::wait_for_interrupt();
    }
}

/// The first thread. It begins with the last session's trace, if one is left.
fn main(is_left: usize) {
    let settings = *SETTINGS.lock();
    while smp::count_online() < arch::harts() {
        thread::yield_now();
    }
    let free = frame::count_free();
    if is_left != 0 {
        run::send_the_rest();
        start_recording(&settings);
    }
    sampling::drive_if_asked();
    let done = run::all(&settings);
    if SCHEDULER.lock().count_threads() == 1 {
        assert_eq!(frame::count_free(), free, "memory was lost");
    }

    recording::end_counting();
    // From here on the threads neither count nor record anything.
    arch::mask();
    smp::park_others();
    counters::check(&SCHEDULER.lock());
    recording::end();
    counters::print();
    if let (due @ 1.., missed, open) = sampling::counts() {
        println!(
            "demo: {due} samples were due, {missed} of them missed, {open} not taken at the end"
        );
    }
    for (hart, counters) in ledger::LEDGER.harts.iter().enumerate() {
        let total: u64 = counters.iter().map(|counter| counter.load(Relaxed)).sum();
        if total > 0 {
            println!("hart {hart}: {total} operations");
        }
    }
    arch::exit(if done { 0 } else { 1 })
}
