//! `kymo lint`: reports errors in a trace and their positions.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use kymo_ctf::{
    Consequence, Error, Metadata, MetadataError, Reader, StreamTally, Tally, Trace, TraceMap,
};
use kymo_machine::{Machine, Totals, records_activity};

use crate::dump::{deliver, escape_controls, flush};
use crate::exit::Code;
use crate::summary::missing_events;

pub const EXAMPLES: &str = "Examples:
  kymo lint trace
  kymo lint trace/metadata
  kymo lint trace --json | jq .message

Exit codes: 0 no findings; 1 findings in a trace that can be read; 3 the metadata or trace cannot be
used.";

/// Command line of `kymo lint`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A trace directory, or a metadata file.
    input: PathBuf,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    /// Number of threads that read the streams.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// One finding.
struct Finding {
    /// `error` or `warning`.
    severity: &'static str,
    /// The file and the position in it.
    place: String,
    message: String,
    /// The metadata line, split at the column.
    shown: Option<[String; 2]>,
}

/// Runs `kymo lint`.
///
/// # Errors
/// If the input cannot be read at all, or the output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let mut findings = Vec::new();
    let code = if arguments.input.is_dir() {
        trace(&arguments.input, arguments.jobs, &mut findings)?
    } else {
        let bytes = read(&arguments.input)?;
        metadata(
            &arguments.input,
            &bytes,
            Metadata::from_bytes(&bytes),
            &mut findings,
        )?
    };
    print(&findings, arguments.json, &mut std::io::stdout().lock())?;
    Ok(code)
}

/// More bytes than any metadata has: a device may never end.
const LARGEST_METADATA: u64 = 256 << 20;

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = File::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        let read = file.take(LARGEST_METADATA).read_to_end(&mut bytes)?;
        if read as u64 == LARGEST_METADATA {
            let reason = "there is more than 256 MiB of it";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        Ok(bytes)
    });
    bytes.map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })
}

fn metadata(
    path: &Path,
    bytes: &[u8],
    read: Result<Metadata, Error>,
    findings: &mut Vec<Finding>,
) -> Result<Code, Error> {
    // Positions refer to the metadata text, even if the file stores it in packets. An error in the
    // packets themselves has no line.
    let text = Metadata::text(bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut tell = |severity, error: &MetadataError| {
        let line = usize::try_from(error.position.line)
            .unwrap_or(usize::MAX)
            .saturating_sub(1);
        let shown = text
            .lines()
            .nth(line)
            .map(|line| around(line, error.position.column as usize));
        findings.push(Finding {
            severity,
            place: format!(
                "{}:{}:{}",
                path.display(),
                error.position.line,
                error.position.column
            ),
            message: error.message.clone(),
            shown,
        });
    };
    match read {
        Ok(metadata) => {
            metadata
                .warnings()
                .iter()
                .for_each(|warning| tell("warning", warning));
            Ok(if metadata.warnings().is_empty() {
                Code::Ok
            } else {
                Code::Findings
            })
        }
        Err(Error::Metadata(error)) => {
            tell("error", &error);
            Ok(Code::BadInput)
        }
        Err(other) => Err(other),
    }
}

fn trace(directory: &Path, jobs: usize, findings: &mut Vec<Finding>) -> Result<Code, Error> {
    let trace = match Trace::open(directory) {
        Ok(trace) => trace,
        Err(Error::Metadata(error)) => {
            // If `directory` holds several traces, the error does not name the one it is from.
            let path = directory.join("metadata");
            let bytes = read(&path).unwrap_or_default();
            return metadata(&path, &bytes, Err(Error::Metadata(error)), findings);
        }
        Err(other) => return Err(other),
    };
    for part in trace.parts() {
        let path = part.directory.join("metadata");
        let bytes = read(&path)?;
        metadata(&path, &bytes, Ok((*part.metadata).clone()), findings)?;
    }
    let map = trace.map();
    let tally = Tally::of(&map, jobs, false);
    for problem in &tally.problems {
        let severity = if problem.consequence == Consequence::Clamped {
            "warning"
        } else {
            "error"
        };
        let goes_on = match problem.consequence {
            Consequence::Clamped => String::new(),
            Consequence::PacketLost { resumes } => format!("; reading resumes at byte {resumes}"),
            Consequence::StreamEnds => "; the rest of the stream cannot be read".to_owned(),
        };
        findings.push(Finding {
            severity,
            place: format!(
                "{}, packet {}, byte {}",
                problem.stream, problem.packet, problem.offset
            ),
            message: format!("{}{goes_on}", problem.reason),
            shown: None,
        });
    }
    if tally.more_problems > 0 {
        let message = format!("{} more problems not listed", tally.more_problems);
        findings.push(Finding {
            severity: "warning",
            place: directory.display().to_string(),
            message,
            shown: None,
        });
    }
    let missing = missing(&map, &tally);
    if missing > 0 {
        findings.push(Finding {
            severity: "error",
            place: directory.display().to_string(),
            message: missing_events(missing),
            shown: None,
        });
    }
    for error in map.failed() {
        findings.push(Finding {
            severity: "error",
            place: directory.display().to_string(),
            message: error.to_string(),
            shown: None,
        });
    }
    Ok(if findings.is_empty() {
        Code::Ok
    } else {
        Code::Findings
    })
}

/// Number of events that the trace lacks by its own count, which is in the streams of names.
fn missing(map: &TraceMap, tally: &Tally) -> u64 {
    let streams = map
        .streams()
        .filter(|(_, stream, _)| !records_activity(stream));
    let (mut machine, mut totals) = (Machine::new(), Totals::default());
    let mut reader = Reader::new(streams);
    while let Some(item) = reader.next() {
        machine.add(&item);
        machine
            .changes()
            .iter()
            .for_each(|change| totals.add(change));
    }
    let sum = |part: fn(&StreamTally) -> u64| {
        let parts = tally.streams.iter().map(part);
        parts.fold(0, u64::saturating_add)
    };
    totals.missing(
        sum(|stream| stream.events),
        sum(|stream| stream.lost_events),
    )
}

/// The line before and after `column`, as printed. A long line, common in CTF 2 fragments, is cut
/// to the text near the column.
fn around(line: &str, column: usize) -> [String; 2] {
    const NEAR: usize = 80;
    let at = column.saturating_sub(1);
    let is_long = line.chars().count() > 2 * NEAR;
    let from = if is_long { at.saturating_sub(NEAR) } else { 0 };
    let most = if is_long { NEAR } else { usize::MAX };
    let before: String = line.chars().skip(from).take(at - from).collect();
    let mut after = line.chars().skip(at);
    let near: String = after.by_ref().take(most).collect();
    let (left, right) = (
        if from > 0 { "..." } else { "" },
        if after.next().is_some() { "..." } else { "" },
    );
    [format!("{left}{before}"), format!("{near}{right}")].map(|part| {
        let mut part = part.replace('\t', " ");
        escape_controls(&mut part);
        part
    })
}

fn print(findings: &[Finding], json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    for Finding {
        severity,
        place,
        message,
        shown,
    } in findings
    {
        let mut lines = vec![match json {
            true => serde_json::json!({ "type": severity, "place": place, "message": message })
                .to_string(),
            false => format!("{place}: {severity}: {message}"),
        }];
        if let (false, Some([before, after])) = (json, shown) {
            lines.push(format!("    {before}{after}"));
            lines.push(format!("    {}^", " ".repeat(before.chars().count())));
        }
        for line in &mut lines {
            escape_controls(line);
            line.push('\n');
            if !deliver(out, line.as_bytes())? {
                return Ok(());
            }
        }
    }
    flush(out)
}
