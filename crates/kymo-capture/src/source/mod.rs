//! Sources of traces, one per file, behind one trait.
//!
//! A source is polled. Each poll writes new data to its trace directory and never waits, so several
//! sources can be drained in turn, and one loop, [`drain`], serves all verbs. The directory is a
//! valid trace at every moment.

mod image;
mod mapping;
mod memory;
mod port;
mod probe;
mod rtt;
#[cfg(unix)]
mod serial;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use kymo::ring::reader::View;

use crate::locate;
use crate::region::TraceError;

pub use image::ImageSource;
pub(crate) use mapping::Mapping;
pub use memory::{MemoryOutcome, MemorySource};
pub use port::PortSource;
pub use probe::Probe;
pub use rtt::{Memory, Missing, RamFile, RttLine};
#[cfg(unix)]
pub(crate) use serial::open as open_serial;

/// This system's serial lines are not supported.
#[cfg(not(unix))]
pub(crate) fn open_serial(_: &Path, _: u32) -> io::Result<std::fs::File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Interval between polls.
const POLL: Duration = Duration::from_millis(2);

/// A source of a trace.
pub trait Source {
    /// Result of the whole recording.
    type Outcome;

    /// Writes new data to the trace directory; returns whether there was any.
    ///
    /// With [`View::PostMortem`] recording has ended, and this poll reads everything that is left.
    ///
    /// # Errors
    /// See [`Error`].
    fn poll(&mut self, view: View) -> Result<bool, Error>;

    /// Whether the source has found a session of the traced kernel.
    fn has_begun(&self) -> bool;

    /// Asks the traced kernel to stop and to send the rest, if it sends its trace. Returns whether
    /// to wait for it.
    fn ask_to_stop(&mut self) -> bool {
        false
    }

    /// Whether the traced kernel has sent everything.
    fn is_complete(&self) -> bool {
        true
    }

    /// Adds this source's progress.
    fn report(&self, progress: &mut Progress);

    /// Ends the trace, after a last [`poll`](Self::poll).
    ///
    /// # Errors
    /// See [`Error`].
    fn finish(self) -> Result<Self::Outcome, Error>;
}

/// An optional source.
impl<S: Source> Source for Option<S> {
    type Outcome = Option<S::Outcome>;

    fn poll(&mut self, view: View) -> Result<bool, Error> {
        self.as_mut().map_or(Ok(false), |source| source.poll(view))
    }
    fn has_begun(&self) -> bool {
        self.as_ref().is_some_and(S::has_begun)
    }
    fn ask_to_stop(&mut self) -> bool {
        self.as_mut().is_some_and(S::ask_to_stop)
    }
    fn is_complete(&self) -> bool {
        self.as_ref().is_none_or(S::is_complete)
    }
    fn report(&self, progress: &mut Progress) {
        if let Some(source) = self {
            source.report(progress);
        }
    }
    fn finish(self) -> Result<Self::Outcome, Error> {
        self.map(S::finish).transpose()
    }
}

/// Two sources of one machine, drained in turn.
impl<A: Source, B: Source> Source for (A, B) {
    type Outcome = (A::Outcome, B::Outcome);

    fn poll(&mut self, view: View) -> Result<bool, Error> {
        Ok(self.0.poll(view)? | self.1.poll(view)?)
    }
    fn has_begun(&self) -> bool {
        self.0.has_begun() || self.1.has_begun()
    }
    fn ask_to_stop(&mut self) -> bool {
        self.0.ask_to_stop() | self.1.ask_to_stop()
    }
    fn is_complete(&self) -> bool {
        self.0.is_complete() && self.1.is_complete()
    }
    fn report(&self, progress: &mut Progress) {
        self.0.report(progress);
        self.1.report(progress);
    }
    fn finish(self) -> Result<Self::Outcome, Error> {
        Ok((self.0.finish()?, self.1.finish()?))
    }
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Time since the recording began.
    pub elapsed: Duration,
    /// Events in the trace and events lost; `None` before the kernel has started to trace.
    pub events: Option<(u64, u64)>,
    /// Bytes received over the port, if it is used.
    pub received: Option<u64>,
}

/// Polls `source` until `ending` returns the reason to end and the view for the last poll.
/// `progress` is called about every two milliseconds.
///
/// # Errors
/// Those of `source` and of `ending`.
pub fn drain<S: Source, E, F: From<Error>>(
    source: &mut S,
    mut ending: impl FnMut(&mut S) -> Result<Option<(E, View)>, F>,
    mut progress: impl FnMut(Progress),
) -> Result<E, F> {
    let started = Instant::now();
    loop {
        // Check for the end before reading, so that everything recorded before the end is read.
        let ended = ending(source)?;
        let view = ended.as_ref().map_or(View::Live, |&(_, view)| view);
        let news = source.poll(view)?;
        if let Some((ending, _)) = ended {
            return Ok(ending);
        }
        let mut now = Progress {
            elapsed: started.elapsed(),
            ..Progress::default()
        };
        source.report(&mut now);
        progress(now);
        if !news {
            std::thread::sleep(POLL);
        }
    }
}

/// Why a source gave no trace or only part of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory holds no readable region.
    #[error(transparent)]
    Region(#[from] locate::Error),
    /// The trace cannot be written.
    #[error("cannot write the trace to {out}: {source}")]
    Write {
        /// The trace directory.
        out: String,
        /// The system's error.
        source: io::Error,
    },
    /// The region is damaged.
    #[error("cannot read the Kymo region in {path}: {reason}")]
    Damaged {
        /// The memory.
        path: String,
        /// Why.
        reason: String,
    },
    /// The memory cannot be mapped.
    #[error("cannot map the machine's memory {path}: {source}")]
    Map {
        /// The RAM file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// The cause: [`InvalidInput`](io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](io::ErrorKind::InvalidData) for the input, anything else for the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Region(error) => error.kind(),
            Error::Damaged { .. } => io::ErrorKind::InvalidData,
            Error::Write { .. } | Error::Map { .. } => io::ErrorKind::Other,
        }
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Region(error) => error.advice(),
            Error::Write { source, .. } => Some(to_write(source)),
            Error::Damaged { .. } => {
                Some("take the memory again, all of it, while the machine is stopped")
            }
            Error::Map { .. } => Some(
                "free some memory, or give --out on a file system that files can be mapped from",
            ),
        }
    }

    /// The error of writing the region in the file `memory` to the directory `out`.
    fn between(memory: &Path, out: &Path, error: TraceError) -> Error {
        match error {
            TraceError::Io(source) => Error::Write {
                out: out.display().to_string(),
                source,
            },
            damaged => Error::Damaged {
                path: memory.display().to_string(),
                reason: damaged.to_string(),
            },
        }
    }
}

/// Advice for an output file that cannot be written.
pub(crate) fn to_write(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room there, or give another directory with --out"
        }
        _ => "give another, writable directory with --out",
    }
}
