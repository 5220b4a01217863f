//! The `kymo` command.

#[macro_use]
mod message;

mod attach;
mod boot_check;
mod check;
mod convert;
mod cost;
#[cfg(target_os = "linux")]
mod count;
mod diff;
mod doctor;
mod dump;
mod exit;
mod export;
mod flame;
mod group_list;
mod hot;
mod import;
mod input;
mod lint;
mod live;
mod manual;
mod missed;
mod next;
mod output;
mod pattern;
mod profile;
mod profile_file;
mod progress;
mod query;
mod receive;
mod record;
mod recover;
mod report;
mod sampled;
mod select;
#[cfg(test)]
mod shown;
mod size;
mod summary;
mod terminal;
mod top;
mod version;
mod view;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Records and reads traces of kernels instrumented with Kymo.
///
/// Data goes to the standard output, messages to the standard error.
///
/// Exit codes: 0 success; 1 success, with findings (the machine failed or hit the time limit;
/// events contradict each other); 2 invalid command line; 3 unusable input; 4 something is missing
/// on this machine.
#[derive(Parser)]
#[command(name = "kymo", version, long_version = version::TEXT.as_str())]
#[command(
    verbatim_doc_comment,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Records a kernel under QEMU, or a program of this machine as it is, to a trace directory.
    #[command(after_help = record::EXAMPLES)]
    Record(record::Arguments),
    /// Records the trace of a machine that is already running, without disturbing it.
    #[command(after_help = attach::EXAMPLES)]
    Attach(attach::Arguments),
    /// Recovers the trace from a dead machine's memory: a RAM file, a raw dump or an ELF core.
    #[command(after_help = recover::EXAMPLES)]
    Recover(recover::Arguments),
    /// Measures the cost of events and functions in instructions, loads and stores, by running a
    /// kernel under QEMU with a plugin.
    #[command(after_help = cost::EXAMPLES)]
    Cost(cost::Arguments),
    /// Counts performance events of a command, of processes or of CPUs, in groups.
    #[cfg(target_os = "linux")]
    #[command(after_help = count::EXAMPLES)]
    Count(count::Arguments),
    /// Prints a trace, one event per line; reads any CTF trace, 1.8 or 2.
    #[command(after_help = DUMP_EXAMPLES)]
    Dump(DumpArguments),
    /// Reports what is wrong with a trace or a metadata file, and where.
    #[command(after_help = lint::EXAMPLES)]
    Lint(lint::Arguments),
    /// Summarizes a trace: which threads ran, which waited, for what and for how long.
    #[command(after_help = report::EXAMPLES)]
    Report(report::Arguments),
    /// Checks that a trace's events are consistent, and lists those that are not.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Arguments),
    /// Compares two traces, before and after a change: threads, calls, interrupts and locks.
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::Arguments),
    /// Explains a wait: the critical path, who held a thread up, across CPUs, interrupts and locks.
    #[command(after_help = why::EXAMPLES)]
    Why(why::Arguments),
    /// Tells what a kernel into which Kymo was put records wrongly or not at all, and where to
    /// look.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Arguments),
    /// Rewrites a trace so that every CTF reader opens it: a part of it, several in one directory,
    /// or a damaged one repaired.
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::Arguments),
    /// Converts a trace to another tool's format: Perfetto, Chrome's viewer, CSV, Parquet.
    #[command(after_help = export::EXAMPLES)]
    Export(export::Arguments),
    /// Asks traces in SQL, by the program kymo-query, which is installed apart.
    Query(query::Arguments),
    /// Draws a flame graph of another profiler's samples, or converts them.
    Import(import::Arguments),
    /// Draws how large the functions of a program are, as a flame graph of its code.
    #[command(after_help = size::EXAMPLES)]
    Size(size::Arguments),
    /// Draws where the time of a trace goes: a flame graph of its samples, of time off CPU, or of
    /// waits for locks.
    #[command(after_help = flame::EXAMPLES)]
    Flame(flame::Arguments),
    /// Lists the functions or lines in which most samples of a trace are.
    #[command(after_help = hot::EXAMPLES)]
    Hot(hot::Arguments),
    /// Shows a trace in the browser: a timeline of any size, without a network.
    #[command(after_help = view::EXAMPLES)]
    View(view::Arguments),
    /// Shows what threads, CPUs and interrupts of a running machine do, second by second, in the
    /// terminal.
    #[command(after_help = top::EXAMPLES)]
    Top(top::Arguments),
    /// Prints a shell completion script for kymo.
    #[command(after_help = manual::COMPLETIONS)]
    Completions(manual::Shell),
    /// Writes the manual pages, one per verb, to a directory.
    #[command(after_help = manual::PAGES)]
    Man(manual::Directory),
}

const DUMP_EXAMPLES: &str = "Examples:
  kymo dump trace | less
  kymo dump trace --from 0.25 --to +5ms --cpu 0,2-3
  kymo dump trace --event 'sched_*' --event page_fault --thread worker
  kymo dump trace --from -10ms            the last 10 ms
  kymo dump trace --where 'is = \"sys_exit\", ret = { at_most = -1 }'
  kymo dump trace --json | jq .name
  kymo dump trace --format babeltrace     as babeltrace2 prints it
  kymo dump trace --count
  kymo dump trace --names --event sched_switch

An event is printed if it matches every given option: CPU, name, thread and time. Losses are
selected by time and CPU only, as the lost events may have matched. Which thread runs on a CPU is
unknown until the CPU's first switch, and after a loss until the next switch.";

#[derive(clap::Args)]
struct DumpArguments {
    /// The trace directory.
    trace: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = dump::Format::Kymo, conflicts_with = "json")]
    format: dump::Format,
    /// Print one JSON object per line; short for --format json.
    #[arg(long)]
    json: bool,
    /// Add the names of the threads, locks, interrupts and system calls whose numbers are in an
    /// event, and the thread that ran: behind the line, or as `names` and `thread` in JSON.
    #[arg(long, conflicts_with = "count")]
    names: bool,
    /// Print times in UTC with --format babeltrace, which otherwise uses local time or TZ.
    #[arg(long)]
    clock_gmt: bool,
    /// Count the events by name, CPU and stream, and the lost events, instead of printing them.
    #[arg(long)]
    count: bool,
    /// Number of threads for --count without a selection; each counts whole streams.
    #[arg(long, default_value_t = 1, requires = "count")]
    jobs: usize,
    /// Stop at the first error in the trace, such as a time that steps back.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    selection: select::Options,
}

/// Runs `kymo dump`.
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
    if arguments.names && format == dump::Format::Babeltrace {
        let sentence = "--format babeltrace has no place for names; drop --format or --names";
        return Err(exit::Usage(sentence.to_owned()).into());
    }
    let named = |error| input::of_trace(&arguments.trace, error);
    let outcome = match (arguments.count, format) {
        (true, dump::Format::Babeltrace) => {
            return Err(exit::Usage(
                "--format babeltrace cannot print counts; drop --format or --count".to_owned(),
            )
            .into());
        }
        (true, format) => {
            let is_json = format == dump::Format::Json;
            dump::count(&trace, is_json, &mut select, &mut out).map_err(named)?
        }
        (false, format) => dump::run(
            &trace,
            format,
            zone,
            arguments.names,
            &mut select,
            &mut out,
            &mut std::io::stderr(),
        )
        .map_err(named)?,
    };
    if select.is_partial && outcome.events == 0 {
        message!("kymo: the selection matches no event of the trace.");
    }
    Ok(exit::Code::Ok)
}

fn main() -> ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Record(arguments) => record::run(&arguments),
        Verb::Attach(arguments) => attach::run(&arguments),
        Verb::Cost(arguments) => cost::run(&arguments),
        #[cfg(target_os = "linux")]
        Verb::Count(arguments) => count::run(&arguments),
        Verb::Recover(arguments) => recover::run(&arguments),
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Diff(arguments) => diff::run(&arguments),
        Verb::Why(arguments) => why::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Dump(arguments) => dump(&arguments),
        Verb::Lint(arguments) => lint::run(&arguments),
        Verb::Convert(arguments) => convert::run(&arguments),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Query(arguments) => query::run(&arguments),
        Verb::Import(arguments) => import::run(&arguments),
        Verb::Size(arguments) => size::run(&arguments),
        Verb::Flame(arguments) => flame::run(&arguments),
        Verb::Hot(arguments) => hot::run(&arguments),
        Verb::View(arguments) => view::run(&arguments),
        Verb::Top(arguments) => top::run(&arguments),
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
