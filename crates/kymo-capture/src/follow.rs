//! Following a session in memory that a machine is writing: what recording and attaching have in
//! common.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::region::{Summary, TraceError, TraceWriter};
use kymo::ring::layout::Overflow;
use kymo::ring::reader::View;
use kymo::ring::source::Live;

use crate::image::Found;
use crate::mapping::Mapping;

/// How often the rings are read, and how often half-filled pages go to the files.
pub(crate) const POLL: Duration = Duration::from_millis(2);
const FLUSH: Duration = Duration::from_millis(250);
/// How often the region is looked for before it is there.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Why a session could not be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
            Error::Damaged { .. } => io::ErrorKind::InvalidData,
            Error::Write { .. } | Error::Map { .. } => io::ErrorKind::Other,
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Error::Write { source, .. } => to_write(source),
            Error::Damaged { .. } => "take the memory, all of it, and try kymo recover on it",
            Error::Map { .. } => {
                "free some memory, or give --out on a file system that files can be mapped from"
            }
        })
    }

    pub(crate) fn of(error: TraceError, memory: &Path, out: &Path) -> Error {
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

/// What can be done about a trace directory that cannot be written.
pub(crate) fn to_write(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room there, or give another directory with --out"
        }
        _ => "give another directory with --out, to which you may write",
    }
}

/// Where a recording stands.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since it began: for a machine that was started for it, since then.
    pub elapsed: Duration,
    /// Events in the trace and events lost; `None` before the kernel has started to trace.
    pub events: Option<(u64, u64)>,
    /// Bytes that came over the port, where it is listened to.
    pub received: Option<u64>,
}

/// What was taken out of a machine's memory.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Events and losses by channel.
    pub summary: Summary,
    /// What a full ring did.
    pub overflow: Overflow,
    /// The kernel began another session after this one, which is not in the trace.
    pub another_session: bool,
    /// The session waited for a host to free its packets, and another program did that, or nobody
    /// could.
    pub only_looked: bool,
}

/// A session that is being followed.
#[derive(Debug)]
pub(crate) struct Follower {
    mapping: Mapping,
    offset: u64,
    writer: TraceWriter,
    consumes: bool,
    flushed: Instant,
    ram: PathBuf,
    out: PathBuf,
}

impl Follower {
    /// Begins the trace of the region `found` in `ram`, in the directory `out`.
    pub(crate) fn begin(ram: &Path, found: &Found, out: &Path) -> Result<Follower, Error> {
        let map = |source| Error::Map {
            path: ram.display().to_string(),
            source,
        };
        let mapping = Mapping::open(ram).map_err(map)?;
        let (live, _) = mapping
            .live(found.offset)
            .ok_or_else(|| map(io::ErrorKind::InvalidData.into()))?;
        let writer = TraceWriter::create(out, &live).map_err(|error| Error::of(error, ram, out))?;
        let consumes = writer.is_host_consumer() && mapping.claim();
        let (ram, out) = (ram.to_owned(), out.to_owned());
        Ok(Follower {
            mapping,
            offset: found.offset,
            writer,
            consumes,
            flushed: Instant::now(),
            ram,
            out,
        })
    }

    fn live(&self) -> Result<Live, Error> {
        // It was inside when the trace began.
        let (live, _) = self.mapping.live(self.offset).ok_or_else(|| Error::Map {
            path: self.ram.display().to_string(),
            source: io::ErrorKind::InvalidData.into(),
        })?;
        Ok(live)
    }

    /// Takes what is new; gives the number of events.
    pub(crate) fn step(&mut self, view: View) -> Result<u64, Error> {
        let live = self.live()?;
        let mut step = || {
            let events = if self.consumes {
                self.writer.consume(&live, view)
            } else {
                self.writer.poll(&live, view)
            }?;
            if self.flushed.elapsed() >= FLUSH {
                self.writer.flush()?;
                self.flushed = Instant::now();
            }
            Ok(events)
        };
        step().map_err(|error| Error::of(error, &self.ram, &self.out))
    }

    /// Whether the session was stopped: then nobody writes it any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.live().is_ok_and(|live| self.writer.is_stopped(&live))
    }

    /// Whether another session has begun over the memory.
    pub(crate) fn is_over(&self) -> bool {
        self.live().is_ok_and(|live| self.writer.is_over(&live))
    }

    /// Events in the trace and events lost, as far as is known now.
    pub(crate) fn progress(&self) -> (u64, u64) {
        self.writer.progress()
    }

    /// Ends the trace, after a last [`step`](Self::step).
    pub(crate) fn finish(self) -> Result<Followed, Error> {
        let live = self.live()?;
        let (overflow, another_session) = (self.writer.overflow(), self.writer.is_over(&live));
        let only_looked = self.writer.is_host_consumer() && !self.consumes;
        let (ram, out) = (&self.ram, &self.out);
        let summary = self
            .writer
            .finish(&live)
            .map_err(|error| Error::of(error, ram, out))?;
        Ok(Followed {
            summary,
            overflow,
            another_session,
            only_looked,
        })
    }
}
