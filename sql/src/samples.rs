//! The table of samples: where CPUs were, with their stacks.
//!
//! What a sample is, and what its stack is called, `kymo-profile` says, as for `kymo flame`. Names
//! need all addresses at once: the first query that asks for names reads the trace once more before
//! the rows are made, and keeps the distinct stacks for the next one.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{DataFusionError, Result};
use kymo_ctf::ItemRef;
use kymo_images::StackFiles;
use kymo_profile::{Collector, Mode, Options, Period, Profile, Samples, SingleSample, StackNames};
use kymo_rows::{Cells as _, thread_cells};

use crate::column::Holds;
use crate::model::row;
use crate::scan::Rows;
use crate::traces::{Opened, Traces};

pub(crate) const COLUMNS: [(&str, Holds); 16] = [
    ("time", Holds::Time),
    ("ns", Holds::Signed),
    ("cpu", Holds::Signed),
    ("tid", Holds::Unsigned),
    ("thread", Holds::Text),
    ("pid", Holds::Unsigned),
    ("process", Holds::Text),
    ("event", Holds::Text),
    ("mode", Holds::Text),
    ("period", Holds::Unsigned),
    ("unit", Holds::Text),
    ("missed", Holds::Unsigned),
    ("address", Holds::Unsigned),
    ("function", Holds::Text),
    ("depth", Holds::Signed),
    ("stack", Holds::Text),
];
/// How many columns at the end need names: `function`, `depth` and `stack`.
const NAMED: usize = 3;

/// Idle CPUs are sampled, too.
const OPTIONS: Options = Options {
    only: kymo_profile::Only::Both,
    include_idle: true,
    keep_times: false,
    of_events: false,
};

/// The distinct stacks of a trace's samples, once somebody has asked for them.
#[derive(Debug, Default)]
pub(crate) struct Stacks(Mutex<Option<Arc<Named>>>);

#[derive(Debug)]
struct Named {
    profile: Profile,
    names: StackNames,
}

impl Named {
    /// Reads a trace. `None` if nobody wants rows any more.
    fn read(
        traces: &Traces,
        trace: &Opened,
        files: &StackFiles,
        rows: &mut Rows,
    ) -> Result<Option<Named>> {
        let mut reader = trace.map.read();
        let mut collector = Collector::new(OPTIONS).unwinding(files.unwind());
        while let Some(item) = reader.next() {
            if !rows.is_wanted() {
                return Ok(None);
            }
            collector.add(&item, true);
        }
        let directory = trace.name.as_ref();
        let mut say = |sentence| traces.note(sentence);
        let chains = collector.finish();
        let profile = match chains.totals().kept {
            0 => Profile::default(),
            _ => traces
                .symbols
                .symbolize(chains, directory, &trace.trace, &mut say)
                .map_err(external)?,
        };
        let names = StackNames::of(&profile);
        Ok(Some(Named { profile, names }))
    }

    /// Writes the stack of a row into `text`; gives the number of frames, and where the innermost
    /// begins.
    fn write(&self, row: u32, text: &mut String) -> Option<(usize, usize)> {
        let row = self.profile.rows.get(row as usize)?;
        self.names.write(row.stack, text)
    }
}

impl Stacks {
    /// The stacks of a trace, which is read the first time.
    fn of(
        traces: &Traces,
        trace: &Opened,
        files: &StackFiles,
        rows: &mut Rows,
    ) -> Result<Option<Arc<Named>>> {
        let stacks = trace.stacks.0.lock();
        let mut stacks = stacks.unwrap_or_else(PoisonError::into_inner);
        if stacks.is_none() {
            *stacks = Named::read(traces, trace, files, rows)?.map(Arc::new);
        }
        Ok(stacks.clone())
    }
}

fn external(error: kymo_images::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Gives the rows of a trace. `has` says for each column of the table whether it is asked for.
pub(crate) fn write(
    traces: &Traces,
    trace: &Opened,
    has: impl DoubleEndedIterator<Item = bool>,
    rows: &mut Rows,
) -> Result<()> {
    let (mut files, mut named) = (StackFiles::default(), None);
    if has.rev().take(NAMED).any(|has| has) {
        let directory = trace.name.as_ref();
        files = StackFiles::of(&traces.symbols, directory, &trace.trace).map_err(external)?;
        named = Stacks::of(traces, trace, &files, rows)?;
        if named.is_none() {
            return Ok(());
        }
    }
    let mut samples = Samples::new(OPTIONS, files.unwind());
    let mut text = String::new();
    let mut reader = trace.map.read();
    while let Some(item) = reader.next()
        && rows.is_wanted()
    {
        traces.look(trace, &item);
        let Some(sample) = samples.add(&item) else {
            continue;
        };
        let frames = named
            .as_ref()
            .and_then(|named| named.write(sample.row, &mut text));
        if !sample_row(
            &samples,
            &sample,
            &item,
            frames.map(|frames| (frames, &*text)),
            rows,
        )? {
            break;
        }
    }
    Ok(())
}

fn sample_row(
    samples: &Samples<'_>,
    sample: &SingleSample,
    item: &ItemRef<'_>,
    stack: Option<((usize, usize), &str)>,
    rows: &mut Rows,
) -> Result<bool> {
    row(rows, |to| {
        to.signed(sample.time_ns);
        to.signed(sample.time_ns);
        to.maybe_unsigned(sample.cpu);
        thread_cells(sample.thread, samples.machine(), to);
        match item {
            ItemRef::Event(event) => to.text(event.name()),
            _ => to.missing(),
        }
        to.text(match sample.mode {
            Mode::User => "user",
            Mode::Kernel => "kernel",
            Mode::Idle => "idle",
        });
        to.maybe_unsigned(sample.period.map(|(period, _)| period));
        to.maybe_text(sample.period.map(|(_, unit)| match unit {
            Period::Ticks => "ticks",
            Period::Nanoseconds => "ns",
            Period::Events => "events",
        }));
        to.maybe_unsigned(sample.missed);
        to.maybe_unsigned(sample.address);
        match stack {
            None => {
                to.missing();
                to.missing();
                to.missing();
            }
            Some(((depth, begin), text)) => {
                to.maybe_text(text.get(begin..));
                to.unsigned(depth as u64);
                to.text(text);
            }
        }
    })
}
