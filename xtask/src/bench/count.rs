//! `cargo xtask bench count`: how long a reading of a group of counters takes, beside perf-event2.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::{cargo, root, run, target};

/// The program's folder.
pub(crate) fn folder() -> PathBuf {
    root().join("benches/count")
}

/// Lints the program.
pub(crate) fn clippy() -> Result<()> {
    here(&["clippy", "--release"], &["--", "-Dwarnings"])
}

/// Builds and runs the program, which prints a table.
pub(crate) fn measure() -> Result<()> {
    here(&["run", "--release"], &[])
}

fn here(command: &[&str], rest: &[&str]) -> Result<()> {
    let mut cargo = cargo(command);
    cargo.args(["--locked", "--target-dir"]);
    cargo.arg(target().join("bench-count")).args(rest);
    run(cargo.current_dir(folder()))
}
