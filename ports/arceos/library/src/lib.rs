//! Kymo in [ArceOS](https://github.com/arceos-org/arceos), none of whose crates is changed: tasks
//! and their switches, interrupts, exceptions, mutexes, and samples of where the CPUs are.
//!
//! What offers a hook is hooked by it: a task's switches by `axtask::TaskExt`, a mutex by
//! `lock_api::RawMutex`. Two things offer none, so the linker wraps three functions whose names are
//! fixed, with `--wrap` (see the README): the trap handler of `axcpu`, and the two functions by
//! which `axtask` implements `kernel_guard::KernelGuardIf`, which run at the end of every switch.
//!
//! # Invariants
//! - Records are written with interrupts masked, so that a task stays on its CPU.
//! - Nothing here allocates memory or waits for a lock, except in [`spawn`] and [`start`]: the code
//!   that a hook interrupts may hold any.

#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod here;
mod mutex;
mod sample;
mod switch;
mod task;
mod trap;

pub use mutex::{Mutex, MutexGuard, RawMutex, name_mutex};
pub use task::{spawn, spawn_task};

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use kymo::boot::Options;
use kymo::platform::{ByPointer, Masked, Platform, Switches};
use kymo::vocabulary::*;
use kymo::{Config, Irq, RegionMemory, Session, Text, Vocabulary};

/// The CPUs for which ArceOS is configured.
pub const CPUS: usize = axconfig::plat::MAX_CPU_NUM;

/// Interrupts a second on each CPU, at each of which a sample is taken.
pub const HZ: usize = axconfig::TICKS_PER_SEC;

/// What this crate records: `static EVENTS: Vocabulary = kymo::vocabulary![kymo_arceos::EVENTS;]`,
/// with your own events after the semicolon.
pub const EVENTS: Vocabulary = kymo::vocabulary![
    SchedSwitch,
    SchedWakeupNew,
    ThreadCreate,
    ThreadExit,
    ThreadName,
    ThreadStateDump,
    IrqEnter,
    IrqExit,
    IrqName,
    Exception,
    LockWait,
    LockAcquired,
    LockReleased,
    LockFailed,
    LockName,
    Sample,
    Sampling,
];

/// The tracer. `use kymo_arceos::Kymo;` at your crate's root lets `kymo::trace!` find it.
pub type Kymo = kymo::Tracer<ArceOs>;

/// The platform.
#[derive(Debug)]
pub struct ArceOs;

static SWITCHES: Switches = Switches::new();

/// How often somebody has asked all CPUs to take note.
static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: `start` gives each CPU its own blocks, which stay mapped. Interrupts are masked around a
// record, and ArceOS neither switches nor migrates a task then; it has no NMIs.
unsafe impl Platform for ArceOs {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = ByPointer<here::Here>;

    #[inline(always)]
    fn clock() -> u64 {
        kymo::arch::riscv::time()
    }

    #[inline(always)]
    fn switches() -> Option<&'static Switches> {
        Some(&SWITCHES)
    }

    /// Waits until every CPU has taken an interrupt, of which each takes [`HZ`] a second.
    fn synchronize() {
        // Partner: the load in `here::acknowledge`, so that a CPU sees what was written before.
        let asked = ASKED.fetch_add(1, Release) + 1;
        for cpu in 0..axhal::cpu_num() {
            // Partner: the store in `here::acknowledge`: the CPU's records are written.
            while here::of(cpu).noted.load(Acquire) < asked {
                axtask::yield_now();
            }
        }
    }

    fn dump_state() {
        for (irq, name) in [(1, "software"), (5, "timer"), (9, "external")] {
            let name = Text::new(name);
            Kymo::record(IrqName {
                irq: Irq(irq),
                name,
            });
        }
        task::dump_running();
        Kymo::record(sample::SAMPLER.settings());
    }
}

/// Begins to record into `region`, the events of `vocabulary` and samples, at every timer
/// interrupt, where `config` has packets for them. The word `kymo=` of QEMU's `-append` changes
/// `config`; clock, CPUs and physical address follow from ArceOS's configuration.
///
/// Call it in a task, with interrupts on. It waits for some timer interrupts, as does
/// [`Session::stop`].
///
/// # Errors
/// Those of [`kymo::Tracer::start_with`]; [`kymo::Error::Config`] also for a word `kymo=` that
/// cannot be read.
pub fn start<const SIZE: usize>(
    region: &'static RegionMemory<SIZE, CPUS>,
    config: &Config,
    vocabulary: &'static Vocabulary,
) -> Result<Session<ArceOs>, kymo::Error> {
    let line = axhal::dtb::get_chosen_bootargs().unwrap_or_default();
    let options = Options::parse(line)
        .map_err(|_| kymo::Error::Config("the word `kymo=` of the command line"))?;
    let cpus = axhal::cpu_num();
    for cpu in 0..cpus {
        here::of(cpu).attach(cpu, region.control(cpu as u32));
    }
    let region_at = core::ptr::from_ref(region) as usize;
    let config = Config {
        cpus: cpus as u32,
        clock: kymo::Clock::at(axconfig::devices::TIMER_FREQUENCY as u64),
        phys: axhal::mem::virt_to_phys(region_at.into()).as_usize() as u64,
        ..options.apply(config)
    };
    sample::set(&config);
    Kymo::start_with(region.memory(), &config, vocabulary, |event| {
        options.records(event.name)
    })
}

/// Tells whoever waits in [`Platform::synchronize`] that this CPU is not inside a record.
#[inline(always)]
fn acknowledge(here: &here::Here) {
    // Partners: the additions and loads in `synchronize`.
    let asked = ASKED.load(Acquire);
    if here.noted.load(Relaxed) != asked {
        here.noted.store(asked, Release);
    }
}
