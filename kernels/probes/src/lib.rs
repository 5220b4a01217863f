//! One out-of-line function a tracepoint, to be disassembled and counted: arguments in registers at its first instruction, `ret` at its last.
#![no_std]

use kymo::arch::riscv::{AtTp, Sstatus, time};
use kymo::vocabulary::{IrqEnter, SchedSwitch};
use kymo::{Irq, Masked, Platform, Tid, trace, trace_masked};

type Kymo = kymo::Tracer<Probe>;

struct Probe;

// SAFETY: never run; only its machine code is read.
unsafe impl Platform for Probe {
    type Reserve = Masked<Sstatus>;
    type Local = AtTp;

    #[inline(always)]
    fn clock() -> u64 {
        time()
    }

    fn synchronize() {}
}

/// Interrupts may be on: masking included.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_sched_switch(prev: u32, next: u32) {
    trace!(SchedSwitch { prev_tid: Tid(prev), next_tid: Tid(next) });
}

/// Interrupts are masked already.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_sched_switch_masked(prev: u32, next: u32) {
    trace_masked!(SchedSwitch { prev_tid: Tid(prev), next_tid: Tid(next) });
}

/// One field.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_irq_enter_masked(irq: u32) {
    trace_masked!(IrqEnter { irq: Irq(irq) });
}

/// As `kymo_probe_sched_switch_masked`, and one instruction: the test that counts must notice it.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_one_more(prev: u32, next: u32) {
    // SAFETY: does nothing.
    unsafe { core::arch::asm!("nop", options(nomem, nostack, preserves_flags)) };
    trace_masked!(SchedSwitch { prev_tid: Tid(prev), next_tid: Tid(next) });
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
