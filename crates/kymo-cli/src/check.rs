//! `kymo check`: checks a trace for contradictions, and against expectations.

use std::fs;
use std::path::{Path, PathBuf};

use kymo_analysis::{Analysis, ExpectError, Expectations, Found, Judge, Report, Verdict};
use kymo_ctf::{ItemRef, LossKind};
use serde_json::{Value, json};

use crate::dump::{deliver, escape_controls, fields_json, fields_text, flush};
use crate::exit::{BadInput, Code};
use crate::input;
use crate::report::{pass_over, seconds};
use crate::select;
use crate::summary::{count, missing_events, thousands};

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo check trace && echo fine
  kymo check trace --no-losses
  kymo check trace --expect boot.toml
  kymo check trace --expect boot.toml --from 0.5 --where 'on_cpu = 0'
  kymo check trace --json | jq '.first[].message'

Rules: switch-chain, one-cpu, after-end, irq-pair, syscall-pair, lock-held, idle-thread,
clock-back. Except for clock-back, no rule applies where the state is unknown: before a CPU's first
switch, and after a loss.

An expectation file (TOML) states what the trace must contain; the book's chapter
\"Checking a trace\" has the reference:

  [[expect]]
  name = \"A yields before it sleeps\"
  order = [{ is = \"thread_yield\", tid = \"A\" }, { is = \"thread_delay\", tid = \"A\" }]

  [[expect]]
  name = \"no interrupt over 50 us\"
  duration = \"interrupt\"
  max = \"50 us\"

  [[expect]]
  event = { is = \"sys_exit\", id = \"write\", ret = { at_most = -1 } }
  at_most = 0

  [[expect]]
  losses = \"events\"
  count = 0

Exit codes: 1 if a rule is violated or an expectation fails; 3 if the file cannot be used, or
expects events that the trace does not record.";

/// Command line of `kymo check`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Report lost events as findings.
    #[arg(long)]
    no_losses: bool,
    /// An expectation file; may be repeated.
    #[arg(long, value_name = "FILE")]
    expect: Vec<PathBuf>,
    #[command(flatten)]
    selection: select::Options,
}

/// Checks the trace and prints what was found.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    // Parse the files before reading the trace, which may be large.
    let files: Vec<(&Path, Expectations)> = arguments
        .expect
        .iter()
        .map(|file| read(file))
        .collect::<Result<_, _>>()?;
    // Expectations are resolved in the metadata of a single trace.
    let trace = match files.is_empty() {
        true => input::of_one_clock(&arguments.trace)?,
        false => input::one(&arguments.trace)?,
    };
    let mut select = arguments.selection.of(&trace)?;
    let mut judges = Vec::new();
    for (file, expectations) in files {
        let judge =
            Judge::new(expectations, trace.metadata()).map_err(|error| unusable(file, &error))?;
        judges.push((file, judge));
    }
    let analysis = Analysis::of_part(trace.metadata(), select.part());
    let look = |item: &ItemRef<'_>, analysis: &Analysis, is_selected| {
        judges
            .iter_mut()
            .for_each(|(_, judge): &mut (&Path, Judge)| match is_selected {
                true => judge.add(item, analysis),
                false => judge.pass_over(item, analysis),
            });
    };
    let (report, damage) = pass_over(&trace, &mut select, analysis, look);
    if let (None, Some(missing)) = (&damage, select.missing()) {
        return Err(missing.into());
    }
    let verdicts: Vec<(&Path, Verdict)> = judges
        .into_iter()
        .flat_map(|(file, judge)| {
            judge
                .finish(&report.damage)
                .into_iter()
                .map(move |verdict| (file, verdict))
        })
        .collect();

    let lost = arguments.no_losses && report.losses.any();
    let text = if arguments.json {
        all_json(&report, &verdicts)
    } else {
        all_text(&report, &verdicts, lost)
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    let failed = verdicts.iter().any(|(_, verdict)| !verdict.holds);
    match damage {
        Some(error) => Err(input::of_trace(&arguments.trace, error)),
        None if lost || failed || !report.contradictions.counts.is_empty() => Ok(Code::Findings),
        None => Ok(Code::Ok),
    }
}

fn read(file: &Path) -> anyhow::Result<(&Path, Expectations)> {
    let text = fs::read(file).map_err(|error| {
        BadInput(format!(
            "cannot read {}: {error}; give an expectation file",
            file.display()
        ))
    })?;
    let text = String::from_utf8(text).map_err(|_| {
        BadInput(format!(
            "{} is not UTF-8; give an expectation file (TOML)",
            file.display()
        ))
    })?;
    let expectations = Expectations::parse(&text).map_err(|error| unusable(file, &error))?;
    if expectations.is_empty() {
        let sentence = format!(
            "{} has no [[expect]] table; add some (kymo check --help shows examples)",
            file.display()
        );
        return Err(BadInput(sentence).into());
    }
    Ok((file, expectations))
}

fn unusable(file: &Path, error: &ExpectError) -> BadInput {
    BadInput(format!(
        "{}, {error}; correct it (kymo check --help shows examples)",
        file.display()
    ))
}

fn all_text(report: &Report, verdicts: &[(&Path, Verdict)], lost: bool) -> String {
    let begin = report.zero_ns.unwrap_or(0);
    let found = &report.contradictions;
    let mut lines: Vec<String> = Vec::new();
    for (_, verdict) in verdicts {
        let word = if verdict.holds { "holds" } else { "FAILS" };
        lines.push(format!("{word}  {}: {}", verdict.name, verdict.message));
        lines.extend(
            verdict
                .found
                .iter()
                .filter(|_| !verdict.holds)
                .map(|found| one_text(begin, found)),
        );
        if verdict.more > 0 && !verdict.holds {
            lines.push(format!("{:>14}  and {} more", "", thousands(verdict.more)));
        }
    }
    if !verdicts.is_empty() {
        let failed = verdicts
            .iter()
            .filter(|(_, verdict)| !verdict.holds)
            .count();
        let mut line = format!(
            "{} of {} expectations hold",
            verdicts.len() - failed,
            verdicts.len()
        );
        let losses = report.losses.events.saturating_add(report.losses.packets);
        if losses > 0 {
            line += "; lost events could not be checked";
        }
        lines.push(line);
    }
    lines.extend(found.first.iter().map(|found| {
        let time = seconds(begin, Some(found.time_ns));
        format!(
            "{time:>14}  cpu{}  {}: {}",
            found.cpu, found.rule, found.message
        )
    }));
    let total: u64 = found.counts.values().sum();
    if total > found.first.len() as u64 {
        lines.push(format!(
            "and {} more",
            thousands(total - found.first.len() as u64)
        ));
    }
    if lost {
        let losses = &report.losses;
        if losses.reported() {
            lines.push(format!(
                "{} and {} were lost",
                count(losses.events, "event", "events"),
                count(losses.packets, "packet", "packets")
            ));
        }
        if losses.missing > 0 {
            lines.push(missing_events(losses.missing));
        }
    }
    lines.iter_mut().for_each(escape_controls);
    lines.into_iter().map(|line| line + "\n").collect()
}

/// An item that violates an expectation, on one line.
fn one_text(begin: i64, found: &Found) -> String {
    let at =
        |nanos: Option<i128>| seconds(begin, nanos.and_then(|nanos| i64::try_from(nanos).ok()));
    match found {
        Found::Event {
            event,
            thread,
            lasted,
        } => {
            let cpu = event
                .cpu()
                .map_or_else(|| "cpu?".to_owned(), |cpu| format!("cpu{cpu}"));
            let mut line = format!(
                "{:>14}  {cpu}  {} {}",
                at(event.nanos()),
                event.name(),
                fields_text(event)
            );
            if let Some(thread) = thread {
                let name = thread
                    .name
                    .as_ref()
                    .map_or_else(String::new, |name| format!(" ({name})"));
                line += &format!(", in thread {}{name}", thread.tid);
            }
            if let Some((since, nanos)) = lasted {
                line += &format!(
                    ", after {} from {}",
                    crate::report::duration(*nanos),
                    seconds(begin, Some(*since))
                );
            }
            line
        }
        Found::Loss(loss) => {
            let what = if loss.kind == LossKind::Events {
                "events"
            } else {
                "packets"
            };
            let (from, to) = (at(loss.begin_nanos), at(loss.end_nanos));
            format!(
                "{from:>14}  {} {what} lost on {} until {to}",
                thousands(loss.count),
                loss.stream
            )
        }
    }
}

fn all_json(report: &Report, verdicts: &[(&Path, Verdict)]) -> String {
    let found = &report.contradictions;
    let lost = report.losses.events.saturating_add(report.losses.packets);
    let mut all = json!({
        "type": "check", "events": report.events, "lost": lost,
        "counts": found.counts, "first": found.first,
    });
    if let (Value::Object(all), false) = (&mut all, verdicts.is_empty()) {
        let verdicts = verdicts.iter().map(|(file, verdict)| {
            json!({
                "file": file.display().to_string(), "line": verdict.line,
                "name": verdict.name, "holds": verdict.holds, "message": verdict.message,
                "found": verdict.found.iter().map(one_json).collect::<Vec<_>>(),
                "more": verdict.more,
            })
        });
        all.insert("expectations".to_owned(), verdicts.collect());
    }
    format!("{all}\n")
}

fn one_json(found: &Found) -> Value {
    let narrow = |nanos: Option<i128>| nanos.and_then(|nanos| i64::try_from(nanos).ok());
    match found {
        Found::Event {
            event,
            thread,
            lasted,
        } => json!({
            "type": "event", "time_ns": narrow(event.nanos()), "cpu": event.cpu(),
            "name": event.name(),
            "fields": serde_json::from_str::<Value>(&fields_json(event)).unwrap_or_default(),
            "thread": thread, "begin_ns": lasted.map(|(begin, _)| begin),
            "duration_ns": lasted.map(|(_, nanos)| nanos),
        }),
        Found::Loss(loss) => json!({
            "type": "loss",
            "kind": if loss.kind == LossKind::Events { "events" } else { "packets" },
            "count": loss.count, "stream": &*loss.stream, "cpu": loss.cpu,
            "begin_ns": narrow(loss.begin_nanos), "end_ns": narrow(loss.end_nanos),
        }),
    }
}
