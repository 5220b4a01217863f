//! `kymo doctor`: what a port of Kymo to a kernel lacks or has wrong, by the trace.

use std::path::PathBuf;

use kymo_analysis::{Analysis, Diagnosis, Doctor, Finding, Report, Severity};
use serde_json::json;

use crate::dump::{deliver, escape_controls, flush};
use crate::exit::Code;
use crate::input;
use crate::report::{pass, seconds};
use crate::summary::{count, thousands};

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo doctor trace
  kymo doctor trace && echo healthy
  kymo doctor trace --json | jq -r '.findings[] | select(.severity == \"wrong\") | .message'

For the first traces of a kernel into which Kymo was put. A finding is `wrong` if the trace says
what cannot be true, `missing` if a part of the report needs what is not recorded, and a `hint` if
that may be intended: what the kernel does not record at all is listed there. Pages are those of the
book, in docs/src. A trace without any event that is looked at gets no verdict.

Exit codes: 0 nothing is wrong; 1 something is wrong; 3 the trace cannot be read, or is damaged.";

/// Command line of `kymo doctor`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Examines the trace and prints the findings.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let trace = input::of_one_clock(&arguments.trace)?;
    let mut doctor = Doctor::new(trace.metadata());
    let analysis = Analysis::new(trace.metadata());
    let (report, damage) = pass(&trace, analysis, |item, analysis| {
        doctor.add(item, analysis)
    });
    let diagnosis = doctor.finish(&report);
    let text = match arguments.json {
        true => as_json(&report, &diagnosis),
        false => as_text(&report, &diagnosis),
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    match damage {
        Some(error) => Err(input::of_trace(&arguments.trace, error)),
        None if diagnosis.count(Severity::Wrong) > 0 => Ok(Code::Findings),
        None => Ok(Code::Ok),
    }
}

fn as_json(report: &Report, diagnosis: &Diagnosis) -> String {
    let healthy = diagnosis
        .is_judged
        .then(|| diagnosis.count(Severity::Wrong) == 0);
    let all = json!({
        "type": "doctor", "healthy": healthy,
        "zero_ns": report.zero_ns, "begin_ns": report.begin_ns, "end_ns": report.end_ns,
        "findings": diagnosis.findings, "looked_at": diagnosis.looked_at,
    });
    format!("{all}\n")
}

fn as_text(report: &Report, diagnosis: &Diagnosis) -> String {
    let begin = report.zero_ns.unwrap_or(0);
    let findings = diagnosis.findings.iter();
    let mut lines: Vec<String> = findings.flat_map(|of| one(begin, of)).collect();
    lines.push(verdict(diagnosis));
    let looked = diagnosis.looked_at.iter();
    let looked: Vec<String> = looked
        .map(|of| format!("{} {}", of.what, thousands(of.count)))
        .collect();
    lines.push(format!("Looked at: {}.", looked.join(", ")));
    lines.iter_mut().for_each(escape_controls);
    lines.into_iter().map(|line| line + "\n").collect()
}

fn verdict(diagnosis: &Diagnosis) -> String {
    let number = |severity| diagnosis.count(severity) as u64;
    let rest = match (number(Severity::Missing), number(Severity::Hint)) {
        (0, 0) => ".".to_owned(),
        (0, hints) => format!("; {}.", count(hints, "hint", "hints")),
        (missing, hints) => format!(
            "; {} missing, {}.",
            count(missing, "thing is", "things are"),
            count(hints, "hint", "hints")
        ),
    };
    match number(Severity::Wrong) {
        0 if !diagnosis.is_judged => format!("There is no verdict{rest}"),
        0 => format!("Nothing is wrong with the trace{rest}"),
        wrong => format!("{} wrong{rest}", count(wrong, "thing is", "things are")),
    }
}

/// A finding: what, and below it where and what to do.
fn one(begin: i64, finding: &Finding) -> Vec<String> {
    let severity = match finding.severity {
        Severity::Wrong => "wrong",
        Severity::Missing => "missing",
        Severity::Hint => "hint",
    };
    let mut lines = vec![format!(
        "{severity:<8} {}. [{}]",
        finding.message, finding.rule
    )];
    if let Some(time) = finding.time_ns {
        let cpu = finding
            .cpu
            .map_or(String::new(), |cpu| format!(" on cpu{cpu}"));
        let time = seconds(begin, Some(time));
        lines.push(format!("{:9}First at {time}{cpu}.", ""));
    }
    if let (Some(remedy), Some(page)) = (finding.remedy, finding.page) {
        lines.push(format!("{:9}{remedy}: {page}", ""));
    }
    lines
}
