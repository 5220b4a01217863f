//! Export of traces to other tools.
//!
//! [`export`] reads a CTF trace and writes a file for another tool: a timeline for
//! [Perfetto](Format::Perfetto) or [Chrome's viewer](Format::Chrome), or tables of events as
//! [CSV](Format::Csv) or [Parquet](Format::Parquet).
//!
//! - It makes one pass. Memory grows with threads, CPUs, locks, names and event classes, not with
//!   events.
//! - A timeline draws the events that [`kymo_machine`] understands, and all others as points. Its
//!   slices and flows have both ends, and its times are the trace's.
//! - A table has every event in time order, with every field. Further tables have what events mean
//!   together: slices on CPUs, system calls, wake-ups, waits for locks.
//! - Losses are on tracks of their own, or in `_losses.csv`.
//!
//! [`FlameGraph`] draws folded stacks, and [`ProfileFormat`] writes profiles for other viewers.
//!
//! It needs neither Perfetto nor a network.
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

mod canvas;
mod chrome;
mod csv;
mod derived;
mod error;
mod flame_graph;
mod folder;
#[cfg(feature = "parquet")]
mod parquet;
mod part;
mod perfetto;
mod profile;
mod proto;

pub use error::Error;
pub use flame_graph::{FlameGraph, difference};

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use kymo_ctf::{Consequence, ItemRef, Reader, Trace, TraceMap};
use kymo_profile::{Chains, Collector, Options, Profile, Unwind};
use kymo_timeline::Timeline;

pub use part::write_file;
pub use profile::ProfileFormat;

use crate::canvas::FileCanvas;
use crate::part::PartFile;

/// A format to export to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A file for Perfetto's viewer and its `trace_processor`.
    Perfetto,
    /// A JSON file in Chrome's trace event format.
    Chrome,
    /// A directory of CSV files (RFC 4180), one per kind of event.
    Csv,
    /// A directory of Parquet files, one per kind of event, in folders `event=NAME`. Needs the
    /// feature `parquet`.
    Parquet,
}

/// Figures of an export.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Number of events.
    pub events: u64,
    /// Those without a time, which timelines omit.
    pub timeless: u64,
    /// Number of losses in the trace.
    pub losses: u64,
    /// The first damage of a stream, if any. The readable rest is exported.
    pub damage: Option<kymo_ctf::Error>,
}

/// Size of a timeline's write buffer, in bytes.
const BLOCK: usize = 1 << 16;

/// An exporter, which gets the trace's items in time order.
trait Export {
    fn add(&mut self, item: &ItemRef<'_>) -> Result<(), Error>;
    /// Reports a stream that cannot be read at all.
    fn unreadable(&mut self, error: &kymo_ctf::Error) -> Result<(), Error>;
    /// Ends the file. Timelines have the samples; tables have them as events.
    fn finish(self: Box<Self>, samples: Option<&Profile>) -> Result<(), Error>;
    /// Removes what was written so far.
    fn discard(&self);
}

/// A timeline that is written to a file.
struct Drawn<C> {
    timeline: Timeline<C>,
    file: PartFile,
}

impl<C: FileCanvas> Export for Drawn<C> {
    fn add(&mut self, item: &ItemRef<'_>) -> Result<(), Error> {
        self.timeline
            .add(item)
            .map_err(Error::write(self.file.path()))
    }

    fn unreadable(&mut self, error: &kymo_ctf::Error) -> Result<(), Error> {
        self.timeline
            .unreadable(&Arc::from("trace"), error.to_string())
            .map_err(Error::write(self.file.path()))
    }

    fn finish(self: Box<Self>, samples: Option<&Profile>) -> Result<(), Error> {
        let Drawn { timeline, file } = *self;
        let done = timeline.finish().and_then(|(mut canvas, base)| {
            if let Some(profile) = samples {
                canvas.samples(profile, base)?;
            }
            canvas.finish()
        });
        done.map_err(Error::write(file.path()))?;
        file.complete()
    }

    fn discard(&self) {
        self.file.discard();
    }
}

/// Writes the trace to `out` and calls `look` with each item. A timeline overwrites the file `out`;
/// tables need a directory that is empty or does not exist yet.
///
/// # Errors
/// [`Error::Write`] if something cannot be written, [`Error::Occupied`] if the directory is not
/// empty, [`Error::NotBuilt`] for Parquet without the feature. Damage to the trace is no error: it
/// is in the [`Outcome`].
pub fn export(
    trace: &Trace,
    format: Format,
    out: &Path,
    look: impl FnMut(&ItemRef<'_>),
) -> Result<Outcome, Error> {
    export_with_samples(trace, format, Some(out), look, NO_SAMPLES)
}

type Symbolize = fn(Chains) -> Option<Profile>;

/// No samples besides the events.
const NO_SAMPLES: Option<Samples<'static, Symbolize>> = None;

/// How the samples of a trace get their functions.
#[allow(missing_debug_implementations)] // Functions.
pub struct Samples<'u, F> {
    /// Finds the callers of samples whose stacks were copied.
    pub unwind: Option<Box<Unwind<'u>>>,
    /// Finds the functions.
    pub symbolize: F,
}

/// As [`export`]; a timeline also gets the trace's samples, with their functions.
/// Memory then grows with the samples: 16 bytes for each. Without `out`, a timeline goes to the
/// standard output.
///
/// # Errors
/// As [`export`], and [`Error::Folder`] for tables without `out`.
pub fn export_with_samples(
    trace: &Trace,
    format: Format,
    out: Option<&Path>,
    mut look: impl FnMut(&ItemRef<'_>),
    samples: Option<Samples<'_, impl FnOnce(Chains) -> Option<Profile>>>,
) -> Result<Outcome, Error> {
    let look = |item: &ItemRef<'_>, _| look(item);
    write(trace, format, out, |_| true, look, samples)
}

/// As [`export_with_samples`], of the items for which `select` is true. A timeline draws what these
/// say: without switches it has no threads.
///
/// # Errors
/// As [`export_with_samples`].
pub fn export_selected(
    trace: &Trace,
    format: Format,
    out: Option<&Path>,
    select: impl FnMut(&ItemRef<'_>) -> bool,
    samples: Option<Samples<'_, impl FnOnce(Chains) -> Option<Profile>>>,
) -> Result<Outcome, Error> {
    write(trace, format, out, select, |_, _| (), samples)
}

/// Writes the items for which `select` is true, and passes each item to `look` afterwards, with
/// whether it was selected.
fn write(
    trace: &Trace,
    format: Format,
    out: Option<&Path>,
    select: impl FnMut(&ItemRef<'_>) -> bool,
    mut look: impl FnMut(&ItemRef<'_>, bool),
    samples: Option<Samples<'_, impl FnOnce(Chains) -> Option<Profile>>>,
) -> Result<Outcome, Error> {
    let map = trace.map();
    let mut reader = map.read();
    let begin = reader.begin_nanos();
    let mut to: Box<dyn Export> = match format {
        Format::Perfetto => drawn(out, begin, perfetto::Perfetto::new)?,
        Format::Chrome => drawn(out, begin, chrome::Chrome::new)?,
        Format::Csv => {
            let out = out.ok_or(Error::Folder)?;
            Box::new(folder::Folder::<csv::Table>::create(out, &map)?)
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let out = out.ok_or(Error::Folder)?;
            Box::new(folder::Folder::<parquet::Table>::create(out, &map)?)
        }
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => return Err(Error::NotBuilt),
    };
    let options = Options {
        include_idle: true,
        keep_times: true,
        ..Options::default()
    };
    let mut samples = samples.map(|samples| {
        let collector = Collector::new(options).unwinding(samples.unwind);
        (collector, samples.symbolize)
    });
    let look = |item: &ItemRef<'_>, is_selected| {
        if let Some((collector, _)) = &mut samples {
            collector.add(item, is_selected);
        }
        look(item, is_selected);
    };
    let outcome = read(&map, &mut reader, &mut *to, select, look).inspect_err(|_| to.discard())?;
    let samples = samples.and_then(|(collector, symbolize)| symbolize(collector.finish()));
    to.finish(samples.as_ref())?;
    let unread = map.into_failed().into_iter().next();
    Ok(Outcome {
        damage: unread.or(outcome.damage),
        ..outcome
    })
}

/// A timeline in a file or on the standard output, drawn by what `canvas` makes of the writer.
fn drawn<C: FileCanvas + 'static>(
    out: Option<&Path>,
    begin: Option<i128>,
    canvas: impl FnOnce(BufWriter<Box<dyn Write>>) -> C,
) -> Result<Box<dyn Export>, Error> {
    let file = out.map_or_else(PartFile::standard_output, PartFile::new);
    let writer: Box<dyn Write> = match out {
        Some(out) => Box::new(File::create(file.written()).map_err(Error::write(out))?),
        None => Box::new(io::stdout().lock()),
    };
    let canvas = canvas(BufWriter::with_capacity(BLOCK, writer));
    let timeline = Timeline::new(begin, canvas);
    Ok(Box::new(Drawn { timeline, file }))
}

/// Passes the selected items on, and every item to `look`.
fn read(
    map: &TraceMap,
    reader: &mut Reader<'_>,
    to: &mut dyn Export,
    mut select: impl FnMut(&ItemRef<'_>) -> bool,
    mut look: impl FnMut(&ItemRef<'_>, bool),
) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    for error in map.failed() {
        to.unreadable(error)?;
    }
    while let Some(item) = reader.next() {
        if !select(&item) {
            look(&item, false);
            continue;
        }
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
        look(&item, true);
    }
    Ok(outcome)
}
