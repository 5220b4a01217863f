//! A stress test of nested writers: interrupts, which record too, come at any instruction of the
//! writer, up to four deep, on several CPUs. Tests compare the trace with the ledger. To port Kymo,
//! see `kernels/hello`, or the arch modules here for x86-64.

#![no_std]
#![no_main]

mod arch;
mod cmdline;
mod console;
mod cpu;
mod ledger;

use core::sync::atomic::{AtomicUsize, Ordering};

use cmdline::Settings;
use cpu::Cpu;

pub const MAX_CPUS: usize = 8;
/// Thread level is 0; interrupts nest to 3; an NMI may come on top.
pub const MAX_DEPTH: usize = 4;

kymo::event! {
    /// An event of any context: the context, and its next number.
    #[id(21)]
    pub struct Beat { pub cpu: u16, pub depth: u16, pub seq: u32, pub check: u32 }
}
kymo::event! {
    /// A beat with the time. The hardware's clock was `raw` just before, and the trace's clock is
    /// `offset` ahead of it.
    #[id(22)]
    pub struct Timed { pub cpu: u16, pub depth: u16, pub seq: u32, pub check: u32, pub raw: u64, pub offset: u64 }
}
kymo::event! {
    /// A `timed` event with an id that does not fit into the header word.
    #[id(40)]
    pub struct TimedMedium { pub cpu: u16, pub depth: u16, pub seq: u32, pub check: u32, pub raw: u64, pub offset: u64 }
}

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Beat, Timed, TimedMedium];

/// The memory to record into.
static REGION: kymo::RegionMemory<{ 48 << 20 }, MAX_CPUS> = kymo::RegionMemory::new();

fn config(settings: &Settings, command_line: &str) -> kymo::Config {
    unsafe extern "C" {
        /// In link.ld: the id that the linker gave this image.
        safe static __build_id: [u8; 20];
    }
    // FNV-1a: each command line gives another session id.
    let seed = command_line
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        });
    kymo::Config {
        cpus: arch::cpus() as u32,
        packet_size: settings.packet_size,
        packets: settings.packets,
        names_packets: 4,
        overflow: settings.overflow,
        consumer: settings.consumer,
        clock: kymo::Clock::at(arch::frequency()),
        phys: &raw const REGION as u64, // memory is mapped at its own address
        build_id: __build_id,
        seed,
        ..kymo::Config::DEFAULT
    }
}

/// Number of CPUs that can be interrupted, and of those that have done their share.
static READY: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);

/// Entry of the boot CPU from its arch module, with interrupts masked; the others wait.
fn boot(cpu: usize, command_line: &str) -> ! {
    let refuse = |why: core::fmt::Arguments<'_>| -> ! {
        println!("stress: {why}");
        arch::exit(2)
    };
    let cpus = arch::cpus();
    assert!(
        cpus <= MAX_CPUS,
        "{cpus} CPUs are too many: start QEMU with -smp {MAX_CPUS}"
    );
    let settings = cmdline::parse(command_line).unwrap_or_else(|word| {
        refuse(format_args!(
            "cannot use \"{word}\" on the command line, which takes {}.",
            cmdline::KEYS
        ))
    });
    let settings = &raw const settings;
    // SAFETY: this function never returns.
    let settings: &'static Settings = unsafe { &*settings };
    let this = Cpu::new(cpu, settings);
    // SAFETY: as above.
    unsafe { arch::adopt(cpu, &this) };
    let session =
        arch::start(&config(settings, command_line), settings.jump > 0).unwrap_or_else(|error| {
            refuse(format_args!(
                "cannot record with \"{command_line}\": {error}."
            ))
        });
    println!("stress: recording on {cpus} CPUs");

    arch::start_others(cpu, settings);
    work(&this);
    while DONE.load(Ordering::Acquire) < cpus {
        core::hint::spin_loop();
    }
    session.stop().expect("nobody else has stopped it");
    for (cpu, counts) in ledger::LEDGER.cpus[..cpus].iter().enumerate() {
        let [a, b, c, d, e] = counts
            .calls
            .each_ref()
            .map(|calls| calls.load(Ordering::Relaxed));
        let [irqs, nmis, jumps] = [&counts.interrupts, &counts.nmis, &counts.jumps]
            .map(|count| count.load(Ordering::Relaxed));
        println!(
            "cpu {cpu}: calls by depth {a} {b} {c} {d} {e}, interrupts {irqs}, nmis {nmis}, jumps \
             {jumps}"
        );
    }
    arch::exit(0)
}

/// Entry of every other CPU, with interrupts masked.
fn join(cpu: usize, settings: &'static Settings) -> ! {
    let this = Cpu::new(cpu, settings);
    // SAFETY: this function never returns.
    unsafe { arch::adopt(cpu, &this) };
    work(&this);
    loop {
        core::hint::spin_loop();
    }
}

/// Runs a CPU's share, once every CPU can handle its neighbour's NMIs.
fn work(cpu: &Cpu) {
    READY.fetch_add(1, Ordering::Release);
    while READY.load(Ordering::Acquire) < arch::cpus() {
        core::hint::spin_loop();
    }
    cpu.run();
    DONE.fetch_add(1, Ordering::Release);
}
