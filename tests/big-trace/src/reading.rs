//! Checks the results of each verb on a trace with known counts, and measures time and memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::kernel::{self, Kernel, Known};
use crate::memory;
use crate::stream::Writer;

/// Limit on the memory of a verb for any trace, in kilobytes.
const LIMIT_KB: u64 = 200_000;
/// Sizes of the short form's two traces in megabytes, and the additional memory allowed for the
/// longer one: less than a byte for each of its events.
const SHORT: [u64; 2] = [8, 40];
const GROWTH_KB: u64 = 2_000;

/// The verbs and their arguments.
const VERBS: [(&str, &[&str]); 6] = [
    ("report", &["report", "--json"]),
    ("check", &["check", "--json"]),
    (
        "check --expect",
        &["check", "--json", "--expect", EXPECTATIONS],
    ),
    (COUNT, &["dump", "--count", "--json"]),
    (
        "dump --thread",
        &["dump", "--count", "--json", "--thread", "worker-70001"],
    ),
    (EXPORT, &["export", "--to", "perfetto"]),
];
const COUNT: &str = "dump --count";
/// The verb whose result is a file.
const EXPORT: &str = "export";

/// Stands for the expectation file in [`VERBS`].
const EXPECTATIONS: &str = "expectations.toml";

/// Time and memory of a verb.
struct Cost {
    kilobytes: u64,
    time: Duration,
}

/// Reads a trace of this size, and prints time and memory of each verb.
pub(super) fn long(kymo: &Path, folder: &Path, megabytes: u64) -> Result<()> {
    let costs = measure(kymo, folder, megabytes)?;
    let least = costs
        .values()
        .map(|cost| cost.time)
        .min()
        .unwrap_or_default()
        .as_secs_f64()
        .max(1e-9);
    println!(
        "{:<16} {:>14} {:>10} {:>8}",
        "verb", "memory at most", "seconds", "ratio"
    );
    for (verb, cost) in &costs {
        let seconds = cost.time.as_secs_f64();
        let memory = format!("{:.1} MB", cost.kilobytes as f64 / 1e3);
        println!(
            "{verb:<16} {memory:>14} {seconds:>10.1} {:>8.2}",
            seconds / least
        );
    }
    println!("The trace is in {}", folder.display());
    Ok(())
}

/// Reads two short traces, of which the longer one must not take more memory.
pub(super) fn short(kymo: &Path, folder: &Path) -> Result<()> {
    if !cfg!(target_os = "linux") {
        println!("NOT RUN: the memory that a command takes is measured on Linux only.");
        return Ok(());
    }
    let [small, large] =
        SHORT.map(|megabytes| measure(kymo, &folder.join(megabytes.to_string()), megabytes));
    let (small, large) = (small?, large?);
    for (verb, cost) in &large {
        let before = small.get(verb).map_or(0, |cost| cost.kilobytes);
        println!(
            "{verb}: at most {before} kB of {} MB, {} kB of {} MB",
            SHORT[0], cost.kilobytes, SHORT[1]
        );
        if cost.kilobytes > before + GROWTH_KB {
            bail!("kymo {verb} takes more memory for a longer trace");
        }
    }
    fs::remove_dir_all(folder).context("the traces cannot be removed")
}

/// Writes the trace, reads it with each verb, and compares the results with the known counts.
fn measure(kymo: &Path, folder: &Path, megabytes: u64) -> Result<BTreeMap<&'static str, Cost>> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("the old trace cannot be removed")?;
    }
    let trace = folder.join("trace");
    let (known, writer) = write(&trace, megabytes)?;
    let events: u64 = writer.counts.values().sum();
    println!(
        "{} has {} bytes, {events} events",
        trace.display(),
        writer.bytes()
    );

    let calls = writer.counts.get("sys_enter").copied().unwrap_or(0);
    let expected = format!(
        "[[expect]]\nevent = \"sys_enter\"\ncount = {calls}\n[[expect]]\nduration = \"system_call\"\nmax = \"10 s\"\n\
         [[expect]]\nduration = \"lock_wait\"\nmax = \"10 s\"\n[[expect]]\nlosses = \"events\"\ncount = 0\n"
    );
    fs::write(folder.join(EXPECTATIONS), expected)?;
    let mut costs = BTreeMap::new();
    for (verb, arguments) in VERBS {
        let answer = folder.join("answer.json");
        let file = folder.join(EXPECTATIONS);
        let file = file
            .to_str()
            .context("the target directory's path is no text")?;
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|&argument| {
                if argument == EXPECTATIONS {
                    file
                } else {
                    argument
                }
            })
            .collect();
        let mut cost =
            take(kymo, &arguments, &trace, &answer).with_context(|| format!("kymo {verb}"))?;
        // Every verb maps the whole trace, whose pages are included in the figure but are not the
        // verb's own.
        cost.kilobytes = cost.kilobytes.saturating_sub(writer.bytes() / 1024);
        let answer: Value = match verb {
            EXPORT => Value::Null,
            _ => serde_json::from_str(&fs::read_to_string(&answer)?)
                .with_context(|| format!("kymo {verb}"))?,
        };
        match verb {
            // The step `export` checks the content of the file.
            EXPORT => {
                let file = folder.join("answer.pftrace");
                if fs::metadata(&file)?.len() < writer.bytes() {
                    bail!("the exported file is shorter than the trace");
                }
                fs::remove_file(&file)?;
            }
            "report" => report(&answer, &known, events)?,
            "check" | "check --expect" => equal("contradictions", &answer["counts"], &json!({}))?,
            COUNT => {
                for (name, count) in &writer.counts {
                    equal(
                        name,
                        &json!(sum(
                            &answer["events"],
                            |row| row["name"] == *name,
                            &["count"]
                        )),
                        &json!(count),
                    )?;
                }
                equal("events", &answer["total"]["events"], &json!(events))?;
            }
            // A nonempty part of the trace.
            _ if (1..events).contains(&answer["total"]["events"].as_u64().unwrap_or(0)) => {}
            _ => bail!(
                "a thread has {} of {events} events",
                answer["total"]["events"]
            ),
        }
        if cost.kilobytes > LIMIT_KB {
            bail!(
                "kymo {verb} takes {} kB of memory, and {LIMIT_KB} at most are right",
                cost.kilobytes
            );
        }
        costs.insert(verb, cost);
    }
    Ok(costs)
}

/// Writes a trace of this many megabytes. Returns its kernel's counts, and the writer with the
/// event counts by name.
pub(super) fn write(trace: &Path, megabytes: u64) -> Result<(Known, Writer)> {
    let mut writer = Writer::new(trace)?;
    let mut kernel = Kernel::boot(&mut writer)?;
    while kernel.bytes() < megabytes * 1_000_000 {
        for _ in 0..1_000 {
            kernel.step()?;
        }
    }
    let known = kernel.halt()?;
    writer.finish()?;
    Ok((known, writer))
}

/// Sum over the rows of a table for which `which` holds.
fn sum(table: &Value, which: impl Fn(&Value) -> bool, path: &[&str]) -> u64 {
    let rows = table
        .as_array()
        .into_iter()
        .flatten()
        .filter(|row| which(row));
    rows.filter_map(|row| path.iter().fold(row, |value, name| &value[name]).as_u64())
        .sum()
}

fn equal(what: &str, found: &Value, expected: &Value) -> Result<()> {
    if found != expected {
        bail!("{what}: kymo says {found}, and {expected} is true");
    }
    Ok(())
}

/// Compares a report with the simulated kernel's counts.
fn report(report: &Value, known: &Known, events: u64) -> Result<()> {
    equal("events", &report["events"], &json!(events))?;
    equal(
        "contradictions",
        &report["contradictions"]["counts"],
        &json!({}),
    )?;
    equal("losses", &report["losses"]["intervals"], &json!([]))?;
    let threads = report["threads"].as_array().map_or(0, Vec::len) as u64;
    equal(
        "threads",
        &json!(threads),
        &json!(known.threads + u64::from(kernel::CPUS)),
    )?;
    for (id, (count, errors, longest)) in &known.calls {
        let row = row(&report["system_calls"], "id", u64::from(*id))?;
        let found = json!([row["count"], row["errors"], row["durations"]["max_ns"]]);
        equal(
            &format!("system call {id}"),
            &found,
            &json!([count, errors, longest]),
        )?;
    }
    for (irq, count) in &known.interrupts {
        equal(
            &format!("interrupt {irq}"),
            &row(&report["interrupts"], "irq", u64::from(*irq))?["count"],
            &json!(count),
        )?;
    }
    for (pid, count) in &known.faults {
        let row = row(&report["page_faults"]["processes"], "pid", u64::from(*pid))?;
        equal(
            &format!("faults of process {pid}"),
            &row["count"],
            &json!(count),
        )?;
    }
    for (lock, (acquired, contended, longest)) in &known.locks {
        let row = row(&report["locks"], "lock", *lock)?;
        let found = json!([row["acquired"], row["contended"], row["longest_wait"]["ns"]]);
        equal(
            &format!("lock {lock:#x}"),
            &found,
            &json!([acquired, contended, longest]),
        )?;
    }
    equal(
        "wakes",
        &report["wake_latency"]["durations"]["count"],
        &json!(known.wakes),
    )?;
    for (cpu, busy) in known.busy.iter().enumerate() {
        equal(
            &format!("CPU {cpu}"),
            &row(&report["cpus"], "cpu", cpu as u64)?["busy_ns"],
            &json!(busy),
        )?;
    }
    Ok(())
}

fn row<'a>(table: &'a Value, key: &str, value: u64) -> Result<&'a Value> {
    let mut rows = table.as_array().into_iter().flatten();
    rows.find(|row| row[key] == value)
        .with_context(|| format!("the report has no row with {key} {value}"))
}

/// Runs a verb and measures its peak resident memory, including mapped files.
fn take(kymo: &Path, arguments: &[&str], trace: &Path, answer: &Path) -> Result<Cost> {
    let mut command = memory::Resident::of(kymo, &answer.with_extension("kb"))?;
    command
        .arguments()
        .args(arguments)
        .arg(trace)
        .stdin(Stdio::null())
        .stdout(File::create(answer)?);
    if arguments.first() == Some(&EXPORT) {
        command.arguments().arg(answer.with_extension("pftrace"));
    }
    let begin = Instant::now();
    let kilobytes = command.run()?;
    let time = begin.elapsed();
    Ok(Cost { kilobytes, time })
}
