//! aarch64, QEMU's `virt` with GICv3: EL1, with QEMU's own PSCI as the firmware.

pub mod context;
mod firmware;
mod gic;
pub mod paging;
pub mod pmu;
pub mod serial;
pub mod timer;
mod trap;
pub mod virtio;

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use kymo::Refused;
use kymo::arch::aarch64::{AtTpidr, CounterCas, kernel_word};
use kymo::count::GroupSpec;
use kymo::platform::{ByPointer, Call, Platform};
use kymo::vocabulary::{Sampling, SamplingDriver};

pub use serial::put;
pub use trap::{count_nmis, count_nmis_between};

use super::{BOOT_STACK_SHIFT, device_tree};
use crate::recording::{self, MEMORY};
use crate::{MAX_HARTS, counters, counting, sampling};
use kymo::counter::Counters;

core::arch::global_asm!(
    include_str!("boot.s"),
    boot_hart = sym boot_hart,
    other_hart = sym other_hart,
    max_harts = const MAX_HARTS,
    stack_shift = const BOOT_STACK_SHIFT,
);

/// Kymo's view of the machine: interrupts and pseudo-NMIs may come inside a writer.
pub struct Machine;

// SAFETY: `tpidr_el1` holds the hart's control block from `enter` on: programs cannot change it,
// and no thread switch does. Tracepoints stand where interrupts are masked.
unsafe impl Platform for Machine {
    type Reserve = CounterCas;
    type Local = ByPointer<AtTpidr>;
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

/// The number of this hart. With interrupts on, the thread may move to another hart meanwhile.
#[inline(always)]
pub fn hart() -> usize {
    // SAFETY: `tpidr_el1` holds the hart's block.
    unsafe { kernel_word() }.load(Relaxed)
}

/// Masks interrupts but pseudo-NMIs, and gives whether they were on.
pub fn mask() -> bool {
    let before: u64;
    // SAFETY: masking interrupts breaks nothing.
    unsafe {
        asm!("mrs {}, icc_pmr_el1", "msr icc_pmr_el1, {}", out(reg) before, in(reg) gic::MASKED)
    };
    before == gic::UNMASKED
}

/// Turns interrupts on again if they were on before.
pub fn restore(on: bool) {
    if on {
        // SAFETY: the section that had masked them is over.
        unsafe { asm!("msr icc_pmr_el1, {}", in(reg) gic::UNMASKED) };
    }
}

/// Executes two instructions as often as this.
#[inline(always)]
pub fn spin(rounds: usize) {
    // SAFETY: this only counts.
    unsafe {
        asm!("2: subs {0}, {0}, 1", "b.ne 2b", inout(reg) rounds => _, options(nomem, nostack))
    };
}

/// From a frame's two words to where its frame pointer points.
pub const BEHIND_FRAME: usize = 0;

/// Spins with this frame pointer. The symbol `$name`, which only one place may declare, is the code
/// that has it.
macro_rules! with_frame_pointer {
    ($name:literal, $pointer:expr, $rounds:expr) => {
        // SAFETY: x29 is as before behind this.
        unsafe {
            core::arch::asm!(
                "mov {kept}, x29",
                "mov x29, {pointer}",
                "2: subs {rounds}, {rounds}, 1",
                "b.ne 2b",
                concat!(".globl ", $name),
                concat!(".set ", $name, ", 2b"),
                concat!(".size ", $name, ", . - 2b"),
                "mov x29, {kept}",
                kept = out(reg) _,
                pointer = in(reg) $pointer,
                rounds = inout(reg) $rounds => _,
            )
        }
    };
}
pub(crate) use with_frame_pointer;

/// Waits for an interrupt that is not masked.
pub fn wait_for_interrupt() {
    // SAFETY: this only waits.
    unsafe { wait() };
}

/// Lets some time pass while another hart is waited for. QEMU with `-icount` runs another hart
/// then.
pub fn relax() {
    // SAFETY: this only waits.
    unsafe { asm!("yield", options(nomem, nostack, preserves_flags)) };
}

/// Waits for good, whatever happens.
pub fn park() -> ! {
    gic::disable();
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
    gic::send(gic::SOFTWARE, hart);
}

/// Sends a hart a pseudo-NMI, which comes even while it masks interrupts.
pub fn send_nmi(hart: usize) {
    gic::send(gic::PSEUDO_NMI, hart);
}

/// Where the pseudo-NMIs came that [`count_nmis_between`] counts.
pub const NMIS_BETWEEN: &str = "with interrupts masked";

/// What can make a hart take a sample besides its timer: a pseudo-NMI, which comes wherever the
/// hart is, except in the first and last instructions of a trap.
pub const REMOTE_DRIVER: SamplingDriver = SamplingDriver::Nmi;

/// Has another hart take a sample.
pub fn ask_for_sample(hart: usize) {
    send_nmi(hart);
}

/// The architecture's name in the targets of the workload `bench`.
pub const NAME: &str = "aarch64";

/// The names of this machine's interrupts.
pub const INTERRUPTS: [(u32, &str); 4] = [
    (gic::SOFTWARE, "ipi"),
    (gic::PSEUDO_NMI, "nmi"),
    (timer::IRQ, "timer"),
    (serial::IRQ, "uart"),
];

/// Orders accesses to memory and device registers, between the processor and a device.
pub fn io_fence() {
    // SAFETY: this only orders.
    unsafe { asm!("dsb sy") };
}

/// Number of harts.
pub fn harts() -> usize {
    (0..).take_while(|&id| firmware::hart_exists(id)).count()
}

/// Starts another hart in the kernel: it enters `crate::join`.
pub fn start(other: usize) {
    unsafe extern "C" {
        /// In boot.s.
        fn start_hart();
    }
    firmware::start_hart(other, start_hart as *const () as usize);
}

/// Ends QEMU: code 0 by switching the machine off, others by semihosting; where that is not
/// enabled, QEMU's status is 0 too.
pub fn exit(code: u32) -> ! {
    if code != 0 {
        firmware::exit_with(code);
    }
    firmware::switch_off()
}

/// Initialises a hart.
fn enter(id: usize) {
    paging::enable();
    assert!(id < MAX_HARTS, "hart {id} is one too many");
    // SAFETY: the register belongs to the hart; the block stays mapped.
    unsafe {
        asm!("msr tpidr_el1, {}", in(reg) MEMORY.control(id as u32));
        kernel_word().store(id, Relaxed);
    }
    gic::enable();
}

/// QEMU puts the device tree at the beginning of RAM.
fn device_tree() -> &'static [u8] {
    let tree = paging::RAM.start as *const [u32; 2];
    // SAFETY: nobody changes the tree, and its second word is its size (big-endian). The image does
    // not reach into its 2 MiB.
    unsafe {
        let size = u32::from_be((*tree)[1]) as usize;
        core::slice::from_raw_parts(tree.cast::<u8>(), size)
    }
}

/// The memory behind the image.
fn free_memory(tree: &[u8]) -> Range<usize> {
    unsafe extern "C" {
        /// In link.ld: the end of the image.
        safe static __end: u8;
    }
    let begin = &raw const __end as usize;
    let end = device_tree::memory(tree).map_or(begin, |memory| memory.end.min(paging::RAM.end));
    begin..end / paging::PAGE * paging::PAGE
}

/// Entry of the boot hart.
extern "C" fn boot_hart(id: usize) -> ! {
    paging::prepare();
    serial::prepare();
    gic::prepare();
    enter(id);
    let tree = device_tree();
    crate::boot(device_tree::bootargs(tree).unwrap_or(""), free_memory(tree))
}

/// Entry of every other hart.
extern "C" fn other_hart(id: usize) -> ! {
    enter(id);
    crate::join()
}
