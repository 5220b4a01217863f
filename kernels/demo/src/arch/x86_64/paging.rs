//! Page tables of four levels. The kernel maps memory at its own address. A process has the second
//! gigabyte, beside the kernel's mappings, which it cannot access.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use crate::arch::table::{Access, PAGE};
use crate::arch::table::{GIGAPAGE, MEGAPAGE, Table, frame_of};

/// The addresses of processes.
pub const USER: Range<usize> = GIGAPAGE..2 * GIGAPAGE;
/// The end of the memory that the kernel maps.
pub const MEMORY_END: usize = GIGAPAGE;
/// The addresses of devices.
pub const DEVICES: Range<usize> = 3 * GIGAPAGE..4 * GIGAPAGE;

/// Set in an entry that is used.
pub const VALID: u64 = 1;
pub const WRITE: u64 = 1 << 1;
const USER_MAY: u64 = 1 << 2;
const NO_CACHE: u64 = 1 << 4;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
/// An entry of a table that leads to another table: the last one restricts the access.
pub const TABLE: u64 = VALID | WRITE | USER_MAY;
/// The address in an entry.
const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

/// The kernel's own tables: the root, its first 512 gigabytes, memory's gigabyte and the first 2
/// MiB of it, and the devices' gigabyte.
static ROOT: Table = Table::new();
static LOW: Table = Table::new();
static MEMORY: Table = Table::new();
static FIRST: Table = Table::new();
static DEVICE: Table = Table::new();

pub fn entry(address: usize, bits: u64) -> u64 {
    address as u64 | bits
}

pub fn address_of(entry: u64) -> usize {
    (entry & ADDRESS) as usize
}

/// Fills in the kernel's tables. Page 0 is left out.
pub fn prepare() {
    unsafe extern "C" {
        /// In link.ld, each at a multiple of 2 MiB.
        safe static __rodata: u8;
        safe static __data: u8;
    }
    let (rodata, data) = (&raw const __rodata as usize, &raw const __data as usize);
    ROOT.point(0, 3, &LOW);
    LOW.point(0, 2, &MEMORY);
    LOW.point(DEVICES.start, 2, &DEVICE);
    MEMORY.point(0, 1, &FIRST);
    for address in (PAGE..MEGAPAGE).step_by(PAGE) {
        FIRST.set(address, 0, entry(address, VALID | WRITE | NO_EXECUTE));
    }
    for address in (MEGAPAGE..MEMORY_END).step_by(MEGAPAGE) {
        let access = match address {
            code if code < rodata => 0,
            constant if constant < data => NO_EXECUTE,
            _ => WRITE | NO_EXECUTE,
        };
        MEMORY.set(address, 1, entry(address, VALID | LARGE | access));
    }
    for address in DEVICES.step_by(MEGAPAGE) {
        let access = VALID | LARGE | WRITE | NO_EXECUTE | NO_CACHE;
        DEVICE.set(address, 1, entry(address, access));
    }
}

/// The root of the space in which this hart is.
pub fn active() -> usize {
    let cr3: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) cr3, options(nomem, nostack, preserves_flags)) };
    cr3 / PAGE * PAGE
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
    let before: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) before, options(nomem, nostack, preserves_flags)) };
    if before != root {
        // SAFETY: every space maps the kernel alike. This drops the hart's cached translations.
        unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) };
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

/// A process's own table of gigabytes; `None` while it is the kernel's.
fn low(root: &Table) -> Option<&Table> {
    let found = address_of(root.entry(0, 3).load(Relaxed));
    // SAFETY: the first entry of every root leads to a table.
    (found != LOW.address()).then(|| unsafe { Table::at(found) })
}

/// The page's entry in the space of `root`. The gigabytes of a new space are the kernel's, and it
/// gets a table of its own for them here.
fn walk<'a>(
    root: usize,
    page: usize,
    mut zeroed_frame: impl FnMut() -> Option<usize>,
) -> Option<&'a AtomicU64> {
    // SAFETY: the root of a living process, as the caller promises.
    let root: &Table = unsafe { Table::at(root) };
    let own = match low(root) {
        Some(own) => own,
        None => {
            // SAFETY: the frame is new, and zeros are a table.
            let own = unsafe { Table::at(zeroed_frame()?) };
            own.copy_from(&LOW);
            root.point(0, 3, own);
            own
        }
    };
    own.walk(page, zeroed_frame)
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
    let bits = match access {
        Access::ReadExecute => 0,
        Access::Read => NO_EXECUTE,
        Access::ReadWrite => WRITE | NO_EXECUTE,
    };
    walk(root, page, zeroed_frame)?.store(entry(frame, VALID | USER_MAY | bits), Relaxed);
    // SAFETY: drops this hart's cached translation; a process runs on one hart at a time.
    unsafe { asm!("invlpg [{}]", in(reg) page, options(nostack, preserves_flags)) };
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
    // SAFETY: as promised, nobody else uses the tables; each is freed after its entries.
    let low = unsafe { low(Table::at(root)) };
    if let Some(low) = low {
        // SAFETY: as above.
        unsafe { low.dismantle(&mut free) };
        free(low.address());
    }
    free(root);
}
