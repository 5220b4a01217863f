//! `cargo xtask bench sql`: how fast `kymo query` is, beside other verbs and beside DuckDB.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, cargo, root, run, target};
use crate::sql;

/// Events in a megabyte, about.
const IN_MEGABYTE: u64 = 60_000;
/// Events for CI.
const SMALL: u64 = 200_000;
/// Events of the trace for which the goals are set.
const LARGE: u64 = 10_000_000;

/// Writes a trace of about so many events, and measures. The short form compares no figure with its
/// goal, and takes the builds of tests.
///
/// `only_workers` measures two workers beside one, and builds nothing else.
pub(crate) fn measure(is_short: bool, events: Option<u64>, only_workers: bool) -> Result<()> {
    let folder = target().join("bench-sql");
    let clear = || match folder.exists() {
        true => fs::remove_dir_all(&folder).context("the last trace cannot be removed"),
        false => Ok(()),
    };
    let query = sql::build(!is_short)?;
    let kymo = match is_short || only_workers {
        true => process::build("kymo")?,
        false => {
            let build = &[
                "build",
                "--release",
                "-p",
                "kymo-cli",
                "--features",
                "parquet",
            ];
            run(&mut cargo(build))?;
            target().join("release/kymo")
        }
    };
    let python = match only_workers {
        true => "python3".into(),
        false => sql::python()?,
    };
    clear()?;
    fs::create_dir_all(&folder)?;
    let trace = folder.join("trace");
    let events = events.unwrap_or(if is_short { SMALL } else { LARGE });
    let mut write = Command::new(process::build("kymo-big-trace")?);
    write.arg("write").arg(&trace).arg("--megabytes");
    run(write.arg(events.div_ceil(IN_MEGABYTE).to_string()))?;
    let mut bench = Command::new(process::build("kymo-bench-sql")?);
    bench.arg("--kymo").arg(kymo).arg("--query").arg(query);
    bench.arg("--python").arg(python);
    bench
        .arg("--script")
        .arg(root().join("benches/sql/calls.py"));
    bench.arg("--trace").arg(trace).arg("--folder").arg(&folder);
    bench.args(is_short.then_some("--short"));
    bench.args(only_workers.then_some("--only-workers"));
    run(&mut bench)?;
    clear()
}
