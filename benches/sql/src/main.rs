//! Measures `kymo query` on one trace, beside other verbs of `kymo` and beside DuckDB.
//!
//! Everything is measured in one run, so that the ratios compare like with like: in every round
//! each command runs once, and its least time counts. The query must count as many events as
//! `kymo dump`, and its percentiles must be DuckDB's; `kymo report` is only timed.
//! `cargo xtask bench sql` makes the trace and runs this program.

mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use command::Words;

/// Counts all events by name.
const COUNTS: &str = "select name, count(*) as n from events group by name order by name";
/// The 99th percentile of each system call by thread.
const CALLS: &str = "select tid, number, count(*) as n, percentile(duration_ns, 0.99) as p99 \
                     from syscalls group by tid, number order by tid, number";

/// Measures `kymo query`.
#[derive(Parser)]
struct Arguments {
    /// The `kymo` command
    #[arg(long)]
    kymo: PathBuf,
    /// The `kymo-query` command
    #[arg(long)]
    query: PathBuf,
    /// A Python that has DuckDB
    #[arg(long)]
    python: PathBuf,
    /// The script with DuckDB's query
    #[arg(long)]
    script: PathBuf,
    /// The trace
    #[arg(long)]
    trace: PathBuf,
    /// A folder for exported tables, which is replaced
    #[arg(long)]
    folder: PathBuf,
    /// Number of rounds, of which the least time counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Compare no figure with its goal, because the trace is small
    #[arg(long)]
    short: bool,
}

/// A line of the table.
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
    /// The most that it should be, if there is a goal.
    goal: Option<f64>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kymo-bench-sql: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The least seconds of each command.
#[derive(Clone, Copy)]
struct Times {
    start: f64,
    dump: f64,
    count: f64,
    report: f64,
    calls: f64,
    export: f64,
    duckdb: f64,
    /// DuckDB's query alone.
    parquet: f64,
    part: f64,
}

impl Times {
    const NONE: Times = Times {
        start: f64::INFINITY,
        dump: f64::INFINITY,
        count: f64::INFINITY,
        report: f64::INFINITY,
        calls: f64::INFINITY,
        export: f64::INFINITY,
        duckdb: f64::INFINITY,
        parquet: f64::INFINITY,
        part: f64::INFINITY,
    };
}

impl Arguments {
    fn kymo(&self, words: &[&str]) -> Words {
        Words::new(&self.kymo, words).and(&self.trace)
    }

    /// A query, whose answer is CSV without the head.
    fn query(&self, sql: &str) -> Words {
        let trace = self.trace.display().to_string();
        Words::new(&self.query, &[&trace, "--format=csv", sql])
    }

    fn tables(&self) -> PathBuf {
        self.folder.join("tables")
    }

    fn export(&self) -> Result<f64> {
        let tables = self.tables();
        if tables.exists() {
            fs::remove_dir_all(&tables).context("the last tables cannot be removed")?;
        }
        let (seconds, _) = self
            .kymo(&["export", "--to=parquet"])
            .and(&tables)
            .seconds()?;
        Ok(seconds)
    }

    /// DuckDB's seconds for the query alone, and its rows.
    fn duckdb(&self) -> Result<(f64, f64, String)> {
        let script = Words::new(&self.python, &[]).and(&self.script);
        let (whole, text) = script.and(&self.tables()).seconds()?;
        let (seconds, rows) = text
            .split_once('\n')
            .context("DuckDB's script says nothing")?;
        Ok((whole, seconds.parse()?, rows.to_owned()))
    }

    /// The trace's number of events, and the 1 % in the middle of its time.
    fn part(&self) -> Result<(u64, i64, i64)> {
        let sql = "select sum(events), min(begin_ns), max(end_ns) from cpus";
        let text = self.query(sql).output()?;
        let line = text.lines().nth(1).context("no CPUs")?;
        let numbers: Vec<i64> = line
            .split(',')
            .filter_map(|cell| cell.parse().ok())
            .collect();
        let &[events, begin, end] = numbers.as_slice() else {
            anyhow::bail!("the CPUs are malformed: {line}");
        };
        let length = (end - begin) / 100;
        let from = begin + (end - begin) / 2;
        Ok((events.unsigned_abs(), from, from + length))
    }

    fn round(&self, part: &Words, times: &mut Times) -> Result<()> {
        let least = |time: &mut f64, words: Words| -> Result<()> {
            let (seconds, _) = words.seconds()?;
            *time = time.min(seconds);
            Ok(())
        };
        least(&mut times.start, self.query("select 1"))?;
        least(&mut times.dump, self.kymo(&["dump", "--count"]))?;
        least(&mut times.count, self.query(COUNTS))?;
        least(&mut times.report, self.kymo(&["report"]))?;
        least(&mut times.calls, self.query(CALLS))?;
        least(&mut times.part, part.clone())?;
        times.export = times.export.min(self.export()?);
        let (whole, query, _) = self.duckdb()?;
        times.duckdb = times.duckdb.min(whole);
        times.parquet = times.parquet.min(query);
        Ok(())
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let (events, from, to) = arguments.part()?;
    println!(
        "{events} events, {} MB\n",
        size(&arguments.trace)? / 1_000_000
    );
    compare(arguments)?;
    let sql = format!(
        "select name, count(*) as n from events where ns between {from} and {to} \
         group by name order by name"
    );
    let part = arguments.query(&sql);
    let mut times = Times::NONE;
    for _ in 0..arguments.rounds.max(1) {
        arguments.round(&part, &mut times)?;
    }
    let (memory, question) = memory(arguments)?;
    print(arguments, times, memory / 1024.0);
    println!(
        "\nSeconds: select 1 {:.3}; dump --count {:.3}, count by name {:.3}, of 1 % of the time \
         {:.3}; report {:.3}, percentiles {:.3}; export {:.3}, DuckDB {:.3}, of which its query \
         {:.3}. Most memory: @{question}.",
        times.start,
        times.dump,
        times.count,
        times.part,
        times.report,
        times.calls,
        times.export,
        times.duckdb,
        times.parquet
    );
    Ok(())
}

fn print(arguments: &Arguments, times: Times, memory: f64) {
    let figure = |what, value, goal| Figure {
        what,
        value,
        unit: "x",
        goal: Some(goal),
    };
    let figures = [
        figure(
            "count by event, in times of dump --count",
            times.count / times.dump,
            3.0,
        ),
        figure(
            "p99 of system calls by thread, in times of report",
            times.calls / times.report,
            2.0,
        ),
        figure(
            "the same, in times of export and DuckDB",
            times.calls / (times.export + times.duckdb),
            1.0,
        ),
        Figure {
            goal: None,
            ..figure(
                "the same, in times of DuckDB's query over Parquet",
                times.calls / times.parquet,
                0.0,
            )
        },
        Figure {
            unit: "%",
            ..figure(
                "1 % of the time, part of the whole",
                100.0 * times.part / times.count,
                3.0,
            )
        },
        Figure {
            unit: "%",
            goal: None,
            ..figure(
                "the same without starting the program",
                100.0 * (times.part - times.start).max(0.0) / (times.count - times.start),
                0.0,
            )
        },
        Figure {
            unit: "MiB",
            ..figure(
                "memory besides maps, most of all ready questions",
                memory,
                1024.0,
            )
        },
    ];
    println!("| what | measured | goal | |\n| --- | ---: | ---: | --- |");
    for Figure {
        what,
        value,
        unit,
        goal,
    } in figures
    {
        let goal = goal.filter(|_| !arguments.short);
        let shown = goal.map_or(String::new(), |goal| format!("{goal} {unit}"));
        let verdict = match goal {
            Some(goal) if value > goal => "missed",
            Some(_) => "met",
            None => "",
        };
        println!("| {what} | {value:.2} {unit} | {shown} | {verdict} |");
    }
}

/// Checks the number of events by that of `kymo dump`, and percentiles by DuckDB.
fn compare(arguments: &Arguments) -> Result<()> {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<f64>().ok());
    let counted = arguments.kymo(&["dump", "--count", "--json"]).output()?;
    let counted: serde_json::Value = serde_json::from_str(&counted)?;
    let counts = arguments.query(COUNTS).output()?;
    let counts = counts.lines().skip(1);
    let sum: f64 = counts
        .filter_map(|line| number(line.rsplit(',').next()))
        .sum();
    let wanted = counted["total"]["events"]
        .as_f64()
        .context("dump counts no events")?;
    ensure!(
        sum == wanted,
        "the query counts {sum} events, and dump {wanted}"
    );

    arguments.export()?;
    let (_, _, wanted) = arguments.duckdb()?;
    let found = arguments.query(CALLS).output()?;
    let found: Vec<&str> = found.lines().skip(1).collect();
    let wanted: Vec<&str> = wanted.lines().collect();
    ensure!(!found.is_empty(), "the trace has no system calls");
    ensure!(
        found.len() == wanted.len(),
        "DuckDB has other groups than the query"
    );
    for (found, wanted) in found.iter().zip(wanted) {
        let (key, p99) = found.rsplit_once(',').context("no percentile")?;
        let (wanted_key, wanted_p99) = wanted.rsplit_once(',').context("no percentile")?;
        let near = number(Some(p99)).zip(number(Some(wanted_p99)));
        // The engine weighs the two values beside the place in millionths, and may cut the result.
        let near = near.is_some_and(|(one, other)| (one - other).abs() <= 1.0 + 1e-5 * other);
        ensure!(
            key == wanted_key && near,
            "the query has {found}, and DuckDB {wanted}"
        );
    }
    Ok(())
}

/// The most memory that a ready question takes, in KiB, and which. One that fails takes too much.
fn memory(arguments: &Arguments) -> Result<(f64, String)> {
    let list = Words::new(&arguments.query, &["--list"]).output()?;
    let mut most = (0.0, String::new());
    for name in list.lines().filter_map(|line| line.strip_prefix('@')) {
        let question = format!("@{name}");
        let words = Words::new(&arguments.query, &["--format=csv", &question]);
        let memory = words.and(&arguments.trace).memory()?;
        let memory = memory.map_or(f64::INFINITY, |kibibytes| kibibytes as f64);
        eprintln!("{question}: {:.0} MiB", memory / 1024.0);
        if memory > most.0 {
            most = (memory, name.to_owned());
        }
    }
    Ok(most)
}

/// Bytes of the files in a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
