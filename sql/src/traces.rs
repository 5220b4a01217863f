//! The traces that are asked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use kymo_ctf::{Consequence, ItemRef, Problem, Trace, TraceMap};
use kymo_images::Symbols;

use crate::Error;
use crate::samples::Stacks;

/// Traces that are open for queries. Their files are mapped, not read in advance.
#[derive(Debug, Clone)]
pub struct Traces {
    pub(crate) all: Arc<[Opened]>,
    damage: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) read: Arc<AtomicU64>,
    /// Where the names of functions are.
    pub(crate) symbols: Arc<Symbols>,
    notes: Arc<Mutex<BTreeSet<String>>>,
}

#[derive(Debug)]
pub(crate) struct Opened {
    /// The directory as it was given, which is the trace's name in the column `trace`.
    pub(crate) name: String,
    pub(crate) trace: Trace,
    pub(crate) map: TraceMap,
    /// The stacks of its samples, once they were asked for.
    pub(crate) stacks: Stacks,
}

/// Most different problems that are kept for [`Traces::damage`].
const MOST: usize = 1_000;

impl Traces {
    /// Opens traces, or trees of traces, by their directories.
    ///
    /// # Errors
    /// [`Error::File`] for a path that is no directory, [`Error::Trace`] if a trace has no readable
    /// metadata. Damaged streams are no error: they are read as far as they can be.
    pub fn open<P: AsRef<Path>>(directories: impl IntoIterator<Item = P>) -> Result<Traces, Error> {
        let opened = directories.into_iter().map(|path| {
            let path = path.as_ref();
            if path.exists() && !path.is_dir() {
                return Err(Error::File(path.to_owned()));
            }
            let trace = Trace::open(path).map_err(|source| Error::Trace {
                path: PathBuf::from(path),
                source,
            })?;
            Ok(Opened {
                name: path.display().to_string(),
                map: trace.map(),
                trace,
                stacks: Stacks::default(),
            })
        });
        let traces = Traces {
            all: opened.collect::<Result<_, _>>()?,
            ..Traces::none()
        };
        for trace in traces.all.iter() {
            for error in trace.map.failed() {
                traces.add_damage(&trace.name, error.to_string());
            }
        }
        Ok(traces)
    }

    /// No traces.
    pub(crate) fn none() -> Traces {
        Traces {
            all: Arc::new([]),
            damage: Arc::default(),
            read: Arc::default(),
            symbols: Arc::default(),
            notes: Arc::default(),
        }
    }

    /// Takes the names of functions from these files, beside those that recordings have noted.
    ///
    /// # Errors
    /// [`Error::Symbols`] if one of the files is not there.
    pub fn with_symbols(self, symbols: Symbols) -> Result<Traces, Error> {
        symbols.check_files()?;
        let symbols = Arc::new(symbols);
        Ok(Traces { symbols, ..self })
    }

    /// About how many events and losses queries have read so far.
    pub fn items_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// What queries so far could not read, one sentence each, in order. The rest was read.
    pub fn damage(&self) -> Vec<String> {
        let damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        damage.iter().cloned().collect()
    }

    /// What queries so far have found missing beside the traces, such as a kernel's file, one
    /// sentence each, in order.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().cloned().collect()
    }

    pub(crate) fn note(&self, sentence: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MOST {
            notes.insert(sentence);
        }
    }

    /// Notes a problem that hides events.
    pub(crate) fn look(&self, trace: &Opened, item: &ItemRef<'_>) {
        if let ItemRef::Problem(problem) = item
            && problem.consequence != Consequence::Clamped
        {
            self.add_damage(&trace.name, Problem::to_string(problem));
        }
    }

    fn add_damage(&self, trace: &str, what: String) {
        let mut damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        if damage.len() < MOST {
            damage.insert(format!("{trace}: {what}"));
        }
    }
}
