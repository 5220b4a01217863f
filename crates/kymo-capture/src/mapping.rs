//! The guest's memory, mapped.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use kymo::ring::source::Live;
use memmap2::{MmapOptions, MmapRaw};

/// A file mapped for reading and writing, shared with whoever else maps it.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    pub(crate) fn open(path: &Path) -> io::Result<Mapping> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Mapping { map: MmapOptions::new().map_raw(&file)? })
    }

    /// The memory from `offset` to the end, for as long as the mapping is borrowed.
    pub(crate) fn live(&self, offset: u64) -> Option<(Live, &Mapping)> {
        let len = (self.map.len() as u64).checked_sub(offset)?;
        if !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: inside of the mapping, which the caller keeps (it is lent with the value); mappings are page-aligned; this program
        // touches it through `Live` only.
        let live = unsafe { Live::new(self.map.as_ptr().add(offset as usize), len) };
        Some((live, self))
    }
}
