//! `cargo xtask sql`: lints, builds and tests `kymo-query`, a workspace of its own, as its engine
//! takes minutes to compile.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::failure::NotRun;
use crate::process::{cargo, quiet, root, run as run_command, target};

/// Its format and its tests.
///
/// # Errors
/// [`NotRun`] where the compiler is older than the engine needs, which is newer than Kymo's.
pub(crate) fn test() -> Result<()> {
    check_compiler()?;
    inside(&["fmt", "--check"])?;
    inside(&["test", "--locked"])
}

/// All of it.
pub(crate) fn run() -> Result<()> {
    check_compiler()?;
    let clippy = [
        "clippy",
        "--locked",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    inside(&clippy)?;
    test()
}

fn check_compiler() -> Result<()> {
    let manifest = fs::read_to_string(root().join("sql/Cargo.toml"))?;
    let line = |line: &str| {
        let version = line.strip_prefix("rust-version = \"")?;
        minor(version.trim_end_matches('"'))
    };
    let needed = manifest.lines().find_map(line);
    let needed = needed.context("sql/Cargo.toml names no compiler")?;
    let told = quiet(Command::new("rustc").arg("--version")).unwrap_or_default();
    let had = told.split_whitespace().nth(1).and_then(minor);
    match had.context("rustc does not tell its version")? {
        had if had < needed => bail!(NotRun(format!(
            "kymo-query needs Rust 1.{needed}, and this is 1.{had}"
        ))),
        _ => Ok(()),
    }
}

/// The second number of a version such as 1.94 or 1.95.0-nightly.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn inside(arguments: &[&str]) -> Result<()> {
    let mut command = cargo(arguments);
    command.current_dir(root().join("sql"));
    run_command(command.env("CARGO_TARGET_DIR", target().join("sql")))
}
