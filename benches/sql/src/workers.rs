//! Measures a query on two workers beside the same query on one.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::Arguments;
use crate::command::Words;

/// Counts all events by name and thread, with the time between the first and the last.
const BY_THREAD: &str = "select name, tid, count(*) as n, max(ns) - min(ns) as span from events \
                         group by name, tid";
/// How many times as fast as one worker two should be, each with one thread.
const GOAL: f64 = 1.6;

/// A worker with one thread, which ends with the program.
struct Worker {
    child: Child,
    address: String,
}

impl Worker {
    fn start(query: &Path) -> Result<Worker> {
        let mut command = Command::new(query);
        command.args(["worker", "--listen", "127.0.0.1:0", "--jobs", "1"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().context("the worker says nothing")?;
        let mut worker = Worker {
            child,
            address: String::new(),
        };
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        let address = line.split_whitespace().last();
        worker.address = address.context("the worker names no address")?.to_owned();
        Ok(worker)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of an answer, in their order.
fn sorted(answer: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = answer.lines().collect();
    lines.sort_unstable();
    lines
}

/// Prints how many times as fast two workers are as one. Their rows must be those of one process.
pub(crate) fn measure(arguments: &Arguments, rows: u64) -> Result<()> {
    let store = arguments.store("store").display().to_string();
    let workers = [
        Worker::start(&arguments.query)?,
        Worker::start(&arguments.query)?,
    ];
    let [one, other] = workers.each_ref().map(|worker| worker.address.as_str());
    let two = format!("{one},{other}");
    // The client's --jobs is the number of partitions on each worker, which has one thread.
    let ask = |workers: Option<&str>| {
        let who = match workers {
            Some(names) => ["--jobs=2", "--cluster", names].to_vec(),
            None => vec!["--jobs=1"],
        };
        let words = who.into_iter().chain(["--format=csv", &store, BY_THREAD]);
        Words::new(&arguments.query, &words.collect::<Vec<_>>()).seconds()
    };
    let mut times = [f64::INFINITY; 3];
    for _ in 0..arguments.rounds.max(1) {
        let (alone, wanted) = ask(None)?;
        let (on_one, of_one) = ask(Some(one))?;
        let (on_two, of_two) = ask(Some(&two))?;
        for (least, seconds) in times.iter_mut().zip([alone, on_one, on_two]) {
            *least = least.min(seconds);
        }
        for found in [of_one, of_two] {
            ensure!(
                sorted(&found) == sorted(&wanted),
                "workers give other rows than one process"
            );
        }
    }
    let [alone, on_one, on_two] = times;
    let ratio = on_one / on_two;
    let verdict = match (arguments.short, ratio >= GOAL) {
        (true, _) => "",
        (false, true) => "met",
        (false, false) => "missed",
    };
    println!("\n| what | measured | goal | |\n| --- | ---: | ---: | --- |");
    println!(
        "| two workers, in times of one worker's speed | {ratio:.2} x | {GOAL} x | {verdict} |"
    );
    println!(
        "\nSeconds over {rows} rows, one thread each: one process {alone:.3}, one worker \
         {on_one:.3}, two workers {on_two:.3}. The rows are the same."
    );
    Ok(())
}
