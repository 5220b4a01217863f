//! `cargo xtask sql`: lints, builds and tests `kymo-query`, a workspace of its own, as its engine
//! takes minutes to compile.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::failure::NotRun;
use crate::process::{self, cargo, quiet, root, run as run_command, target};
use crate::{python, setup};

/// Its format and its tests.
///
/// # Errors
/// [`NotRun`] where the compiler is older than the engine needs, which is newer than Kymo's.
pub(crate) fn test() -> Result<()> {
    check_compiler()?;
    inside(&["fmt", "--check"])?;
    inside(&["test", "--locked", WITH_WORKERS])
}

/// All that is optional. One set of features, so that the engine is compiled once.
const WITH_WORKERS: &str = "--features=cluster";

/// Random queries that are asked here and of DuckDB.
const QUERIES: &str = "1000";

/// Asks random queries of a trace, and DuckDB those of its exported tables.
fn beside_duckdb() -> Result<()> {
    let query = build(false)?;
    let python = python()?;
    let folder = target().join("sql-duckdb");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let (trace, tables) = (folder.join("trace"), folder.join("tables"));
    let mut write = Command::new(process::build("kymo-big-trace")?);
    write.arg("write").arg(&trace).args(["--megabytes", "1"]);
    run_command(&mut write)?;
    let mut export = Command::new(process::build("kymo")?);
    export.args(["export", "--to", "parquet"]).arg(&trace);
    run_command(export.arg(&tables))?;
    let mut beside = Command::new(python);
    beside.arg(root().join("sql/tests/duckdb/beside.py"));
    run_command(beside.arg(query).arg(trace).arg(tables).arg(QUERIES))
}

/// A Python that has DuckDB: that of the step `export`.
pub(crate) fn python() -> Result<PathBuf> {
    setup::python()?;
    let requirements = root().join("tests/export/requirements.txt");
    Ok(python::environment("export", &requirements)?.join("python"))
}

/// All of it.
pub(crate) fn run() -> Result<()> {
    check_compiler()?;
    let clippy = ["clippy", "--locked", "--all-targets"];
    let strict = ["--", "-D", "warnings"];
    for features in [&[][..], &[WITH_WORKERS]] {
        inside(&[&clippy[..], features, &strict].concat())?;
    }
    test()?;
    beside_duckdb()
}

/// Builds `kymo-query`, and gives its path.
///
/// # Errors
/// [`NotRun`] where the compiler is older than the engine needs.
pub(crate) fn build(is_release: bool) -> Result<PathBuf> {
    check_compiler()?;
    let folder = target().join("sql");
    match is_release {
        true => inside(&["build", "--locked", WITH_WORKERS, "--release"])?,
        false => inside(&["build", "--locked", WITH_WORKERS])?,
    }
    let profile = if is_release { "release" } else { "debug" };
    Ok(folder.join(profile).join("kymo-query"))
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
