//! Fuzzes kymo-ctf, the readers of a region and of foreign profiles, target by target, and measures
//! the line coverage of kymo-ctf.
//!
//! The fuzzer itself is `tests/fuzz`. It is built twice: with LLVM's coverage pass, which guides
//! it, and with instrumentation that counts lines.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Parser;

/// The targets, each of which is fuzzed for the whole time, beside others.
const TARGETS: [&str; 7] = [
    "tsdl",
    "json",
    "stream",
    "convert",
    "region",
    "redox",
    "perf_data",
];
/// Line coverage of kymo-ctf that a long run must reach, in percent.
const GOAL: f64 = 90.0;
/// Files that open directories, which no input reaches.
const LEFT_OUT: &str = "trace/(mod|map|tally)\\.rs$";

/// LLVM's coverage pass, which as a codegen option is available in the stable compiler.
const COVERAGE: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Fuzzes each target, keeps the finds, and prints the line coverage.
#[derive(Parser)]
struct Arguments {
    /// Seconds for each target
    #[arg(long)]
    seconds: u64,
    /// Fail unless the coverage goal is reached
    #[arg(long)]
    goal: bool,
    /// A folder for builds and inputs, which are kept for the next run
    #[arg(long)]
    folder: PathBuf,
    /// The host target of the current compiler
    #[arg(long)]
    host: String,
    /// The folder of LLVM's tools; without it coverage is not measured
    #[arg(long)]
    llvm_tools: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn run(arguments: &Arguments) -> Result<()> {
    let Arguments {
        seconds,
        folder,
        host,
        ..
    } = arguments;
    let program = build(&folder.join("edges"), host, &COVERAGE.join("\x1f"))?;
    let waiting = Mutex::new(TARGETS.into_iter());
    let next = || {
        let mut targets = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        targets.next()
    };
    let work = || -> Result<()> {
        while let Some(name) = next() {
            fuzz(&program, name, &folder.join("ctf").join(name), *seconds)?;
        }
        Ok(())
    };
    // A target takes one processor.
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.fold(Ok(()), Result::and)
    })?;
    if arguments.goal {
        lines(arguments)?;
    }
    Ok(())
}

/// Fuzzes a target for so many seconds, and keeps what it finds.
fn fuzz(program: &Path, name: &str, corpus: &Path, seconds: u64) -> Result<()> {
    fs::create_dir_all(corpus)?;
    let mut command = Command::new(program);
    command.arg(name).arg(corpus).arg(seconds.to_string());
    let status = command.status().context("kymo-fuzz cannot be started")?;
    if status.code() == Some(101) {
        bail!("the fuzzer itself has panicked");
    }
    if !status.success() {
        let kept = keep(name, corpus)?;
        bail!(
            "fuzzing {name} has found something ({status}); it is kept in {}",
            kept.display()
        );
    }
    Ok(())
}

/// Builds the fuzzer with these compiler flags. Returns its path.
fn build(folder: &Path, host: &str, flags: &str) -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args([
        "build",
        "--profile",
        "fuzz",
        "-p",
        "kymo-fuzz",
        "--target",
        host,
        "--target-dir",
    ]);
    // Cargo's encoded flags may contain spaces. They are only for this build, so it has its own
    // folder; with a target they do not apply to build scripts.
    succeed(command.arg(folder).env("CARGO_ENCODED_RUSTFLAGS", flags))?;
    Ok(folder.join(host).join("fuzz/kymo-fuzz"))
}

/// Copies a find to the folder that every test run reads.
fn keep(name: &str, corpus: &Path) -> Result<PathBuf> {
    let input = match fs::read(corpus.join("found")) {
        Ok(input) => input,
        // The process was killed: the file has the input's length and then the input.
        Err(_) => {
            let current = fs::read(corpus.join("current"))?;
            let length = current
                .first_chunk::<8>()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
            current
                .get(8..)
                .unwrap_or_default()
                .iter()
                .copied()
                .take(usize::try_from(length)?)
                .collect()
        }
    };
    let _ = fs::remove_file(corpus.join("found"));
    let sum: u64 = input.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = root().join(format!(
        "crates/kymo-ctf/tests/data/finds/{name}-{sum:016x}"
    ));
    fs::write(&path, input)?;
    Ok(path)
}

/// Runs all inputs again in a build that measures coverage, and prints the line coverage of
/// kymo-ctf.
fn lines(arguments: &Arguments) -> Result<()> {
    let Arguments {
        folder,
        host,
        llvm_tools,
        ..
    } = arguments;
    let Some(tools) = llvm_tools else {
        println!(
            "Lines reached: not measured; the tool chain's llvm-tools are missing. Type: rustup \
             component add llvm-tools"
        );
        return Ok(());
    };
    let program = build(&folder.join("lines"), host, "-Cinstrument-coverage")?;
    let mut profiles = Vec::new();
    for name in TARGETS {
        let profile = folder.join(format!("{name}.profraw"));
        let mut command = Command::new(&program);
        command
            .arg(name)
            .arg(folder.join("ctf").join(name))
            .arg("replay");
        succeed(command.env("LLVM_PROFILE_FILE", &profile))?;
        profiles.push(profile);
    }
    let merged = folder.join("ctf.profdata");
    succeed(
        Command::new(tools.join("llvm-profdata"))
            .args(["merge", "-sparse", "-o"])
            .arg(&merged)
            .args(&profiles),
    )?;
    let mut report = Command::new(tools.join("llvm-cov"));
    report
        .arg("report")
        .arg(&program)
        .arg(format!("--instr-profile={}", merged.display()));
    report
        .arg(format!("--ignore-filename-regex={LEFT_OUT}"))
        .arg("--sources")
        .arg(root().join("crates/kymo-ctf/src"));
    let report = report.output().context("llvm-cov cannot be started")?;
    if !report.status.success() {
        bail!(
            "llvm-cov fails: {}",
            String::from_utf8_lossy(&report.stderr)
        );
    }
    let report = String::from_utf8_lossy(&report.stdout);
    println!("{report}");
    let total = report
        .lines()
        .find(|line| line.starts_with("TOTAL"))
        .context("llvm-cov prints no total")?;
    // Regions, functions, lines: each with the total, the missed ones, and the percentage.
    let reached: f64 = total
        .split_whitespace()
        .filter_map(|word| word.strip_suffix('%'))
        .nth(2)
        .and_then(|percent| percent.parse().ok())
        .context("llvm-cov prints no percentage of lines")?;
    println!(
        "Lines of kymo-ctf reached: {reached} % (goal: {GOAL}); left out: files that open \
         directories ({LEFT_OUT})."
    );
    if reached < GOAL {
        bail!("the fuzzer reaches {reached} % of the lines; the goal is {GOAL} %");
    }
    Ok(())
}

/// Runs the command with inherited output; an error unless it succeeds.
fn succeed(command: &mut Command) -> Result<()> {
    eprintln!("$ {command:?}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("this failed ({status}): {command:?}");
    }
    Ok(())
}
