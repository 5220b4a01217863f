//! Interrupts in supervisor mode: the timer and the console.

use core::arch::asm;

use kymo::vocabulary::{IrqEnter, IrqExit, IrqName};
use kymo::{Irq, NameEpoch, Text, trace_masked};

use crate::Kymo;
use crate::spin_lock::SpinLock;
use crate::{console, cpu, process};

/// Timer interrupts of hart 0 since the start, 10 ms each.
static TICKS: SpinLock<u64> = SpinLock::new("ticks", 0);

/// `scause` of the software interrupt by which machine mode passes the timer on.
const TIMER: usize = 1 << 63 | 1;
/// `scause` of an interrupt from the PLIC.
const EXTERNAL: usize = 1 << 63 | 9;

/// In the trace, local interrupts have the number of their cause, and the PLIC's lines follow.
const TIMER_LINE: Irq = Irq(1);
const CONSOLE_LINE: Irq = Irq(16 + console::IRQ);
static TIMER_NAMED: NameEpoch = NameEpoch::new();
static CONSOLE_NAMED: NameEpoch = NameEpoch::new();

const PLIC: usize = 0xc00_0000;

unsafe extern "C" {
    fn supervisor_trap();
}

/// Gives the console's interrupt its priority.
pub fn init() {
    // SAFETY: QEMU virt has the PLIC's priorities at this address.
    unsafe { ((PLIC + 4 * console::IRQ as usize) as *mut u32).write_volatile(1) };
}

/// Lets this hart take interrupts, when it enables them.
pub fn init_hart() {
    let context = plic_context();
    // SAFETY: the PLIC's words of this hart's supervisor mode; `supervisor_trap` handles the timer
    // and external interrupts, which are all that are enabled in `sie`.
    unsafe {
        ((PLIC + 0x2000 + 0x80 * context) as *mut u32).write_volatile(1 << console::IRQ);
        ((PLIC + 0x20_0000 + 0x1000 * context) as *mut u32).write_volatile(0);
        asm!(
            "csrw stvec, {vector}",
            "csrw sie, {enabled}",
            vector = in(reg) supervisor_trap as *const () as usize,
            enabled = in(reg) 1 << 9 | 1 << 1,
        );
    }
}

fn plic_context() -> usize {
    2 * cpu::id() + 1
}

/// Called by `supervisor_trap`, with interrupts disabled.
#[unsafe(no_mangle)]
extern "C" fn trap() {
    let (cause, address, status): (usize, usize, usize);
    // SAFETY: reads registers.
    unsafe {
        asm!(
            "csrr {cause}, scause",
            "csrr {address}, sepc",
            "csrr {status}, sstatus",
            cause = out(reg) cause,
            address = out(reg) address,
            status = out(reg) status,
        );
    }
    match cause {
        TIMER => timer(),
        EXTERNAL => external(),
        _ => panic!("scause {cause:#x} at {address:#x}"),
    }
    if cause == TIMER && cpu::process().is_some() {
        process::yield_now();
    }
    // Another process may have trapped meanwhile, perhaps on another hart.
    // SAFETY: writes back what this trap found.
    unsafe { asm!("csrw sepc, {}", "csrw sstatus, {}", in(reg) address, in(reg) status) };
}

fn timer() {
    enter(TIMER_LINE, &TIMER_NAMED, "timer");
    // SAFETY: clears the pending bit of the interrupt that is being handled.
    unsafe { asm!("csrci sip, 2") };
    if cpu::id() == 0 {
        *TICKS.lock() += 1;
        process::wakeup(channel());
    }
    // SAFETY: a trap has interrupts masked.
    unsafe { trace_masked!(IrqExit { irq: TIMER_LINE }) };
}

/// Records that a handler begins.
fn enter(irq: Irq, named: &NameEpoch, name: &'static str) {
    Kymo::named(named, || IrqName {
        irq,
        name: Text::new(name),
    });
    // SAFETY: a trap has interrupts masked.
    unsafe { trace_masked!(IrqEnter { irq }) };
}

fn external() {
    let claim = (PLIC + 0x20_0004 + 0x1000 * plic_context()) as *mut u32;
    // SAFETY: the claim word of this hart's supervisor mode.
    let irq = unsafe { claim.read_volatile() };
    if irq == console::IRQ {
        enter(CONSOLE_LINE, &CONSOLE_NAMED, "console");
        console::interrupt();
        // SAFETY: a trap has interrupts masked.
        unsafe { trace_masked!(IrqExit { irq: CONSOLE_LINE }) };
    }
    if irq != 0 {
        // SAFETY: as above; completes what was claimed.
        unsafe { claim.write_volatile(irq) };
    }
}

pub fn ticks() -> u64 {
    *TICKS.lock()
}

/// Sleeps for `count` ticks, or until the process is killed.
pub fn sleep_ticks(count: u64) {
    let mut now = TICKS.lock();
    let end = *now + count;
    while *now < end && !process::killed() {
        now = process::sleep(channel(), now);
    }
}

fn channel() -> usize {
    core::ptr::from_ref(&TICKS).addr()
}
