//! Memory-mapped files.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use crate::error::Error;

/// A memory-mapped file.
///
/// The file must not be truncated while it is mapped: on most systems a signal ends the process
/// when it reads the missing part. Traces that are still being written only grow. Use
/// [`crate::StreamReader`] if truncation cannot be ruled out.
#[derive(Debug)]
pub(crate) struct Mapped(Option<memmap2::Mmap>);

impl Mapped {
    /// Maps the file at `path`. An empty file gives an empty slice.
    #[allow(unsafe_code)]
    pub(crate) fn open(path: &Path) -> Result<Mapped, Error> {
        let fail = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.len() == 0 {
            return Ok(Mapped(None));
        }
        // SAFETY: the bytes are only read, and as bytes: any value that another process writes
        // meanwhile is valid, and parsers do not rely on reading the same value twice. The type's
        // documentation and that of `Trace::map` require that the file is not truncated.
        let map = unsafe { memmap2::Mmap::map(&file) };
        map.map(|map| Mapped(Some(map))).map_err(fail)
    }

    /// Releases the memory of bytes that are not needed for now. They can still be read, but must
    /// be loaded again.
    ///
    /// Each reading thread releases its own pages, instead of one thread releasing all of them when
    /// the process ends.
    #[cfg(unix)]
    #[allow(unsafe_code)]
    pub(crate) fn read_through(&self) {
        if let Some(map) = &self.0 {
            // SAFETY: nothing is ever written to the map, so each page still equals the file's
            // content when it is loaded again. A hint that the system ignores changes nothing.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn read_through(&self) {}
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}
