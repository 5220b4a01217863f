//! Page tables with 39 bits of address and pages of 4 KiB. The kernel maps memory at its own
//! address. A process has the third gigabyte, beside the kernel's mappings, which it cannot access.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use crate::arch::table::{Access, PAGE};
use crate::arch::table::{GIGAPAGE, MEGAPAGE, Table, frame_of};

/// The addresses of processes.
pub const USER: Range<usize> = 2 * GIGAPAGE..3 * GIGAPAGE;
/// The memory that the kernel can map.
pub const RAM: Range<usize> = GIGAPAGE..2 * GIGAPAGE;

/// Set in an entry that is used (Arm ARM, D8.3 "Translation table descriptor formats").
pub const VALID: u64 = 1;
/// An entry that leads to another table or, in the last table, a page.
pub const TABLE: u64 = VALID | 1 << 1;
/// The kinds of `mair_el1`: 0 is memory, shared by all harts, 1 is a device.
const MEMORY: u64 = 3 << 8;
const DEVICE: u64 = 1 << 2;
const KINDS: u64 = 0xFF | 0x04 << 8;
const USER_MAY: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
/// Accessed, set from the start, so that the processor never faults to have it set.
const TOUCHED: u64 = 1 << 10;
const NO_KERNEL_EXECUTE: u64 = 1 << 53;
const NO_USER_EXECUTE: u64 = 1 << 54;
/// The processor ignores this bit: it is `READ_ONLY`, reversed.
pub const WRITE: u64 = 1 << 55;
const NO_EXECUTE: u64 = NO_KERNEL_EXECUTE | NO_USER_EXECUTE;
/// The address in an entry.
const ADDRESS: u64 = 0x0000_FFFF_FFFF_F000;

/// `tcr_el1`: 39 bits by `ttbr0_el1` alone, tables in memory like any other, addresses of 40 bits.
const TRANSLATION: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32;
/// `sctlr_el1`: translation, and caches for data and for code.
const TRANSLATES: u64 = 1 | 1 << 2 | 1 << 12;

/// The kernel's own tables: the root, the devices' gigabyte, and RAM's.
static ROOT: Table = Table::new();
static DEVICES: Table = Table::new();
static OWN: Table = Table::new();

pub fn entry(address: usize, bits: u64) -> u64 {
    address as u64 | bits
}

pub fn address_of(entry: u64) -> usize {
    (entry & ADDRESS) as usize
}

/// Fills in the kernel's tables. The device tree's 2 MiB are mapped for reading, page 0 is not.
pub fn prepare() {
    unsafe extern "C" {
        /// In link.ld, each at a multiple of 2 MiB.
        safe static __rodata: u8;
        safe static __data: u8;
    }
    let (rodata, data) = (&raw const __rodata as usize, &raw const __data as usize);
    ROOT.point(0, 2, &DEVICES);
    ROOT.point(RAM.start, 2, &OWN);
    for device in [
        super::gic::DISTRIBUTOR,
        super::gic::DISTRIBUTOR + MEGAPAGE,
        super::serial::BASE,
        super::virtio::BASE,
    ] {
        let access = VALID | TOUCHED | DEVICE | WRITE | NO_EXECUTE;
        DEVICES.set(device, 1, entry(device, access));
    }
    for address in RAM.step_by(MEGAPAGE) {
        let access = match address {
            tree if tree < RAM.start + MEGAPAGE => READ_ONLY | NO_EXECUTE,
            code if code < rodata => READ_ONLY | NO_USER_EXECUTE,
            constant if constant < data => READ_ONLY | NO_EXECUTE,
            _ => WRITE | NO_EXECUTE,
        };
        let memory = VALID | TOUCHED | MEMORY;
        OWN.set(address, 1, entry(address, memory | access));
    }
}

/// Switches this hart's translation on, in the kernel's own space.
pub fn enable() {
    // SAFETY: the kernel's own space maps everything at its own address, so that nothing changes
    // for the code here. No translation is cached yet.
    unsafe {
        asm!(
            "msr mair_el1, {kinds}",
            "msr tcr_el1, {translation}",
            "msr ttbr0_el1, {root}",
            "isb",
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            "mrs {control}, sctlr_el1",
            "orr {control}, {control}, {on}",
            "msr sctlr_el1, {control}",
            "isb",
            kinds = in(reg) KINDS,
            translation = in(reg) TRANSLATION,
            root = in(reg) kernel_space(),
            on = in(reg) TRANSLATES,
            control = out(reg) _,
        );
    }
}

/// The root of the space in which this hart is.
pub fn active() -> usize {
    let root;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, ttbr0_el1", out(reg) root, options(nomem, nostack, preserves_flags)) };
    root
}

/// The kernel's own space.
pub fn kernel_space() -> usize {
    ROOT.address()
}

/// Switches this hart to the space with this root.
///
/// # Safety
/// `root` must be [`kernel_space`], or a process's root from [`new_space`] that lives until the
/// hart switches to another space.
pub unsafe fn activate(root: usize) {
    if active() != root {
        // SAFETY: every space maps the kernel alike. This drops the hart's cached translations.
        unsafe { asm!("msr ttbr0_el1, {}", "isb", "tlbi vmalle1", "dsb nsh", "isb", in(reg) root) };
    }
}

/// Creates an empty space, with this zeroed frame as its root.
///
/// # Safety
/// The frame must be the caller's, and zero.
pub unsafe fn new_space(frame: usize) {
    // SAFETY: zeros are a table.
    unsafe { Table::at(frame) }.copy_from(&ROOT);
}

/// The page's entry in the space of `root`.
fn walk<'a>(
    root: usize,
    page: usize,
    zeroed_frame: impl FnMut() -> Option<usize>,
) -> Option<&'a AtomicU64> {
    // SAFETY: the root of a living process, as the caller promises.
    unsafe { Table::at(root) }.walk(page, zeroed_frame)
}

/// Maps a page of a process to a frame. `None` if there is no frame for a table.
///
/// # Safety
/// `root` must be the space of a living process that only this hart changes now, and `page` must be
/// in [`USER`].
pub unsafe fn map(
    root: usize,
    page: usize,
    frame: usize,
    access: Access,
    zeroed_frame: impl FnMut() -> Option<usize>,
) -> Option<()> {
    let access = match access {
        Access::ReadExecute => READ_ONLY | NO_KERNEL_EXECUTE,
        Access::Read => READ_ONLY | NO_EXECUTE,
        Access::ReadWrite => WRITE | NO_EXECUTE,
    };
    let page_of_process = TABLE | TOUCHED | MEMORY | USER_MAY | access;
    walk(root, page, zeroed_frame)?.store(entry(frame, page_of_process), Relaxed);
    // SAFETY: orders the entry before the accesses behind this. Only entries that were not valid
    // change, and the processor caches none of these.
    unsafe { asm!("dsb ishst", "isb") };
    Some(())
}

/// The frame behind a page of a process, and whether it is writable.
///
/// # Safety
/// As [`map`].
pub unsafe fn translate(root: usize, page: usize) -> Option<(usize, bool)> {
    frame_of(walk(root, page, || None)?.load(Relaxed))
}

/// Calls `free` with the frames of a process's writable pages and of its tables, the root last.
///
/// # Safety
/// No hart may use the space any more.
pub unsafe fn dismantle(root: usize, mut free: impl FnMut(usize)) {
    // SAFETY: the caller's promise.
    unsafe { Table::at(root).dismantle(&mut free) };
    free(root);
}
