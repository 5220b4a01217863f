//! `cargo xtask bench trace`: builds benches/trace with every peer, runs it, and writes its figures
//! into the book.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::book;
use super::lttng::Daemon;
use crate::failure::Environment;
use crate::process::{cargo, quiet, root, run, target};
use crate::{python, setup};

/// Extent of the measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Every peer, many rounds; the table goes into the book.
    Full,
    /// Few rounds; peers that cannot be installed are left out and named. No timed figure can fail.
    Short,
}

const PAGE: &str = "docs/src/trace-cost.md";
const BEGIN: &str = "<!-- bench trace: begin -->";
const END: &str = "<!-- bench trace: end -->";
/// Peers that need more than cargo fetches, with the feature that builds them.
const OPTIONAL: [(&str, &str); 2] = [("barectf", "barectf"), ("LTTng-UST", "lttng")];

/// Whether the benchmark supports this platform.
const IS_HERE: bool = cfg!(all(target_arch = "x86_64", target_os = "linux"));

/// The program's folder.
pub(crate) fn folder() -> PathBuf {
    root().join("benches/trace")
}

/// Lints the program, without the peers that need more than cargo fetches.
pub(crate) fn clippy() -> Result<()> {
    if !IS_HERE {
        println!("benches/trace is not linted: it is for x86-64 Linux.");
        return Ok(());
    }
    let mut command = cargo(&["clippy", "--release", "--locked", "--target-dir"]);
    run(command
        .arg(target().join("bench-trace"))
        .args(["--", "-Dwarnings"])
        .current_dir(folder()))
}

/// Measures everything, prints the table, and in the full form writes it into the book.
pub(crate) fn measure_all(form: Form) -> Result<()> {
    let obstacle = match std::thread::available_parallelism() {
        _ if !IS_HERE => {
            Some("it is for x86-64 processors under Linux, and this is another machine")
        }
        Ok(cpus) if cpus.get() < 2 => Some("it needs two CPUs"),
        _ => None,
    };
    match obstacle {
        Some(obstacle) if form == Form::Short => {
            eprintln!("\nNOT MEASURED: bench trace: {obstacle}\n");
            return Ok(());
        }
        Some(obstacle) => bail!(Environment(format!(
            "bench trace cannot run here: {obstacle}."
        ))),
        None => {}
    }
    let folder = target().join("bench-trace");
    let generated = folder.join("barectf");
    fs::create_dir_all(&generated)?;
    let available = [barectf(&generated), setup::lttng()];
    let mut features = Vec::new();
    let mut missing = Vec::new();
    for ((name, feature), available) in OPTIONAL.into_iter().zip(available) {
        match available {
            Ok(()) => features.push(feature),
            Err(error) if form == Form::Short => {
                eprintln!("\nNOT MEASURED: {name}: {error:#}\n");
                missing.push(name);
            }
            Err(error) => return Err(error),
        }
    }
    let mut build = cargo(&["build", "--release", "--locked", "--target-dir"]);
    build.arg(&folder).args(["--features", &features.join(",")]);
    run(build
        .current_dir(self::folder())
        .env("KYMO_BENCH_BARECTF", &generated))?;

    let clock = folder.join("lttng_clock.so");
    let has_lttng = features.contains(&"lttng");
    if has_lttng {
        let mut cc = Command::new("cc");
        run(cc
            .args(["-O3", "-shared", "-fPIC", "-o"])
            .arg(&clock)
            .arg(self::folder().join("c/lttng_clock.c")))?;
    }
    let rounds = if form == Form::Full { "200" } else { "3" };
    let mut lines = measure(
        &folder,
        has_lttng.then_some(Some(clock.as_path())),
        &["--rounds", rounds],
    )?;
    if has_lttng && form == Form::Full {
        // LTTng selects its clock when a program starts, so its own clock needs a separate run,
        // which includes the floor.
        let own = measure(
            &folder,
            Some(None),
            &["--rounds", rounds, "--only", "LTTng"],
        )?;
        lines.extend(own.into_iter().filter(|line| line.starts_with("LTTng")));
    }
    let table = table(&lines, &missing)?;
    println!("{table}");
    if form == Form::Short {
        println!("The times are from {rounds} rounds and mean little.");
    }
    if form == Form::Full {
        book::write(PAGE, (BEGIN, END), &table)
    } else {
        Ok(())
    }
}

/// Installs barectf in a virtual environment. Returns its command.
pub(crate) fn barectf_command() -> Result<PathBuf> {
    setup::barectf()?;
    Ok(python::environment("bench-trace", &folder().join("requirements.txt"))?.join("barectf"))
}

/// Generates the tracer.
fn barectf(generated: &Path) -> Result<()> {
    let mut command = Command::new(barectf_command()?);
    command.arg("generate");
    for kind in ["--code-dir", "--headers-dir", "--metadata-dir"] {
        command.arg(kind).arg(generated);
    }
    run(command.arg(folder().join("c/barectf.yaml")))
}

/// Runs the program once; `lttng` starts an LTTng session, optionally with this clock plugin.
/// Returns the program's lines.
fn measure(folder: &Path, lttng: Option<Option<&Path>>, arguments: &[&str]) -> Result<Vec<String>> {
    let traces = folder.join("traces");
    if traces.exists() {
        fs::remove_dir_all(&traces)?;
    }
    fs::create_dir_all(&traces)?;
    let mut command = Command::new(folder.join("release/kymo-bench-trace"));
    command.arg("--folder").arg(&traces).args(arguments);
    if !arguments.contains(&"--only") {
        command.arg("--budgets").arg(root().join("budgets.toml"));
    }
    let session = lttng.map(|clock| start_lttng(&traces, clock)).transpose()?;
    if let Some(session) = &session {
        session.environment(&mut command);
        let version = quiet(Command::new("dpkg-query").args([
            "--show",
            "--showformat=${Version}",
            "liblttng-ust-dev",
        ]));
        command.env("KYMO_BENCH_LTTNG_VERSION", version.unwrap_or_default());
        // The program waits until it is registered.
        command.env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
    }
    let output = command
        .stdout(Stdio::piped())
        .spawn()
        .and_then(Child::wait_with_output)
        .context("the benchmark cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        print!("{text}");
        bail!("the benchmark has failed ({})", output.status);
    }
    Ok(text.lines().map(str::to_owned).collect())
}

/// Starts a session that records into memory.
fn start_lttng(folder: &Path, clock: Option<&Path>) -> Result<Daemon> {
    let daemon = Daemon::start(&folder.join("lttng-home"), clock)?;
    daemon.lttng(&["create", "kymo-bench", "--snapshot"])?;
    let size = [
        "--subbuf-size=64K",
        "--num-subbuf=4",
        "--switch-timer=0",
        "--read-timer=0",
    ];
    daemon.lttng(
        &[
            &[
                "enable-channel",
                "--userspace",
                "--buffers-uid",
                "--overwrite",
            ],
            &size[..],
            &["ring"],
        ]
        .concat(),
    )?;
    daemon.lttng(&[
        "enable-event",
        "--userspace",
        "--channel=ring",
        "kymo_bench:pair",
    ])?;
    daemon.lttng(&["start"])?;
    Ok(daemon)
}

/// The table for the book, with a description of the machine.
fn table(lines: &[String], missing: &[&str]) -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown")
        .trim_start_matches(['\t', ' ', ':']);
    let virtual_machine = quiet(Command::new("systemd-detect-virt").arg("--vm")).is_some();
    let kernel = quiet(Command::new("uname").arg("-sr")).unwrap_or_default();
    let compilers = lines
        .iter()
        .find_map(|line| line.strip_prefix("# compilers\t"))
        .unwrap_or("unknown");
    let machine = if virtual_machine {
        "a virtual machine"
    } else {
        "a machine"
    };
    let mut text = format!(
        "Measured by `cargo xtask bench trace` on {machine} with 2 pinned CPUs ({cpu}), {}; \
         {compilers}; optimisation level 3, baseline x86-64.\n\n",
        kernel.trim()
    );
    let columns = [
        "what",
        "ns, minimum",
        "ns, median",
        "x floor",
        "instructions",
        "bytes",
        "off: instructions",
        "off: ns",
        "two threads",
    ];
    text.push_str(&format!(
        "| {} |\n|{}\n",
        columns.join(" | "),
        " --- |".repeat(columns.len())
    ));
    let mut peers = String::new();
    for line in lines.iter().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [
            name,
            version,
            configuration,
            minimum,
            median,
            floor,
            instructions,
            bytes,
            off,
            off_time,
            _,
            scaling,
        ] = fields[..]
        else {
            bail!("malformed line of the benchmark: {line}");
        };
        let cells = [
            name,
            minimum,
            median,
            floor,
            instructions,
            bytes,
            off,
            off_time,
            scaling,
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        let version = if version.is_empty() {
            String::new()
        } else {
            format!(" {version}")
        };
        peers.push_str(&format!("- **{name}**{version}: {configuration}.\n"));
    }
    for name in missing {
        text.push_str(&format!(
            "| {name} | not measured |{}\n",
            "  |".repeat(columns.len() - 2)
        ));
    }
    text.push('\n');
    text.push_str(&peers);
    Ok(text)
}
