//! Checks that other software reads the output of `kymo export`, and profiles.
//!
//! Perfetto's files are checked against the published schema; Polars and DuckDB count Parquet's,
//! with the book's examples.

mod browser;
mod page;
mod profiles;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde_json::Value;

/// The script that reads Perfetto's files with the published schema.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/check_perfetto.py");
/// Size of the exported trace, in megabytes.
const MEGABYTES: u64 = 2;
/// Slices of these categories, and the events that begin them.
const SLICES: [(&str, &str); 2] = [("irq", "irq_handler_entry"), ("syscall", "sys_enter")];
/// Tables of spans, and the event that ends each span: every begin is in the trace.
const SPANS: [(&str, &str); 2] = [("interrupts", "irq_handler_exit"), ("syscalls", "sys_exit")];
const EXAMPLES: [&str; 2] = ["polars_counts.py", "duckdb_counts.py"];

/// Lets other tools read what kymo exports.
#[derive(Parser)]
enum What {
    /// Exported traces.
    Traces(Arguments),
    /// Profiles.
    Profiles(profiles::Arguments),
    /// The page of `kymo view`.
    Page(page::Arguments),
}

/// Exports traces, and lets other tools read the files.
#[derive(clap::Args)]
struct Arguments {
    /// The `kymo` command, with the feature `parquet`
    #[arg(long)]
    kymo: PathBuf,
    /// The program that writes traces of known counts
    #[arg(long)]
    big_trace: PathBuf,
    /// A Python with the packages of requirements.txt
    #[arg(long)]
    python: PathBuf,
    /// A folder for the exported files, which is replaced
    #[arg(long)]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let done = match What::parse() {
        What::Traces(arguments) => run(arguments),
        What::Profiles(arguments) => profiles::run(&arguments),
        What::Page(arguments) => page::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let Arguments {
        kymo,
        big_trace,
        python,
        folder,
    } = arguments;
    if folder.exists() {
        fs::remove_dir_all(&folder).context("what was exported before cannot be removed")?;
    }
    fs::create_dir_all(&folder)?;
    of_the_tests(&python, &folder)?;
    of_known_counts(&kymo, &big_trace, &python, &folder)?;
    fs::remove_dir_all(&folder).context("what was exported cannot be removed")
}

/// Checks the Perfetto files of the tests of kymo-export, whose traces have losses, ends of all
/// kinds, and Linux's events.
fn of_the_tests(python: &Path, folder: &Path) -> Result<()> {
    let mut tests = cargo(&["test", "-p", "kymo-export", "--test", "it", "--"]);
    tests.args(["perfetto::", "other_tracers::", "samples::", "counted::"]);
    run_command(tests.env("KYMO_EXPORTED", folder))?;
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    if files.len() < 6 {
        bail!(
            "the tests of kymo-export left {} files for the schema instead of all",
            files.len()
        );
    }
    run_command(Command::new(python).arg(SCRIPT).args(&files))
}

/// Exports a trace of known counts in every format; the files must have these counts.
fn of_known_counts(kymo: &Path, big_trace: &Path, python: &Path, folder: &Path) -> Result<()> {
    let trace = folder.join("trace");
    let counts = Command::new(big_trace)
        .arg("write")
        .arg(&trace)
        .args(["--megabytes", &MEGABYTES.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| big_trace.display().to_string())?;
    let counts: BTreeMap<String, u64> =
        serde_json::from_slice(&counts.stdout).context("the trace cannot be written")?;
    let export = |to: &str, name: &str| -> Result<PathBuf> {
        let out = folder.join(name);
        let mut export = Command::new(kymo);
        run_command(
            export
                .arg("export")
                .arg(&trace)
                .arg(&out)
                .args(["--to", to]),
        )?;
        Ok(out)
    };
    let mut check = Command::new(python);
    check
        .arg(SCRIPT)
        .arg(export("perfetto", "trace.pftrace")?)
        .arg("--counts");
    for (category, event) in SLICES {
        check.arg(format!(
            "{category}={}",
            counts.get(event).copied().unwrap_or(0)
        ));
    }
    run_command(&mut check)?;

    let tables = export("parquet", "tables")?;
    let expected = lines_of(&dumped(kymo, &trace)?);
    if expected != lines_of(&counts) {
        bail!("kymo dump --count does not give the counts that were written:\n{expected}");
    }
    for example in EXAMPLES {
        counted(python, example, &tables, &expected)?;
    }
    let calls = calls_of(python, &tables)?;
    for to in ["csv", "chrome"] {
        export(to, to)?;
    }
    for (table, event) in SPANS {
        let rows = lines(&folder.join(format!("csv/_{table}.csv")))? - 1;
        let ends = counts.get(event).copied().unwrap_or(0);
        if rows != ends || ends == 0 || (table == "syscalls" && calls != ends) {
            bail!("the table {table} has {rows} rows, of {ends} spans; {calls} calls in Parquet");
        }
    }
    let csv: u64 = counts
        .keys()
        .map(|name| lines(&folder.join(format!("csv/{name}.csv"))))
        .sum::<Result<u64>>()?;
    let events: u64 = counts.values().sum();
    if csv != events + counts.len() as u64 {
        bail!(
            "the CSV files have {csv} lines, and {events} events and {} heads are right",
            counts.len()
        );
    }
    let mut json = Command::new(python);
    run_command(
        json.args(["-c", "import json, sys; json.load(open(sys.argv[1]))"])
            .arg(folder.join("chrome")),
    )
}

/// The number of system calls that the example for them counts.
fn calls_of(python: &Path, tables: &Path) -> Result<u64> {
    let script = root().join("examples/export/duckdb_calls.py");
    let output = Command::new(python).arg(script).arg(tables).output();
    let output = output.context("python cannot be started")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let counts = printed.lines().map(|line| {
        let count: Option<u64> = line.split(' ').nth(1).and_then(|count| count.parse().ok());
        count.with_context(|| format!("duckdb_calls.py prints {line:?}"))
    });
    counts.sum::<Result<u64>>().with_context(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("duckdb_calls.py failed: {errors}")
    })
}

/// A line for each name, as the examples print them.
fn lines_of(counts: &BTreeMap<impl std::fmt::Display, u64>) -> String {
    counts
        .iter()
        .map(|(name, count)| format!("{name} {count}\n"))
        .collect()
}

/// The counts of `kymo dump --count`, by name.
fn dumped(kymo: &Path, trace: &Path) -> Result<BTreeMap<String, u64>> {
    let output = Command::new(kymo)
        .arg("dump")
        .arg(trace)
        .args(["--count", "--json"])
        .output();
    let counted: Value = serde_json::from_slice(&output.context("kymo cannot be started")?.stdout)
        .context("kymo dump --count")?;
    let mut counts = BTreeMap::new();
    for row in counted["events"].as_array().into_iter().flatten() {
        *counts
            .entry(row["name"].as_str().unwrap_or_default().to_owned())
            .or_default() += row["count"].as_u64().unwrap_or(0);
    }
    Ok(counts)
}

/// Checks that the example prints these counts.
fn counted(python: &Path, example: &str, tables: &Path, expected: &str) -> Result<()> {
    eprintln!("$ python {example}");
    let script = root().join("examples/export").join(example);
    let output = Command::new(python)
        .arg(script)
        .arg(tables)
        .output()
        .context("python cannot be started")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || printed != expected {
        bail!(
            "{example} prints:\n{printed}{}\ninstead of:\n{expected}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    println!(
        "{example} counts {} kinds of events as kymo dump does.",
        expected.lines().count()
    );
    Ok(())
}

fn lines(file: &Path) -> Result<u64> {
    let bytes = fs::read(file).with_context(|| file.display().to_string())?;
    Ok(bytes.iter().filter(|&&byte| byte == b'\n').count() as u64)
}

/// Runs the command with inherited output; an error unless it succeeds.
fn run_command(command: &mut Command) -> Result<()> {
    eprintln!("$ {command:?}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("this failed ({status}): {command:?}");
    }
    Ok(())
}

/// Root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}
