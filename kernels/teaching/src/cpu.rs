//! What belongs to one hart, and its interrupt switch.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};

/// The most harts this kernel uses; how many there are is known only when they arrive.
pub const MAX_CPUS: usize = 8;

/// Registers that a call preserves: what `switch_context` exchanges. entry.s knows the layout.
#[repr(C)]
pub struct Context {
    pub return_address: usize,
    pub stack: usize,
    saved: [usize; 12],
}

impl Context {
    pub const fn new() -> Context {
        Context {
            return_address: 0,
            stack: 0,
            saved: [0; 12],
        }
    }
}

pub struct Cpu {
    /// Where the hart's scheduler was when it switched to a process.
    pub scheduler: UnsafeCell<Context>,
    /// Index of the process that runs here.
    pub process: Cell<Option<usize>>,
    /// How many `push_off` are open, and whether interrupts were enabled before the first.
    pub depth: Cell<u32>,
    pub enabled_before: Cell<bool>,
}

// SAFETY: a hart touches only its own `Cpu`, with interrupts disabled.
unsafe impl Sync for Cpu {}

static CPUS: [Cpu; MAX_CPUS] = [const {
    Cpu {
        scheduler: UnsafeCell::new(Context::new()),
        process: Cell::new(None),
        depth: Cell::new(0),
        enabled_before: Cell::new(false),
    }
}; MAX_CPUS];

/// This hart's id. With interrupts enabled, it may be another one's as soon as it is read.
pub fn id() -> usize {
    let id: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, tp", out(reg) id, options(nomem, nostack)) };
    id
}

/// This hart's own record. To be called with interrupts disabled.
pub fn this() -> &'static Cpu {
    &CPUS[id()]
}

/// The process that runs here.
pub fn process() -> Option<usize> {
    push_off();
    let process = this().process.get();
    pop_off();
    process
}

pub fn enable_interrupts() {
    // SAFETY: traps have their vector since `trap::init_hart`.
    unsafe { asm!("csrsi sstatus, 2") };
}

pub fn disable_interrupts() {
    // SAFETY: fewer interrupts harm nobody.
    unsafe { asm!("csrci sstatus, 2") };
}

pub fn interrupts_enabled() -> bool {
    let status: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, sstatus", out(reg) status) };
    status & 2 != 0
}

/// Disables interrupts until as many `pop_off` have followed.
pub fn push_off() {
    let enabled = interrupts_enabled();
    disable_interrupts();
    let cpu = this();
    if cpu.depth.get() == 0 {
        cpu.enabled_before.set(enabled);
    }
    cpu.depth.set(cpu.depth.get() + 1);
}

pub fn pop_off() {
    let cpu = this();
    assert!(!interrupts_enabled() && cpu.depth.get() > 0, "pop_off");
    cpu.depth.set(cpu.depth.get() - 1);
    if cpu.depth.get() == 0 && cpu.enabled_before.get() {
        enable_interrupts();
    }
}
