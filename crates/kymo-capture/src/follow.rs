//! Following a session in memory that a machine is writing: what recording and attaching have in
//! common.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::region::{Summary, TraceWriter};
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
    /// Something cannot be written, or the region turned out to be damaged.
    #[error("cannot write the trace to {out}: {source}")]
    Write {
        /// The trace directory.
        out: String,
        /// What the system says.
        source: io::Error,
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
        let writer = TraceWriter::create(out, &live).map_err(|error| Error::Write {
            out: out.display().to_string(),
            source: error.into(),
        })?;
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
        step().map_err(|source| Error::Write {
            out: self.out.display().to_string(),
            source,
        })
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
        let summary = self.writer.finish(&live).map_err(|source| Error::Write {
            out: self.out.display().to_string(),
            source: source.into(),
        })?;
        Ok(Followed {
            summary,
            overflow,
            another_session,
            only_looked,
        })
    }
}
