//! Mapping of the guest's memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use kymo::ring::source::Live;
use memmap2::{MmapOptions, MmapRaw};

/// A shared mapping of a file, for reading and, if permitted, writing.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: MmapRaw,
    file: File,
    writable: bool,
}

impl Mapping {
    pub(crate) fn open(path: &Path) -> io::Result<Mapping> {
        let mapping = Mapping::of(path)?;
        // What nobody has touched stays untouched. A refusal of this advice changes no result.
        #[cfg(unix)]
        let _ = mapping.map.advise(memmap2::Advice::Random);
        Ok(mapping)
    }

    fn of(path: &Path) -> io::Result<Mapping> {
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

    /// The word at `at`, a multiple of 4. Partner: the target's store after it has written what
    /// the word tells of.
    pub(super) fn word(&self, at: usize) -> Option<u32> {
        Some(self.atomic(at)?.load(Ordering::Acquire))
    }

    /// Writes the word at `at`; only after [claiming](Self::claim) the memory. Partner: the
    /// target's load before it reuses what was read before.
    pub(super) fn set_word(&self, at: usize, value: u32) {
        if let Some(word) = self.atomic(at).filter(|_| self.writable) {
            word.store(value, Ordering::Release);
        }
    }

    fn atomic(&self, at: usize) -> Option<&AtomicU32> {
        let inside = at.is_multiple_of(4) && at.checked_add(4)? <= self.map.len();
        // SAFETY: inside the mapping and aligned, as mappings are; all accesses are atomic.
        inside.then(|| unsafe { &*self.map.as_ptr().add(at).cast::<AtomicU32>() })
    }

    /// Copies the bytes from `at` on.
    pub(crate) fn copy(&self, at: usize, into: &mut [u8]) -> Option<()> {
        let inside = at.checked_add(into.len())? <= self.map.len();
        inside.then(|| {
            for (index, byte) in into.iter_mut().enumerate() {
                // SAFETY: inside the mapping; all accesses are atomic.
                let shared = unsafe { &*self.map.as_ptr().add(at + index).cast::<AtomicU8>() };
                *byte = shared.load(Ordering::Relaxed);
            }
        })
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
