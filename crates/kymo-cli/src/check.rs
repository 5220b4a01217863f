//! `kymo check`: whether a trace's events fit together.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::dump::{deliver, escape_controls, flush};
use crate::exit::{Code, Usage};
use crate::report::{of, seconds};
use crate::summary::thousands;

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo check trace && echo fine
  kymo check trace --no-losses
  kymo check trace --json | jq '.first[].message'

Rules: switch-chain, one-cpu, after-end, irq-pair, syscall-pair, lock-held. None is applied where the state is unknown: before a
CPU's first switch, and after events were lost. Exit code 1 where one is broken.";

/// The command line.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// One JSON object instead of lines.
    #[arg(long)]
    json: bool,
    /// Lost events are findings too.
    #[arg(long)]
    no_losses: bool,
}

/// Does it.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    if arguments.trace.is_file() {
        return Err(Usage(format!("{} is a file: give the trace's directory", arguments.trace.display())).into());
    }
    let (report, damage) = of(&arguments.trace)?;
    let found = &report.contradictions;
    let lost = arguments.no_losses && report.losses.events + report.losses.packets > 0;
    let text = if arguments.json {
        let lost = report.losses.events.saturating_add(report.losses.packets);
        let all = serde_json::json!({
            "type": "check", "events": report.events, "lost": lost, "counts": found.counts, "first": found.first,
        });
        format!("{all}\n")
    } else {
        let begin = report.begin_ns.unwrap_or(0);
        let lines = found.first.iter().map(|found| {
            let time = seconds(begin, Some(found.time_ns));
            format!("{time:>14}  cpu{}  {}: {}", found.cpu, found.rule, found.message)
        });
        let mut lines: Vec<String> = lines.collect();
        let total: u64 = found.counts.values().sum();
        if total > found.first.len() as u64 {
            lines.push(format!("and {} more", thousands(total - found.first.len() as u64)));
        }
        if lost {
            let losses = &report.losses;
            lines.push(format!("{} events and {} packets were lost", thousands(losses.events), thousands(losses.packets)));
        }
        lines.iter_mut().for_each(escape_controls);
        lines.into_iter().map(|line| line + "\n").collect()
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes()).context("cannot write the findings")? {
        flush(&mut out)?;
    }
    match damage {
        Some(error) => Err(error.into()),
        None if lost || !found.counts.is_empty() => Ok(Code::Findings),
        None => Ok(Code::Ok),
    }
}
