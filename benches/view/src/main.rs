//! Measures `kymo view` on one trace: the first picture, the index, and what the server answers.

mod client;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use serde_json::Value;

use client::Client;

/// Rows of a screen.
const ROWS: usize = 300;
/// Columns of a request: the screen's, and as many on both sides.
const COLUMNS: u64 = 3 * 1_700;
/// Windows that are asked for.
const WINDOWS: usize = 300;
/// How often the server is asked for what it has read.
const EACH: Duration = Duration::from_millis(20);

/// Measure `kymo view`.
#[derive(Parser)]
struct Arguments {
    /// The `kymo` command
    #[arg(long)]
    kymo: PathBuf,
    /// The trace
    #[arg(long)]
    trace: PathBuf,
    /// A folder for the index, which is replaced
    #[arg(long)]
    folder: PathBuf,
    /// Fail if a figure misses its goal
    #[arg(long)]
    goals: bool,
}

/// `kymo view`, until it is dropped.
struct View(Child);

impl Drop for View {
    fn drop(&mut self) {
        // It has ended if it cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A line of the table.
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
    /// The most that it should be.
    goal: f64,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kymo-bench-view: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the figures; whether the goals are met, or do not matter.
fn measure(arguments: &Arguments) -> Result<bool> {
    let report = report(arguments)?;
    if arguments.folder.exists() {
        fs::remove_dir_all(&arguments.folder).context("the last index cannot be removed")?;
    }
    let begin = Instant::now();
    let (view, client) = start(arguments)?;
    let first = loop {
        if let Some(trace) = read(&client)? {
            client.window(&rows(&trace), (0, length(&trace)?), COLUMNS)?;
            break begin.elapsed();
        }
        thread::sleep(EACH);
    };
    let trace = loop {
        let trace = read(&client)?.context("the server has forgotten the trace")?;
        if trace["is_whole"] == true {
            break trace;
        }
        thread::sleep(EACH);
    };
    let made = begin.elapsed();
    let events = trace["events"].as_u64().context("no number of events")?;
    let (shown, size) = (rows(&trace), size(&arguments.trace)?);
    println!(
        "{events} events, {} MB, {} rows of {} at a time\n",
        size / 1_000_000,
        trace["rows"].as_array().map_or(0, Vec::len),
        shown.len()
    );
    let windows = windows(length(&trace)?);
    let cold = times(&client, &shown, &windows)?;
    let warm = times(&client, &shown, &windows)?;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let figures = [
        Figure {
            what: "first picture",
            value: millis(first),
            unit: "ms",
            goal: 1_000.0,
        },
        Figure {
            what: "index made, in times of kymo report",
            value: made.as_secs_f64() / report.as_secs_f64(),
            unit: "",
            goal: 2.0,
        },
        Figure {
            what: "index, part of the trace",
            value: 100.0 * self::size(&arguments.folder)? as f64 / size as f64,
            unit: "%",
            goal: 10.0,
        },
        Figure {
            what: "memory of the server besides maps",
            value: memory(&view)? as f64 / 1024.0,
            unit: "MiB",
            goal: 256.0,
        },
        Figure {
            what: "a window for the first time, 99th percentile",
            value: millis(percentile(&cold)),
            unit: "ms",
            goal: f64::INFINITY,
        },
        Figure {
            what: "a window asked for again, 99th percentile",
            value: millis(percentile(&warm)),
            unit: "ms",
            goal: 60.0,
        },
        Figure {
            what: "code of the page",
            value: client.page()? as f64 / 1024.0,
            unit: "KiB",
            goal: 150.0,
        },
    ];
    println!("{:<46} {:>10} {:>8}", "", "measured", "goal");
    let mut met = true;
    for Figure {
        what,
        value,
        unit,
        goal,
    } in figures
    {
        let shown = if goal.is_finite() {
            format!("{goal} {unit}")
        } else {
            String::new()
        };
        println!("{what:<46} {:>10} {shown:>8}", format!("{value:.1} {unit}"));
        met &= value <= goal;
    }
    println!(
        "\nkymo report took {:.2} s, the index {:.2} s.",
        report.as_secs_f64(),
        made.as_secs_f64()
    );
    Ok(met || !arguments.goals)
}

/// How long `kymo report` takes.
fn report(arguments: &Arguments) -> Result<Duration> {
    let begin = Instant::now();
    let mut command = Command::new(&arguments.kymo);
    command
        .arg("report")
        .arg(&arguments.trace)
        .stdout(Stdio::null());
    let status = command.status()?;
    ensure!(status.success(), "kymo report: {status}");
    Ok(begin.elapsed())
}

/// Starts `kymo view`.
fn start(arguments: &Arguments) -> Result<(View, Client)> {
    let mut command = Command::new(&arguments.kymo);
    command.args(["view", "--no-open", "--index"]);
    command.arg(&arguments.folder).arg(&arguments.trace);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let out = child.stdout.take().context("no output of kymo view")?;
    let view = View(child);
    let mut address = String::new();
    BufReader::new(out).read_line(&mut address)?;
    Ok((view, Client::new(address.trim())?))
}

/// The trace as the server knows it; `None` if nothing of it has been read.
fn read(client: &Client) -> Result<Option<Value>> {
    match client.get("api/trace")? {
        (200, body) => Ok(Some(serde_json::from_slice(&body)?)),
        (503, _) => Ok(None),
        (status, _) => Err(anyhow::anyhow!("the server answers {status}")),
    }
}

fn length(trace: &Value) -> Result<u64> {
    trace["span_ns"].as_u64().context("no length")
}

/// Rows of a screen: all, or as many that are spread over all.
fn rows(trace: &Value) -> Vec<usize> {
    let all = trace["rows"].as_array().map_or(0, Vec::len);
    let step = all.div_ceil(ROWS).max(1);
    (0..all).step_by(step).collect()
}

/// Stretches of the trace of every length, from 1 us to all of it, as numbers that seem random
/// have them (xorshift).
fn windows(length: u64) -> Vec<(u64, u64)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % end.max(1)
    };
    let decades = (length.max(1_000) as f64 / 1_000.0).log2();
    let window = |place: usize| {
        let part = place as f64 / WINDOWS as f64;
        let wide = (1_000.0 * (decades * part).exp2()) as u64;
        let from = below(length.saturating_sub(wide));
        (from, from + wide)
    };
    (0..WINDOWS).map(window).collect()
}

/// How long each window takes.
fn times(client: &Client, rows: &[usize], windows: &[(u64, u64)]) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for window in windows {
        let begin = Instant::now();
        client.window(rows, *window, COLUMNS)?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

/// The 99th percentile of sorted times.
fn percentile(times: &[Duration]) -> Duration {
    let place = (times.len() * 99).div_ceil(100).saturating_sub(1);
    times.get(place).copied().unwrap_or_default()
}

/// Bytes of the files in a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Memory of the server in KiB that belongs to no file.
fn memory(view: &View) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", view.0.id()))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .context("no RssAnon")?
        .parse()
        .context("RssAnon is no number")
}
