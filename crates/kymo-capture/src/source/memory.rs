//! The memory of a machine that runs: a file that is mapped here too.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kymo::ring::layout::Overflow;
use kymo::ring::reader::View;
use kymo::ring::source::Live;

use super::mapping::Mapping;
use super::{Error, LOOK, Progress, Source};
use crate::locate::{self, Found, Segment};
use crate::region::{Summary, TraceError, TraceWriter};

/// How often half-filled pages go to the files.
const FLUSH: Duration = Duration::from_millis(250);

/// What was taken out of a machine's memory.
#[derive(Clone, Debug)]
pub struct MemoryOutcome {
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

/// A machine's memory: first searched for the region, then followed.
#[derive(Debug)]
pub struct MemorySource {
    ram: PathBuf,
    segments: Vec<Segment>,
    out: PathBuf,
    searched: Option<Instant>,
    not_found: Option<locate::Error>,
    session: Option<Session>,
}

/// A session that was found.
#[derive(Debug)]
struct Session {
    mapping: Mapping,
    offset: u64,
    writer: TraceWriter,
    consumes: bool,
    flushed: Instant,
}

impl MemorySource {
    /// The memory that the file `ram` holds in these segments; the trace goes to the directory
    /// `out`, which is made when the region is found.
    pub fn new(ram: &Path, segments: Vec<Segment>, out: &Path) -> MemorySource {
        MemorySource {
            ram: ram.to_owned(),
            segments,
            out: out.to_owned(),
            searched: None,
            not_found: None,
            session: None,
        }
    }

    /// Why the region was not found when it was last searched for.
    pub fn not_found(&mut self) -> Option<locate::Error> {
        self.not_found.take()
    }

    /// Whether the session was stopped: then nobody writes it any more.
    pub fn is_stopped(&self) -> bool {
        self.of_session(|session, live| session.writer.is_stopped(live))
    }

    /// Whether another session has begun over the memory.
    pub fn is_over(&self) -> bool {
        self.of_session(|session, live| session.writer.is_over(live))
    }

    fn of_session(&self, ask: impl FnOnce(&Session, &Live) -> bool) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.live().is_some_and(|live| ask(session, &live)))
    }

    /// Looks for the region, if that is due, and begins its trace.
    fn search(&mut self, view: View) -> Result<(), Error> {
        let recently = |searched: Instant| searched.elapsed() < LOOK;
        if view == View::Live && self.searched.is_some_and(recently) {
            return Ok(());
        }
        self.searched = Some(Instant::now());
        match locate::region(&self.ram, &self.segments) {
            Ok(found) => self.session = Some(self.begin(&found)?),
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => self.not_found = Some(error),
        }
        Ok(())
    }

    fn begin(&self, found: &Found) -> Result<Session, Error> {
        let mapping = Mapping::open(&self.ram).map_err(|source| self.map_failed(source))?;
        let (live, _) = mapping
            .live(found.offset)
            .ok_or_else(|| self.map_failed(io::ErrorKind::InvalidData.into()))?;
        let writer =
            TraceWriter::create(&self.out, &live).map_err(|error| self.write_failed(error))?;
        let consumes = writer.is_host_consumer() && mapping.claim();
        Ok(Session {
            mapping,
            offset: found.offset,
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
    fn live(&self) -> Option<Live> {
        self.mapping.live(self.offset).map(|(live, _)| live)
    }

    /// Takes what is new; gives the number of events. `None`: the memory is not there any more.
    fn poll(&mut self, view: View) -> Option<Result<u64, TraceError>> {
        let live = self.live()?;
        let events = if self.consumes {
            self.writer.consume(&live, view)
        } else {
            self.writer.poll(&live, view)
        };
        Some(events.and_then(|events| {
            if self.flushed.elapsed() >= FLUSH {
                self.writer.flush()?;
                self.flushed = Instant::now();
            }
            Ok(events)
        }))
    }

    fn finish(self) -> Option<Result<MemoryOutcome, TraceError>> {
        let live = self.live()?;
        let (overflow, another_session) = (self.writer.overflow(), self.writer.is_over(&live));
        let only_looked = self.writer.is_host_consumer() && !self.consumes;
        let outcome = |summary| MemoryOutcome {
            summary,
            overflow,
            another_session,
            only_looked,
        };
        Some(self.writer.finish(&live).map(outcome))
    }
}

impl Source for MemorySource {
    /// `None` where no session was found.
    type Outcome = Option<MemoryOutcome>;

    fn poll(&mut self, view: View) -> Result<bool, Error> {
        if self.session.is_none() {
            self.search(view)?;
        }
        let Some(session) = &mut self.session else {
            return Ok(false);
        };
        match session.poll(view) {
            Some(Ok(events)) => Ok(events > 0),
            Some(Err(error)) => Err(self.write_failed(error)),
            None => Err(self.map_failed(io::ErrorKind::InvalidData.into())),
        }
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
        match self.session.take().map(Session::finish) {
            None => Ok(None),
            Some(Some(Ok(outcome))) => Ok(Some(outcome)),
            Some(Some(Err(error))) => Err(self.write_failed(error)),
            Some(None) => Err(self.map_failed(io::ErrorKind::InvalidData.into())),
        }
    }
}
