//! Writes long traces with known counts, and reads them with each verb of `kymo`.
//!
//! `cargo xtask big-trace` reads one of a gigabyte, `cargo xtask test big-trace` two short ones;
//! the step `export` and `cargo xtask bench verbs` write their traces with it.

mod kernel;
mod memory;
mod reading;
mod stream;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Writes long traces with known counts, and reads them with `kymo`.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes a trace, and prints its event counts by name, as a JSON object
    Write {
        /// The new trace directory
        trace: PathBuf,
        /// Its size in megabytes
        #[arg(long, value_name = "N")]
        megabytes: u64,
    },
    /// Writes a trace, reads it with each verb, and compares the results with the known counts
    Read {
        /// The `kymo` command
        #[arg(long)]
        kymo: PathBuf,
        /// A folder for the trace and the results, which is replaced
        #[arg(long)]
        folder: PathBuf,
        /// Size of the trace in megabytes
        #[arg(long, value_name = "N")]
        megabytes: u64,
    },
    /// Reads two short traces; the longer one must not take more memory
    Compare {
        /// The `kymo` command
        #[arg(long)]
        kymo: PathBuf,
        /// A folder for the traces and the results, which is replaced
        #[arg(long)]
        folder: PathBuf,
    },
    /// Runs a program, and writes its peak resident memory, in kilobytes, to a file
    #[command(hide = true, name = memory::MEASURED)]
    Measured {
        /// The file for the figure
        figure: PathBuf,
        /// The program
        program: OsString,
        /// The program's arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Write { trace, megabytes } => {
            let (_, writer) = reading::write(&trace, megabytes)?;
            println!("{}", serde_json::to_string(&writer.counts)?);
            Ok(())
        }
        Command::Read {
            kymo,
            folder,
            megabytes,
        } => reading::long(&kymo, &folder, megabytes),
        Command::Compare { kymo, folder } => reading::short(&kymo, &folder),
        Command::Measured {
            figure,
            program,
            arguments,
        } => memory::measured(&figure, &program, &arguments),
    }
}
