//! Measures the processor time per event of each verb of `kymo`, compared with babeltrace2, and the
//! memory of each.
//!
//! Everything is measured in one run, so that the ratios compare like with like: in every round
//! each command runs once, single-threaded, and its least time counts. The lines of `kymo dump
//! --format babeltrace` must equal babeltrace2's. `cargo xtask bench verbs` makes the traces and
//! runs this program, which prints the tables in Markdown.

mod call;
mod lines;
mod long;
mod table;
mod verb;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use call::Call;
use table::Speed;
use verb::{Baseline, VERBS, Verb};

/// Number of alternating runs with one and two jobs.
const JOB_PAIRS: usize = 5;
/// Least speed-up by a second job, in wall-clock time.
const JOBS_GOAL: f64 = 1.7;

/// Measures the verbs of `kymo` beside babeltrace2.
#[derive(Parser)]
struct Arguments {
    /// The `kymo` command
    #[arg(long)]
    kymo: PathBuf,
    /// A trace, with its name in the table; may be repeated
    #[arg(long = "trace", value_name = "NAME=DIRECTORY", value_parser = named)]
    traces: Vec<(String, PathBuf)>,
    /// A long trace, for the time of a part of it and for memory
    #[arg(long, value_name = "DIRECTORY")]
    long: Option<PathBuf>,
    /// A folder for exported and converted files
    #[arg(long)]
    scratch: PathBuf,
    /// Number of rounds, of which the least time counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Compare no figure with its goal, because the traces are small
    #[arg(long)]
    short: bool,
    /// Measure only verbs whose name contains this
    #[arg(long)]
    verb: Option<String>,
}

fn named(text: &str) -> Result<(String, PathBuf)> {
    let (name, directory) = text
        .split_once('=')
        .context("expected NAME=DIRECTORY, with a \"=\"")?;
    Ok((name.to_owned(), directory.into()))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let verbs: Vec<&Verb> = VERBS
        .iter()
        .filter(|verb| {
            let wanted = arguments.verb.as_deref().unwrap_or_default();
            verb.name.contains(wanted)
        })
        .collect();
    std::fs::create_dir_all(&arguments.scratch)?;
    let bench = Bench { arguments, verbs };
    let mut speeds = Vec::new();
    let mut notes = Vec::new();
    for (name, directory) in &arguments.traces {
        let measured = bench.speeds(name, directory)?;
        // A full run takes a quarter of an hour: show the results so far.
        eprintln!("{}", table::speeds(&measured, &table::Judge::new(false)));
        speeds.extend(measured);
        notes.extend(bench.notes(name, directory)?);
    }
    let judge = table::Judge::new(!arguments.short);
    println!("{}", table::machine());
    if !speeds.is_empty() {
        println!("{}", table::speeds(&speeds, &judge));
    }
    if let Some(trace) = &arguments.long {
        let long = bench.long(trace)?;
        println!("{}", table::parts(&long, &judge));
        println!("{}", table::memory(&long, &judge));
    }
    for note in &notes {
        println!("- {note}");
    }
    if arguments.short {
        println!("- The traces are small, and the figures mean little: none is compared.");
    } else {
        println!("- {judge}");
    }
    Ok(())
}

struct Bench<'a> {
    arguments: &'a Arguments,
    verbs: Vec<&'a Verb>,
}

impl Bench<'_> {
    fn kymo(&self, verb: &Verb, trace: &Path) -> Call {
        verb.call(&self.arguments.kymo, trace, &self.arguments.scratch)
    }

    fn dump(&self, trace: &Path, options: &[&str]) -> Call {
        Call::new(&self.arguments.kymo)
            .words(&["dump"])
            .word(trace)
            .words(options)
    }

    /// The least time of babeltrace2's two ways and of each verb, over all rounds.
    fn speeds(&self, name: &str, trace: &Path) -> Result<Vec<Speed>> {
        let events = self.events(trace)?;
        let babeltrace2 = [Baseline::Count, Baseline::Text].map(|way| (way, way.call(trace)));
        let mut least_theirs = [f64::MAX; 2];
        let mut least = vec![f64::MAX; self.verbs.len()];
        for round in 1..=self.arguments.rounds {
            eprintln!("{name}: round {round} of {}", self.arguments.rounds);
            for ((_, call), least) in babeltrace2.iter().zip(&mut least_theirs) {
                *least = least.min(call.seconds()?.processor);
            }
            for (verb, least) in self.verbs.iter().zip(&mut least) {
                *least = least.min(self.kymo(verb, trace).seconds()?.processor);
            }
        }
        let nanoseconds = |seconds: f64| seconds * 1e9 / events as f64;
        let theirs = |way: Baseline| {
            let found = babeltrace2.iter().zip(&least_theirs);
            let found = found.into_iter().find(|((each, _), _)| *each == way);
            found.map_or(0.0, |(_, seconds)| nanoseconds(*seconds))
        };
        Ok(self
            .verbs
            .iter()
            .zip(least)
            .map(|(verb, seconds)| Speed {
                trace: format!("{name}, {events}"),
                verb: verb.name,
                nanoseconds: nanoseconds(seconds),
                way: verb.beside,
                theirs: theirs(verb.beside),
                goal: verb.goal,
            })
            .collect())
    }

    /// Number of events in the trace.
    fn events(&self, trace: &Path) -> Result<u64> {
        let told = self.dump(trace, &["--count", "--json"]).output()?;
        let told: serde_json::Value =
            serde_json::from_str(&told).context("kymo dump --count --json")?;
        let events = told["total"]["events"].as_u64().unwrap_or(0);
        if events == 0 {
            bail!("{} has no events", trace.display());
        }
        Ok(events)
    }

    /// Compares the lines with babeltrace2's, and measures the gain of a second job.
    fn notes(&self, name: &str, trace: &Path) -> Result<Vec<String>> {
        let ours = self.dump(trace, &["--format", "babeltrace"]);
        let lines = lines::equal(&ours, &Baseline::Text.call(trace))?;
        let jobs = ["1", "2"].map(|jobs| self.dump(trace, &["--count", "--jobs", jobs]));
        let mut least = [f64::MAX; 2];
        let pairs = if self.arguments.short { 1 } else { JOB_PAIRS };
        for _ in 0..pairs {
            for (call, least) in jobs.iter().zip(&mut least) {
                *least = least.min(call.seconds()?.wall);
            }
        }
        let [one, two] = least;
        Ok(vec![
            format!("{name}: all {lines} lines of text are equal to babeltrace2's."),
            format!(
                "{name}: counting with two jobs is {:.2} times as fast as with one, by the clock \
                 on the wall (goal: {JOBS_GOAL} where each has a core of its own).",
                one / two.max(0.001)
            ),
        ])
    }
}
