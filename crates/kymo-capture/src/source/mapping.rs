//! Mapping of the guest's memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use kymo::ring::source::Live;
use memmap2::{MmapOptions, MmapRaw};

/// A shared mapping of a file, for reading and, if permitted, writing.
#[derive(Debug)]
pub(super) struct Mapping {
    map: MmapRaw,
    file: File,
    writable: bool,
}

impl Mapping {
    pub(super) fn open(path: &Path) -> io::Result<Mapping> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(Mapping {
                map: MmapOptions::new().map_raw(&file)?,
                file,
                writable: true,
            }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let file = File::open(path)?;
                Ok(Mapping {
                    map: MmapOptions::new().map_raw_read_only(&file)?,
                    file,
                    writable: false,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Claims the exclusive right to write to the memory, until the mapping is dropped; `false` if
    /// another program has it or the file is read-only.
    pub(super) fn claim(&self) -> bool {
        self.writable && lock(&self.file)
    }

    /// The memory from `offset` to the end. Write to it only after [claiming](Self::claim) it.
    ///
    /// # Safety
    /// The value must not outlive the mapping.
    pub(super) unsafe fn live(&self, offset: u64) -> Option<Live> {
        let len = (self.map.len() as u64).checked_sub(offset)?;
        if !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: inside the mapping, which the caller keeps as long as the value; mappings are
        // page-aligned; this program accesses it only through `Live`.
        Some(unsafe { Live::new(self.map.as_ptr().add(offset as usize), len) })
    }
}

#[cfg(unix)]
fn lock(file: &File) -> bool {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(not(unix))]
fn lock(_file: &File) -> bool {
    true
}
