//! Measurements on a long trace: the time for a part of it, and the memory of each verb.

use std::path::Path;

use anyhow::{Context, Result};

use crate::Bench;
use crate::verb::{COUNT, DUMP};

/// Most percent of a full pass that a part may take.
pub(crate) const PART_GOAL: f64 = 1.0;
/// The most memory besides the map, in MiB.
pub(crate) const MEMORY_GOAL: f64 = 64.0;

/// The measurements on a long trace.
pub(crate) struct Long {
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    pub(crate) parts: Vec<Part>,
    /// By verb, in MiB.
    pub(crate) memory: Vec<(&'static str, f64)>,
}

/// A millisecond of the trace.
pub(crate) struct Part {
    /// The command line, without the trace.
    pub(crate) command: String,
    /// Processor seconds for the part, and for the whole trace.
    pub(crate) part: f64,
    pub(crate) whole: f64,
    /// Whether the goal applies to this verb.
    pub(crate) has_goal: bool,
}

impl Bench<'_> {
    pub(crate) fn long(&self, trace: &Path) -> Result<Long> {
        let last = self.last_time(trace)?;
        let middle = format!("@{}", last / 2);
        let mut parts = Vec::new();
        for (verb, has_goal) in [(DUMP, true), (COUNT, false)] {
            eprintln!("long trace: parts of kymo {verb}");
            let options: Vec<&str> = verb.split(' ').skip(1).collect();
            let least = |rounds: usize, selection: &[&str]| -> Result<f64> {
                let call = self.dump(trace, &options).words(selection);
                (0..rounds).try_fold(
                    f64::MAX,
                    |least, _| Ok(least.min(call.seconds()?.processor)),
                )
            };
            let whole = least(self.arguments.rounds.min(2), &[])?;
            for selection in [
                &["--from", "-1ms"][..],
                &["--from", middle.as_str(), "--to", "+1ms"],
            ] {
                parts.push(Part {
                    command: format!("{verb} {}", selection.join(" ")),
                    part: least(self.arguments.rounds, selection)?,
                    whole,
                    has_goal,
                });
            }
        }
        let memory = self
            .verbs
            .iter()
            .map(|verb| {
                eprintln!("long trace: memory of kymo {}", verb.name);
                let kilobytes = self.kymo(verb, trace).memory()?;
                Ok((verb.name, kilobytes as f64 / 1024.0))
            })
            .collect::<Result<_>>()?;
        Ok(Long {
            bytes: bytes(trace)?,
            events: self.events(trace)?,
            parts,
            memory,
        })
    }

    /// The last event's time, in nanoseconds.
    fn last_time(&self, trace: &Path) -> Result<u64> {
        let told = self.dump(trace, &["--json", "--from", "-1us"]).output()?;
        let last = told.lines().last().context("the trace has no last event")?;
        let last: serde_json::Value = serde_json::from_str(last)?;
        last["time_ns"]
            .as_u64()
            .context("the last event has no time")
    }
}

fn bytes(trace: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(trace)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}
