//! `kymo report`: what a trace means, as tables or JSON.

mod text;

pub use text::seconds;

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use kymo_analysis::{Analysis, Report};
use kymo_ctf::{Item, Trace};

use crate::dump::{deliver, flush};
use crate::exit::{Code, Usage};

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo report trace | less
  kymo report trace --json | jq '.wake_latency.worst'
  kymo report trace --json | jq '.locks[] | select(.longest_wait.ns > 1000000)'

A table is printed where the trace has events for it. Times are seconds since the trace began; in JSON, nanoseconds from the
clock's origin, and everything is there. `-` is unknown: nothing is guessed where events were lost.";

/// The command line.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// One JSON object with all tables.
    #[arg(long)]
    json: bool,
}

/// Items between two looks at the progress.
const STRIDE: u64 = 1 << 16;

/// Does it.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    if arguments.trace.is_file() {
        return Err(Usage(format!("{} is a file: give the trace's directory", arguments.trace.display())).into());
    }
    let (report, damage) = of(&arguments.trace)?;
    let text = match arguments.json {
        true => serde_json::to_string(&report).context("cannot write the report as JSON")? + "\n",
        false => text::tables(&report),
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    match damage {
        Some(error) => Err(error.into()),
        None => Ok(Code::Ok),
    }
}

/// Reads the whole trace. Gives the first stream's damage besides, if there is any.
pub fn of(directory: &Path) -> Result<(Report, Option<kymo_ctf::Error>), kymo_ctf::Error> {
    let trace = Trace::open(directory)?;
    let mut analysis = Analysis::new(trace.metadata());
    let mut progress = Progress::new(&trace);
    let mut damage = None;
    for item in trace.events() {
        match item {
            Ok(item) => {
                analysis.add(&item);
                progress.pass(&item);
            }
            Err(error) => {
                analysis.damaged(&error);
                damage.get_or_insert(error);
            }
        }
    }
    progress.bar.finish_and_clear();
    Ok((analysis.finish(), damage))
}

/// A bar on a terminal; nothing elsewhere.
struct Progress {
    bar: ProgressBar,
    items: u64,
    /// Where the reader is in each stream, by its file's name.
    offsets: HashMap<Arc<str>, u64>,
}

impl Progress {
    fn new(trace: &Trace) -> Progress {
        let bytes = trace.stream_files().iter().map(|path| path.metadata().map_or(0, |metadata| metadata.len())).sum();
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(bytes),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% of {total_bytes}, {eta} left") {
            bar.set_style(style);
        }
        Progress { bar, items: 0, offsets: HashMap::new() }
    }

    fn pass(&mut self, item: &Item) {
        self.items += 1;
        if let Item::Event(event) = item
            && self.items.is_multiple_of(STRIDE)
            && !self.bar.is_hidden()
        {
            self.offsets.insert(Arc::clone(event.stream()), event.packet.offset);
            self.bar.set_position(self.offsets.values().sum());
        }
    }
}
