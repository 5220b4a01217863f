//! Opening traces: most commands are about one.

use std::path::Path;

use kymo_ctf::Trace;

use crate::exit::Usage;

/// Opens the trace in `directory`. A tree of several traces is refused: what the events of one mean
/// does not hold for another.
pub fn open(directory: &Path) -> anyhow::Result<Trace> {
    let trace = open_any(directory)?;
    check(&trace)?;
    Ok(trace)
}

/// Opens the trace in `directory`, or the tree of several.
pub fn open_any(directory: &Path) -> anyhow::Result<Trace> {
    if directory.is_file() {
        return Err(Usage(format!(
            "{} is a file: give the trace's directory",
            directory.display()
        ))
        .into());
    }
    Ok(Trace::open(directory)?)
}

/// Refuses several traces, unless all have the same metadata, as the parts of one that a tracer cut
/// into several have.
fn check(trace: &Trace) -> Result<(), Usage> {
    if trace.is_one() {
        return Ok(());
    }
    let directories: Vec<String> = trace
        .parts()
        .iter()
        .map(|part| part.directory.display().to_string())
        .collect();
    let shown = directories
        .iter()
        .take(3)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let more = if directories.len() > 3 { ", ..." } else { "" };
    Err(Usage(format!(
        "there are {} traces of different metadata here ({shown}{more}): give the directory of one",
        directories.len()
    )))
}
