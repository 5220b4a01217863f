//! `kymo-query`, which `kymo query` runs.

#![forbid(unsafe_code)]

mod prompt;
mod remote;

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum};
use kymo_sql::{
    Added, Answer, Error, Format, Labels, Limits, Output, Question, Session, Store, Symbols,
    Traces, Which, questions,
};

const EXAMPLES: &str = "Examples:
  kymo query trace 'select name, count(*) from events group by name'
  kymo query trace 'select * from sched_switch where cpu = 0 limit 10'
  kymo query trace \"select * from syscalls where duration_ns > ns('5ms')\" --format json
  kymo query trace @wake-latency --thread 'ui*'
  kymo query trace @hot --kernel kernel.elf
  kymo query before after 'select trace, count(*) from lock_waits group by trace'
  kymo query trace                              a prompt, where \\? shows what can be done
  kymo query trace 'show tables'
  kymo query trace 'describe syscalls'
  kymo query --into fleet --host web-7 trace    adds the trace's tables to the store fleet
  kymo query fleet \"select host, max(duration_ns) from syscalls where build = '4.1' group by host\"
  kymo query worker                             a worker, which prints its address
  kymo query --cluster http://web-1:17050,http://web-2:17050 fleet @wake-latency
  kymo query --list";

/// Asks traces in SQL, as they lie on disk.
///
/// The last argument is the query, or @NAME for a ready question; those before it are traces, or a
/// store of many traces. Without a query there is a prompt, or the query is read from the standard
/// input.
///
/// Exit codes: 0 success; 2 invalid command line or query; 3 unusable input; 4 something is missing
/// on this machine, such as memory; 130 interrupted.
#[derive(Parser)]
#[command(name = "kymo query", bin_name = "kymo query", version, after_help = EXAMPLES)]
#[command(max_term_width = 100, verbatim_doc_comment)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// The trace directories, or a store, and behind them the query.
    #[arg(value_name = "TRACE|QUERY", required_unless_present = "list")]
    words: Vec<String>,
    /// Read the query from this file; - is the standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// List the ready questions, with their parameters.
    #[arg(long)]
    list: bool,
    /// Format of the answer.
    #[arg(long, value_enum, default_value_t = Shape::Table)]
    format: Shape,
    /// Write the answer to this file.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Memory of sorts, groups and joins, above which they spill to disk or fail.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    memory: usize,
    /// Number of threads; by default that of the CPUs.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Add the tables of the traces to this store, a directory that is made if it is new; there is
    /// no query then.
    #[arg(long, value_name = "STORE", help_heading = STORES)]
    #[arg(conflicts_with_all = ["file", "format", "out", "list"])]
    into: Option<PathBuf>,
    /// The machine that the traces are of; by default the trace's hostname, or unknown.
    #[arg(long, value_name = "NAME", help_heading = STORES, requires = "into")]
    host: Option<String>,
    /// What ran on it; by default the trace's build_id, or null.
    #[arg(long, value_name = "NAME", help_heading = STORES, requires = "into")]
    build: Option<String>,
    /// The boot; by default the trace's UUID.
    #[arg(long, value_name = "NAME", help_heading = STORES, requires = "into")]
    boot: Option<String>,
    /// The day, such as 2026-11-27; by default that of the trace's clock, or of its files.
    #[arg(long, value_name = "DAY", help_heading = STORES, requires = "into")]
    date: Option<String>,
    /// Add these tables, such as syscalls,lock_waits; by default all.
    #[arg(long, value_name = "NAME,..", help_heading = STORES, requires = "into")]
    #[arg(value_delimiter = ',')]
    tables: Vec<String>,
    /// Write the trace again where it is in the store, and replace another one of the same boot of
    /// the same host, such as a shorter copy of it.
    #[arg(long, help_heading = STORES, requires = "into")]
    replace: bool,
    #[command(flatten)]
    symbols: Symbols,
    #[command(flatten)]
    workers: remote::ClusterArguments,
}

/// What is no query.
#[derive(clap::Subcommand)]
enum Other {
    Worker(remote::WorkerArguments),
}

const STORES: &str = "Stores";

/// What is asked.
enum Source {
    Traces(Traces),
    Store(Store),
}

impl Source {
    fn open(directories: &[String], symbols: &Symbols) -> Result<Source, Error> {
        let is_store = |path: &&String| Store::is_at(path);
        match (directories, directories.iter().find(is_store)) {
            ([one], Some(_)) if !symbols.is_given() => Store::open(one).map(Source::Store),
            ([_], Some(_)) => Err(Error::Query(
                "a store has the names of functions; give symbols when adding traces".to_owned(),
            )),
            (_, Some(store)) => Err(Error::Query(format!(
                "{store} is a store; ask it alone, or traces"
            ))),
            (_, None) => {
                let traces = Traces::open(directories)?.with_symbols(symbols.clone())?;
                Ok(Source::Traces(traces))
            }
        }
    }

    fn session(&self, limits: Limits) -> Result<Session, Error> {
        match self {
            Source::Traces(traces) => Session::new(traces, limits),
            Source::Store(store) => Session::of_store(store, limits),
        }
    }

    fn missing(&self) -> Missing {
        match self {
            Source::Traces(traces) => Missing::of(traces),
            Source::Store(store) => Missing {
                damage: Vec::new(),
                notes: store.notes(),
            },
        }
    }

    /// How many events were read, if that is known.
    fn items_read(&self) -> Option<u64> {
        match self {
            Source::Traces(traces) => Some(traces.items_read()),
            Source::Store(_) => None,
        }
    }
}

/// What a query had to leave out.
#[derive(Default)]
struct Missing {
    /// What is damaged in the traces.
    damage: Vec<String>,
    /// What is missing beside the traces.
    notes: Vec<String>,
}

impl Missing {
    fn of(traces: &Traces) -> Missing {
        Missing {
            damage: traces.damage(),
            notes: traces.notes(),
        }
    }

    fn print(&self) {
        for note in &self.notes {
            eprintln!("kymo: {note}");
        }
        for problem in self.damage.iter().take(3) {
            eprintln!("kymo: {problem}");
        }
        if let Some(more) = self.damage.len().checked_sub(3).filter(|more| *more > 0) {
            eprintln!("kymo: {more} further problems.");
        }
        if !self.damage.is_empty() {
            eprintln!("kymo: the answer is of what could be read.");
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Shape {
    Table,
    Csv,
    Json,
    Parquet,
}

/// A size in bytes, such as 512MiB.
fn size(text: &str) -> Result<usize, String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let shift = match unit {
        "" | "B" => 0,
        "KiB" | "K" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        _ => return Err("give a number and KiB, MiB or GiB, such as 512MiB".to_owned()),
    };
    let bytes = number
        .parse()
        .ok()
        .and_then(|number: usize| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("give a size from 1 byte on, such as 512MiB".to_owned()),
    }
}

/// The ready question of this name.
fn question(name: &str) -> Result<Question, Error> {
    let all = questions();
    let found = all.iter().find(|question| question.name == name).cloned();
    found.ok_or_else(|| {
        let sentence = format!("there is no question @{name}; kymo query --list shows them");
        Error::Query(sentence)
    })
}

/// The command with an option for each parameter of the ready question, if one is named.
fn command(question: Option<&Question>) -> clap::Command {
    let mut command = Arguments::command();
    for parameter in question.iter().flat_map(|question| &question.parameters) {
        let option = Arg::new(parameter.name).long(parameter.name);
        let option = match parameter.is_build() {
            true => option.help(parameter.what),
            false => option.help(format!(
                "{} [default: {}]",
                parameter.what, parameter.default
            )),
        };
        command = command.arg(option.value_name("VALUE").help_heading("Of the question"));
    }
    command
}

fn list() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for question in questions() {
        writeln!(out, "@{}\n    {}", question.name, question.title)?;
        if question.asks_store {
            writeln!(out, "    (of a store)")?;
        }
        for of in question.parameters {
            write!(out, "    --{} VALUE  {} ", of.name, of.what)?;
            match of.is_build() {
                true => writeln!(out, "(it must be given)")?,
                false => writeln!(out, "(default {})", of.default)?,
            }
        }
    }
    out.flush()
}

fn read(path: &Path) -> Result<String, Error> {
    let read = match path.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    read.map_err(|error| Error::Query(format!("cannot read {}: {error}", path.display())))
}

fn run(
    arguments: &Arguments,
    matches: &ArgMatches,
    asked: Option<Question>,
) -> Result<Missing, Error> {
    let defaults = Limits::default();
    let limits = Limits {
        memory: arguments.memory,
        threads: arguments.jobs.map_or(defaults.threads, usize::from),
    };
    if let Some(into) = &arguments.into {
        add(arguments, into, limits)?;
        return Ok(Missing::default());
    }
    let question = asked.clone();
    let mut directories = arguments.words.clone();
    let only_traces = directories.iter().all(|word| Path::new(word).is_dir());
    let (sql, parameters) = match (&arguments.file, asked) {
        (Some(_), Some(_)) => {
            let sentence = "give a file with a query or a ready question, not both";
            return Err(Error::Query(sentence.to_owned()));
        }
        (Some(path), None) => (Some(read(path)?), Vec::new()),
        (None, Some(question)) => {
            directories.retain(|word| !word.starts_with('@'));
            let values = question.parameters.iter().map(|of| {
                let value = matches.get_one::<String>(of.name).map(String::as_str);
                (of.name.to_owned(), value.unwrap_or(of.default).to_owned())
            });
            (Some(question.sql.to_owned()), values.collect())
        }
        (None, None) if only_traces && std::io::stdin().is_terminal() => (None, Vec::new()),
        (None, None) if only_traces => (Some(read(Path::new("-"))?), Vec::new()),
        (None, None) => (directories.pop(), Vec::new()),
    };
    if directories.is_empty() {
        let sentence = "give a trace directory, or a store, before the query";
        return Err(Error::Query(sentence.to_owned()));
    }
    let source = Source::open(&directories, &arguments.symbols)?;
    let mut session = source.session(limits)?;
    if let Some(question) = &question {
        session.check(question, &parameters)?;
    }
    let asked = ask(&mut session, &source, arguments, sql, &parameters);
    remote::over();
    drop(session);
    asked?;
    Ok(source.missing())
}

/// Asks a query, or what comes from the prompt.
fn ask(
    session: &mut Session,
    source: &Source,
    arguments: &Arguments,
    sql: Option<String>,
    parameters: &[(String, String)],
) -> Result<(), Error> {
    let progress = remote::ask_workers(session, &arguments.workers)?;
    session.stop_on_interrupt();
    let Some(sql) = sql else {
        return prompt::run(session);
    };
    let format = match arguments.format {
        Shape::Table => Format::Table,
        Shape::Csv => Format::Csv,
        Shape::Json => Format::Json,
        Shape::Parquet => Format::Parquet,
    };
    let mut output = Output::new(format, arguments.out.as_deref())?;
    let progress = || progress().or_else(|| source.items_read().map(events_read));
    with_progress(&progress, |is_over| {
        session.ask(&sql, parameters, &mut |answer| {
            if matches!(answer, Answer::Rows(_)) {
                is_over.store(true, Relaxed);
            }
            output.take(answer)
        })
    })?;
    output.finish()
}

/// Adds traces to a store, and says of each what became of it.
fn add(arguments: &Arguments, into: &Path, limits: Limits) -> Result<(), Error> {
    let labels = Labels {
        host: arguments.host.clone(),
        build: arguments.build.clone(),
        boot: arguments.boot.clone(),
        date: arguments.date.clone(),
    };
    let which = Which {
        tables: arguments.tables.clone(),
        replace: arguments.replace,
    };
    if arguments.words.len() > 1 && (labels.boot.is_some() || which.replace) {
        let sentence = "--boot and --replace are about one trace; give each one alone";
        return Err(Error::Query(sentence.to_owned()));
    }
    for path in &arguments.words {
        let traces = Traces::open([path])?.with_symbols(arguments.symbols.clone())?;
        let progress = || Some(events_read(traces.items_read()));
        let added = with_progress(&progress, |_| {
            Store::add(into, &traces, &labels, &which, limits)
        });
        match added? {
            Added::Present => println!("{path}: is there"),
            Added::New { rows, bytes } => println!("{path}: {rows} rows, {bytes} bytes"),
        }
        Missing::of(&traces).print();
    }
    Ok(())
}

fn events_read(events: u64) -> String {
    format!("{} million events read", events / 1_000_000)
}

/// Runs something long. From the third second on, a line on the terminal tells how far it is,
/// until it is over, as `run` may say before it returns.
fn with_progress<T>(
    progress: &(dyn Fn() -> Option<String> + Sync),
    run: impl FnOnce(&AtomicBool) -> T,
) -> T {
    const STEP: Duration = Duration::from_millis(20);
    let is_over = AtomicBool::new(!std::io::stderr().is_terminal());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (began, mut is_shown) = (Instant::now(), false);
            while !is_over.load(Relaxed) {
                std::thread::sleep(STEP);
                let seconds = began.elapsed().as_secs();
                if seconds >= 2 && !is_over.load(Relaxed) {
                    is_shown = true;
                    match progress() {
                        Some(done) => eprint!("\rkymo: {done} in {seconds} s"),
                        None => eprint!("\rkymo: asked for {seconds} s"),
                    }
                }
            }
            if is_shown {
                eprint!("\r\x1b[K");
            }
        });
        let done = run(&is_over);
        is_over.store(true, Relaxed);
        done
    })
}

fn main() -> ExitCode {
    let named = std::env::args().find_map(|word| word.strip_prefix('@').map(str::to_owned));
    let asked = match named.as_deref().map(question).transpose() {
        Ok(asked) => asked,
        Err(error) => return failed(&error),
    };
    let matches = command(asked.as_ref()).get_matches();
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    if let Some(Other::Worker(worker)) = &arguments.other {
        return remote::work(worker).unwrap_or_else(|error| failed(&error));
    }
    if arguments.list {
        return match list() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::from(4),
            _ => ExitCode::SUCCESS,
        };
    }
    match run(&arguments, &matches, asked) {
        Ok(missing) => {
            missing.print();
            ExitCode::SUCCESS
        }
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    eprintln!("kymo: {error}");
    ExitCode::from(match error.kind() {
        ErrorKind::InvalidInput => 2,
        ErrorKind::InvalidData => 3,
        // As shells say of a program that ^C has ended.
        ErrorKind::Interrupted => 130,
        _ => 4,
    })
}
