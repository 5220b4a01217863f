//! `kymo report`: the analysis of a trace, as tables or JSON.

mod text;

pub use text::{duration, seconds};

use std::path::PathBuf;

use anyhow::Context as _;
use kymo_analysis::{Analysis, Report};
use kymo_ctf::{Consequence, ItemRef, Problem, Trace};

use crate::dump::{deliver, flush};
use crate::exit::Code;
use crate::input;
use crate::missed::Sampler;
use crate::progress::Progress;

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo report trace | less
  kymo report trace --json | jq '.wake_latency.worst'
  kymo report trace --json | jq '.locks[] | select(.longest_wait.ns > 1000000)'

A table is printed if the trace has events for it. Times are seconds since the trace began. JSON has
every table in full, with times in nanoseconds from the clock's origin. `-` is unknown: nothing is
guessed where events were lost.";

/// Command line of `kymo report`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// Print one JSON object with all tables.
    #[arg(long)]
    json: bool,
}

/// Analyses the trace and prints the report.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let trace = input::of_one_clock(&arguments.trace)?;
    let (report, damage) = pass(&trace, Analysis::new(trace.metadata()), |_, _| ());
    let text = match arguments.json {
        true => serde_json::to_string(&report).context("cannot write the report as JSON")? + "\n",
        false => text::tables(&report, Sampler::of(trace.metadata())),
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    match damage {
        Some(error) => Err(error.into()),
        None => Ok(Code::Ok),
    }
}

/// Reads the whole trace through the analysis and passes each item to `look` afterwards. The second
/// value is the first damage that was found, if any.
pub fn pass(
    trace: &Trace,
    mut analysis: Analysis,
    mut look: impl FnMut(&ItemRef<'_>, &Analysis),
) -> (Report, Option<kymo_ctf::Error>) {
    let mut progress = Progress::new(trace);
    let map = trace.map();
    let mut reader = map.read();
    let mut damage = None;
    for error in map.failed() {
        analysis.damaged(error);
    }
    while let Some(item) = reader.next() {
        analysis.add(&item);
        look(&item, &analysis);
        progress.pass(&item);
        if let ItemRef::Problem(problem) = &item
            && problem.consequence != Consequence::Clamped
        {
            damage.get_or_insert_with(|| Problem::clone(problem).into());
        }
    }
    drop(reader);
    progress.done();
    let damage = map.into_failed().into_iter().next().or(damage);
    (analysis.finish(), damage)
}
