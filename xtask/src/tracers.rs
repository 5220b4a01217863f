//! `cargo xtask test tracers`: records and reads traces of other tracers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::bench::{lttng, trace};
use crate::failure::Environment;
use crate::process::{cargo, root, run as run_command, target};
use crate::setup;

/// Number of events of each kind that LTTng records; their numbers stay in the range that
/// babeltrace2 prints exactly.
const LTTNG_EVENTS: u64 = 3000;

/// Records every trace and compares the readings of Kymo and babeltrace2.
///
/// # Errors
/// [`Environment`] if a tracer cannot be installed: this step must not be skipped.
pub(crate) fn run() -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!(Environment(
            "The tracers are for x86-64 processors under Linux, and this is another machine."
                .into()
        ));
    }
    let folder = target().join("tracers");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let traces = [
        lttng_trace(&folder)?,
        barectf(&folder, "little")?,
        barectf(&folder, "big")?,
        kymo(&folder)?,
    ];
    let traces = std::env::join_paths(traces).context("a path has a colon in it")?;
    let values = [
        "test",
        "-p",
        "kymo-ctf",
        "--test",
        "tracers",
        "--",
        "--ignored",
        "--nocapture",
    ];
    run_command(cargo(&values).env("KYMO_TRACES", &traces))?;
    let lines = [
        "test",
        "-p",
        "kymo-cli",
        "--test",
        "babeltrace",
        "--",
        "--ignored",
        "--nocapture",
        "lines_of_tracers",
    ];
    run_command(cargo(&lines).env("KYMO_TRACES", &traces))
}

/// Records with LTTng's user-space tracer: large event headers, metadata in packets, index files,
/// every kind of field.
fn lttng_trace(folder: &Path) -> Result<PathBuf> {
    setup::lttng()?;
    let folder = folder.join("lttng");
    fs::create_dir_all(&folder)?;
    lttng::record(&folder, "kinds", LTTNG_EVENTS, &folder.join("trace"))?;
    lttng::trace_folder(&folder.join("trace"))
}

/// Records with a tracer of this byte order that barectf generates.
fn barectf(folder: &Path, order: &str) -> Result<PathBuf> {
    let command = trace::barectf_command()?;
    let source = root().join("benches/ctf/barectf");
    let (folder, trace) = (folder.join(order), folder.join(order).join("trace"));
    fs::create_dir_all(&trace)?;
    let description = fs::read_to_string(source.join("trace.yaml"))?
        .replace("BYTE-ORDER", &format!("{order}-endian"));
    fs::write(folder.join("trace.yaml"), description)?;
    let mut generate = Command::new(command);
    generate
        .args(["generate", "--code-dir"])
        .arg(&folder)
        .arg("--headers-dir")
        .arg(&folder);
    run_command(
        generate
            .arg("--metadata-dir")
            .arg(&trace)
            .arg(folder.join("trace.yaml")),
    )?;

    // The generated code causes warnings.
    let object = folder.join("kt_.o");
    run_command(
        Command::new("cc")
            .args(["-O2", "-w", "-c", "-o"])
            .arg(&object)
            .arg(folder.join("kt_.c")),
    )?;
    let program = folder.join("record");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(&folder)
        .arg("-o")
        .arg(&program);
    run_command(cc.arg(source.join("record.c")).arg(&object))?;
    run_command(Command::new(&program).arg(&trace))?;
    Ok(trace)
}

/// Records with Kymo: runs the example of a program that records itself.
fn kymo(folder: &Path) -> Result<PathBuf> {
    let trace = folder.join("kymo");
    let arguments = [
        "run",
        "--quiet",
        "-p",
        "kymo-hosted",
        "--example",
        "hosted",
        "--",
    ];
    run_command(cargo(&arguments).arg(&trace))?;
    Ok(trace)
}
