//! `cargo xtask flame`: from a fresh clone to the flame graph of an ordinary program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{build, cargo, output, run as run_command, target};

/// Profiles `examples/flame.rs`, draws it, and prints its hottest functions.
pub(crate) fn run() -> Result<()> {
    let kymo = build("kymo")?;
    let trace = record(Callers::FramePointers)?;
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

/// How the callers of a sample are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callers {
    FramePointers,
    /// By the program's tables, on copies of its stacks.
    Tables,
}

/// Builds the example, its debug information kept for inlined functions, and runs it. Returns the
/// trace.
fn record(callers: Callers) -> Result<PathBuf> {
    let (frame_pointers, stack_bytes) = match callers {
        Callers::FramePointers => ("-Cforce-frame-pointers=yes", "0"),
        Callers::Tables => ("-Cforce-frame-pointers=no", "8192"),
    };
    run_command(&mut cargo(&[
        "rustc",
        "--release",
        "-p",
        "kymo-hosted",
        "--example",
        "flame",
        "--",
        frame_pointers,
        "-Cdebuginfo=2",
        "-Cstrip=none",
    ]))?;
    let folder = target().join("flame");
    let trace = folder.join("trace");
    if trace.exists() {
        fs::remove_dir_all(&trace).context("the old trace cannot be removed")?;
    }
    fs::create_dir_all(&folder)?;
    let mut program = Command::new(target().join("release/examples/flame"));
    run_command(program.arg(&trace).arg(stack_bytes))?;
    Ok(trace)
}

/// Checks that the stacks of both threads are whole, with the functions that were inlined: of the
/// program with frame pointers, and without.
pub(crate) fn check() -> Result<()> {
    let kymo = build("kymo")?;
    for callers in [Callers::FramePointers, Callers::Tables] {
        check_stacks(&folded(&kymo, &record(callers)?)?)?;
    }
    Ok(())
}

fn check_stacks(folded: &str) -> Result<()> {
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
        ["words (", "flame::count_words;", "hashbrown"],
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
