//! `cargo xtask fuzz ctf`: kymo-ctf fuzzed, and what of it the fuzzer reached.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, quiet, root, run as run_command, target};
use crate::setup;

/// What is fuzzed, each for the whole time.
const TARGETS: [&str; 4] = ["tsdl", "json", "stream", "convert"];
/// Of the lines of kymo-ctf, so many in a hundred must have been reached in a long run.
const GOAL: f64 = 90.0;
/// Files that open directories, which no input reaches.
const LEFT_OUT: &str = "trace/(mod|map|tally)\\.rs$";

/// LLVM's coverage pass: an option of code generation, so that the stable compiler has it.
const COVERAGE: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Fuzzes each target for so many seconds, keeps what is found, prints the lines reached.
pub(crate) fn ctf(seconds: u64, is_long: bool) -> Result<()> {
    let folder = target().join("fuzz");
    let program = build(&folder.join("edges"), &COVERAGE.join("\x1f"))?;
    for name in TARGETS {
        let corpus = folder.join("ctf").join(name);
        fs::create_dir_all(&corpus)?;
        let mut command = Command::new(&program);
        let status = command
            .arg(name)
            .arg(&corpus)
            .arg(seconds.to_string())
            .status()
            .context("kymo-fuzz cannot be started")?;
        if status.code() == Some(101) {
            bail!("the fuzzer itself has panicked");
        }
        if !status.success() {
            let kept = keep(name, &corpus)?;
            bail!(
                "fuzzing {name} has found something ({status}); it is kept in {}",
                kept.display()
            );
        }
    }
    lines(&folder, is_long)
}

fn build(folder: &Path, flags: &str) -> Result<PathBuf> {
    let host = setup::host().context("rustc does not say what machine this is")?;
    let mut command = cargo(&[
        "build",
        "--profile",
        "fuzz",
        "-p",
        "kymo-fuzz",
        "--target",
        &host,
        "--target-dir",
    ]);
    // Cargo's list of flags, of which each may have spaces. They are for this build alone, so it
    // has a folder of its own; with a target they are not for build scripts.
    run_command(command.arg(folder).env("CARGO_ENCODED_RUSTFLAGS", flags))?;
    Ok(folder.join(host).join("fuzz/kymo-fuzz"))
}

/// Copies a find to where every test run reads it.
fn keep(name: &str, corpus: &Path) -> Result<PathBuf> {
    let input = match fs::read(corpus.join("found")) {
        Ok(input) => input,
        // The process was killed: its input is behind its length.
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

/// Runs all inputs once more in a build that counts lines, and prints how many of kymo-ctf's they
/// reach.
fn lines(folder: &Path, is_long: bool) -> Result<()> {
    let Some(tools) = setup::llvm_tools() else {
        println!(
            "Lines reached: not measured; the tool chain's llvm-tools are missing. Type: rustup \
             component add llvm-tools"
        );
        return Ok(());
    };
    let program = build(&folder.join("lines"), "-Cinstrument-coverage")?;
    let mut profiles = Vec::new();
    for name in TARGETS {
        let profile = folder.join(format!("{name}.profraw"));
        let mut command = Command::new(&program);
        command
            .arg(name)
            .arg(folder.join("ctf").join(name))
            .arg("replay");
        run_command(command.env("LLVM_PROFILE_FILE", &profile))?;
        profiles.push(profile);
    }
    let merged = folder.join("ctf.profdata");
    run_command(
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
    let report = quiet(&mut report).context("llvm-cov fails")?;
    println!("{report}");
    let total = report
        .lines()
        .find(|line| line.starts_with("TOTAL"))
        .context("llvm-cov prints no total")?;
    // Regions, functions, lines: of each how many, how many missed, and the percentage reached.
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
    if is_long && reached < GOAL {
        bail!("the fuzzer reaches {reached} % of the lines, and {GOAL} were asked for");
    }
    Ok(())
}
