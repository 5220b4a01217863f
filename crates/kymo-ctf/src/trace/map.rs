//! Files in memory, without a copy of what no writer changes any more.
//!
//! A trace may still be recorded, and Kymo's recorder rewrites the end of a stream file: it pads
//! the last packet, lays out a packet of several pages as empty ones first, and cuts off what a
//! full disk did not take. Nothing of that goes further back than [`OPEN`], so that much is a copy,
//! and the rest is the file.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use crate::error::Error;

/// Bytes at the end of a stream file that a recorder may still change: Kymo's longest packet,
/// 256 KiB, from the beginning of its page.
#[cfg(unix)]
const OPEN: usize = (256 << 10) + 4096;

/// A file's bytes as they were when it was opened.
///
/// Other programs must neither rewrite nor truncate the file further from its end than [`OPEN`]:
/// tracers only append to it. Use [`crate::StreamReader`] where they may.
#[derive(Debug)]
pub(crate) struct Mapped {
    #[cfg(unix)]
    map: Option<memmap2::Mmap>,
    /// Where the copy begins.
    #[cfg(unix)]
    copied: usize,
    #[cfg(unix)]
    len: usize,
    #[cfg(not(unix))]
    bytes: Vec<u8>,
}

impl Mapped {
    /// The bytes of the file at `path`; none of an empty one.
    pub(crate) fn open(path: &Path) -> Result<Mapped, Error> {
        let opened = File::open(path).and_then(|file| Mapped::new(&file));
        opened.map_err(|source| Error::Io {
            path: path.to_owned(),
            source,
        })
    }

    #[cfg(unix)]
    #[allow(unsafe_code)]
    fn new(file: &File) -> std::io::Result<Mapped> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if len == 0 {
            return Ok(Mapped {
                map: None,
                copied: 0,
                len,
            });
        }
        // SAFETY: no program changes the bytes before `copied` (see the type); those behind it are
        // not looked at before they are replaced.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file)? };
        let page = rustix::param::page_size();
        let copied = len.saturating_sub(OPEN) / page * page;
        let end = map.as_ptr().wrapping_add(copied).cast_mut();
        // SAFETY: the pages from `end` on are the map's own, nothing borrows from it yet, and it
        // unmaps them with the others.
        let copy = unsafe {
            let fixed = MapFlags::PRIVATE | MapFlags::FIXED;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(end.cast(), len - copied, protection, fixed)?;
            std::slice::from_raw_parts_mut(end, len - copied)
        };
        let read = fill(file, copied as u64, copy)?;
        let len = copied + read;
        Ok(Mapped {
            map: Some(map),
            copied,
            len,
        })
    }

    #[cfg(not(unix))]
    fn new(mut file: &File) -> std::io::Result<Mapped> {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes)?;
        Ok(Mapped { bytes })
    }

    /// Releases the memory of bytes that are not needed for now. They can still be read, but must
    /// be loaded again.
    ///
    /// Each reading thread releases its own pages, instead of one thread releasing all of them when
    /// the process ends.
    #[cfg(unix)]
    #[allow(unsafe_code)]
    pub(crate) fn read_through(&self) {
        if let Some(map) = &self.map {
            // SAFETY: the pages before `copied` are the file's, and equal its content when they are
            // loaded again. A hint that the system ignores changes nothing.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, 0, self.copied)
            };
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn read_through(&self) {}
}

/// Reads from offset `at` on; gives how many bytes there were.
#[cfg(unix)]
fn fill(file: &File, at: u64, bytes: &mut [u8]) -> std::io::Result<usize> {
    use std::os::unix::fs::FileExt;

    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl Deref for Mapped {
    type Target = [u8];

    #[cfg(unix)]
    fn deref(&self) -> &[u8] {
        let map = self.map.as_deref().unwrap_or(&[]);
        map.get(..self.len).unwrap_or(map)
    }

    #[cfg(not(unix))]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    /// What a recorder does to the end of its file changes nothing of what was mapped before.
    #[test]
    fn a_file_that_is_rewritten_stays_as_it_was() {
        let directory = std::env::temp_dir().join(format!("kymo-map-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("events_0");
        for len in [0, 1, 4096, 256 << 10, (256 << 10) + 4096, (3 << 20) + 5] {
            let bytes: Vec<u8> = (0..len).map(|at: u32| (at % 251) as u8).collect();
            fs::write(&path, &bytes).unwrap();
            let map = Mapped::open(&path).unwrap();
            let mut file = OpenOptions::new().write(true).open(&path).unwrap();
            let last = u64::from(len).saturating_sub(256 << 10) / 4096 * 4096;
            file.seek(SeekFrom::Start(last)).unwrap();
            file.write_all(&vec![255; 2 << 20]).unwrap();
            assert!(*map == *bytes, "{len}: rewritten, and grown");
            file.set_len(last).unwrap();
            assert!(*map == *bytes, "{len}: cut");
            map.read_through();
            assert!(*map == *bytes, "{len}: loaded again");
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
