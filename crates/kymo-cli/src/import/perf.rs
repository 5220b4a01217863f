//! `kymo import perf`.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kymo_linux::{KernelSymbols, Left, Missing, PerfData, Writer};

use crate::exit::{BadInput, Code};
use crate::output::create_directory;
use crate::sampled;
use crate::summary::count;

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  perf record -g ./program; kymo import perf perf.data --out trace
  kymo import perf perf.data --out trace --flame flame.svg
  kymo hot trace

Files of any version and byte order are read, compressed ones, those of several events, and what
perf record -o - has written; one that is cut off as far as it goes. Callers are those that perf has
recorded (-g): stacks that were copied (--call-graph dwarf), and the fields of tracepoints, are not
in the trace.

Exit codes: 0 success; 3 the file cannot be read, or not all of it.";

/// Command line of `kymo import perf`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The file that perf record has written.
    file: PathBuf,
    /// The trace's directory, new or empty.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Draw a flame graph, too.
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
}

/// Converts a file.
///
/// # Errors
/// If the file is none of `perf record`, or the trace cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let Arguments { file, out, flame } = arguments;
    let named = |what: String| BadInput(format!("{}: {what}", file.display()));
    let opened = File::open(file).map_err(|error| named(error.to_string()))?;
    let data = PerfData::open(opened).map_err(|error| named(error.to_string()))?;
    let made = create_directory(out, "give another one")?;
    let origin = data.origin();
    let release = origin
        .environment
        .iter()
        .find(|(name, _)| *name == "release");
    let release = release.map(|(_, release)| release.clone());
    let mut writer = Writer::create(out, &origin).inspect_err(|_| made.undo())?;
    let read = data.write(&mut writer);
    // Every stream is ended, also if one cannot be written.
    let (summary, written) = writer.finish();
    let left = read?;
    written?;
    let kernel = release.zip(summary.kernel_begin);
    let kernel = kernel.and_then(|(release, begin)| KernelSymbols::read_if(&release, begin));
    sampled::note(out, &summary, Some(&left.build_ids), kernel);
    let names = (0..).zip(&origin.events);
    let names = names.filter(|(place, _)| summary.events.contains(place));
    let names: Vec<&str> = names.map(|(_, name)| &**name).collect();
    let names = match names.is_empty() {
        true => origin.events.join(", "),
        false => names.join(", "),
    };
    sampled::say(out, &summary, &names);
    tell(file, &left);
    sampled::show(out, &summary, flame.as_deref()).context("cannot draw the flame graph")?;
    let is_whole = left.stopped.is_none() && left.missing.is_none() && left.malformed == 0;
    Ok(match is_whole {
        true => Code::Ok,
        false => Code::BadInput,
    })
}

/// Says what is not in the trace.
fn tell(file: &Path, left: &Left) {
    let file = file.display();
    if let Some(Missing {
        bytes,
        has_no_features,
    }) = left.missing
    {
        let rest = match bytes {
            0 => String::new(),
            _ => format!(" in {} of a record", count(bytes, "byte", "bytes")),
        };
        message!("kymo: {file} is cut off{rest}: the rest of the recording is missing.");
        if has_no_features {
            message!("kymo: So is what perf writes at the end: names of events, host and kernel.");
        }
    }
    if let Some(why) = &left.stopped {
        message!("kymo: {file} is damaged, and was read up to there: {why}.");
    }
    if left.malformed > 0 {
        message!(
            "kymo: {} of {file} could not be understood.",
            count(left.malformed, "record", "records")
        );
    }
    if !left.unknown.is_empty() {
        let kinds = left.unknown.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, times)| format!("{times} {kind}"))
            .collect();
        message!(
            "kymo: records that are not in the trace: {}.",
            kinds.join(", ")
        );
    }
}
