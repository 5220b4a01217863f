//! README.md.

use kymo::vocabulary::{IrqEnter, IrqExit, SchedSwitch, SwitchReason, ThreadName, ThreadState};
use kymo::{Tid, trace, trace_masked};

use kymo::platform::{Masked, Platform};
use kymo::{Clock, Config};

kymo::event! {
    /// A block was read from the disk.
    #[id(21)]
    pub struct BlockDone { pub sector: u64, pub error: i32 }
}

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![SchedSwitch, IrqEnter, IrqExit, ThreadName, BlockDone];
static REGION: kymo::RegionMemory<{ 40 << 20 }, 8> = kymo::RegionMemory::new();
type Kymo = kymo::Tracer<Virt>;

struct Virt;

// SAFETY: tp points to this hart's control block (`REGION.control(hart)`) before anything records, and nothing changes it.
unsafe impl Platform for Virt {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;

    fn clock() -> u64 { kymo::arch::riscv::time() }
    fn synchronize() {}     // here nothing records when the session is stopped
}

fn a_session() -> Result<(), kymo::Error> {
    let config = Config { cpus: 4, clock: Clock::at(10_000_000), phys: &raw const REGION as u64, ..Config::DEFAULT };
    let session = Kymo::start(REGION.memory(), &config, &VOCABULARY)?;
    Ok(())
}

fn events(
    (prev_tid, next_tid, prev_state, reason, next_prio): (Tid, Tid, ThreadState, SwitchReason, i16),
    (sector, error): (u64, i32),
) {
    unsafe { trace_masked!(SchedSwitch { prev_tid, next_tid, prev_state, reason, next_prio }) }; // in the scheduler, where interrupts are already masked
    trace!(BlockDone { sector, error });                    // anywhere else
}
