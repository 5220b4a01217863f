//! Measures the cost of an event in Kymo and in other tracers: one program with one loop, every
//! peer in turn, for many rounds. `cargo xtask bench trace` builds and runs it.
//!
//! Prints one line per peer, with fields separated by tabs. A line that begins with `#` is a
//! remark.

mod measure;
mod peer;
mod peers;
mod single_step;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::measure::Figures;
use crate::peer::{Peer, THREADS};
use crate::workers::{Workers, second_field};

/// Calls whose instructions are counted, after as many warm-up calls.
const COUNTED: usize = 1000;
/// Number of last events of each thread, which must be in the trace.
const CHECKED: u32 = 1000;
const FIRST_CHECKED: u32 = 0x0f00_0000;

struct Arguments {
    rounds: usize,
    milliseconds: f64,
    folder: PathBuf,
    budgets: Option<PathBuf>,
    /// Only peers whose names contain one of these.
    only: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench trace: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments> {
    let mut arguments = Arguments {
        rounds: 200,
        milliseconds: 2.0,
        folder: PathBuf::new(),
        budgets: None,
        only: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--rounds" => arguments.rounds = value()?.parse().context("--rounds takes a number")?,
            "--milliseconds" => {
                arguments.milliseconds =
                    value()?.parse().context("--milliseconds takes a number")?
            }
            "--folder" => arguments.folder = value()?.into(),
            "--budgets" => arguments.budgets = Some(value()?.into()),
            "--only" => arguments.only.push(value()?),
            _ => bail!("unknown option {word}"),
        }
    }
    ensure!(
        arguments.folder.is_dir(),
        "--folder must name a folder for the traces"
    );
    ensure!(arguments.rounds > 0, "--rounds must be at least 1");
    Ok(arguments)
}

fn run() -> Result<()> {
    let arguments = arguments()?;
    let mut peers = peers::all()?;
    if !arguments.only.is_empty() {
        // Keep the peers to which others are compared.
        let wanted = |peer: &Peer| {
            arguments
                .only
                .iter()
                .any(|part| peer.name.contains(part.as_str()))
        };
        let floors = [measure::EMPTY, measure::FLOOR];
        peers.retain(|peer| floors.contains(&peer.name) || wanted(peer));
    }
    let mut workers = Workers::start(&peers)?;
    let figures = measure::all(
        &peers,
        &mut workers,
        arguments.rounds,
        arguments.milliseconds,
        COUNTED,
    )?;
    for peer in &peers {
        workers.record(peer.record, FIRST_CHECKED, CHECKED)?;
    }
    workers.end()?;
    for peer in &peers {
        read_back(peer, &workers, &arguments)
            .with_context(|| format!("{}: the recorded events are wrong", peer.name))?;
    }
    println!("# compilers\t{}", env!("COMPILERS"));
    for (peer, figures) in peers.iter().zip(&figures) {
        print(peer, figures);
    }
    match &arguments.budgets {
        Some(path) => check(path, &peers, &figures),
        None => Ok(()),
    }
}

/// Checks that the last events of each thread are in the trace, each once and in order.
fn read_back(peer: &Peer, workers: &Workers, arguments: &Arguments) -> Result<()> {
    let found = (peer.read_back)(&workers.calls(peer.record), &arguments.folder)?;
    if peer.bytes == 0 {
        return Ok(());
    }
    for thread in 0..THREADS {
        let expected: Vec<[u32; 2]> = (FIRST_CHECKED..FIRST_CHECKED + CHECKED)
            .map(|a| [a, second_field(thread, a)])
            .collect();
        let is_checked =
            |pair: &&[u32; 2]| pair[0] >= FIRST_CHECKED && pair[1] == second_field(thread, pair[0]);
        let found: Vec<[u32; 2]> = found.iter().filter(is_checked).copied().collect();
        ensure!(
            found == expected,
            "of the last {CHECKED} events of thread {thread}, {} were found",
            found.len()
        );
    }
    eprintln!(
        "{}: read back {} events, with the last {CHECKED} of each thread",
        peer.name,
        found.len()
    );
    Ok(())
}

fn print(peer: &Peer, figures: &Figures) {
    let off = figures
        .off
        .as_ref()
        .map_or(["-".into(), "-".into()], |off| {
            [
                off.instructions.to_string(),
                format!("{:.2}", hundredths(off.nanoseconds)),
            ]
        });
    let fields = [
        peer.name.to_owned(),
        peer.version.clone(),
        peer.configuration.to_owned(),
        format!("{:.2}", figures.minimum),
        format!("{:.2}", figures.median),
        format!("{:.3}", figures.over_floor),
        figures.instructions.to_string(),
        peer.bytes.to_string(),
        off[0].clone(),
        off[1].clone(),
        format!("{:.3}", figures.scaling),
        format!("{:.3}", figures.scaling_over_floor),
    ];
    println!("{}", fields.join("\t"));
}

/// Rounds to hundredths, and avoids minus zero.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}

/// Compares the figures that do not vary with `budgets.toml`.
fn check(path: &PathBuf, peers: &[Peer], figures: &[Figures]) -> Result<()> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let table: toml::Table = text
        .parse()
        .with_context(|| format!("{} is not valid TOML", path.display()))?;
    let entries = table
        .get("bench")
        .and_then(toml::Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    ensure!(!entries.is_empty(), "{} has no [[bench]]", path.display());
    for entry in entries {
        let name = entry
            .get("peer")
            .and_then(toml::Value::as_str)
            .context("a [[bench]] names no peer")?;
        let number = |key: &str| {
            let value = entry.get(key).and_then(toml::Value::as_integer);
            value.with_context(|| format!("the [[bench]] of {name} has no number \"{key}\""))
        };
        let found = peers
            .iter()
            .zip(figures)
            .find(|(peer, _)| peer.name == name);
        let (peer, figures) =
            found.with_context(|| format!("{name} has a budget, but was not measured"))?;
        let off = figures.off.as_ref().map_or(0, |off| off.instructions);
        for (what, found, budget) in [
            (
                "instructions",
                figures.instructions as i64,
                number("instructions")?,
            ),
            ("bytes", peer.bytes as i64, number("bytes")?),
            ("instructions when off", off as i64, number("off")?),
        ] {
            ensure!(
                found <= budget,
                "{name} is over its budget: {found} {what}, at most {budget} allowed"
            );
        }
        eprintln!(
            "{name}: {} instructions, {} bytes, {off} instructions when off: within its budget",
            figures.instructions, peer.bytes
        );
    }
    Ok(())
}
