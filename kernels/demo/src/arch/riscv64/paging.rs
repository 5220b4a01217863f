//! Sv39 page tables. The kernel maps memory at its own address. A process has the second gigabyte,
//! beside the kernel's mappings, which it cannot access.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use crate::arch::table::{Access, PAGE};
use crate::arch::table::{GIGAPAGE, MEGAPAGE, Table, frame_of};

/// The addresses of processes.
pub const USER: Range<usize> = GIGAPAGE..2 * GIGAPAGE;
const RAM: usize = 0x8000_0000;

/// Set in an entry that is used.
pub const VALID: u64 = 1;
const READ: u64 = 1 << 1;
pub const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const USER_MAY: u64 = 1 << 4;
/// An entry that leads to another table has no other bits.
pub const TABLE: u64 = VALID;
/// Accessed and dirty, set from the start, so that the processor never faults to have them set.
const TOUCHED: u64 = 1 << 6 | 1 << 7;
const SV39: usize = 8 << 60;

/// The kernel's own tables: the root, the devices' gigabyte, its first 2 MiB, RAM's gigabyte.
static ROOT: Table = Table::new();
static DEVICES: Table = Table::new();
static FIRST: Table = Table::new();
static MEMORY: Table = Table::new();

pub fn entry(address: usize, bits: u64) -> u64 {
    (address as u64 >> 12) << 10 | bits
}

pub fn address_of(entry: u64) -> usize {
    ((entry >> 10) << 12) as usize
}

/// Fills in the kernel's tables. The firmware's 2 MiB are left out, and so is page 0.
pub fn prepare() {
    unsafe extern "C" {
        /// In link.ld, each at a multiple of 2 MiB.
        safe static __rodata: u8;
        safe static __data: u8;
    }
    let (rodata, data) = (&raw const __rodata as usize, &raw const __data as usize);
    let kernel = VALID | TOUCHED;
    ROOT.point(0, 2, &DEVICES);
    ROOT.point(RAM, 2, &MEMORY);
    DEVICES.point(0, 1, &FIRST);
    FIRST.set(super::POWER, 0, entry(super::POWER, kernel | READ | WRITE));
    for device in [
        super::plic::BASE,
        super::plic::BASE + MEGAPAGE,
        super::serial::BASE,
    ] {
        DEVICES.set(device, 1, entry(device, kernel | READ | WRITE));
    }
    for address in (RAM + MEGAPAGE..RAM + GIGAPAGE).step_by(MEGAPAGE) {
        let access = match address {
            code if code < rodata => READ | EXECUTE,
            constant if constant < data => READ,
            _ => READ | WRITE,
        };
        MEMORY.set(address, 1, entry(address, kernel | access));
    }
}

/// The root of the space in which this hart is.
pub fn active() -> usize {
    let satp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, satp", out(reg) satp, options(nomem, nostack, preserves_flags)) };
    (satp & ((1 << 44) - 1)) << 12
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
    let satp = SV39 | root >> 12;
    let before: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, satp", out(reg) before) };
    if before != satp {
        // SAFETY: every space maps the kernel alike. The fence drops this hart's cached
        // translations.
        unsafe { asm!("csrw satp, {}", "sfence.vma", in(reg) satp) };
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
    let bits = match access {
        Access::ReadExecute => READ | EXECUTE,
        Access::Read => READ,
        Access::ReadWrite => READ | WRITE,
    };
    walk(root, page, zeroed_frame)?.store(entry(frame, VALID | TOUCHED | USER_MAY | bits), Relaxed);
    // SAFETY: drops this hart's cached translation; a process runs on one hart at a time.
    unsafe { asm!("sfence.vma {}, zero", in(reg) page) };
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
