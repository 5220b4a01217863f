//! The `kymo` command.

mod check;
mod cost;
mod dump;
mod exit;
mod record;
mod recover;
mod report;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Records and reads traces of kernels that carry Kymo.
///
/// Data goes to the standard output, messages to the standard error.
///
/// Exit codes: 0 it worked; 1 it worked and found something (the machine failed, or the time limit ended it; events contradict
/// each other); 2 the command line makes no sense; 3 the input cannot be used; 4 something is missing on this machine.
#[derive(Parser)]
#[command(name = "kymo", version, verbatim_doc_comment, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs a kernel under QEMU and writes what it traces to a directory.
    #[command(after_help = record::EXAMPLES)]
    Record(record::Arguments),
    /// Takes the trace out of the memory of a dead machine: a RAM file, a raw dump, an ELF core.
    #[command(after_help = recover::EXAMPLES)]
    Recover(recover::Arguments),
    /// Counts what events and functions cost, in instructions, loads and stores: runs a kernel under QEMU with a plugin.
    #[command(after_help = cost::EXAMPLES)]
    Cost(cost::Arguments),
    /// Prints a trace, one line an event; reads any CTF 1.8 trace.
    #[command(after_help = "Examples:\n  kymo dump trace | less\n  kymo dump trace --json | jq .name\n  kymo dump trace --count")]
    Dump(DumpArguments),
    /// Says what a trace means: who ran and who waited, for what and how long.
    #[command(after_help = report::EXAMPLES)]
    Report(report::Arguments),
    /// Checks whether a trace's events fit together, and lists those that do not.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Arguments),
}

#[derive(clap::Args)]
struct DumpArguments {
    /// The trace directory.
    trace: PathBuf,
    /// One JSON object a line instead of text.
    #[arg(long)]
    json: bool,
    /// How many events there are by name, CPU and stream, and how many were lost, instead of the events.
    #[arg(long)]
    count: bool,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Record(arguments) => record::run(&arguments),
        Verb::Cost(arguments) => cost::run(&arguments),
        Verb::Recover(arguments) => recover::run(&arguments),
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Dump(arguments) if arguments.trace.is_file() => {
            let sentence = format!("{} is a file: give the trace's directory", arguments.trace.display());
            Err(exit::Usage(sentence).into())
        }
        Verb::Dump(arguments) => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            let print = if arguments.count { dump::count } else { dump::run };
            print(&arguments.trace, arguments.json, &mut out).map(|_| exit::Code::Ok)
        }
    };
    match result {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("kymo: {}", exit::sentence(&error));
            exit::Code::of(&error).into()
        }
    }
}
