//! What this crate keeps for each CPU.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use kymo::platform::{Control, ControlPointer};

/// A CPU's words. Only the CPU itself writes them, with interrupts masked, apart from `control` and
/// `cpu`.
#[derive(Debug)]
pub struct Here {
    /// The CPU's rings; null before `start`.
    control: AtomicPtr<Control>,
    /// The CPU's number, once `control` is set.
    cpu: AtomicUsize,
    /// The last request of `synchronize` of which the CPU has taken note.
    pub noted: AtomicUsize,
    /// The id of the task that runs here, as far as was noticed; 0: not known yet.
    pub last: AtomicU64,
    /// The task that was last told that it leaves this CPU, and its state then.
    pub left: AtomicU64,
    pub left_state: AtomicU32,
    /// The task that is just enabling preemption, and is preempted there if it must be.
    pub enabling: AtomicU64,
    /// The trap that this CPU is in, a number of its own; 0: none.
    pub trap: AtomicU64,
    /// Traps so far.
    pub traps: AtomicU64,
    /// The interrupt line of `trap`.
    pub irq: AtomicU32,
    /// Whether a task's name is just being looked up.
    pub looks_up: AtomicBool,
}

#[percpu::def_percpu]
static HERE: Here = Here {
    control: AtomicPtr::new(null_mut()),
    cpu: AtomicUsize::new(0),
    noted: AtomicUsize::new(0),
    last: AtomicU64::new(0),
    left: AtomicU64::new(0),
    left_state: AtomicU32::new(0),
    enabling: AtomicU64::new(0),
    trap: AtomicU64::new(0),
    traps: AtomicU64::new(0),
    irq: AtomicU32::new(0),
    looks_up: AtomicBool::new(false),
};

impl Here {
    /// Gives the CPU its rings.
    pub fn attach(&self, cpu: usize, control: *const Control) {
        self.cpu.store(cpu, Relaxed);
        self.control.store(control.cast_mut(), Relaxed);
    }

    /// The CPU's number; 0 before `start`.
    pub fn cpu(&self) -> usize {
        self.cpu.load(Relaxed)
    }
}

// SAFETY: `start` has stored the blocks of this CPU, which stay mapped.
unsafe impl ControlPointer for Here {
    #[inline(always)]
    fn get() -> *const Control {
        // SAFETY: it is asked for while the code stays on this CPU.
        unsafe { here() }.control.load(Relaxed)
    }
}

/// This CPU's words.
///
/// # Safety
/// ArceOS has set up this CPU's data, and the code stays on it: interrupts are masked.
#[inline(always)]
pub unsafe fn here() -> &'static Here {
    // SAFETY: the caller's promise.
    unsafe { HERE.current_ref_raw() }
}

/// The words of a CPU that ArceOS has set up.
pub fn of(cpu: usize) -> &'static Here {
    // SAFETY: `cpu` is below `axhal::cpu_num()`, and everything in it is atomic.
    unsafe { HERE.remote_ref_raw(cpu) }
}

/// Calls `f` with interrupts masked.
#[inline(always)]
pub fn masked<T>(f: impl FnOnce(&'static Here) -> T) -> T {
    use kymo::arch::riscv::Sstatus;
    use kymo::platform::Interrupts;
    let saved = Sstatus::mask();
    // SAFETY: ArceOS sets up a CPU's data before its first use of a lock, a task or an interrupt.
    let result = f(unsafe { here() });
    Sstatus::restore(saved);
    result
}
