//! A trace from the memory of a machine that is dead, stopped, or was copied.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::region::{Summary, TraceWriter};
use kymo::ring::layout::{Header, State};
use kymo::ring::reader::View;
use kymo::ring::source::{Outside, Source};

use crate::follow;
use crate::image;

/// Why nothing was recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No region that can be read.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// The trace cannot be written, or the region turned out to be damaged.
    #[error(transparent)]
    Follow(#[from] follow::Error),
}

impl Error {
    /// What is to blame: [`InvalidInput`](io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Image(error) => error.kind(),
            Error::Follow(error) => error.kind(),
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Image(error) => error.advice(),
            Error::Follow(follow::Error::Damaged { .. }) => {
                Some("take the memory again, all of it, while the machine is stopped")
            }
            Error::Follow(error) => error.advice(),
        }
    }
}

/// What was recovered.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Events and losses by channel.
    pub summary: Summary,
    /// The region's header.
    pub header: Header,
}

impl Recovered {
    /// Whether the session was still running when the memory was taken: a crash, a kill, or a copy
    /// made on the run. If it was such a copy, the newest records of each CPU are approximate.
    pub fn was_running(&self) -> bool {
        self.header.state == State::Running as u32
    }
}

/// A region in a file. Read piece by piece: an image may be larger than this machine's memory, and
/// what it says of itself may be wrong.
struct ImageSource {
    file: RefCell<File>,
    offset: u64,
    len: u64,
}

impl ImageSource {
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

impl Source for ImageSource {
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

/// Finds the region in `path` and writes what its rings hold to the new directory `out`.
///
/// # Errors
/// See [`Error`]. Nothing is left in `out` where no region was found.
pub fn recover(path: &Path, base: Option<u64>, out: &Path) -> Result<Recovered, Error> {
    let segments = image::segments(path, base)?;
    let found = image::find(path, &segments)?;
    let read = |source| image::Error::Read {
        path: path.display().to_string(),
        source,
    };
    let source = ImageSource {
        file: RefCell::new(File::open(path).map_err(read)?),
        offset: found.offset,
        len: found.len,
    };
    let write = |error| follow::Error::of(error, path, out);
    let mut writer = TraceWriter::create(out, &source).map_err(write)?;
    writer.poll(&source, View::PostMortem).map_err(write)?;
    let summary = writer.finish(&source).map_err(write)?;
    Ok(Recovered {
        summary,
        header: found.header,
    })
}
