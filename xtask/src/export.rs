//! The step `export` of `cargo xtask test`: what `kymo export` writes is read by others.
//!
//! Perfetto's files are held against the published schema; Parquet's are counted by Polars and
//! DuckDB, with the book's examples.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, program, root, run as run_command, target, told as output};
use crate::{python, setup};

/// Length of the trace that is exported, in megabytes.
const MEGABYTES: u64 = 2;
/// Slices of these categories, and the events that begin them.
const SLICES: [(&str, &str); 2] = [("irq", "irq_handler_entry"), ("syscall", "sys_enter")];
const EXAMPLES: [&str; 2] = ["polars_counts.py", "duckdb_counts.py"];

pub(crate) fn run() -> Result<()> {
    let python = interpreter()?;
    let folder = target().join("export/files");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("what was exported before cannot be removed")?;
    }
    fs::create_dir_all(&folder)?;

    // The traces of the tests, which have losses, ends of all kinds, and Linux's events.
    let mut tests = cargo(&[
        "test",
        "-p",
        "kymo-export",
        "--test",
        "perfetto",
        "--test",
        "other_tracers",
    ]);
    run_command(tests.env("KYMO_EXPORTED", &folder))?;
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    if files.len() < 5 {
        bail!(
            "the tests of kymo-export left {} files for the schema instead of all",
            files.len()
        );
    }
    let script = root().join("xtask/export/check_perfetto.py");
    run_command(Command::new(&python).arg(&script).args(&files))?;

    let trace = folder.join("trace");
    let mut write = program("kymo-big-trace")?;
    write.arg("write").arg(&trace);
    let counts = output(write.args(["--megabytes", &MEGABYTES.to_string()]))?;
    let counts: BTreeMap<String, u64> = serde_json::from_str(&counts)?;
    run_command(&mut cargo(&[
        "build",
        "-p",
        "kymo-cli",
        "--features",
        "parquet",
    ]))?;
    let export = |to: &str, name: &str| -> Result<PathBuf> {
        let out = folder.join(name);
        let mut kymo = Command::new(target().join("debug/kymo"));
        run_command(kymo.arg("export").arg(&trace).arg(&out).args(["--to", to]))?;
        Ok(out)
    };
    let mut check = Command::new(&python);
    check
        .arg(&script)
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
    let expected = told(&dumped(&trace)?);
    if expected != told(&counts) {
        bail!("kymo dump --count does not give the counts that were written:\n{expected}");
    }
    for example in EXAMPLES {
        counted(&python, example, &tables, &expected)?;
    }
    for to in ["csv", "chrome"] {
        export(to, to)?;
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
    let mut json = Command::new(&python);
    run_command(
        json.args(["-c", "import json, sys; json.load(open(sys.argv[1]))"])
            .arg(folder.join("chrome")),
    )?;
    fs::remove_dir_all(&folder).context("what was exported cannot be removed")
}

/// One line a name, as the examples print it.
fn told(counts: &BTreeMap<impl std::fmt::Display, u64>) -> String {
    counts
        .iter()
        .map(|(name, count)| format!("{name} {count}\n"))
        .collect()
}

/// What `kymo dump --count` says, by name.
fn dumped(trace: &Path) -> Result<BTreeMap<String, u64>> {
    let output = Command::new(target().join("debug/kymo"))
        .arg("dump")
        .arg(trace)
        .args(["--count", "--json"])
        .output();
    let told: Value = serde_json::from_slice(&output.context("kymo cannot be started")?.stdout)
        .context("kymo dump --count")?;
    let mut counts = BTreeMap::new();
    for row in told["events"].as_array().into_iter().flatten() {
        *counts
            .entry(row["name"].as_str().unwrap_or_default().to_owned())
            .or_default() += row["count"].as_u64().unwrap_or(0);
    }
    Ok(counts)
}

/// The example must print these counts.
fn counted(python: &Path, example: &str, tables: &Path, expected: &str) -> Result<()> {
    eprintln!("$ python {example}");
    let script = root().join("examples/export").join(example);
    let output = Command::new(python)
        .arg(script)
        .arg(tables)
        .output()
        .context("python cannot be started")?;
    let told = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || told != expected {
        bail!(
            "{example} says:\n{told}{}\nand this is right:\n{expected}",
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

/// The python that has the readers.
fn interpreter() -> Result<PathBuf> {
    setup::python()?;
    Ok(
        python::environment("export", &root().join("xtask/export/requirements.txt"))?
            .join("python"),
    )
}
