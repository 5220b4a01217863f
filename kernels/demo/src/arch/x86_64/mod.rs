//! x86-64, QEMU's `q35`: the kernel's entry is PVH's, and its harts are the processors.

mod apic;
pub mod context;
pub mod paging;
mod pci;
pub mod pmu;
mod port;
mod segments;
pub mod serial;
pub mod timer;
mod trap;
pub mod virtio;

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use kymo::Refused;
use kymo::arch::x86_64::{AtGs, TscCas};
use kymo::count::GroupSpec;
use kymo::platform::{ByPointer, Call, Control, Platform};
use kymo::vocabulary::{Sampling, SamplingDriver};

pub use serial::put;
pub use trap::count_nmis;

use super::BOOT_STACK_SHIFT;
use crate::recording::{self, MEMORY};
use crate::{MAX_HARTS, counters, counting, sampling};
use kymo::counter::Counters;

/// Start address of the other harts: a page below 1 MiB that the firmware no longer uses.
const TRAMPOLINE: usize = 0x8000;
/// `rflags`: interrupts are on.
const INTERRUPTS_ON: usize = 1 << 9;

core::arch::global_asm!(
    include_str!("boot.s"),
    boot_hart = sym boot_hart,
    other_hart = sym other_hart,
    trampoline = const TRAMPOLINE,
    max_harts = const MAX_HARTS,
    stack_shift = const BOOT_STACK_SHIFT,
    options(att_syntax),
);

/// What `gs` points to on a hart, in the kernel.
#[repr(C)]
struct PerHart {
    kymo: *const Control,
    hart: usize,
    /// NMIs in the kernel while `gs` was a program's.
    between: u64,
    descriptors: segments::Descriptors,
    task: segments::Task,
}

impl PerHart {
    /// Offset of the stack for traps from user mode.
    const KERNEL_STACK: usize = offset_of!(PerHart, task) + segments::Task::KERNEL_STACK;
}

struct PerHarts([UnsafeCell<PerHart>; MAX_HARTS]);

// SAFETY: only its hart uses an element, except for `between`, which others may read.
unsafe impl Sync for PerHarts {}

static PER_HART: PerHarts = PerHarts(
    [const {
        UnsafeCell::new(PerHart {
            kymo: core::ptr::null(),
            hart: 0,
            between: 0,
            descriptors: [0; 7],
            task: segments::Task::EMPTY,
        })
    }; MAX_HARTS],
);

/// Kymo's view of the machine: interrupts and NMIs may come inside a writer.
pub struct Machine;

// SAFETY: in the kernel, `gs` points to the hart's `PerHart` from `enter` on: trap.s sets it at
// every entry, and no thread switch changes it. Tracepoints stand where interrupts are masked.
unsafe impl Platform for Machine {
    type Reserve = TscCas;
    type Local = ByPointer<AtGs<{ offset_of!(PerHart, kymo) }>>;
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
    let hart;
    // SAFETY: `gs` points to the hart's `PerHart`.
    unsafe {
        asm!(
            "mov {}, gs:[{}]",
            out(reg) hart,
            const offset_of!(PerHart, hart),
            options(readonly, nostack, preserves_flags)
        )
    };
    hart
}

/// Masks interrupts, and gives whether they were on.
pub fn mask() -> bool {
    let before: usize;
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) before) };
    before & INTERRUPTS_ON != 0
}

/// Turns interrupts on again if they were on before.
pub fn restore(on: bool) {
    if on {
        // SAFETY: the section that had masked them is over.
        unsafe { asm!("sti") };
    }
}

/// Executes two instructions as often as this.
#[inline(always)]
pub fn spin(rounds: usize) {
    // SAFETY: this only counts.
    unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack)) };
}

/// From a frame's two words to where its frame pointer points.
pub const BEHIND_FRAME: usize = 0;

/// Spins with this frame pointer. The symbol `$name`, which only one place may declare, is the code
/// that has it.
macro_rules! with_frame_pointer {
    ($name:literal, $pointer:expr, $rounds:expr) => {
        // SAFETY: rbp is as before behind this.
        unsafe {
            core::arch::asm!(
                "mov {kept}, rbp",
                "mov rbp, {pointer}",
                "2: dec {rounds}",
                "jnz 2b",
                concat!(".globl ", $name),
                concat!(".set ", $name, ", 2b"),
                concat!(".size ", $name, ", . - 2b"),
                "mov rbp, {kept}",
                kept = out(reg) _,
                pointer = in(reg) $pointer,
                rounds = inout(reg) $rounds => _,
            )
        }
    };
}
pub(crate) use with_frame_pointer;

/// Waits for an interrupt; for ever if they are masked.
pub fn wait_for_interrupt() {
    // SAFETY: this only waits.
    unsafe { wait() };
}

/// Lets some time pass while another hart is waited for.
pub fn relax() {
    core::hint::spin_loop();
}

/// Waits for good, whatever happens.
pub fn park() -> ! {
    loop {
        mask();
        wait_for_interrupt();
    }
}

/// Whether code interrupted here was waiting.
pub fn is_waiting(ip: usize) -> bool {
    (wait as *const () as usize..&raw const wait_end as usize).contains(&ip)
}

unsafe extern "C" {
    /// `hlt`, in a function of its own.
    fn wait();
    /// Its end.
    safe static wait_end: u8;
}

core::arch::global_asm!(
    ".text",
    ".globl wait",
    ".type wait, @function",
    "wait:",
    "hlt",
    "ret",
    ".globl wait_end",
    "wait_end:",
    ".size wait, . - wait",
);

/// Interrupts another hart: `interrupt::asked` answers.
pub fn interrupt(hart: usize) {
    apic::command(hart, apic::FIXED | trap::SOFTWARE as u32);
}

/// Sends a hart an NMI, which comes even while it masks interrupts.
pub fn send_nmi(hart: usize) {
    apic::command(hart, apic::NMI);
}

/// What can make a hart take a sample besides its timer: it comes wherever the hart is.
pub const REMOTE_DRIVER: SamplingDriver = SamplingDriver::Nmi;

/// Has another hart take a sample.
pub fn ask_for_sample(hart: usize) {
    send_nmi(hart);
}

/// Where the NMIs came that [`count_nmis_between`] counts.
pub const NMIS_BETWEEN: &str = "before or behind its gs";

/// NMIs of all harts in the kernel that came while `gs` was a program's, at its very entries and
/// exits.
pub fn count_nmis_between() -> u64 {
    // SAFETY: aligned words, each written by its hart.
    let count =
        |hart: &UnsafeCell<PerHart>| unsafe { (&raw const (*hart.get()).between).read_volatile() };
    PER_HART.0.iter().map(count).sum()
}

/// The architecture's name in the targets of the workload `bench`.
pub const NAME: &str = "x86_64";

/// The names of this machine's interrupts.
pub const INTERRUPTS: [(u32, &str); 4] = [
    (trap::NMI as u32, "nmi"),
    (trap::SOFTWARE as u32, "ipi"),
    (trap::TIMER as u32, "timer"),
    (serial::IRQ, "uart"),
];

/// Orders accesses to memory and device registers, between the processor and a device.
pub fn io_fence() {
    // SAFETY: this only orders.
    unsafe { asm!("mfence") };
}

static HARTS: AtomicUsize = AtomicUsize::new(1);

/// Number of harts.
pub fn harts() -> usize {
    HARTS.load(Relaxed)
}

/// The number of processors, which QEMU tells as item 5 of its device `fw_cfg`.
fn count_harts() -> usize {
    // SAFETY: selects an item.
    unsafe { port::out16(0x510, 5) };
    u16::from_le_bytes([port::input(0x511), port::input(0x511)]).into()
}

/// Starts another hart in the kernel: it enters `crate::join`.
pub fn start(other: usize) {
    /// Whether they wait for the command.
    static WAITING: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" {
        // In boot.s.
        safe static trampoline: u8;
        safe static trampoline_end: u8;
    }
    // Intel SDM volume 3, 9.4.4: a reset, and the start after a while.
    if !WAITING.swap(true, Relaxed) {
        let (from, end) = (&raw const trampoline, &raw const trampoline_end);
        // SAFETY: nobody uses that page any more.
        unsafe { from.copy_to(TRAMPOLINE as *mut u8, end as usize - from as usize) };
        apic::command(0, apic::INIT_OTHERS);
        crate::workload::compute_for(10_000);
    }
    apic::command(other, apic::START | (TRAMPOLINE >> 12) as u32);
}

/// Ends QEMU: code 0 by the power switch, with status 0; others by its device `isa-debug-exit`,
/// with status `2 * code + 1`.
pub fn exit(code: u32) -> ! {
    // SAFETY: no port written here touches memory.
    unsafe {
        match code {
            0 => port::out16(0x604, 0x2000),
            _ => port::out32(0xF4, code),
        }
    }
    loop {
        mask();
        wait_for_interrupt();
    }
}

/// Initialises a hart.
fn enter(id: usize) {
    assert!(id < MAX_HARTS, "hart {id} is one too many");
    let mine = PER_HART.0[id].get();
    // SAFETY: only this hart uses its element, and comes here once. MSR 0xC0000101 is the base of
    // `gs`, which nobody uses yet.
    unsafe {
        (*mine).kymo = MEMORY.control(id as u32);
        (*mine).hart = id;
        asm!(
            "wrmsr",
            in("ecx") 0xC000_0101_u32,
            in("eax") mine as u32,
            in("edx") (mine as u64 >> 32) as u32
        );
        segments::load(id, mine);
        // The kernel's own space, which maps everything at its own address.
        paging::activate(paging::kernel_space());
    }
    apic::enable();
}

/// The beginning of what QEMU passes to the kernel (Xen's public/arch-x86/hvm/start_info.h).
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    map: u64,
    map_entries: u32,
    reserved: u32,
}

/// A range of memory in its map.
#[repr(C)]
#[derive(Clone, Copy)]
struct MapEntry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// What [`StartInfo`] tells: the command line, and the end of the free memory behind the image.
///
/// # Safety
/// Called with the tables of boot.s, which map page 0: the structure may lie there.
unsafe fn read(info: &StartInfo, begin: usize) -> (&'static str, usize) {
    /// The kind of free memory.
    const RAM: u32 = 1;
    assert_eq!(info.magic, 0x336E_C578, "QEMU passes its start information");
    // SAFETY: QEMU passes the address of a text that ends with 0, or 0, and of an array. Nobody
    // changes them.
    let (line, map) = unsafe {
        let line = match info.command_line {
            0 => c"",
            address => core::ffi::CStr::from_ptr(address as *const core::ffi::c_char),
        };
        let map = info.map as *const MapEntry;
        (
            line,
            core::slice::from_raw_parts(map, info.map_entries as usize),
        )
    };
    let range = map
        .iter()
        .filter(|range| range.kind == RAM)
        .map(|range| range.address as usize..(range.address + range.size) as usize)
        .find(|range| range.contains(&begin));
    let end = range.map_or(begin, |range| range.end.min(paging::MEMORY_END));
    (
        line.to_str().unwrap_or(""),
        end / paging::PAGE * paging::PAGE,
    )
}

/// Entry of the first hart.
extern "C" fn boot_hart(id: usize, info: &StartInfo) -> ! {
    unsafe extern "C" {
        /// In link.ld: the end of the image.
        safe static __end: u8;
    }
    let begin = &raw const __end as usize;
    // SAFETY: the tables are still those of boot.s.
    let (line, end) = unsafe { read(info, begin) };
    segments::fill_vectors();
    paging::prepare();
    enter(id);
    // Silences the old interrupt controllers.
    // SAFETY: these do not touch memory.
    unsafe {
        port::out(0x21, 0xFF);
        port::out(0xA1, 0xFF);
    }
    HARTS.store(count_harts(), Relaxed);
    timer::measure();
    crate::boot(line, begin..end)
}

/// Entry of every other hart.
extern "C" fn other_hart(id: usize) -> ! {
    enter(id);
    crate::join()
}
