//! `cargo xtask test tracers`: records and reads traces of other tracers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::bench::{lttng, trace};
use crate::failure::{Environment, NotRun};
use crate::process::{cargo, root, run as run_command, target};
use crate::{setup, test};

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
    let perf = perf(&folder)?;
    let mut traces = vec![
        lttng_trace(&folder)?,
        barectf(&folder, "little")?,
        barectf(&folder, "big")?,
        kymo(&folder)?,
    ];
    traces.extend(perf.iter().map(|(trace, _)| trace.clone()));
    let traces = std::env::join_paths(traces).context("a path has a colon in it")?;
    let tests = |package: &str| {
        test::host().map(|suite| {
            suite.only(|program| (&*program.package, &*program.target) == (package, "it"))
        })
    };
    tests("kymo-ctf")?.env("KYMO_TRACES", &traces).run(&[
        "--ignored",
        "--nocapture",
        "tracers::",
    ])?;
    tests("kymo-cli")?.env("KYMO_TRACES", &traces).run(&[
        "--ignored",
        "--nocapture",
        "lines_of_tracers",
    ])?;
    let Some((trace, program)) = perf else {
        bail!(NotRun(
            "perf may not sample a program here, the other tracers passed. \
             Type: sysctl kernel.perf_event_paranoid=2"
                .to_owned()
        ));
    };
    tests("kymo-cli")?
        .env("KYMO_PERF_TRACE", trace)
        .env("KYMO_PERF_PROGRAM", program)
        .run(&["--ignored", "chains_of_perf"])
}

/// Samples benches/ctf/spin.c with Linux's perf, by frame pointers, and converts what it wrote.
/// Gives the trace and the program; `None` where perf may not sample. (LTTng records callers in the
/// kernel only, with modules that are not in Debian's kernel: for programs it says "callstack-user:
/// UST invalid context".)
fn perf(folder: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    setup::perf()?;
    let folder = folder.join("perf");
    fs::create_dir_all(&folder)?;
    let (program, data, trace) = (
        folder.join("spin"),
        folder.join("perf.data"),
        folder.join("trace"),
    );
    let mut cc = Command::new("cc");
    // Unoptimized, every function has a frame. Addresses are those of the file.
    cc.args(["-O0", "-g", "-Wall", "-Wextra", "-Werror", "-static"]);
    cc.args(["-no-pie", "-fno-omit-frame-pointer"]);
    cc.arg("-o").arg(&program);
    run_command(cc.arg(root().join("benches/ctf/spin.c")))?;
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "--call-graph", "fp"]);
    record.args(["--event", "cpu-clock:u", "--freq", "997", "--output"]);
    record.arg(&data).arg("--").arg(&program).arg("5000000000");
    let recorded = record.output().context("cannot start perf")?;
    if !recorded.status.success() {
        let says = String::from_utf8_lossy(&recorded.stderr);
        eprintln!("{says}");
        // It has these words for a system that does not let it.
        let is_refused = ["permi", "Permi", "not supported", "not implemented"];
        if is_refused.iter().any(|words| says.contains(words)) {
            return Ok(None);
        }
        bail!("perf record failed ({})", recorded.status);
    }
    let mut convert = Command::new("perf");
    convert.args(["data", "convert", "--to-ctf"]).arg(&trace);
    run_command(convert.arg("--input").arg(&data))?;
    Ok(Some((trace, program)))
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
