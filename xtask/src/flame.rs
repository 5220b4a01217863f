//! `cargo xtask flame`: from a fresh clone to the flame graph of an ordinary program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{build, cargo, output, run as run_command, target};

/// Profiles `examples/flame.rs`, draws it, and prints its hottest functions.
pub(crate) fn run() -> Result<()> {
    let kymo = build("kymo-cli").map(|path| path.with_file_name("kymo"))?;
    let trace = record()?;
    let graph = trace.with_file_name("flame.svg");
    run_command(
        Command::new(&kymo)
            .arg("flame")
            .arg(&trace)
            .arg("-o")
            .arg(&graph),
    )?;
    run_command(Command::new(&kymo).args(["hot", "--top", "8"]).arg(&trace))?;
    println!("open this in a browser: {}", graph.display());
    Ok(())
}

/// Builds the example with frame pointers, its debug information kept for inlined functions, and
/// runs it. Returns the trace.
fn record() -> Result<PathBuf> {
    run_command(&mut cargo(&[
        "rustc",
        "--release",
        "-p",
        "kymo-hosted",
        "--example",
        "flame",
        "--",
        "-C",
        "force-frame-pointers=yes",
        "-C",
        "debuginfo=2",
        "-C",
        "strip=none",
    ]))?;
    let folder = target().join("flame");
    let trace = folder.join("trace");
    if trace.exists() {
        fs::remove_dir_all(&trace).context("the old trace cannot be removed")?;
    }
    fs::create_dir_all(&folder)?;
    run_command(Command::new(target().join("release/examples/flame")).arg(&trace))?;
    Ok(trace)
}

/// Checks that the stacks of both threads are whole, with the functions that were inlined.
pub(crate) fn check() -> Result<()> {
    let kymo = build("kymo-cli").map(|path| path.with_file_name("kymo"))?;
    let folded = folded(&kymo, &record()?)?;
    for stack in [
        [
            "flame (",
            "flame::main;flame::draw_picture;",
            "flame::draw_line;",
        ],
        ["flame (", "flame::draw_line;", "flame::escapes"],
        [
            "words (",
            "flame::main::{{closure}};flame::count_words;",
            "flame::write_text",
        ],
        ["words (", "flame::count_words;", "libc.so.6"],
    ] {
        let [thread, callers, function] = stack;
        let is_there = |line: &str| {
            let rest = line
                .strip_prefix(thread)
                .and_then(|line| line.split_once(callers));
            rest.is_some_and(|(_, inner)| inner.contains(function))
        };
        if !folded.lines().any(is_there) {
            bail!("no stack has {thread}...;{callers}...{function}:\n{folded}");
        }
    }
    Ok(())
}

fn folded(kymo: &Path, trace: &Path) -> Result<String> {
    let arguments = ["flame", "--format", "folded", "--by", "thread"];
    output(Command::new(kymo).args(arguments).arg(trace))
}
