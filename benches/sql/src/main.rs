//! Measures `kymo query` on one trace, beside other verbs of `kymo` and beside DuckDB, and two
//! workers beside one.
//!
//! Everything is measured in one run, so that the ratios compare like with like: in every round
//! each command runs once, and its least time counts. The query must count as many events as
//! `kymo dump`, and its percentiles must be DuckDB's, of the trace and of a store with it;
//! `kymo report` is only timed.
//! `cargo xtask bench sql` makes the trace and runs this program.

mod command;
mod workers;

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
    /// A folder for exported tables and stores, which are replaced
    #[arg(long)]
    folder: PathBuf,
    /// Number of rounds, of which the least time counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Compare no figure with its goal, because the trace is small
    #[arg(long)]
    short: bool,
    /// Measure workers, and nothing else
    #[arg(long)]
    only_workers: bool,
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
    /// Adding the trace to a store, with all tables and with some.
    add: f64,
    add_some: f64,
    /// Over a store: the program's start, the percentiles, DuckDB's percentiles, and the counts of
    /// 1 % of the time and of all of it.
    store_start: f64,
    store_calls: f64,
    store_duckdb: f64,
    store_part: f64,
    store_whole: f64,
}

/// The tables of which a fleet's regressions are found.
const SOME: &str = "--tables=syscalls,interrupts,lock_waits,wakeups";

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
        add: f64::INFINITY,
        add_some: f64::INFINITY,
        store_start: f64::INFINITY,
        store_calls: f64::INFINITY,
        store_duckdb: f64::INFINITY,
        store_part: f64::INFINITY,
        store_whole: f64::INFINITY,
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

    /// A query of the store with all tables.
    fn query_store(&self, sql: &str) -> Words {
        let store = self.store("store").display().to_string();
        Words::new(&self.query, &[&store, "--format=csv", sql])
    }

    fn store(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Adds the trace to a new store; gives the seconds.
    fn add(&self, name: &str, words: &[&str]) -> Result<f64> {
        let store = self.store(name);
        if store.exists() {
            fs::remove_dir_all(&store).context("the last store cannot be removed")?;
        }
        let words = Words::new(&self.query, words).and(Path::new("--into"));
        let (seconds, _) = words.and(&store).and(&self.trace).seconds()?;
        Ok(seconds)
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

    /// DuckDB's seconds with this file of system calls, those for the query alone, and its rows.
    fn duckdb(&self, calls: &Path) -> Result<(f64, f64, String)> {
        let script = Words::new(&self.python, &[]).and(&self.script);
        let (whole, text) = script.and(calls).seconds()?;
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

    fn round(&self, part_sql: &str, times: &mut Times) -> Result<()> {
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
        least(&mut times.part, self.query(part_sql))?;
        times.export = times.export.min(self.export()?);
        let (whole, query, _) = self.duckdb(&self.tables().join("_syscalls.parquet"))?;
        times.duckdb = times.duckdb.min(whole);
        times.parquet = times.parquet.min(query);

        times.add = times.add.min(self.add("store", &[])?);
        times.add_some = times.add_some.min(self.add("some", &[SOME])?);
        least(&mut times.store_start, self.query_store("select 1"))?;
        least(&mut times.store_calls, self.query_store(CALLS))?;
        least(&mut times.store_whole, self.query_store(COUNTS))?;
        least(&mut times.store_part, self.query_store(part_sql))?;
        let calls = file(&self.store("store"), "syscalls.parquet")?;
        let (_, query, _) = self.duckdb(&calls)?;
        times.store_duckdb = times.store_duckdb.min(query);
        Ok(())
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if arguments.only_workers {
        arguments.add("store", &[])?;
        let counted = arguments
            .query_store("select count(*) from events")
            .output()?;
        let counted = counted.lines().nth(1).and_then(|rows| rows.parse().ok());
        return workers::measure(arguments, counted.context("the store has no count")?);
    }
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
    let mut times = Times::NONE;
    for _ in 0..arguments.rounds.max(1) {
        arguments.round(&sql, &mut times)?;
    }
    let (memory, question) = memory(arguments)?;
    let sizes = Sizes {
        events,
        trace: size(&arguments.trace)?,
        store: size(&arguments.store("store"))?,
        some: size(&arguments.store("some"))?,
    };
    print(arguments, times, memory / 1024.0, sizes);
    println!(
        "\nSeconds: select 1 {:.3}; dump --count {:.3}, count by name {:.3}, of 1 % of the time \
         {:.3}; report {:.3}, percentiles {:.3}; export {:.3}, DuckDB {:.3}, of which its query \
         {:.3}. Of the store: add {:.3}, four tables {:.3}, select 1 {:.3}, percentiles {:.3}, \
         DuckDB's {:.3}, count by name {:.3}, of 1 % of the time {:.3}. Most memory: @{question}.",
        times.start,
        times.dump,
        times.count,
        times.part,
        times.report,
        times.calls,
        times.export,
        times.duckdb,
        times.parquet,
        times.add,
        times.add_some,
        times.store_start,
        times.store_calls,
        times.store_duckdb,
        times.store_whole,
        times.store_part
    );
    workers::measure(arguments, events)
}

/// Bytes, and events of the trace.
#[derive(Clone, Copy)]
struct Sizes {
    events: u64,
    trace: u64,
    store: u64,
    some: u64,
}

fn print(arguments: &Arguments, times: Times, memory: f64, sizes: Sizes) {
    let each = |bytes: u64| bytes as f64 / sizes.events as f64;
    let figure = |what, value, goal| Figure {
        what,
        value,
        unit: "x",
        goal: Some(goal),
    };
    let plain = |what, value, unit| Figure {
        what,
        value,
        unit,
        goal: None,
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
        plain("bytes of an event in the trace", each(sizes.trace), "B"),
        plain(
            "bytes of an event in a store with all tables",
            each(sizes.store),
            "B",
        ),
        plain(
            "bytes of an event in a store with four tables of spans",
            each(sizes.some),
            "B",
        ),
        plain(
            "adding 10^6 events to a store, all tables",
            times.add / sizes.events as f64 * 1e6,
            "s",
        ),
        plain(
            "adding 10^6 events to a store, four tables of spans",
            times.add_some / sizes.events as f64 * 1e6,
            "s",
        ),
        figure(
            "p99 over a store, in times of DuckDB's query over its file",
            (times.store_calls - times.store_start) / times.store_duckdb,
            2.0,
        ),
        Figure {
            unit: "%",
            ..figure(
                "1 % of the time over a store, part of the whole, without the start",
                100.0 * (times.store_part - times.store_start).max(0.0)
                    / (times.store_whole - times.store_start),
                3.0,
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
    let (_, _, wanted) = arguments.duckdb(&arguments.tables().join("_syscalls.parquet"))?;
    arguments.add("store", &[])?;
    let (found, of_store) = (arguments.query(CALLS), arguments.query_store(CALLS));
    let (found, of_store) = (found.output()?, of_store.output()?);
    ensure!(found == of_store, "the store has other percentiles");
    let of_store = arguments.query_store(COUNTS).output()?;
    ensure!(
        of_store == arguments.query(COUNTS).output()?,
        "the store counts other events"
    );
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
    let questions = list.split("\n@").filter(|of| !of.contains("(of a store)"));
    let names = questions.filter_map(|of| of.trim_start_matches('@').lines().next());
    for name in names {
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

/// Bytes of the files in a folder, and in those in it.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

/// The file of this name in the only innermost folder of a store.
fn file(store: &Path, name: &str) -> Result<PathBuf> {
    let mut folder = store.to_owned();
    while !folder.join(name).exists() {
        let mut entries = fs::read_dir(&folder)?.flatten();
        let inner = entries.find(|entry| entry.file_name().to_string_lossy().contains('='));
        folder = inner.context("the store has no such file")?.path();
    }
    Ok(folder.join(name))
}
