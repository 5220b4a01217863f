//! Traces out to other tools.
//!
//! [`export`] reads a CTF trace and writes it as what another tool opens: a timeline for
//! [Perfetto](Format::Perfetto) or [Chrome's viewer](Format::Chrome), or tables of events as
//! [CSV](Format::Csv) or [Parquet](Format::Parquet).
//!
//! - One pass; memory for what lives in the trace (threads, CPUs, locks, names, kinds of events),
//!   not for its events.
//! - A timeline knows the events of [`mod@kymo::vocabulary`] and Linux's as [`kymo_machine`] does,
//!   and shows all others as points. Its slices and flows have both ends, and its times are the
//!   trace's.
//! - A table has every event, in the order of time, with every field.
//! - What was lost is told: on tracks of its own, or in `_losses.csv`.
//!
//! It does not read Perfetto's files or any other, and needs neither Perfetto nor a network.
//!
//! ```no_run
//! use kymo_export::{Format, export};
//!
//! let trace = kymo_ctf::Trace::open("trace".as_ref())?;
//! let outcome = export(&trace, Format::Perfetto, "trace.pftrace".as_ref(), |_| ())?;
//! println!("{} events", outcome.events);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cells;
mod chrome;
mod column;
mod csv;
mod error;
mod folder;
#[cfg(feature = "parquet")]
mod parquet;
mod perfetto;
mod proto;
mod timeline;
mod value;

pub use error::Error;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use kymo_ctf::{Consequence, ItemRef, Trace};

use crate::timeline::{Canvas, Timeline};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A file for Perfetto's viewer and its `trace_processor`.
    Perfetto,
    /// A JSON file in Chrome's trace event format.
    Chrome,
    /// A directory of CSV files (RFC 4180), one for each kind of event.
    Csv,
    /// A directory of Parquet files, one for each kind of event, in folders `event=NAME`. Needs the
    /// feature `parquet`.
    Parquet,
}

/// What was exported.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Events.
    pub events: u64,
    /// Of these, events without a time, which no timeline shows.
    pub timeless: u64,
    /// Losses that the trace tells of.
    pub losses: u64,
    /// The first stream's damage, if there is any. What could be read is exported.
    pub damage: Option<kymo_ctf::Error>,
}

/// Bytes that a timeline's file is written by.
const BLOCK: usize = 1 << 16;

/// What takes the trace's items, in the order of time.
trait Export {
    fn add(&mut self, item: &ItemRef<'_>) -> Result<(), Error>;
    /// A stream that cannot be read at all.
    fn unreadable(&mut self, error: &kymo_ctf::Error) -> Result<(), Error>;
    fn finish(self: Box<Self>) -> Result<(), Error>;
}

/// A timeline in a file.
struct Drawn<'a, C> {
    timeline: Timeline<C>,
    path: &'a Path,
}

impl<C: Canvas> Export for Drawn<'_, C> {
    fn add(&mut self, item: &ItemRef<'_>) -> Result<(), Error> {
        self.timeline.add(item).map_err(Error::write(self.path))
    }

    fn unreadable(&mut self, error: &kymo_ctf::Error) -> Result<(), Error> {
        self.timeline
            .unreadable(&Arc::from("trace"), error.to_string())
            .map_err(Error::write(self.path))
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        self.timeline
            .finish()
            .map(drop)
            .map_err(Error::write(self.path))
    }
}

/// Writes the trace to `out`: a file that is written anew, or for tables a directory that is made,
/// or is empty. `look` sees each item.
///
/// # Errors
/// [`Error::Write`] if something cannot be written, [`Error::Occupied`] if the directory has files,
/// [`Error::NotBuilt`] for Parquet without the feature. Damage of the trace is none: it is in the
/// [`Outcome`].
pub fn export(
    trace: &Trace,
    format: Format,
    out: &Path,
    mut look: impl FnMut(&ItemRef<'_>),
) -> Result<Outcome, Error> {
    let map = trace.map();
    let mut reader = map.read();
    let begin = reader.begin_nanos().unwrap_or(0);
    let file = || {
        File::create(out)
            .map(|file| BufWriter::with_capacity(BLOCK, file))
            .map_err(Error::write(out))
    };
    let mut to: Box<dyn Export + '_> = match format {
        Format::Perfetto => Box::new(Drawn {
            timeline: Timeline::new(begin, perfetto::Perfetto::new(file()?)),
            path: out,
        }),
        Format::Chrome => Box::new(Drawn {
            timeline: Timeline::new(begin, chrome::Chrome::new(file()?)),
            path: out,
        }),
        Format::Csv => Box::new(folder::Folder::<csv::Table>::create(out, &map)?),
        #[cfg(feature = "parquet")]
        Format::Parquet => Box::new(folder::Folder::<parquet::Table>::create(out, &map)?),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => return Err(Error::NotBuilt),
    };
    let mut outcome = Outcome::default();
    for error in map.failed() {
        to.unreadable(error)?;
    }
    while let Some(item) = reader.next() {
        match &item {
            ItemRef::Event(event) => {
                outcome.events += 1;
                outcome.timeless += u64::from(event.time().is_none());
            }
            ItemRef::Loss(_) => outcome.losses += 1,
            ItemRef::Problem(problem) if problem.consequence != Consequence::Clamped => {
                let damage = || kymo_ctf::Problem::clone(problem).into();
                outcome.damage.get_or_insert_with(damage);
            }
            _ => {}
        }
        to.add(&item)?;
        look(&item);
    }
    to.finish()?;
    let unread = map.into_failed().into_iter().next();
    outcome.damage = unread.or(outcome.damage);
    Ok(outcome)
}
