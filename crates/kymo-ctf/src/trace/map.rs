//! Files in memory.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use crate::error::Error;

/// The bytes of a file: mapped, not read.
///
/// The file must not be made shorter while it is mapped: on most systems the process that then
/// reads the missing part is ended by a signal. Traces that are still being written only grow. Use
/// [`crate::StreamReader`] where this cannot be promised.
#[derive(Debug)]
pub(crate) struct Mapped(Option<memmap2::Mmap>);

impl Mapped {
    /// Maps the file at `path`. An empty file is no bytes.
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
        // meanwhile is valid, and parsers take nothing they read for granted. That nobody shortens
        // the file is stated above and in the documentation of `Trace::map`.
        let map = unsafe { memmap2::Mmap::map(&file) };
        map.map(|map| Mapped(Some(map))).map_err(fail)
    }

    /// Gives back the memory of bytes that were read and are not needed for now. They are still
    /// there, only slower to come back to.
    ///
    /// When the process ends, one thread gives all pages back; here each thread gives back its own.
    #[cfg(unix)]
    #[allow(unsafe_code)]
    pub(crate) fn read_through(&self) {
        if let Some(map) = &self.0 {
            // SAFETY: nothing is ever written to the map, so that each page is still what the file
            // has when it is mapped again. A hint that is not taken changes nothing.
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
