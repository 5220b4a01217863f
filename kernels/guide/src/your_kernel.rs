// docs/src/your-kernel.md.

use core::sync::atomic::Ordering::Relaxed;

use kymo::vocabulary::ThreadState;
use kymo::{Text, Tid, trace};

use kymo::vocabulary::{IrqEnter, IrqExit, SchedSwitch, ThreadName}; // or kymo::vocabulary::*

kymo::event! {
    /// A block was read from the disk.
    #[id(21)]
    pub struct BlockDone { pub sector: u64, pub error: i32, pub cached: bool }
}

static VOCABULARY: kymo::Vocabulary =
    kymo::vocabulary![SchedSwitch, IrqEnter, IrqExit, ThreadName, BlockDone];

kymo::enumeration! {
    /// Why a thread does not run.
    pub enum Blocked: u8 { Lock = 0, Sleep = 1, Message = 2 }
}

fn a_name(tid: Tid, name: &'static str) {
    use kymo::vocabulary::SwitchReason;
    let thread = || Thread { tid, name, named: kymo::NameEpoch::new() };
    let (prev, next) = (thread(), thread());
    let (prev_state, reason, next_prio) = (ThreadState::Runnable, SwitchReason::Expired, 0);

    struct Thread { tid: Tid, name: &'static str, named: kymo::NameEpoch } // NameEpoch::new()

    Kymo::named(&next.named, || ThreadName { tid: next.tid, name: Text::new(next.name) });
    trace!(SchedSwitch { prev_tid: prev.tid, next_tid: next.tid, prev_state, reason, next_prio });
}

use kymo::platform::{Masked, Platform};

struct Virt;

// SAFETY: tp points to this hart's block from the first instruction that could record, forever.
unsafe impl Platform for Virt {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;

    #[inline(always)]
    fn clock() -> u64 { kymo::arch::riscv::time() }
    fn synchronize() {}
}

type Kymo = kymo::Tracer<Virt>;

#[cfg(target_arch = "riscv32")]
struct Virt32;

// SAFETY: as above.
#[cfg(target_arch = "riscv32")]
unsafe impl Platform for Virt32 {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;

    fn clock() -> u64 { kymo::arch::riscv::time() }
    fn quick_clock() -> u64 { kymo::arch::riscv::quick_time() }
    fn synchronize() {}
}

struct WithSwitches;

// SAFETY: as above.
unsafe impl Platform for WithSwitches {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;

    fn clock() -> u64 { kymo::arch::riscv::time() }
    fn synchronize() {}
    fn switches() -> Option<&'static kymo::platform::Switches> { Some(&SWITCHES) }
}

static SWITCHES: kymo::platform::Switches = kymo::platform::Switches::new();

fn a_word_beside_the_block(hart: usize) {
    // SAFETY: tp holds a Kymo block.
    let my_hart = unsafe { kymo::arch::riscv::kernel_word() };   // &'static AtomicUsize, one per hart
    my_hart.store(&raw const hart as usize, Relaxed);
}

static REGION: kymo::RegionMemory<{ 40 << 20 }, 8> = kymo::RegionMemory::new();

unsafe extern "C" { static __trace: u8; }
static MEMORY: kymo::Memory = unsafe { kymo::Memory::new((&raw const __trace).cast_mut(), 80 << 20, 8) };

fn a_session() -> Result<(), kymo::Error> {
    let config = kymo::Config {
        cpus: 4,
        clock: kymo::Clock::at(10_000_000),
        phys: &raw const REGION as u64, // hello has no paging
        ..kymo::Config::DEFAULT
    };
    let session = Kymo::start(REGION.memory(), &config, &VOCABULARY)?;

    unsafe extern "C" { safe static __build_id: [u8; 20]; }
    let config = kymo::Config { build_id: __build_id, ..config };
    Ok(())
}

fn events(prev_tid: Tid, next_tid: Tid, prev_state: ThreadState, next_prio: i16, sector: u64) {
    use kymo::vocabulary::SwitchReason;
    use kymo::{trace, trace_masked};

    // SAFETY: the scheduler runs with interrupts masked.
    unsafe { trace_masked!(SchedSwitch { prev_tid, next_tid, prev_state, reason: SwitchReason::Expired, next_prio }) };
    trace!(BlockDone { sector, error: 0, cached: false });
}

kymo::event! {
    /// A call chain.
    #[id(22)]
    pub struct CallChain { pub tid: u32, pub chain: kymo::Sequence<u64, 32> }
}

fn a_long_record(tid: u32, chain: &[u64]) {
    let (frames, chain) = (chain.len(), chain.iter().copied());
    Kymo::record_in_place::<CallChain>(2 + 2 * frames, |out| {
        out.push(tid);
        out.push(frames as u32);
        chain.for_each(|address| { out.push_long(address); });
    });
}

type MyKernel = Virt;

fn a_recorder(
    mode: u32,
    flags: u32,
    config: Option<&kymo::Config>,
    channel: u32,
    buffer: Option<&mut [u32]>,
) -> Result<(), kymo::Refused> {
    static RECORDER: kymo::Recorder<MyKernel, 8> = kymo::Recorder::new(REGION.memory(), &VOCABULARY);

    RECORDER.start(mode, flags, config)?;         // flags::ROLLING: a flight recorder; else a full ring drops new events
    RECORDER.read(mode, channel, buffer)?;        // the next packet of a channel; 0 bytes: nothing new
    RECORDER.switch(mode, "sched_*", false)?;     // events by name
    RECORDER.snapshot(mode)?;                     // dump_state again: before the stop of a flight recorder
    RECORDER.stop(mode)?;                         // the recorded events can still be read
    RECORDER.finish(mode)?;                       // totals of the losses by cause

    if let Some(last) = RECORDER.reopen(mode)? {  // as if it had been stopped just now
        // read every channel with a buffer of last.buffer_words, until each gives 0 bytes
        RECORDER.finish(mode)?;
    }
    RECORDER.start(mode, flags, config)?;
    Ok(())
}
