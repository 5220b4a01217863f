//! Where traces come from, a file each, behind one trait.
//!
//! A source is polled. Each time it takes what is new to its trace directory, and never waits: so
//! several can be drained in turn, and one loop, [`drain`], serves all verbs. The directory is a
//! trace that any reader opens at every moment, whatever the source.

mod image;
mod mapping;
mod memory;
mod port;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use kymo::ring::reader::View;

use crate::locate;
use crate::region::TraceError;

pub use image::ImageSource;
pub use memory::{MemoryOutcome, MemorySource};
pub use port::PortSource;

/// How often a source is polled while a session is recorded.
const POLL: Duration = Duration::from_millis(2);
/// How often a session is looked for before there is one.
const LOOK: Duration = Duration::from_millis(20);

/// What a trace is taken from.
pub trait Source {
    /// What it has given, at its end.
    type Outcome;

    /// Takes what is new to the trace directory; gives whether there was anything.
    ///
    /// With [`View::PostMortem`] nobody records any more, and nothing is left for a later poll.
    ///
    /// # Errors
    /// See [`Error`].
    fn poll(&mut self, view: View) -> Result<bool, Error>;

    /// Whether the traced kernel has begun a session, as far as can be seen from here.
    fn has_begun(&self) -> bool;

    /// Asks the traced kernel to stop and to deliver the rest, where it delivers anything. Gives
    /// whether waiting for that makes sense.
    fn ask_to_stop(&mut self) -> bool {
        false
    }

    /// Whether the traced kernel has nothing to deliver any more.
    fn is_complete(&self) -> bool {
        true
    }

    /// Puts in where this source stands.
    fn report(&self, progress: &mut Progress);

    /// Ends the trace, after a last [`poll`](Self::poll).
    ///
    /// # Errors
    /// See [`Error`].
    fn finish(self) -> Result<Self::Outcome, Error>;
}

/// A source that may not be wanted.
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

/// Where a recording stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Since it began: for a machine that was started for it, since then.
    pub elapsed: Duration,
    /// Events in the trace and events lost; `None` before the kernel has started to trace.
    pub events: Option<(u64, u64)>,
    /// Bytes that came over the port, where it is listened to.
    pub received: Option<u64>,
}

/// Polls `source` until `ending` gives why it ends, and how it is to be read for the last time.
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
        // Whether it has ended is asked before reading: what was recorded before the end is read
        // then.
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
            std::thread::sleep(if source.has_begun() { POLL } else { LOOK });
        }
    }
}

/// Why a source gave no trace, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory holds no region that can be read.
    #[error(transparent)]
    Region(#[from] locate::Error),
    /// Something cannot be written.
    #[error("cannot write the trace to {out}: {source}")]
    Write {
        /// The trace directory.
        out: String,
        /// What the system says.
        source: io::Error,
    },
    /// The region turned out to be damaged.
    #[error("the Kymo region in {path} cannot be read: {reason}")]
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
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// What is to blame: [`InvalidInput`](io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Region(error) => error.kind(),
            Error::Damaged { .. } => io::ErrorKind::InvalidData,
            Error::Write { .. } | Error::Map { .. } => io::ErrorKind::Other,
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
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

    /// What went wrong between the memory in the file `memory` and the directory `out`.
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

/// What can be done about a file of the output that cannot be written.
pub(crate) fn to_write(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room there, or give another directory with --out"
        }
        _ => "give another directory with --out, to which you may write",
    }
}
