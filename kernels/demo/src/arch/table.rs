//! Page tables, where the architectures agree: three levels with 512 entries of eight bytes, for
//! gigabytes, 2 MiB and pages. What an entry looks like is the business of `paging`.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::paging::{TABLE, USER, VALID, WRITE, address_of, entry};

/// Size of a page and of a frame, in bytes.
pub const PAGE: usize = 4096;
pub const MEGAPAGE: usize = 2 << 20;
pub const GIGAPAGE: usize = 1 << 30;

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
pub struct Table([AtomicU64; 512]);

impl Table {
    pub const fn new() -> Table {
        Table([const { AtomicU64::new(0) }; 512])
    }

    /// The table in this frame.
    ///
    /// # Safety
    /// The frame must contain a table while the reference is used.
    pub unsafe fn at<'a>(frame: usize) -> &'a Table {
        // SAFETY: memory is mapped at its own address, and tables are only accessed atomically.
        unsafe { &*(frame as *const Table) }
    }

    pub fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The entry of an address, in a table of this level: 0 for that of the pages.
    pub fn entry(&self, address: usize, level: usize) -> &AtomicU64 {
        &self.0[index(address, level)]
    }

    pub fn set(&self, address: usize, level: usize, entry: u64) {
        self.entry(address, level).store(entry, Relaxed);
    }

    /// Has the entry of an address lead to another table.
    pub fn point(&self, address: usize, level: usize, table: &Table) {
        self.set(address, level, entry(table.address(), TABLE));
    }

    pub fn copy_from(&self, other: &Table) {
        for (own, others) in self.0.iter().zip(&other.0) {
            own.store(others.load(Relaxed), Relaxed);
        }
    }

    /// The entry of a process's page, from its table of gigabytes on. Missing tables are created in
    /// frames from `zeroed_frame`; `None` if it has no more.
    pub fn walk(
        &self,
        page: usize,
        mut zeroed_frame: impl FnMut() -> Option<usize>,
    ) -> Option<&AtomicU64> {
        let mut table = self;
        for level in [2, 1] {
            let slot = table.entry(page, level);
            if slot.load(Relaxed) & VALID == 0 {
                slot.store(entry(zeroed_frame()?, TABLE), Relaxed);
            }
            // SAFETY: in a process's gigabyte, every valid entry on these levels is a table.
            table = unsafe { Table::at(address_of(slot.load(Relaxed))) };
        }
        Some(table.entry(page, 0))
    }

    /// Frames behind the valid entries.
    fn frames(entries: &[AtomicU64]) -> impl Iterator<Item = (usize, bool)> {
        let entries = entries.iter().map(|slot| slot.load(Relaxed));
        entries.filter_map(frame_of)
    }

    /// Calls `free` with the frames of a process's writable pages and of the tables below this one,
    /// which is its table of gigabytes.
    ///
    /// # Safety
    /// No hart may use the space any more.
    pub unsafe fn dismantle(&self, free: &mut impl FnMut(usize)) {
        // SAFETY: as promised, nobody else uses the tables; each is freed after its entries.
        let table = |frame| unsafe { Table::at(frame) };
        for (middle, _) in Self::frames(&self.0[index(USER.start, 2)..index(USER.end, 2)]) {
            for (bottom, _) in Self::frames(&table(middle).0) {
                for (page, _) in Self::frames(&table(bottom).0).filter(|(_, writable)| *writable) {
                    free(page);
                }
                free(bottom);
            }
            free(middle);
        }
    }
}

fn index(address: usize, level: usize) -> usize {
    address >> (12 + 9 * level) & 511
}

/// The frame of a valid entry, and whether it is writable.
pub fn frame_of(entry: u64) -> Option<(usize, bool)> {
    (entry & VALID != 0).then(|| (address_of(entry), entry & WRITE != 0))
}
