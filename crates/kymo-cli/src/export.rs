//! `kymo export`: a trace as another tool's file.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::exit::Code;
use crate::input;
use crate::output::refuse_inside;
use crate::progress::Progress;
use crate::summary::count;

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo export trace trace.pftrace --to perfetto    open it at ui.perfetto.dev, or with trace_processor
  kymo export trace trace.json --to chrome
  kymo export trace tables --to csv
  kymo export trace tables --to parquet

Perfetto and Chrome get a timeline: what each CPU and thread does, interrupts, system calls, locks, wake-ups, and all other events as
points. CSV and Parquet get every event with every field, one table for each kind of event. What was lost is told in all of them.";

/// The command line.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// The file, which is written anew; for csv and parquet a directory, which must be new or
    /// empty.
    out: PathBuf,
    /// What to write.
    #[arg(long, value_enum)]
    to: To,
}

#[derive(Clone, Copy, ValueEnum)]
enum To {
    /// Perfetto's trace file.
    Perfetto,
    /// Parquet files, partitioned by event.
    Parquet,
    /// CSV files, one for each event.
    Csv,
    /// JSON in Chrome's trace event format.
    Chrome,
}

/// Does it.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let format = match arguments.to {
        To::Perfetto => kymo_export::Format::Perfetto,
        To::Parquet => kymo_export::Format::Parquet,
        To::Csv => kymo_export::Format::Csv,
        To::Chrome => kymo_export::Format::Chrome,
    };
    let trace = input::of_one_clock(&arguments.trace)?;
    refuse_inside(&arguments.out, &arguments.trace)?;
    let mut progress = Progress::new(&trace);
    let outcome = kymo_export::export(&trace, format, &arguments.out, |item| progress.pass(item))?;
    progress.done();
    if outcome.timeless > 0 && matches!(arguments.to, To::Perfetto | To::Chrome) {
        message!(
            "kymo: {} not in the timeline.",
            count(
                outcome.timeless,
                "event has no time and is",
                "events have no time and are"
            )
        );
    }
    match outcome.damage {
        Some(damage) => Err(damage.into()),
        None => Ok(Code::Ok),
    }
}
