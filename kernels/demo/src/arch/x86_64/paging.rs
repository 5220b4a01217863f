//! Page tables of four levels. The kernel maps memory at its own address. A process has the second
//! gigabyte, beside the kernel's mappings, which it cannot access.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Size of a page and of a frame, in bytes.
pub const PAGE: usize = 4096;
const MEGAPAGE: usize = 2 << 20;
const GIGAPAGE: usize = 1 << 30;
/// The addresses of processes.
pub const USER: Range<usize> = GIGAPAGE..2 * GIGAPAGE;
/// The end of the memory that the kernel maps.
pub const MEMORY_END: usize = GIGAPAGE;
/// The addresses of devices.
pub const DEVICES: Range<usize> = 3 * GIGAPAGE..4 * GIGAPAGE;

const VALID: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER_MAY: u64 = 1 << 2;
const NO_CACHE: u64 = 1 << 4;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
/// An entry of a table that leads to another table: the last one restricts the access.
const TABLE: u64 = VALID | WRITE | USER_MAY;
/// The address in an entry.
const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

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

    fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    fn point(&self, index: usize, table: &Table) {
        self.0[index].store(entry(table.address(), TABLE), Relaxed);
    }

    fn copy_from(&self, other: &Table) {
        for (own, others) in self.0.iter().zip(&other.0) {
            own.store(others.load(Relaxed), Relaxed);
        }
    }
}

/// The kernel's own tables: the root, its first 512 gigabytes, memory's gigabyte and the first 2 MiB
/// of it, and the devices' gigabyte.
static ROOT: Table = Table::new();
static LOW: Table = Table::new();
static MEMORY: Table = Table::new();
static FIRST: Table = Table::new();
static DEVICE: Table = Table::new();

fn entry(address: usize, bits: u64) -> u64 {
    address as u64 | bits
}

fn address_of(entry: u64) -> usize {
    (entry & ADDRESS) as usize
}

fn index(address: usize, level: usize) -> usize {
    address >> (12 + 9 * level) & 511
}

/// Fills in the kernel's tables. Page 0 is left out.
pub fn prepare() {
    unsafe extern "C" {
        /// In link.ld, each at a multiple of 2 MiB.
        safe static __rodata: u8;
        safe static __data: u8;
    }
    let (rodata, data) = (&raw const __rodata as usize, &raw const __data as usize);
    ROOT.point(0, &LOW);
    LOW.point(0, &MEMORY);
    LOW.point(index(DEVICES.start, 2), &DEVICE);
    MEMORY.point(0, &FIRST);
    for address in (PAGE..MEGAPAGE).step_by(PAGE) {
        FIRST.0[index(address, 0)].store(entry(address, VALID | WRITE | NO_EXECUTE), Relaxed);
    }
    for address in (MEGAPAGE..MEMORY_END).step_by(MEGAPAGE) {
        let access = match address {
            code if code < rodata => 0,
            constant if constant < data => NO_EXECUTE,
            _ => WRITE | NO_EXECUTE,
        };
        MEMORY.0[index(address, 1)].store(entry(address, VALID | LARGE | access), Relaxed);
    }
    for address in DEVICES.step_by(MEGAPAGE) {
        let access = VALID | LARGE | WRITE | NO_EXECUTE | NO_CACHE;
        DEVICE.0[index(address, 1)].store(entry(address, access), Relaxed);
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

/// The page's entry in the space of `root`. Missing tables are created in frames from
/// `zeroed_frame`; `None` if it has no more.
fn walk<'a>(
    root: usize,
    page: usize,
    mut zeroed_frame: impl FnMut() -> Option<usize>,
) -> Option<&'a AtomicU64> {
    // SAFETY: the root of a living process, as the caller promises.
    let mut table: &Table = unsafe { Table::at(root) };
    for level in [3, 2, 1] {
        let slot = &table.0[index(page, level)];
        let found = slot.load(Relaxed);
        // The gigabytes of a new space are the kernel's, and it needs a table of its own for them.
        let is_kernels = level == 3 && address_of(found) == LOW.address();
        if found & VALID == 0 || is_kernels {
            let frame = zeroed_frame()?;
            if is_kernels {
                // SAFETY: the frame is new.
                unsafe { Table::at(frame) }.copy_from(&LOW);
            }
            slot.store(entry(frame, TABLE), Relaxed);
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
    let low = address_of(table(root).0[0].load(Relaxed));
    if low != LOW.address() {
        for middle in table(low).0[index(USER.start, 2)..index(USER.end, 2)]
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
        free(low);
    }
    free(root);
}
