//! The probes, and their platform of one CPU.

use core::cell::UnsafeCell;
use core::ops::Range;

use kymo::event::Event;
use kymo::platform::Platform;
use kymo::sample::{Interrupted, Memory, Registers, Sampler, Window};
use kymo::vocabulary::{CpuMode, IrqEnter};
use kymo::{Irq, Tid, trace, trace_masked};

kymo::event! {
    /// Two words, like most events.
    #[id(21)]
    pub struct TwoFields { pub a: u32, pub b: u32 }
}

/// The tracer.
pub type Kymo = kymo::Tracer<Probe>;

/// The platform.
pub struct Probe;

// SAFETY: measure.rs sets `tp` before anything records, there is one hart, and interrupts stay
// masked.
#[cfg(target_arch = "riscv64")]
unsafe impl Platform for Probe {
    type Reserve = kymo::platform::Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;

    #[inline(always)]
    fn clock() -> u64 {
        kymo::arch::riscv::time()
    }

    fn synchronize() {}
}

// SAFETY: as above.
#[cfg(target_arch = "riscv32")]
unsafe impl Platform for Probe {
    type Reserve = kymo::platform::Masked<kymo::arch::riscv::Mstatus>;
    type Local = kymo::arch::riscv::AtTp;

    #[inline(always)]
    fn clock() -> u64 {
        kymo::arch::riscv::time()
    }

    #[inline(always)]
    fn quick_clock() -> u64 {
        kymo::arch::riscv::quick_time()
    }

    fn synchronize() {}
}

// SAFETY: measure.rs sets `tpidr_el1` before anything records, there is one CPU, and interrupts
// stay masked.
#[cfg(target_arch = "aarch64")]
unsafe impl Platform for Probe {
    type Reserve = kymo::arch::aarch64::CounterCas;
    type Local = kymo::platform::ByPointer<kymo::arch::aarch64::AtTpidr>;

    #[inline(always)]
    fn clock() -> u64 {
        kymo::arch::aarch64::time()
    }

    fn synchronize() {}
}

// SAFETY: measure.rs sets `gs` before anything records, and there is one thread.
#[cfg(target_arch = "x86_64")]
unsafe impl Platform for Probe {
    type Reserve = kymo::arch::x86_64::TscCas;
    type Local = kymo::platform::ByPointer<kymo::arch::x86_64::AtGs<0>>;

    #[inline(always)]
    fn clock() -> u64 {
        kymo::arch::x86_64::tsc()
    }

    #[inline(always)]
    fn switches() -> Option<&'static kymo::platform::Switches> {
        Some(&SWITCHES)
    }

    fn synchronize() {}
}

#[cfg(target_arch = "x86_64")]
static SWITCHES: kymo::platform::Switches = kymo::platform::Switches::new();

/// Exposes the switches as a session's start does, so that the compiler must assume that they can
/// be on.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_switches() -> &'static kymo::platform::Switches {
    &SWITCHES
}

/// With interrupts possibly on: masking included.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_two_fields(a: u32, b: u32) {
    trace!(TwoFields { a, b });
}

/// With interrupts already masked.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_two_fields_masked(a: u32, b: u32) {
    // SAFETY: nothing calls it; its code is counted.
    unsafe { trace_masked!(TwoFields { a, b }) };
}

/// One field.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_irq_enter_masked(irq: u32, _: u32) {
    // SAFETY: nothing calls it; its code is counted.
    unsafe { trace_masked!(IrqEnter { irq: Irq(irq) }) };
}

/// By id and words, as callers in other languages record; with interrupts possibly on.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_raw(a: u32, b: u32) {
    if Kymo::is_on_raw(TwoFields::ID) {
        Kymo::record_raw(TwoFields::ID, &[a, b]);
    }
}

/// `kymo_probe_two_fields_masked` plus one instruction, which the counting test must notice.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_one_more(a: u32, b: u32) {
    // SAFETY: `nop` has no effect.
    unsafe { core::arch::asm!("nop", options(nomem, nostack, preserves_flags)) };
    // SAFETY: nothing calls it; its code is counted.
    unsafe { trace_masked!(TwoFields { a, b }) };
}

/// Frames of the made stack.
const FRAMES: usize = 32;
/// Stands for the code to which its frames return: known by its addresses, as a kernel's is.
static TEXT: [u8; 64] = [0; 64];

/// A made stack: two words a frame, the innermost first.
pub struct Stack(UnsafeCell<[[usize; 2]; FRAMES]>);

// SAFETY: written before the probes are called, by the one thread that there is.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(UnsafeCell::new([[0; 2]; FRAMES]));
static SAMPLER: Sampler<1> = Sampler::new();

impl Stack {
    fn start(&self) -> usize {
        self.0.get() as usize
    }

    /// The frame pointer of a chain of so many callers.
    fn pointer(&self, callers: usize) -> usize {
        // RISC-V's points behind the words, that of others at them.
        let behind = if cfg!(any(target_arch = "riscv64", target_arch = "riscv32")) {
            size_of::<[usize; 2]>()
        } else {
            0
        };
        self.start() + (FRAMES - callers) * size_of::<[usize; 2]>() + behind
    }

    /// Links the frames. Called before the probes.
    pub fn prepare() {
        for callers in 1..=FRAMES {
            let caller = if callers == 1 {
                0
            } else {
                STACK.pointer(callers - 1)
            };
            // SAFETY: see `Sync`.
            unsafe {
                (*STACK.0.get())[FRAMES - callers] = [caller, TEXT.as_ptr() as usize + callers]
            };
        }
    }
}

impl Memory for &Stack {
    fn kernel_text(&self) -> Range<usize> {
        let text = TEXT.as_ptr_range();
        text.start as usize..text.end as usize
    }

    fn kernel_stack(&self, address: usize) -> Option<Window> {
        let range = self.start()..self.start() + size_of::<[[usize; 2]; FRAMES]>();
        // SAFETY: the static.
        let window = || unsafe { Window::new(range.clone(), range.start as *const u8) };
        range.contains(&address).then(window)
    }
}

/// A sample with so many callers.
#[inline(always)]
fn sample(ip: u32, tid: u32, callers: usize) {
    let at = Interrupted {
        registers: Registers {
            ip: ip as usize,
            fp: STACK.pointer(callers),
        },
        mode: CpuMode::Kernel,
        tid: Tid(tid),
        period: 1_000,
        missed: 0,
    };
    // SAFETY: as above.
    unsafe { Kymo::sample_masked(&SAMPLER, 0, &at, &&STACK) };
}

/// A sample with one caller, and so on.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_sample_1(ip: u32, tid: u32) {
    sample(ip, tid, 1);
}

#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_sample_8(ip: u32, tid: u32) {
    sample(ip, tid, 8);
}

#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_sample_32(ip: u32, tid: u32) {
    sample(ip, tid, 32);
}
