//! riscv64, QEMU's `virt`: S-mode above OpenSBI.

pub mod context;
pub mod paging;
mod plic;
pub mod pmu;
mod sbi;
pub mod serial;
pub mod timer;
mod trap;
pub mod virtio;

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use kymo::Refused;
use kymo::arch::riscv::kernel_word;
use kymo::count::GroupSpec;
use kymo::platform::{Call, Control, Masked, Platform};
use kymo::vocabulary::{Sampling, SamplingDriver};

pub use sbi::put;

use super::{BOOT_STACK_SHIFT, device_tree};
use crate::recording::{self, MEMORY};
use crate::{MAX_HARTS, counters, counting, sampling};
use kymo::counter::Counters;

/// The register of QEMU's `sifive_test` device, which ends QEMU.
const POWER: usize = 0x10_0000;
/// `sstatus`: interrupts are on.
const SIE: usize = 1 << 1;

core::arch::global_asm!(
    include_str!("boot.s"),
    boot_hart = sym boot_hart,
    other_hart = sym other_hart,
    kymo_block = sym kymo_block,
    max_harts = const MAX_HARTS,
    stack_shift = const BOOT_STACK_SHIFT,
);
core::arch::global_asm!(include_str!("trap.s"), trap = sym trap::trap);

/// Kymo's view of the machine.
pub struct Machine;

// SAFETY: in the kernel, `tp` points to the hart's control block from boot.s on: trap.s sets it at
// every entry, and no thread switch changes it. Only `sstatus` masks interrupts.
unsafe impl Platform for Machine {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;
    const COUNTERS: Counters = counters::COUNTERS;

    #[inline(always)]
    fn clock() -> u64 {
        timer::time()
    }

    fn synchronize() {
        crate::smp::synchronize();
    }

    fn dump_state() {
        recording::dump_state();
    }

    fn sampling(sampling: &Sampling) {
        sampling::set(sampling);
    }

    const CONTEXTS: bool = true;

    fn context(event: u32, fp: usize) {
        recording::context(event, fp);
    }

    fn counting(group: Option<&GroupSpec>) -> Result<(), Refused> {
        counting::of_session(group)
    }

    fn permits(_: Call) -> bool {
        recording::is_permitted()
    }
}

/// The value of `tp` on hart `id` in the kernel.
extern "C" fn kymo_block(id: u32) -> *const Control {
    MEMORY.control(id)
}

/// The number of this hart. With interrupts on, the thread may move to another hart meanwhile.
#[inline(always)]
pub fn hart() -> usize {
    // SAFETY: `tp` points to the hart's block.
    unsafe { kernel_word() }.load(Relaxed)
}

/// Masks interrupts, and gives whether they were on.
pub fn mask() -> bool {
    let before: usize;
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("csrrci {}, sstatus, {}", out(reg) before, const SIE) };
    before & SIE != 0
}

/// Turns interrupts on again if they were on before.
pub fn restore(on: bool) {
    if on {
        // SAFETY: the section that had masked them is over.
        unsafe { asm!("csrsi sstatus, {}", const SIE) };
    }
}

/// Executes two instructions as often as this.
#[inline(always)]
pub fn spin(rounds: usize) {
    // SAFETY: this only counts.
    unsafe {
        asm!("2: addi {0}, {0}, -1", "bnez {0}, 2b", inout(reg) rounds => _, options(nomem, nostack))
    };
}

/// From a frame's two words to where its frame pointer points.
pub const BEHIND_FRAME: usize = 16;

/// Spins with this frame pointer. The symbol `$name`, which only one place may declare, is the code
/// that has it.
macro_rules! with_frame_pointer {
    ($name:literal, $pointer:expr, $rounds:expr) => {
        // SAFETY: s0 is as before behind this.
        unsafe {
            core::arch::asm!(
                "mv {kept}, s0",
                "mv s0, {pointer}",
                "2: addi {rounds}, {rounds}, -1",
                "bnez {rounds}, 2b",
                concat!(".globl ", $name),
                concat!(".set ", $name, ", 2b"),
                concat!(".size ", $name, ", . - 2b"),
                "mv s0, {kept}",
                kept = out(reg) _,
                pointer = in(reg) $pointer,
                rounds = inout(reg) $rounds => _,
            )
        }
    };
}
pub(crate) use with_frame_pointer;

/// Waits for an interrupt, masked or not.
pub fn wait_for_interrupt() {
    // SAFETY: this only waits.
    unsafe { wait() };
}

/// Lets some time pass while another hart is waited for, with interrupts masked. The wait is for
/// QEMU with `-icount`, which runs another hart only when this one waits, or at the next timer
/// interrupt of any: without one it may be seconds.
pub fn relax() {
    timer::arm(timer::time() + timer::frequency() / 100_000);
    wait_for_interrupt();
}

/// Waits for good, whatever happens.
pub fn park() -> ! {
    // SAFETY: an interrupt that is pending would end each wait at once, also while it is masked.
    // QEMU with `-icount` then runs no other hart.
    unsafe { asm!("csrw sie, zero") };
    loop {
        wait_for_interrupt();
    }
}

/// Whether code interrupted here was waiting.
pub fn is_waiting(ip: usize) -> bool {
    (wait as *const () as usize..&raw const wait_end as usize).contains(&ip)
}

unsafe extern "C" {
    /// `wfi`, in a function of its own.
    fn wait();
    /// Its end.
    safe static wait_end: u8;
}

core::arch::global_asm!(
    ".text",
    ".globl wait",
    ".type wait, @function",
    "wait:",
    "wfi",
    "ret",
    ".globl wait_end",
    "wait_end:",
    ".size wait, . - wait",
);

/// Interrupts another hart: `interrupt::asked` answers.
pub fn interrupt(hart: usize) {
    sbi::send_ipi(1 << hart);
}

/// What can make a hart take a sample besides its timer: an interrupt like any other. The firmware
/// keeps what M-mode has, so code with interrupts masked cannot be interrupted.
pub const REMOTE_DRIVER: SamplingDriver = SamplingDriver::Ipi;

/// Has another hart take a sample.
pub fn ask_for_sample(hart: usize) {
    interrupt(hart);
}

fn disarm_software() {
    // SAFETY: clears the request.
    unsafe { asm!("csrc sip, {}", in(reg) 1 << trap::SOFTWARE) };
}

/// The architecture's name in the targets of the workload `bench`.
pub const NAME: &str = "riscv64";

/// The names of this machine's interrupts.
pub const INTERRUPTS: [(u32, &str); 3] = [
    (trap::SOFTWARE as u32, "ipi"),
    (trap::TIMER as u32, "timer"),
    (trap::FIRST_SOURCE + serial::SOURCE, "uart"),
];

/// Orders accesses to memory and device registers, between the processor and a device.
pub fn io_fence() {
    // SAFETY: this only orders.
    unsafe { asm!("fence iorw, iorw") };
}

/// Number of harts.
pub fn harts() -> usize {
    (0..).take_while(|&id| sbi::hart_exists(id)).count()
}

/// Starts another hart in the kernel: it enters `crate::join`.
pub fn start(other: usize) {
    unsafe extern "C" {
        /// In boot.s.
        fn start_hart();
    }
    READY.store(true, Release);
    sbi::start_hart(other, start_hart as *const () as usize);
}

/// Whether the boot hart has arrived, and whether the others may continue.
static BOOTED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);

/// Ends QEMU with this exit code.
pub fn exit(code: u32) -> ! {
    let word = if code == 0 {
        0x5555
    } else {
        code << 16 | 0x3333
    };
    // SAFETY: the device's only register, which is mapped.
    unsafe { (POWER as *mut u32).write_volatile(word) };
    unreachable!("QEMU goes on")
}

/// Initialises a hart.
fn enter(id: usize) {
    // SAFETY: boot.s has set `tp`.
    unsafe { kernel_word() }.store(id, Relaxed);
    // SAFETY: the kernel's own space, which maps everything at its own address.
    unsafe { paging::activate(paging::kernel_space()) };
    plic::open();
    // SAFETY: the trap entry is in place, and interrupts are still masked.
    unsafe {
        asm!("csrs sie, {}", in(reg) 1 << trap::TIMER | 1 << trap::SOFTWARE | 1 << trap::EXTERNAL)
    };
}

/// Entry of the boot hart, which need not be hart 0.
extern "C" fn boot_hart(id: usize, device_tree: *const [u32; 2]) -> ! {
    // OpenSBI 1.1 starts a hart that is not asleep yet at the boot hart's entry instead of the
    // requested one.
    if BOOTED.swap(true, Relaxed) {
        while !READY.load(Acquire) {
            core::hint::spin_loop();
        }
        other_hart(id);
    }
    paging::prepare();
    enter(id);
    // SAFETY: the firmware passes a device tree, nobody changes it, and its second word is its size
    // (big-endian).
    let tree = unsafe {
        let size = u32::from_be((*device_tree)[1]) as usize;
        core::slice::from_raw_parts(device_tree.cast::<u8>(), size)
    };
    unsafe extern "C" {
        /// In link.ld: the end of the image.
        safe static __end: u8;
    }
    // QEMU puts the tree near the end of RAM; the memory between is free.
    crate::boot(
        device_tree::bootargs(tree).unwrap_or(""),
        &raw const __end as usize..device_tree as usize / paging::PAGE * paging::PAGE,
    )
}

/// Entry of every other hart.
extern "C" fn other_hart(id: usize) -> ! {
    enter(id);
    crate::join()
}
