//! Interrupts and exceptions, by wrapping `axcpu`'s trap handler: the hooks that ArceOS has for
//! interrupts are not given what was interrupted, and there are none for exceptions.

use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;

use axcpu::TrapFrame;
use kymo::vocabulary::{Exception, IrqEnter, IrqExit};
use kymo::{Address, Irq, trace_masked};

use crate::here::{Here, here};
use crate::{acknowledge, sample, switch};

/// In `scause`: an interrupt.
const INTERRUPT: usize = 1 << (usize::BITS - 1);
/// The timer's interrupt line.
const TIMER: u32 = 5;

unsafe extern "C" {
    /// The handler of `axcpu`, by the linker.
    fn __real_riscv_trap_handler(frame: &mut TrapFrame, from_user: bool);
}

/// The linker has `axcpu`'s assembly call this instead of its handler.
#[unsafe(no_mangle)]
extern "C" fn __wrap_riscv_trap_handler(frame: &mut TrapFrame, from_user: bool) {
    let (cause, value): (usize, u64);
    // SAFETY: this only reads the registers of the present trap.
    unsafe { asm!("csrr {}, scause", "csrr {}, stval", out(reg) cause, out(reg) value) };
    // The interrupt may have come between a switch and the place where that is noticed.
    switch::notice();
    // SAFETY: a trap masks interrupts, and ArceOS takes none before a CPU's data are set up.
    let trap = match cause & INTERRUPT {
        0 => {
            exception(cause as u32, value, frame);
            0
        }
        // SAFETY: as above.
        _ => unsafe { enter(here(), cause as u32, frame) },
    };
    // SAFETY: with what the handler was called with.
    unsafe { __real_riscv_trap_handler(frame, from_user) };
    // SAFETY: a handler returns with interrupts masked, perhaps on another CPU.
    let here = unsafe { here() };
    if trap != 0 && here.trap.load(Relaxed) == trap {
        leave(here);
    }
}

fn exception(cause: u32, value: u64, frame: &TrapFrame) {
    // SAFETY: a trap masks interrupts.
    unsafe {
        trace_masked!(Exception {
            cause,
            ip: Address(frame.sepc as u64),
            value
        })
    };
}

/// Gives the number of the trap.
fn enter(here: &Here, irq: u32, frame: &TrapFrame) -> u64 {
    // SAFETY: a trap masks interrupts.
    unsafe { trace_masked!(IrqEnter { irq: Irq(irq) }) };
    acknowledge(here);
    if irq == TIMER {
        sample::take(here, frame);
    }
    let count = here.traps.load(Relaxed) + 1;
    here.traps.store(count, Relaxed);
    let trap = count * crate::CPUS as u64 + here.cpu() as u64;
    here.irq.store(irq, Relaxed);
    here.trap.store(trap, Relaxed);
    trap
}

/// The interrupt's handler ends here: it returns, or has the interrupted task preempted, which
/// would otherwise end the handler whenever that task runs again.
pub fn leave(here: &Here) {
    here.trap.store(0, Relaxed);
    let irq = Irq(here.irq.load(Relaxed));
    // SAFETY: interrupts are masked in a trap and in a switch.
    unsafe { trace_masked!(IrqExit { irq }) };
}
