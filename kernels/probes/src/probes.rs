//! The probes, and their platform of one CPU.

use kymo::event::Event;
use kymo::platform::Platform;
use kymo::vocabulary::IrqEnter;
use kymo::{Irq, trace, trace_masked};

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
