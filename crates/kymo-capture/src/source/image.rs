//! The memory image of a dead or stopped machine, or a copy: a file that nobody writes.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use kymo::ring::layout::Header;
use kymo::ring::reader::View;
use kymo::ring::source::{self, Outside};

use super::{Error, Progress, Source};
use crate::locate;
use crate::region::{Summary, TraceWriter};

/// The region in a memory image.
#[derive(Debug)]
pub struct ImageSource {
    region: FileRegion,
    path: PathBuf,
    out: PathBuf,
    writer: TraceWriter,
}

impl ImageSource {
    /// Finds the region in the file `path`; the trace goes to the directory `out`. `base` is the
    /// physical address of the file's first byte, if it is not one of the usual ones.
    ///
    /// # Errors
    /// See [`Error`]. If no region is found, nothing is left in `out`.
    pub fn open(path: &Path, base: Option<u64>, out: &Path) -> Result<ImageSource, Error> {
        let found = locate::region(path, &locate::segments(path, base)?)?;
        let file = File::open(path).map_err(|source| locate::Error::Read {
            path: path.display().to_string(),
            source,
        })?;
        let region = FileRegion {
            file: RefCell::new(file),
            offset: found.offset,
            len: found.len,
        };
        let writer =
            TraceWriter::create(out, &region).map_err(|error| Error::between(path, out, error))?;
        Ok(ImageSource {
            region,
            path: path.to_owned(),
            out: out.to_owned(),
            writer,
        })
    }

    /// The region's header.
    pub fn header(&self) -> &Header {
        self.writer.header()
    }
}

impl Source for ImageSource {
    type Outcome = Summary;

    /// Reads everything at once, whatever the view, as nobody writes.
    fn poll(&mut self, _: View) -> Result<bool, Error> {
        let events = self
            .writer
            .poll(&self.region, View::PostMortem)
            .map_err(|error| Error::between(&self.path, &self.out, error))?;
        Ok(events > 0)
    }

    fn has_begun(&self) -> bool {
        true
    }

    fn report(&self, progress: &mut Progress) {
        progress.events = Some(self.writer.progress());
    }

    fn finish(self) -> Result<Summary, Error> {
        self.writer
            .finish(&self.region)
            .map_err(|error| Error::between(&self.path, &self.out, error))
    }
}

/// A region in a file, read piece by piece: an image may be larger than this machine's memory, and
/// its header may be wrong.
#[derive(Debug)]
struct FileRegion {
    file: RefCell<File>,
    offset: u64,
    len: u64,
}

impl FileRegion {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Outside> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Outside)?;
        if end > self.len {
            return Err(Outside);
        }
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(self.offset + offset))
            .and_then(|_| file.read_exact(bytes))
            .map_err(|_| Outside)
    }
}

impl source::Source for FileRegion {
    fn len(&self) -> u64 {
        self.len
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        let mut bytes = [0; 4];
        self.read(offset, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
    fn copy(&self, offset: u64, out: &mut [u32]) -> Result<(), Outside> {
        let mut bytes = vec![0; 4 * out.len()];
        self.read(offset, &mut bytes)?;
        for (word, chunk) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*chunk);
        }
        Ok(())
    }
}
