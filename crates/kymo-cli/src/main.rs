//! The `kymo` command.

#[macro_use]
mod message;

mod attach;
mod boot_check;
mod check;
mod convert;
mod cost;
mod dump;
mod exit;
mod export;
mod input;
mod lint;
mod manual;
mod output;
mod pattern;
mod progress;
mod record;
mod recover;
mod report;
mod select;
mod summary;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Records and reads traces of kernels that carry Kymo.
///
/// Data goes to the standard output, messages to the standard error.
///
/// Exit codes: 0 it worked; 1 it worked and found something (the machine failed, or the time limit
/// ended it; events contradict each other); 2 the command line makes no sense; 3 the input cannot
/// be used; 4 something is missing on this machine.
#[derive(Parser)]
#[command(name = "kymo", version, long_version = version::TEXT.as_str(), verbatim_doc_comment, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs a kernel under QEMU and writes what it traces to a directory.
    #[command(after_help = record::EXAMPLES)]
    Record(record::Arguments),
    /// Reads the trace of a machine that runs already, without disturbing it.
    #[command(after_help = attach::EXAMPLES)]
    Attach(attach::Arguments),
    /// Takes the trace out of the memory of a dead machine: a RAM file, a raw dump, an ELF core.
    #[command(after_help = recover::EXAMPLES)]
    Recover(recover::Arguments),
    /// Counts what events and functions cost, in instructions, loads and stores: runs a kernel
    /// under QEMU with a plugin.
    #[command(after_help = cost::EXAMPLES)]
    Cost(cost::Arguments),
    /// Prints a trace, one line an event; reads any CTF trace, 1.8 or 2.
    #[command(after_help = DUMP_EXAMPLES)]
    Dump(DumpArguments),
    /// Says what is wrong with a trace or a metadata text, and where.
    #[command(after_help = lint::EXAMPLES)]
    Lint(lint::Arguments),
    /// Says what a trace means: who ran and who waited, for what and how long.
    #[command(after_help = report::EXAMPLES)]
    Report(report::Arguments),
    /// Checks whether a trace's events fit together, and lists those that do not.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Arguments),
    /// Writes a trace anew as a trace that every CTF reader opens: parts of it, several in one
    /// place, damaged ones mended.
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::Arguments),
    /// Writes a trace as another tool's file: Perfetto, Chrome's viewer, CSV, Parquet.
    #[command(after_help = export::EXAMPLES)]
    Export(export::Arguments),
    /// Prints a script that completes kymo's command lines in a shell.
    #[command(after_help = manual::COMPLETIONS)]
    Completions(manual::Shell),
    /// Writes the manual's pages, one for each verb, to a directory.
    #[command(after_help = manual::PAGES)]
    Man(manual::Directory),
}

const DUMP_EXAMPLES: &str = "Examples:
  kymo dump trace | less
  kymo dump trace --from 0.25 --to +5ms --cpu 0,2-3
  kymo dump trace --event 'sched_*' --event page_fault --thread worker
  kymo dump trace --from -10ms            the last 10 ms
  kymo dump trace --json | jq .name
  kymo dump trace --format babeltrace     what babeltrace2 prints
  kymo dump trace --count

An event is printed if it is of one of the CPUs, one of the names, one of the threads, and within the times, where these are
given. Losses are printed wherever they may concern what is selected: by time and CPU. Until a CPU's first switch, and after a loss
until its next one, it is not known what runs there.";

#[derive(clap::Args)]
struct DumpArguments {
    /// The trace directory.
    trace: PathBuf,
    /// What an event looks like.
    #[arg(long, value_enum, default_value_t = dump::Format::Kymo, conflicts_with = "json")]
    format: dump::Format,
    /// One JSON object a line instead of text: the same as --format json.
    #[arg(long)]
    json: bool,
    /// UTC with --format babeltrace, which otherwise has the machine's own time, or that of TZ.
    #[arg(long)]
    clock_gmt: bool,
    /// How many events there are by name, CPU and stream, and how many were lost, instead of the
    /// events.
    #[arg(long)]
    count: bool,
    /// Threads to count a whole trace with, one stream each at most.
    #[arg(long, default_value_t = 1, requires = "count")]
    jobs: usize,
    /// End at the first thing that cannot be right, such as a time that steps back.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    selection: select::Options,
}

/// `kymo dump`.
fn dump(arguments: &DumpArguments) -> anyhow::Result<exit::Code> {
    let trace = input::any(&arguments.trace)?;
    let mut select = arguments.selection.of(&trace)?;
    (select.strict, select.jobs) = (arguments.strict, arguments.jobs);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let format = if arguments.json {
        dump::Format::Json
    } else {
        arguments.format
    };
    let zone = if arguments.clock_gmt {
        dump::Zone::Utc
    } else {
        dump::Zone::Local
    };
    let outcome = match (arguments.count, format) {
        (true, dump::Format::Babeltrace) => {
            return Err(exit::Usage(
                "babeltrace2 has no form for counts: leave --format or --count away".to_owned(),
            )
            .into());
        }
        (true, format) => dump::count(&trace, format == dump::Format::Json, &mut select, &mut out)?,
        (false, format) => dump::run(
            &trace,
            format,
            zone,
            &mut select,
            &mut out,
            &mut std::io::stderr(),
        )?,
    };
    if select.is_partial && outcome.events == 0 {
        message!("kymo: no event of the trace is in this selection.");
    }
    Ok(exit::Code::Ok)
}

fn main() -> ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Record(arguments) => record::run(&arguments),
        Verb::Attach(arguments) => attach::run(&arguments),
        Verb::Cost(arguments) => cost::run(&arguments),
        Verb::Recover(arguments) => recover::run(&arguments),
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Dump(arguments) => dump(&arguments),
        Verb::Lint(arguments) => lint::run(&arguments),
        Verb::Convert(arguments) => convert::run(&arguments),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Completions(shell) => manual::completions(&shell),
        Verb::Man(directory) => manual::pages(&directory),
    };
    match result {
        Ok(code) => code.into(),
        Err(error) => {
            message!("kymo: {}", exit::message(&error));
            exit::Code::of(&error).into()
        }
    }
}
