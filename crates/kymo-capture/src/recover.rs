//! A trace from the memory of a machine that is dead, stopped, or was copied.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use kymo::hosted::{Summary, TraceWriter};
use kymo::ring::layout::{Header, State};
use kymo::ring::reader::View;
use kymo::ring::source::Bytes;

use crate::image;

/// Why nothing was recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No region that can be read.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// The trace directory cannot be written, or the region turned out to be damaged.
    #[error("cannot write the trace to {out}: {source}")]
    Write {
        /// The directory.
        out: String,
        /// What the system says.
        source: io::Error,
    },
    /// The region turned out to be damaged.
    #[error("the Kymo region in {path} cannot be read: {reason}")]
    Damaged {
        /// The image.
        path: String,
        /// Why.
        reason: String,
    },
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
    /// Whether the session was still running when the memory was taken: a crash, a kill, or a copy made on the run. If it was such a copy, the
    /// newest records of each CPU are approximate.
    pub fn was_running(&self) -> bool {
        self.header.state == State::Running as u32
    }
}

/// Finds the region in `path` and writes what its rings hold to the new directory `out`.
///
/// # Errors
/// See [`Error`]. Nothing is left in `out` where no region was found.
pub fn recover(path: &Path, base: Option<u64>, out: &Path) -> Result<Recovered, Error> {
    let segments = image::segments(path, base)?;
    let found = image::find(path, &segments)?;
    let read = |source| image::Error::Read { path: path.display().to_string(), source };
    let mut file = File::open(path).map_err(read)?;
    file.seek(SeekFrom::Start(found.offset)).map_err(read)?;
    // `find` has checked the size against the file.
    let mut bytes = Vec::new();
    file.take(found.header.total_size).read_to_end(&mut bytes).map_err(read)?;
    let source = Bytes(&bytes);
    let write = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => Error::Damaged { path: path.display().to_string(), reason: error.to_string() },
        _ => Error::Write { out: out.display().to_string(), source: error },
    };
    let mut writer = TraceWriter::create(out, &source).map_err(|error| write(error.into()))?;
    writer.poll(&source, View::PostMortem).map_err(write)?;
    let summary = writer.finish(&source).map_err(write)?;
    Ok(Recovered { summary, header: found.header })
}
