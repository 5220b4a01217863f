//! Sv39 page tables. The kernel maps memory at its own address. A process has the second gigabyte,
//! beside the kernel's mappings, which it cannot access.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Size of a page and of a frame, in bytes.
pub const PAGE: usize = 4096;
const MEGAPAGE: usize = 2 << 20;
const GIGAPAGE: usize = 1 << 30;
/// The addresses of processes.
pub const USER: core::ops::Range<usize> = GIGAPAGE..2 * GIGAPAGE;
const RAM: usize = 0x8000_0000;

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const USER_MAY: u64 = 1 << 4;
/// Accessed and dirty, set from the start, so that the processor never faults to have them set.
const TOUCHED: u64 = 1 << 6 | 1 << 7;
const SV39: usize = 8 << 60;

/// The permitted accesses to a page of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Code.
    ReadExecute,
    /// Constants.
    Read,
    /// Data.
    ReadWrite,
}

#[repr(C, align(4096))]
struct Table([AtomicU64; 512]);

impl Table {
    const fn new() -> Table {
        Table([const { AtomicU64::new(0) }; 512])
    }

    /// The table in this frame.
    ///
    /// # Safety
    /// The frame must contain a table while the reference is used.
    unsafe fn at<'a>(frame: usize) -> &'a Table {
        // SAFETY: memory is mapped at its own address, and tables are only accessed atomically.
        unsafe { &*(frame as *const Table) }
    }

    fn point(&self, index: usize, table: &Table) {
        self.0[index].store(entry(table as *const Table as usize, VALID), Relaxed);
    }
}

/// The kernel's own tables: the root, the devices' gigabyte, its first 2 MiB, RAM's gigabyte.
static ROOT: Table = Table::new();
static DEVICES: Table = Table::new();
static FIRST: Table = Table::new();
static MEMORY: Table = Table::new();

fn entry(address: usize, bits: u64) -> u64 {
    (address as u64 >> 12) << 10 | bits
}

fn address_of(entry: u64) -> usize {
    ((entry >> 10) << 12) as usize
}

fn index(address: usize, level: usize) -> usize {
    address >> (12 + 9 * level) & 511
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
    ROOT.point(index(0, 2), &DEVICES);
    ROOT.point(index(RAM, 2), &MEMORY);
    DEVICES.point(0, &FIRST);
    FIRST.0[index(super::POWER, 0)].store(entry(super::POWER, kernel | READ | WRITE), Relaxed);
    for device in [
        super::plic::BASE,
        super::plic::BASE + MEGAPAGE,
        super::serial::BASE,
    ] {
        DEVICES.0[index(device, 1)].store(entry(device, kernel | READ | WRITE), Relaxed);
    }
    for address in (RAM + MEGAPAGE..RAM + GIGAPAGE).step_by(MEGAPAGE) {
        let access = match address {
            code if code < rodata => READ | EXECUTE,
            constant if constant < data => READ,
            _ => READ | WRITE,
        };
        MEMORY.0[index(address, 1)].store(entry(address, kernel | access), Relaxed);
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
    &raw const ROOT as usize
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
    let root = unsafe { Table::at(frame) };
    for (own, kernels) in root.0.iter().zip(&ROOT.0) {
        own.store(kernels.load(Relaxed), Relaxed);
    }
}

/// The page's entry in the space of `root`. Missing tables are created in frames from
/// `zeroed_frame`; `None` if it has no more.
fn walk<'a>(
    root: usize,
    page: usize,
    mut zeroed_frame: impl FnMut() -> Option<usize>,
) -> Option<&'a AtomicU64> {
    // SAFETY: the root of a living process, as the caller promises.
    let mut table: &Table = unsafe { Table::at(root) };
    for level in [2, 1] {
        let slot = &table.0[index(page, level)];
        if slot.load(Relaxed) & VALID == 0 {
            slot.store(entry(zeroed_frame()?, VALID), Relaxed);
        }
        // SAFETY: in a process's gigabyte, every valid entry on these levels is a table.
        table = unsafe { Table::at(address_of(slot.load(Relaxed))) };
    }
    Some(&table.0[index(page, 0)])
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
    let found = walk(root, page, || None)?.load(Relaxed);
    (found & VALID != 0).then(|| (address_of(found), found & WRITE != 0))
}

/// Calls `free` with the frames of a process's writable pages and of its tables, the root last.
///
/// # Safety
/// No hart may use the space any more.
pub unsafe fn dismantle(root: usize, mut free: impl FnMut(usize)) {
    let valid = |slot: &AtomicU64| Some(slot.load(Relaxed)).filter(|entry| entry & VALID != 0);
    // SAFETY: as promised, nobody else uses the tables; each is freed after its entries.
    let table = |frame| unsafe { Table::at(frame) };
    for middle in table(root).0[index(USER.start, 2)..index(USER.end, 2)]
        .iter()
        .filter_map(valid)
        .map(address_of)
    {
        for bottom in table(middle).0.iter().filter_map(valid).map(address_of) {
            for page in table(bottom)
                .0
                .iter()
                .filter_map(valid)
                .filter(|page| page & WRITE != 0)
            {
                free(address_of(page));
            }
            free(bottom);
        }
        free(middle);
    }
    free(root);
}
