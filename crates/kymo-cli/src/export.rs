//! `kymo export`: a trace as another tool's file.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use kymo_ctf::{StructClass, Trace};
use kymo_profile::Chains;

use crate::exit::{Code, Usage};
use crate::message::say;
use crate::progress::Progress;
use crate::select::Verdict;
use crate::summary::count;
use crate::{input, output, query, select};

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo export trace trace.pftrace --to perfetto    open it at ui.perfetto.dev
  kymo export trace trace.json --to chrome
  kymo export trace tables --to csv
  kymo export trace tables --to parquet
  kymo export trace tables --to csv --where 'irq = 5, on_cpu = 0'
  kymo export trace --to parquet --into fleet      adds it to the store fleet, for kymo query

Perfetto and Chrome show a timeline: what each CPU and thread does, interrupts, system calls, locks,
wake-ups, and all other events as points. Samples are in it with their call chains; their functions
have names if the ELF files are found. CSV and Parquet have a table for each kind of event, with all
its fields, and tables of spans: slices on CPUs, system calls, wake-ups, waits for locks. With
--where, timelines and spans show what the selected events say. Every format says what was lost.";

/// The command line.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// The file, which is written anew, or - for the standard output; for csv and parquet a
    /// directory, which must be new or empty.
    #[arg(required_unless_present = "into")]
    out: Option<PathBuf>,
    /// What to write.
    #[arg(long, value_enum)]
    to: To,
    #[command(flatten)]
    symbols: kymo_images::Symbols,
    /// Add the trace to this store of many traces, as kymo query --into does; options of that, such
    /// as --host, follow behind --.
    #[arg(long, value_name = "STORE", conflicts_with_all = ["out", "conditions"])]
    into: Option<PathBuf>,
    /// Options of kymo query --into.
    #[arg(last = true, value_name = "OPTION", requires = "into")]
    more: Vec<OsString>,
    /// Only events whose fields have these values, such as 'irq = 5, on_cpu = 0', as for kymo dump.
    /// May be repeated: one must hold.
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,
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

impl To {
    /// What to do with the file, as a clause that begins with a verb.
    fn opened_with(self) -> &'static str {
        match self {
            To::Perfetto => "open it at ui.perfetto.dev",
            To::Chrome => "open it at ui.perfetto.dev, or with chrome://tracing",
            To::Csv => "read its tables with a spreadsheet, pandas or DuckDB",
            To::Parquet => "read its tables with pandas, Polars or DuckDB",
        }
    }
}

/// Runs `kymo export`.
///
/// # Errors
/// If the trace or a file of symbols cannot be read, the output cannot be written, or symbols are
/// given for a format that shows no functions.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    if let Some(into) = &arguments.into {
        return add(arguments, into);
    }
    let format = match arguments.to {
        To::Perfetto => kymo_export::Format::Perfetto,
        To::Parquet => kymo_export::Format::Parquet,
        To::Csv => kymo_export::Format::Csv,
        To::Chrome => kymo_export::Format::Chrome,
    };
    let is_timeline = matches!(arguments.to, To::Perfetto | To::Chrome);
    if arguments.symbols.is_given() && !is_timeline {
        let sentence = "--kernel, --image, --images and --inlined are about the functions of \
                        samples, which only perfetto and chrome show; drop them";
        return Err(Usage(sentence.to_owned()).into());
    }
    arguments.symbols.check_files()?;
    let trace = input::of_one_clock(&arguments.trace)?;
    let out = output::file(arguments.out.as_deref());
    if let Some(out) = out {
        output::refuse_inside(out, &arguments.trace)?;
    }
    let selection = select::Options {
        conditions: arguments.conditions.clone(),
        ..select::Options::default()
    };
    let mut select = selection.of(&trace)?;
    let mut progress = Progress::new(&trace);
    let mut unnamed = None;
    let symbolize = |chains: Chains| match chains.totals().kept {
        0 => None,
        _ => arguments
            .symbols
            .symbolize(chains, &arguments.trace, &trace, &mut say)
            .map_err(|error| unnamed = Some(error))
            .ok(),
    };
    let has_samples = is_timeline && has_samples(&trace);
    let files = match has_samples {
        true => kymo_images::StackFiles::of(&arguments.symbols, &arguments.trace, &trace)?,
        false => kymo_images::StackFiles::default(),
    };
    let samples = kymo_export::Samples {
        unwind: files.unwind(),
        symbolize,
    };
    let outcome = kymo_export::export_selected(
        &trace,
        format,
        out,
        |item| {
            progress.pass(item);
            select.judge(item) == Verdict::Take
        },
        has_samples.then_some(samples),
    );
    progress.done();
    let outcome = match outcome {
        Err(kymo_export::Error::Write { source, .. })
            if out.is_none() && source.kind() == ErrorKind::BrokenPipe =>
        {
            return Ok(Code::Ok);
        }
        outcome => outcome?,
    };
    if let Some(error) = unnamed {
        let error = anyhow::Error::from(error);
        return Err(error.context("the timeline is without samples"));
    }
    if outcome.timeless > 0 && is_timeline {
        message!(
            "kymo: {} not in the timeline.",
            count(
                outcome.timeless,
                "event has no time and is",
                "events have no time and are"
            )
        );
    }
    if let Some(out) = out {
        message!(
            "kymo: wrote {}; {}.",
            out.display(),
            arguments.to.opened_with()
        );
    }
    if select.is_partial && outcome.events == 0 {
        message!("kymo: the selection matches no event of the trace.");
    }
    match (outcome.damage, select.missing()) {
        (Some(damage), _) => Err(input::of_trace(&arguments.trace, damage)),
        (None, Some(missing)) => Err(missing.into()),
        (None, None) => Ok(Code::Ok),
    }
}

/// Adds the trace to a store.
fn add(arguments: &Arguments, into: &Path) -> anyhow::Result<Code> {
    let sentence = match arguments.to {
        To::Parquet if !arguments.symbols.is_given() => None,
        To::Parquet => Some("give options about symbols behind --, as those of kymo query"),
        _ => Some("a store has Parquet files; give --to parquet"),
    };
    if let Some(sentence) = sentence {
        return Err(Usage(sentence.to_owned()).into());
    }
    let words = [
        OsStr::new("--into"),
        into.as_os_str(),
        arguments.trace.as_os_str(),
    ];
    query::pass_on(
        words
            .into_iter()
            .chain(arguments.more.iter().map(OsString::as_os_str)),
    )
}

/// Fields and contexts with call chains, of perf and of LTTng.
const CHAINS: [&str; 4] = [
    "perf_ip",
    "perf_callchain",
    "callstack_kernel",
    "callstack_user",
];

/// Whether any event class holds samples or call chains: then their functions are looked up.
fn has_samples(trace: &Trace) -> bool {
    let names = |fields: &Option<Arc<StructClass>>| {
        let mut members = fields.iter().flat_map(|fields| &fields.members);
        members.any(|member| CHAINS.contains(&&*member.name))
    };
    trace.parts().iter().any(|part| {
        part.metadata.streams().any(|stream| {
            let mut classes = stream.events.values();
            names(&stream.event_context)
                || classes.any(|class| {
                    &*class.name == "sample" || names(&class.context) || names(&class.fields)
                })
        })
    })
}
