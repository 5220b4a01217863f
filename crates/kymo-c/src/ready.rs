//! Ready drivers of counters, for kernels in C: that of the processor's architecture, which
//! `KYMO_COUNTING_READY` asks for.

use kymo::count::pmu::Pmu;
use kymo::count::{Cpu, EventKind, Exclude, MAX_GROUPS};

use crate::counting::{CCounting, Driven, Library};

#[cfg(target_arch = "aarch64")]
use kymo::count::pmu::aarch64::{El1, Pmuv3, Register, Registers};
#[cfg(target_arch = "riscv64")]
use kymo::count::pmu::riscv::{Firmware, Sbi, Supervisor};

#[cfg(target_arch = "aarch64")]
type Processors = Pmuv3<Quiet>;
#[cfg(target_arch = "riscv64")]
type Processors = Sbi<Quiet>;

/// The counters without their interrupts, for which no kernel in C calls the library.
#[derive(Debug)]
struct Quiet;

#[cfg(target_arch = "aarch64")]
impl Registers for Quiet {
    fn read(&self, register: Register) -> u64 {
        El1.read(register)
    }

    fn write(&self, register: Register, value: u64) {
        if register != Register::Interrupt {
            El1.write(register, value);
        }
    }
}

#[cfg(target_arch = "riscv64")]
impl Firmware for Quiet {
    fn call(&self, function: usize, arguments: [usize; 5]) -> Result<usize, isize> {
        Supervisor.call(function, arguments)
    }

    fn read(&self, counter: u32) -> u64 {
        Supervisor.read(counter)
    }

    fn overflowed(&self) -> u64 {
        0
    }

    fn interrupts(&self) -> bool {
        false
    }

    fn end_interrupt(&self) {}
}

/// Whether this CPU has counters that the driver knows.
///
/// Source: Arm Architecture Reference Manual (DDI 0487), `ID_AA64DFR0_EL1`: the field PMUVer is 0
/// without PMUv3, and 15 with counters of another kind. Without it, its registers are undefined.
#[cfg(target_arch = "aarch64")]
fn is_there() -> bool {
    let features: u64;
    // SAFETY: reads a register that every processor has.
    unsafe {
        core::arch::asm!(
            "mrs {}, id_aa64dfr0_el1",
            out(reg) features,
            options(nomem, nostack, preserves_flags)
        );
    }
    !matches!(features >> 8 & 0xF, 0 | 0xF)
}

/// The firmware says what there is.
#[cfg(target_arch = "riscv64")]
fn is_there() -> bool {
    true
}

/// The counters of a CPU; `None` for one that has none, or has not counted yet.
#[derive(Debug)]
struct Ready(Option<Processors>);

impl Driven for Ready {
    const NOTHING: &'static Cpu<Self, MAX_GROUPS> = &Cpu::new(Ready(None));

    /// The driver is here.
    fn is_whole(_: &CCounting) -> bool {
        true
    }

    fn of_this_cpu(_: &CCounting) -> Ready {
        Ready(is_there().then(|| Processors::new(Quiet)))
    }
}

/// What it does without counters: it has none.
impl Pmu for Ready {
    const SLOTS: usize = Processors::SLOTS;
    const FIXED: u64 = Processors::FIXED;

    fn slots(&self) -> usize {
        self.0.as_ref().map_or(0, Pmu::slots)
    }

    fn longest_period(&self) -> u64 {
        0
    }

    /// Nobody calls for their interrupts.
    fn interrupting(&self) -> u64 {
        0
    }

    fn counters(&self, event: EventKind, exclude: Exclude) -> u64 {
        let pmu = self.0.as_ref();
        pmu.map_or(0, |pmu| pmu.counters(event, exclude))
    }

    fn width(&self, counter: u32) -> u32 {
        self.0.as_ref().map_or(64, |pmu| pmu.width(counter))
    }

    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool {
        let pmu = self.0.as_mut();
        pmu.is_some_and(|pmu| pmu.program(counter, event, exclude, value))
    }

    fn read(&self, counter: u32) -> u64 {
        self.0.as_ref().map_or(0, |pmu| pmu.read(counter))
    }

    fn write(&mut self, counter: u32, value: u64) {
        if let Some(pmu) = &mut self.0 {
            pmu.write(counter, value);
        }
    }

    fn start(&mut self, counters: u64) {
        if let Some(pmu) = &mut self.0 {
            pmu.start(counters);
        }
    }

    fn stop(&mut self, counters: u64) {
        if let Some(pmu) = &mut self.0 {
            pmu.stop(counters);
        }
    }

    fn overflowed(&mut self) -> u64 {
        0
    }
}

/// The library's part of tables with the processor's own counters.
#[unsafe(no_mangle)]
pub static kymo_counting_ready_library: Library = Library::of::<Ready>();
