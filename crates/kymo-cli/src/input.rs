//! Opening the traces that a command reads.

use std::path::Path;

use kymo_ctf::{ClockClass, Metadata, Trace};

use crate::exit::Usage;

/// Opens the trace in `directory`, or all traces below it, related or not.
pub fn any(directory: &Path) -> anyhow::Result<Trace> {
    if directory.exists() && !directory.is_dir() {
        let sentence = format!(
            "{} is a file; give the trace directory",
            directory.display()
        );
        return Err(Usage(sentence).into());
    }
    Trace::open(directory).map_err(|error| match error {
        // The sentence has the line in the metadata, but not whose metadata.
        kymo_ctf::Error::Metadata(_) => {
            anyhow::Error::from(error).context(directory.display().to_string())
        }
        _ => error.into(),
    })
}

/// Names the trace in an error about one of its streams, which has only the name of the stream.
pub fn of_trace(directory: &Path, error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    match error.downcast_ref() {
        Some(kymo_ctf::Error::Stream { .. }) => error.context(directory.display().to_string()),
        _ => error,
    }
}

/// Opens the trace in `directory`, or several traces that share a clock, such as a kernel's and its
/// programs'. Their events can be merged into one order.
pub fn of_one_clock(directory: &Path) -> anyhow::Result<Trace> {
    let trace = any(directory)?;
    let parts = trace.parts();
    let share = parts.first().is_none_or(|first| {
        let others = parts.iter().skip(1);
        others
            .into_iter()
            .all(|other| share_a_clock(&first.metadata, &other.metadata))
    });
    match share || trace.is_one() {
        true => Ok(trace),
        false => Err(several(&trace, "with different metadata and no common clock").into()),
    }
}

/// Opens the trace in `directory`, or several traces with the same metadata, such as the parts into
/// which a tracer split one trace.
pub fn one(directory: &Path) -> anyhow::Result<Trace> {
    let trace = any(directory)?;
    match trace.is_one() {
        true => Ok(trace),
        false => Err(several(&trace, "with different metadata").into()),
    }
}

/// Whether times of both traces can be compared: their clocks have the same identity, or both
/// clocks have the same known origin.
fn share_a_clock(one: &Metadata, other: &Metadata) -> bool {
    let (Some(one), Some(other)) = (one.clocks().first(), other.clocks().first()) else {
        return false;
    };
    let identity = |clock: &ClockClass| (clock.uuid, clock.namespace.clone(), clock.uid.clone());
    let is_known = one.uuid.is_some() || one.uid.is_some();
    (is_known && identity(one) == identity(other))
        || (one.absolute && other.absolute && one.origin == other.origin)
}

fn several(trace: &Trace, what: &str) -> Usage {
    let parts = trace.parts();
    let directories = parts.iter().take(3);
    let shown: Vec<String> = directories
        .map(|part| part.directory.display().to_string())
        .collect();
    let more = if parts.len() > 3 { ", ..." } else { "" };
    Usage(format!(
        "found {} traces {what} ({}{more}); give the directory of one",
        parts.len(),
        shown.join(", ")
    ))
}
