//! `kymo convert`: rewrites a trace.

use std::path::{Path, PathBuf};

use kymo_ctf::{Converted, Format, Keep, Trace};

use crate::exit::{Code, Usage};
use crate::input;
use crate::output::{create_directory, refuse_inside};
use crate::progress::Progress;
use crate::select::{self, Select, Verdict};
use crate::summary::count;

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo convert trace mended                       everything readable, in a form that every reader opens
  kymo convert trace part --from 0.25 --to +5ms --cpu 0,2-3
  kymo convert trace part --event 'sched_*' --event page_fault
  kymo convert trace new --ctf2                   as CTF 2 instead of CTF 1.8
  kymo convert kernel ust both                    two traces in one directory

The input is any trace of CTF 1.8 or CTF 2, or a directory of several. Selected events keep their
names, values, times and order; losses keep their counts and the times between which they occurred.
Each of several traces gets its own directory below OUT, which readers open as one trace; times
select from the beginning of each trace, unless written with @. Of a damaged trace everything
readable is written, with exit code 3.";

/// Command line of `kymo convert`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directories.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The output directory, new or empty.
    out: PathBuf,
    /// Write CTF 2, which fewer programs read.
    #[arg(long)]
    ctf2: bool,
    #[command(flatten)]
    selection: select::Options,
}

/// Runs `kymo convert`.
///
/// # Errors
/// If a trace cannot be read or converted, or if the selection names an event, thread or CPU that
/// does not exist.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let Arguments { traces, out, .. } = arguments;
    let mut opened = Vec::new();
    for trace in traces {
        opened.push(input::any(trace)?);
        refuse_inside(out, trace)?;
    }
    let mut selects = Vec::new();
    for trace in &opened {
        selects.push(arguments.selection.of(trace)?);
    }
    let places = places(traces, out);
    let made = create_directory(out, "give another one")?;
    let undo = || {
        kymo_ctf::discard(out);
        made.undo();
    };
    let mut total = Converted::default();
    for ((trace, select), place) in opened.iter().zip(&mut selects).zip(&places) {
        match one(trace, select, place, arguments.ctf2) {
            Ok(converted) => add(&mut total, converted),
            Err(error) => {
                // If the disk is full, the packets written so far are whole; keep them.
                if !error
                    .downcast_ref::<kymo_ctf::WriteError>()
                    .is_some_and(kymo_ctf::WriteError::is_full)
                {
                    undo();
                }
                return Err(error);
            }
        }
    }
    for (trace, select) in opened.iter().zip(&mut selects) {
        select.look_for_missing(&trace.map());
    }
    // A CPU or thread is missing only if every trace lacks it.
    let missing: Vec<Usage> = selects.iter().filter_map(Select::missing).collect();
    if total.damage.is_none()
        && missing.len() == selects.len()
        && let Some(missing) = missing.into_iter().next()
    {
        undo();
        return Err(missing.into());
    }
    say(&total, out, selects.iter().any(|select| select.is_partial));
    match total.damage {
        Some(damage) => Err(damage.into()),
        None => Ok(Code::Ok),
    }
}

/// Output directory of each trace: `out` itself for a single trace, otherwise a directory named
/// after the trace in `out`.
fn places(traces: &[PathBuf], out: &Path) -> Vec<PathBuf> {
    if traces.len() == 1 {
        return vec![out.to_owned()];
    }
    let mut places: Vec<PathBuf> = Vec::new();
    for trace in traces {
        let full = trace.canonicalize().unwrap_or_else(|_| trace.clone());
        let name = full
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let name = if name.is_empty() {
            "trace".to_owned()
        } else {
            name
        };
        let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
        let free = std::iter::once(name.clone())
            .chain(numbered)
            .map(|name| out.join(name));
        places.extend(free.into_iter().find(|place| !places.contains(place)));
    }
    places
}

fn one(trace: &Trace, select: &mut Select, place: &Path, ctf2: bool) -> anyhow::Result<Converted> {
    let format = if ctf2 { Format::Ctf2 } else { Format::Ctf18 };
    let mut progress = Progress::new(trace);
    let converted = kymo_ctf::convert(trace, place, format, select.extent(), |item| {
        progress.pass(item);
        match select.judge(item) {
            Verdict::Take => Keep::Take,
            Verdict::Leave => Keep::Leave,
            Verdict::End => Keep::End,
        }
    })?;
    progress.done();
    Ok(converted)
}

fn add(total: &mut Converted, more: Converted) {
    total.events += more.events;
    total.packets += more.packets;
    total.clamped += more.clamped;
    total.closed += more.closed;
    total.counters += more.counters;
    total.damage = total.damage.take().or(more.damage);
}

/// Prints how much was written and what was repaired.
fn say(converted: &Converted, out: &Path, partial: bool) {
    if partial && converted.events == 0 {
        message!("kymo: the selection matches no event of the trace.");
        return;
    }
    let events = count(converted.events, "event", "events");
    let mut sentence = format!("{} has {events}", out.display());
    let mended = [
        (
            converted.clamped,
            "step back of a clock was evened out",
            "steps back of clocks were evened out",
        ),
        (
            converted.closed,
            "packet was never closed and is now",
            "packets were never closed and are now",
        ),
        (
            converted.counters,
            "counter stepped back and was continued",
            "counters stepped back and were continued",
        ),
    ];
    let mended = mended.into_iter().filter(|(number, ..)| *number > 0);
    for (index, (number, one, several)) in mended.enumerate() {
        sentence.push_str(if index == 0 { "; repaired: " } else { ", " });
        sentence.push_str(&count(number, one, several));
    }
    message!("kymo: {sentence}.");
}
