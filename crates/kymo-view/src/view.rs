//! A trace that is shown, from when it begins to be recorded or read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use kymo_ctf::{Follower, ItemRef, Metadata, Trace, TraceMap};
use kymo_index::{Growing, Index, Live, Options};

use crate::api::{File, NoSymbols, Seen, Symbols};
use crate::error::Error;
use crate::http::Answer;

/// How often more of a trace that is being read is shown, at most.
const EACH: Duration = Duration::from_millis(200);
/// How often a trace is looked at that is still recorded.
const LOOKS: Duration = Duration::from_millis(100);
/// What is in view around a time, in nanoseconds.
const LENGTH: u64 = 1_000_000;

/// A trace, and its index.
#[derive(Debug)]
pub struct View {
    title: Arc<str>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` until there is a trace.
    source: Option<Arc<Source>>,
    /// `None` until something has been read of it.
    seen: Option<Seen>,
}

/// What finds the code of the machine of a trace that is being recorded.
///
/// # Errors
/// A sentence, if a file cannot be used that the user has named.
pub type FindCode = dyn Fn(&Trace) -> Result<Box<dyn Symbols>, String> + Send + Sync;

/// The bytes of a trace.
#[derive(Debug)]
pub(crate) struct Source {
    trace: Opened,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) map: TraceMap,
    /// Time of the last event, in nanoseconds from the clock's origin.
    end: OnceLock<Option<i128>>,
    /// The trace's beginning, likewise.
    begin: OnceLock<Option<i128>>,
}

/// A trace and the code of its machine, as far as they are known.
enum Opened {
    Whole(Trace, Box<dyn Symbols>),
    /// It is still recorded into this directory.
    Recorded(PathBuf, Arc<FindCode>),
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Opened::Whole(_, symbols) => f.debug_tuple("Whole").field(symbols).finish(),
            Opened::Recorded(path, _) => f.debug_tuple("Recorded").field(path).finish(),
        }
    }
}

/// A trace and the code of its machine.
pub(crate) enum Code<'s> {
    Whole(&'s Trace, &'s dyn Symbols),
    /// Those of now, of a trace that is still recorded.
    SoFar(Box<Trace>, Box<dyn Symbols>),
}

impl Code<'_> {
    pub(crate) fn trace(&self) -> &Trace {
        match self {
            Code::Whole(trace, _) => trace,
            Code::SoFar(trace, _) => trace,
        }
    }

    pub(crate) fn symbols(&self) -> &dyn Symbols {
        match self {
            Code::Whole(_, symbols) => *symbols,
            Code::SoFar(_, symbols) => &**symbols,
        }
    }
}

impl Source {
    fn new(trace: Opened, metadata: Arc<Metadata>, map: TraceMap) -> Source {
        Source {
            trace,
            metadata,
            map,
            end: OnceLock::new(),
            begin: OnceLock::new(),
        }
    }

    /// The whole trace.
    fn trace(&self) -> Option<&Trace> {
        match &self.trace {
            Opened::Whole(trace, _) => Some(trace),
            Opened::Recorded(..) => None,
        }
    }

    /// The trace and the code of its machine.
    ///
    /// # Errors
    /// A sentence, if one of them cannot be read.
    pub(crate) fn code(&self) -> Result<Code<'_>, String> {
        match &self.trace {
            Opened::Whole(trace, symbols) => Ok(Code::Whole(trace, &**symbols)),
            Opened::Recorded(directory, find) => {
                let trace = Trace::open(directory).map_err(|error| format!("{error}."))?;
                let symbols = find(&trace)?;
                Ok(Code::SoFar(Box::new(trace), symbols))
            }
        }
    }

    /// Whether it is not several traces with different metadata.
    pub(crate) fn is_one(&self) -> bool {
        self.trace().is_none_or(Trace::is_one)
    }

    /// Whether the trace is still recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.trace().is_none()
    }

    /// Time of the last event, in nanoseconds from the clock's origin.
    pub(crate) fn end_nanos(&self) -> Option<i128> {
        *self.end.get_or_init(|| self.map.end_nanos())
    }

    /// The trace's beginning, in nanoseconds from the clock's origin.
    pub(crate) fn begin_nanos(&self) -> Option<i128> {
        *self.begin.get_or_init(|| self.map.read().begin_nanos())
    }

    /// Time of the first event that has one, in nanoseconds from the clock's origin.
    fn first_event(&self) -> Option<i128> {
        let mut reader = self.map.read();
        while let Some(item) = reader.next() {
            if let ItemRef::Event(event) = &item
                && let Some(nanos) = event.nanos()
            {
                return Some(nanos);
            }
        }
        None
    }

    /// The fragment of the address that shows a view around a time, with a mark at it; see
    /// `page/address.js`. `None` if the time is outside the trace.
    fn fragment_at(&self, nanos: i128) -> Option<String> {
        let first = self.first_event()?;
        let last = u64::try_from(self.end_nanos()?.saturating_sub(first)).ok()?;
        // Between the trace's beginning and its first event, nothing is to be seen.
        let is_inside = nanos >= self.begin_nanos().unwrap_or(first).min(first);
        let at = is_inside.then(|| u64::try_from((nanos - first).max(0)).ok());
        let at = at.flatten().filter(|at| *at <= last)?;
        let length = LENGTH.min(last.max(1));
        let from = at.saturating_sub(length / 2).min(last - last.min(length));
        Some(format!("#{from}-{}&marks={at}", from + length))
    }
}

impl View {
    /// A view of nothing yet. The title is what the page calls it.
    pub fn new(title: &str) -> View {
        View {
            title: Arc::from(title),
            state: RwLock::default(),
        }
    }

    /// Opens a trace, of which nothing is shown before it is [read](Self::read). Its flame graphs
    /// have addresses in place of names.
    pub fn open(&self, trace: Trace, map: TraceMap) {
        self.open_with(trace, map, Box::new(NoSymbols));
    }

    /// Opens a trace, whose flame graphs have the names of functions that `symbols` knows.
    pub fn open_with(&self, trace: Trace, map: TraceMap, symbols: Box<dyn Symbols>) {
        let metadata = Arc::clone(trace.metadata());
        let source = Source::new(Opened::Whole(trace, symbols), metadata, map);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.source = Some(Arc::new(source));
    }

    /// Finds the index of the opened trace in this file, or makes it. What there is of it is shown
    /// meanwhile, but for a trace that was [followed](Self::follow): of that, all is shown already.
    /// Does nothing if no trace was opened.
    ///
    /// # Errors
    /// Those of [`Index::open_or_make`].
    pub fn read(&self, path: &Path, options: Options) -> Result<(), kymo_index::Error> {
        let Some(source) = self.source() else {
            return Ok(());
        };
        let Some(trace) = source.trace() else {
            return Ok(());
        };
        let was_followed = self.seen().is_some_and(|seen| seen.source.is_recorded());
        let mut last: Option<Instant> = None;
        let look = |growing: &mut Growing<'_>| {
            if was_followed || last.is_some_and(|last| last.elapsed() < EACH) {
                return;
            }
            // What goes wrong here goes wrong at the end, too.
            if let Ok(index) = growing.index() {
                self.show(&source, index);
            }
            last = Some(Instant::now());
        };
        let index = Index::open_or_make(trace, &source.map, path, options, look)?;
        self.show(&source, index);
        Ok(())
    }

    /// Shows a trace that is being recorded into this directory, a part of a second behind, until
    /// `is_over` says that the recording has ended. Its index is kept in a file in `folder`
    /// meanwhile. What is shown then stays: [open](Self::open) the trace and read it, for the rest,
    /// and for what of it is damaged. `code` finds the code of its machine for each flame graph.
    ///
    /// # Errors
    /// [`Error::Trace`] if the directory or, at twenty looks, the metadata cannot be read,
    /// [`Error::Index`] if the index cannot be written.
    pub fn follow(
        &self,
        directory: &Path,
        folder: &Path,
        code: &Arc<FindCode>,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let mut follower = Follower::new(directory, Follower::LAG);
        let mut live: Option<Live> = None;
        let mut late = 0;
        while !is_over() {
            if let Some(mut step) = follower.look()? {
                let live = match &mut live {
                    Some(live) => live,
                    none => none.insert(Live::new(folder, step.begin_nanos(), Options::LIVE)?),
                };
                let more = live.add(&mut step)?;
                let map = step.into_map();
                if let Some(metadata) = follower.metadata()
                    && (more > 0 || follower.late() > late)
                {
                    late = follower.late();
                    let opened = Opened::Recorded(directory.to_owned(), Arc::clone(code));
                    let source = Source::new(opened, Arc::clone(metadata), map);
                    self.show(&Arc::new(source), live.index(late)?);
                }
            }
            thread::sleep(LOOKS);
        }
        Ok(())
    }

    /// Shows what this index has from now on.
    fn show(&self, source: &Arc<Source>, index: Index) {
        let seen = Seen {
            title: Arc::clone(&self.title),
            source: Arc::clone(source),
            index: Arc::new(index),
        };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.seen = Some(seen);
    }

    fn source(&self) -> Option<Arc<Source>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.source.clone()
    }

    pub(crate) fn seen(&self) -> Option<Seen> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.seen.clone()
    }

    /// Number of events that have been read.
    pub fn events(&self) -> u64 {
        self.seen().map_or(0, |seen| seen.index.events())
    }

    /// What of the trace could not be read so far, a sentence each.
    pub fn damage(&self) -> Vec<String> {
        let seen = self.seen();
        seen.map_or_else(Vec::new, |seen| seen.index.damage(&seen.source.map))
    }

    /// The page with what it shows of a stretch of time: one file that needs neither this program
    /// nor a network. `from` and `to` are in nanoseconds from the clock's origin; `None` is
    /// the first or the last event. The trace must have been [read](Self::read).
    ///
    /// # Errors
    /// [`Error::Index`] if the index cannot be read, and [`Error::Nothing`] if there is no event in
    /// this time.
    pub fn file(&self, from: Option<i128>, to: Option<i128>) -> Result<File, Error> {
        self.seen().ok_or(Error::Nothing)?.file(from, to)
    }

    /// What the page asks for.
    pub(crate) fn answer(&self, what: &str, query: &[(String, String)]) -> Answer {
        match self.seen() {
            Some(seen) => seen.answer(what, query),
            None => Answer::refused(503, "Nothing of the trace has been read yet."),
        }
    }

    /// The fragment of the address that shows a view around a time of the opened trace, with a mark
    /// at it. The time is in nanoseconds from the clock's origin. `None` if the time is outside the
    /// trace. No index is needed.
    pub(crate) fn fragment_at(&self, nanos: i128) -> Option<String> {
        self.source()?.fragment_at(nanos)
    }
}
