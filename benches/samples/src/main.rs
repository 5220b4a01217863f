//! How fast samples become folded stacks and a flame graph.
//!
//! It makes a trace of samples of a real kernel image, and the same samples as the text of `perf
//! script`, with the names that the image has for the addresses. `kymo flame --format folded` on
//! the trace and inferno-collapse-perf (inferno's library in a process of its own, with its
//! threads) on the text must give the same lines. Times are of whole processes; the fastest of
//! several rounds counts.

mod generate;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};

/// At least this many times faster than the text.
const RATIO: f64 = 20.0;
/// Longest time of a flame graph of a million samples.
const FLAME: Duration = Duration::from_secs(3);

#[derive(Parser)]
enum Arguments {
    /// Makes the samples and measures.
    Run(Run),
    /// Does what inferno-collapse-perf does.
    Collapse {
        /// Text of perf script.
        text: PathBuf,
    },
}

#[derive(clap::Args)]
struct Run {
    /// The command to measure.
    #[arg(long)]
    kymo: PathBuf,
    /// The kernel, with its debug information.
    #[arg(long)]
    kernel: PathBuf,
    /// A new or empty folder for the trace and the text.
    #[arg(long)]
    folder: PathBuf,
    /// Number of samples.
    #[arg(long, default_value_t = 1_000_000)]
    samples: u64,
    /// Number of distinct stacks.
    #[arg(long, default_value_t = 20_000)]
    stacks: usize,
    /// Rounds.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Fail if a goal is missed.
    #[arg(long)]
    goals: bool,
}

fn main() -> Result<()> {
    match Arguments::parse() {
        Arguments::Run(run) => measure(&run),
        Arguments::Collapse { text } => {
            let mut folder = Folder::from(Options::default());
            Ok(folder.collapse_file_to_stdout(Some(&text))?)
        }
    }
}

fn measure(run: &Run) -> Result<()> {
    let (trace, text) = (run.folder.join("trace"), run.folder.join("perf.txt"));
    if !trace.exists() {
        let made = generate::samples(&run.kernel, run.samples, run.stacks, &trace, &text)?;
        println!(
            "{} samples, {} distinct stacks, {:.1} frames each; trace {} MiB, text {} MiB",
            run.samples,
            run.stacks,
            made.frames as f64 / run.samples as f64,
            size(&trace)? >> 20,
            fs::metadata(&text)?.len() >> 20,
        );
    }
    let kernel = format!("--kernel={}", run.kernel.display());
    let folded = |out: &Path| {
        let mut command = Command::new(&run.kymo);
        command
            .args(["flame", "--format=folded", "--by=thread"])
            // As inferno, which knows no own functions.
            .args(["--inlined=all", &kernel, "-o"])
            .args([out, &trace]);
        time(&mut command, None)
    };
    let collapsed = |out: &Path| {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("collapse").arg(&text);
        time(&mut command, Some(out))
    };
    let drawn = |out: &Path| {
        let mut command = Command::new(&run.kymo);
        command.args(["flame", &kernel, "-o"]).args([out, &trace]);
        time(&mut command, None)
    };
    let mut best = [Duration::MAX; 3];
    let out = |name: &str| run.folder.join(name);
    for _ in 0..run.rounds {
        let times = [
            folded(&out("kymo.folded"))?,
            collapsed(&out("perf.folded"))?,
            drawn(&out("flame.svg"))?,
        ];
        for (best, time) in best.iter_mut().zip(times) {
            *best = time.min(*best);
        }
    }
    let [folded, collapsed, drawn] = best;
    let ratio = collapsed.as_secs_f64() / folded.as_secs_f64();
    println!(
        "kymo flame --format folded   {:8.3} s",
        folded.as_secs_f64()
    );
    println!(
        "inferno-collapse-perf        {:8.3} s",
        collapsed.as_secs_f64()
    );
    println!("ratio                        {ratio:8.1}");
    println!("kymo flame -o flame.svg      {:8.3} s", drawn.as_secs_f64());
    compare(&out("kymo.folded"), &out("perf.folded"))?;
    println!("folded output                   equal");
    if run.goals {
        if ratio < RATIO {
            bail!("the ratio is to be at least {RATIO}");
        }
        if drawn > FLAME && run.samples <= 1_000_000 {
            bail!("the flame graph is to take less than {FLAME:?}");
        }
    }
    Ok(())
}

/// Time of a whole process, its output in `out`.
fn time(command: &mut Command, out: Option<&Path>) -> Result<Duration> {
    command.stdin(Stdio::null()).stderr(Stdio::null());
    if let Some(out) = out {
        command.stdout(File::create(out)?);
    }
    let begin = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    let passed = begin.elapsed();
    match status.success() {
        true => Ok(passed),
        false => bail!("{command:?} failed: {status}"),
    }
}

/// Compares folded stacks, whose order is free. inferno writes a thread's name without blanks.
fn compare(one: &Path, other: &Path) -> Result<()> {
    let sorted = |path: &Path| -> Result<Vec<String>> {
        let text = fs::read_to_string(path)?;
        let plain = |line: &str| match line.split_once(';') {
            Some((thread, stack)) => format!("{};{stack}", thread.replace(' ', "_")),
            None => line.to_owned(),
        };
        let mut lines: Vec<String> = text.lines().map(plain).collect();
        lines.sort_unstable();
        Ok(lines)
    };
    let (one, other) = (sorted(one)?, sorted(other)?);
    let differs = one.iter().zip(&other).find(|(one, other)| one != other);
    match differs {
        Some((one, other)) => bail!("the folded stacks differ:\n{one}\n{other}"),
        None if one.len() != other.len() => {
            bail!("{} folded stacks and {}", one.len(), other.len())
        }
        None => Ok(()),
    }
}

fn size(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}

/// A file to write, with a large buffer.
fn create(path: &Path) -> Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

/// Writes all of it.
fn flush(mut file: BufWriter<File>) -> Result<()> {
    Ok(file.flush()?)
}
