//! The memory of a running machine: a shared file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kymo::ring::layout::Overflow;
use kymo::ring::reader::View;
use kymo::ring::source::Live;

use super::mapping::Mapping;
use super::{Error, Progress, Source};
use crate::locate::{self, Found, Segment};
use crate::region::{Summary, TraceError, TraceWriter};

/// Longest pause between two searches for a session. Up to that, a pause is three times as long as
/// the search before it took, a quarter of a processor; in little memory that the machine has
/// touched, a session is found before its rings are full.
const PAUSE: Duration = Duration::from_millis(200);

/// Interval between writes of partly filled pages.
const FLUSH: Duration = Duration::from_millis(250);

/// Result of reading a machine's memory.
#[derive(Clone, Debug)]
pub struct MemoryOutcome {
    /// Events and losses by channel.
    pub summary: Summary,
    /// The policy for a full ring.
    pub overflow: Overflow,
    /// Whether the kernel began another session after this one, which is not in the trace.
    pub another_session: bool,
    /// Whether the session waited for a host to free its packets, but another program did that, or
    /// the memory was read-only.
    pub only_looked: bool,
}

/// A machine's memory, which is searched for the region and then followed.
#[derive(Debug)]
pub struct MemorySource {
    ram: PathBuf,
    segments: Vec<Segment>,
    out: PathBuf,
    /// When the next search is due.
    due: Instant,
    not_found: Option<locate::Error>,
    session: Option<Session>,
}

/// A session that was found.
#[derive(Debug)]
struct Session {
    live: Live,
    /// The memory to which `live` points.
    _mapping: Mapping,
    writer: TraceWriter,
    consumes: bool,
    flushed: Instant,
}

impl MemorySource {
    /// The memory in these segments of the file `ram`; the trace goes to the directory `out`, which
    /// is created when the region is found.
    pub fn new(ram: &Path, segments: Vec<Segment>, out: &Path) -> MemorySource {
        MemorySource {
            ram: ram.to_owned(),
            segments,
            out: out.to_owned(),
            due: Instant::now(),
            not_found: None,
            session: None,
        }
    }

    /// Takes the error of the last unsuccessful search.
    pub fn not_found(&mut self) -> Option<locate::Error> {
        self.not_found.take()
    }

    /// Whether the session was stopped, so that no writer is active.
    pub fn is_stopped(&self) -> bool {
        let stopped = |session: &Session| session.writer.is_stopped(&session.live);
        self.session.as_ref().is_some_and(stopped)
    }

    /// Whether another session has reused the memory.
    pub fn is_over(&self) -> bool {
        let over = |session: &Session| session.writer.is_over(&session.live);
        self.session.as_ref().is_some_and(over)
    }

    /// Searches for the region, if that is due, and begins its trace.
    fn search(&mut self, view: View) -> Result<(), Error> {
        let began = Instant::now();
        if view == View::Live && began < self.due {
            return Ok(());
        }
        let mapping = Mapping::open(&self.ram);
        let found = match &mapping {
            Ok(mapping) => locate::region_mapped(&self.ram, &self.segments, mapping),
            Err(_) => locate::region(&self.ram, &self.segments),
        };
        match found {
            Ok(found) => {
                let mapping = mapping.map_err(|source| self.map_failed(source))?;
                self.session = Some(self.begin(&found, mapping)?);
            }
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => {
                // It takes a while to give up what a search has seen of gigabytes.
                drop(mapping);
                self.not_found = Some(error);
            }
        }
        let now = Instant::now();
        self.due = now + (3 * (now - began)).min(PAUSE);
        Ok(())
    }

    fn begin(&self, found: &Found, mapping: Mapping) -> Result<Session, Error> {
        // SAFETY: both go into the session, which drops them together.
        let live = unsafe { mapping.live(found.offset) }
            .ok_or_else(|| self.map_failed(io::ErrorKind::InvalidData.into()))?;
        let writer =
            TraceWriter::create(&self.out, &live).map_err(|error| self.write_failed(error))?;
        let consumes = writer.is_host_consumer() && mapping.claim();
        Ok(Session {
            live,
            _mapping: mapping,
            writer,
            consumes,
            flushed: Instant::now(),
        })
    }

    fn map_failed(&self, source: io::Error) -> Error {
        Error::Map {
            path: self.ram.display().to_string(),
            source,
        }
    }

    fn write_failed(&self, error: TraceError) -> Error {
        Error::between(&self.ram, &self.out, error)
    }
}

impl Session {
    /// Reads new records; returns the number of events.
    fn poll(&mut self, view: View) -> Result<u64, TraceError> {
        let events = if self.consumes {
            self.writer.consume(&self.live, view)
        } else {
            self.writer.poll(&self.live, view)
        }?;
        if self.flushed.elapsed() >= FLUSH {
            self.writer.flush()?;
            self.flushed = Instant::now();
        }
        Ok(events)
    }

    fn finish(self) -> Result<MemoryOutcome, TraceError> {
        Ok(MemoryOutcome {
            overflow: self.writer.overflow(),
            another_session: self.writer.is_over(&self.live),
            only_looked: self.writer.is_host_consumer() && !self.consumes,
            summary: self.writer.finish(&self.live)?,
        })
    }
}

impl Source for MemorySource {
    /// `None` if no session was found.
    type Outcome = Option<MemoryOutcome>;

    fn poll(&mut self, view: View) -> Result<bool, Error> {
        if self.session.is_none() {
            self.search(view)?;
        }
        let Some(session) = &mut self.session else {
            return Ok(false);
        };
        let events = session.poll(view);
        Ok(events.map_err(|error| self.write_failed(error))? > 0)
    }

    fn has_begun(&self) -> bool {
        self.session.is_some()
    }

    fn report(&self, progress: &mut Progress) {
        progress.events = self
            .session
            .as_ref()
            .map(|session| session.writer.progress());
    }

    fn finish(mut self) -> Result<Self::Outcome, Error> {
        let outcome = self.session.take().map(Session::finish).transpose();
        outcome.map_err(|error| self.write_failed(error))
    }
}
