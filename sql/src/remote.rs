//! The part of the command line that is about workers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
#[cfg(feature = "cluster")]
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clap::Args;
use kymo_sql::{Error, Session};

/// Runs parts of queries of other machines, until SIGTERM or ^C.
///
/// A worker prints its address on one line. It reads Parquet files of stores and writes none. It
/// asks for no password: let only machines reach it that may read these files.
///
/// Example: kymo query worker --listen 10.0.0.7:17050 --root /srv/fleet
#[derive(Args)]
pub(crate) struct WorkerArguments {
    /// The address at which it listens; port 0 is any free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:17050")]
    listen: SocketAddr,
    /// Read only files below this directory.
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// Memory of sorts, groups and joins, above which they spill to disk or fail.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = crate::size)]
    memory: usize,
    /// Number of threads; by default that of the CPUs.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Say on the standard error which parts of queries it runs.
    #[arg(long)]
    log: bool,
}

/// Who answers.
#[derive(Args)]
#[command(next_help_heading = "Workers")]
pub(crate) struct ClusterArguments {
    /// Ask these workers, which see the store at the same path; `kymo query worker` starts one.
    #[arg(
        long,
        value_name = "ADDRESS,..",
        value_delimiter = ',',
        conflicts_with = "into"
    )]
    cluster: Vec<String>,
    /// End a query without an answer after so many seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600,
        requires = "cluster"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    deadline: u32,
    /// Answer without workers if none is left.
    #[arg(long, requires = "cluster")]
    local_fallback: bool,
}

/// What a query in progress is called in the line that shows it.
pub(crate) type Progress = Box<dyn Fn() -> Option<String> + Sync>;

/// Lets a session ask the workers that are named, if any is. Gives what shows its progress.
#[cfg(feature = "cluster")]
pub(crate) fn ask_workers(
    session: &mut Session,
    arguments: &ClusterArguments,
) -> Result<Progress, Error> {
    use std::sync::Arc;
    use std::time::Duration;

    if arguments.cluster.is_empty() {
        return Ok(Box::new(|| None));
    }
    let cluster = kymo_sql::Cluster::new(&arguments.cluster)?
        .with_deadline(Duration::from_secs(arguments.deadline.into()))
        .with_notes(|sentence| eprintln!("kymo: {sentence}"));
    let cluster = Arc::new(match arguments.local_fallback {
        true => cluster.with_local_fallback(),
        false => cluster,
    });
    session.ask_workers(Arc::clone(&cluster))?;
    end_on_panic();
    Ok(Box::new(move || {
        let (parts, rows) = cluster.progress();
        Some(format!("workers have {parts} parts, {rows} rows came"))
    }))
}

/// Says that this program knows no workers, if any is named.
#[cfg(not(feature = "cluster"))]
pub(crate) fn ask_workers(
    _session: &mut Session,
    arguments: &ClusterArguments,
) -> Result<Progress, Error> {
    let ClusterArguments {
        cluster,
        deadline: _,
        local_fallback: _,
    } = arguments;
    match cluster.is_empty() {
        true => Ok(Box::new(|| None)),
        false => Err(without_workers()),
    }
}

/// Runs a worker.
#[cfg(feature = "cluster")]
pub(crate) fn work(arguments: &WorkerArguments) -> Result<ExitCode, Error> {
    use std::io::Write as _;

    let defaults = kymo_sql::Limits::default();
    let limits = kymo_sql::Limits {
        memory: arguments.memory,
        threads: arguments.jobs.map_or(defaults.threads, usize::from),
    };
    end_on_panic();
    let mut worker = kymo_sql::Worker::bind(arguments.listen, arguments.root.as_deref(), limits)?;
    if arguments.log {
        worker.log();
    }
    worker.run(|address| {
        let said = format!("a worker answers at {address}\n");
        let mut out = std::io::stdout().lock();
        // (Nobody may read it.)
        let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Says that this program is no worker.
#[cfg(not(feature = "cluster"))]
pub(crate) fn work(arguments: &WorkerArguments) -> Result<ExitCode, Error> {
    let WorkerArguments {
        listen: _,
        root: _,
        memory: _,
        jobs: _,
        log: _,
    } = arguments;
    Err(without_workers())
}

#[cfg(not(feature = "cluster"))]
fn without_workers() -> Error {
    Error::Query(
        "this kymo-query was built without workers; `cargo install --locked --path sql --features \
         cluster` in Kymo's source installs one with them"
            .to_owned(),
    )
}

/// Whether all that was asked is answered, or refused.
#[cfg(feature = "cluster")]
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Says that all that was asked is answered, or refused. When the session ends, the engine's tasks
/// are cancelled, and one that waits for another one then panics: that is no failure.
pub(crate) fn over() {
    #[cfg(feature = "cluster")]
    IS_OVER.store(true, Relaxed);
}

/// Ends the program where the engine fails. In a worker, the rows of a thread that panics would be
/// missing, and the stream of the others would end as if it were complete.
#[cfg(feature = "cluster")]
fn end_on_panic() {
    std::panic::set_hook(Box::new(|what| {
        let is_engines = std::thread::current().name() != Some("main");
        if !(IS_OVER.load(Relaxed) && is_engines) {
            eprintln!("kymo: the engine failed: {what}");
            std::process::exit(4);
        }
    }));
}
