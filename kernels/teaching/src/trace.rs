//! Kymo's part: what is recorded, where, and how a hart finds its rings.

use kymo::platform::{ByPointer, Control, ControlPointer, Masked, Platform};
use kymo::vocabulary::*;

use crate::{cpu, println};

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![
    SchedSwitch,
    SchedWakeup,
    SchedWakeupNew,
    ThreadName,
    ProcessFork,
    ProcessExit,
    ProcessKill,
    IrqEnter,
    IrqExit,
    IrqName,
    LockWait,
    LockAcquired,
    LockReleased,
    LockName,
    PipeWrite,
    PipeRead,
];

pub static HISTORY: kymo::History = kymo::History::new(REGION.memory(), &VOCABULARY);

static REGION: kymo::RegionMemory<{ 4 << 20 }, { cpu::MAX_CPUS }> = kymo::RegionMemory::new();

pub struct Teaching;

// SAFETY: tp holds this hart's number in the kernel, and each hart has a block of its own.
unsafe impl ControlPointer for Teaching {
    #[inline(always)]
    fn get() -> *const Control {
        REGION.control(cpu::id() as u32)
    }
}

// SAFETY: as above; nothing records in machine mode, which masking does not keep away.
unsafe impl Platform for Teaching {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = ByPointer<Teaching>;

    #[inline(always)]
    fn clock() -> u64 {
        kymo::arch::riscv::time()
    }

    fn synchronize() {}
}

pub type Kymo = kymo::Tracer<Teaching>;

/// Starts recording, while only hart 0 runs.
pub fn start() {
    unsafe extern "C" {
        /// In link.ld: the linker's id of this image.
        safe static __build_id: [u8; 20];
    }
    let config = kymo::Config {
        cpus: cpu::MAX_CPUS as u32,
        clock: kymo::Clock::at(10_000_000),
        phys: &raw const REGION as u64,
        build_id: __build_id,
        ..kymo::Config::DEFAULT
    };
    if let Err(error) = Kymo::start(REGION.memory(), &config, &VOCABULARY) {
        println!("not recording: {error}");
    }
}
