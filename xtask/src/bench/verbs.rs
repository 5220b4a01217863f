//! `cargo xtask bench verbs`: measures the speed of each verb of `kymo` that reads traces, beside
//! babeltrace2.
//!
//! The traces are recorded once and kept under the target folder; `benches/verbs` measures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{book, lttng};
use crate::failure::Environment;
use crate::process::{self, cargo, output, program, run as run_command, target};
use crate::{kernel, setup};

/// Extent of the measurement, and use of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Traces of the sizes for which the goals are set.
    Full,
    /// Like [`Form::Full`]; the tables go into the book.
    Book,
    /// Small traces, for CI: runs everything, but compares no figure with its goal.
    Short,
}

/// Restrictions and replacements from the command line.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Choice {
    /// Measure only these traces: demo, lttng-pair, lttng-mixed, long
    #[arg(long, value_name = "TRACE", value_delimiter = ',', value_parser = TRACES)]
    only: Vec<String>,
    /// Measure only verbs whose name contains this, such as "export --to csv"
    #[arg(long)]
    verb: Option<String>,
    /// Measure this `kymo` instead of building one
    #[arg(long, value_name = "PROGRAM")]
    kymo: Option<PathBuf>,
    /// Rounds, of which the fastest counts [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
}

impl Choice {
    fn has(&self, trace: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == trace)
    }
}

const TRACES: [&str; 4] = [DEMO, "lttng-pair", "lttng-mixed", LONG];
const DEMO: &str = "demo";
const LONG: &str = "long";

const PAGE: &str = "docs/src/reading-speed.md";
const BEGIN: &str = "<!-- bench verbs: begin -->";
const END: &str = "<!-- bench verbs: end -->";

/// Lengths of the traces.
struct Lengths {
    /// How often kernels/demo does all its work, and how much that is.
    demo: (usize, &'static str),
    /// Events of two integers, and of strings, arrays, enumerations and numbers.
    lttng: [(&'static str, u64); 2],
    megabytes: u64,
    rounds: u32,
}

const FULL: Lengths = Lengths {
    demo: (50, "rounds=1000 packets=4096"),
    lttng: [("pair", 10_000_000), ("mixed", 4_000_000)],
    megabytes: 1000,
    rounds: 3,
};
const SHORT: Lengths = Lengths {
    demo: (1, "rounds=100 packets=1024"),
    lttng: [("pair", 100_000), ("mixed", 40_000)],
    megabytes: 8,
    rounds: 1,
};

/// Makes the traces that are not there yet, measures, and prints the tables.
pub(crate) fn run(form: Form, choice: &Choice) -> Result<()> {
    let toolchain = setup::run()?;
    let lengths = if form == Form::Short { SHORT } else { FULL };
    let folder = target().join("bench-verbs");
    fs::create_dir_all(&folder)?;
    let kymo = match &choice.kymo {
        Some(kymo) => fs::canonicalize(kymo).with_context(|| kymo.display().to_string())?,
        None => build(form)?,
    };

    let mut bench = program("kymo-bench-verbs")?;
    let rounds = choice.rounds.unwrap_or(lengths.rounds);
    bench
        .args(["--rounds", &rounds.to_string()])
        .arg("--kymo")
        .arg(&kymo)
        .arg("--scratch")
        .arg(folder.join("scratch"));
    let mut add = |name: &str, trace: &Path| {
        bench
            .arg("--trace")
            .arg(format!("{name}={}", trace.display()));
    };
    if choice.has(DEMO) {
        let image = kernel::demo(setup::RISCV64, toolchain)?;
        add(DEMO, &demo(&folder, &kymo, &image, &lengths)?);
    }
    for (kind, events) in lengths.lttng {
        let name = format!("lttng-{kind}");
        if !choice.has(&name) {
            continue;
        }
        match lttng_obstacle() {
            None => add(&name, &recorded(&folder, kind, events)?),
            Some(obstacle) if form == Form::Short => {
                eprintln!("\nNOT MEASURED: {name}: {obstacle}\n");
            }
            Some(obstacle) => bail!(Environment(format!(
                "bench verbs cannot record LTTng's traces here: {obstacle}."
            ))),
        }
    }
    if choice.has(LONG) {
        bench
            .arg("--long")
            .arg(long(&folder, "long", lengths.megabytes)?);
    }
    if form == Form::Short {
        bench.arg("--short");
    }
    if let Some(verb) = &choice.verb {
        bench.args(["--verb", verb]);
    }
    let tables = output(&mut bench)?;
    println!("\n{tables}");
    match form {
        Form::Book => book::write(PAGE, (BEGIN, END), &tables),
        Form::Full | Form::Short => Ok(()),
    }
}

/// Builds `kymo` with every export. The short form measures nothing, so that it takes the build of
/// the other steps.
fn build(form: Form) -> Result<PathBuf> {
    if form == Form::Short {
        return process::build("kymo");
    }
    let mut build = cargo(&["build", "--release", "-p", "kymo-cli"]);
    run_command(build.args(["--features", "parquet"]))?;
    Ok(target().join("release/kymo"))
}

/// Why LTTng cannot record here, if it cannot.
fn lttng_obstacle() -> Option<String> {
    match std::thread::available_parallelism() {
        _ if !cfg!(all(target_arch = "x86_64", target_os = "linux")) => {
            Some("that is for x86-64 processors under Linux".to_owned())
        }
        Ok(cpus) if cpus.get() < 2 => Some("that needs two CPUs".to_owned()),
        _ => setup::lttng().err().map(|error| format!("{error:#}")),
    }
}

/// Makes a trace in a folder of this name, unless it was made already.
fn once(folder: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let home = folder.join(name);
    let done = home.join("done");
    if !done.is_file() {
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&home)?;
        make(&home)?;
        fs::write(&done, "")?;
    }
    Ok(home)
}

/// A trace by LTTng.
fn recorded(folder: &Path, kind: &str, events: u64) -> Result<PathBuf> {
    let home = once(folder, &format!("lttng-{kind}-{events}"), |home| {
        lttng::record(home, kind, events, &home.join("trace"))
    })?;
    lttng::trace_folder(&home.join("trace"))
}

/// A trace of kernels/demo on four harts.
fn demo(folder: &Path, kymo: &Path, image: &Path, lengths: &Lengths) -> Result<PathBuf> {
    let (times, settings) = lengths.demo;
    let home = once(folder, &format!("demo-{times}"), |home| {
        let append = format!("{}{settings}", "run=all ".repeat(times));
        let mut record = Command::new(kymo);
        record.arg("record").arg(image).arg("--out");
        run_command(record.arg(home.join("trace")).args(["--append", &append]))
    })?;
    Ok(home.join("trace"))
}

/// A long trace.
fn long(folder: &Path, name: &str, megabytes: u64) -> Result<PathBuf> {
    let home = once(folder, &format!("{name}-{megabytes}"), |home| {
        let mut write = program("kymo-big-trace")?;
        write.arg("write").arg(home.join("trace"));
        output(write.args(["--megabytes", &megabytes.to_string()])).map(drop)
    })?;
    Ok(home.join("trace"))
}
