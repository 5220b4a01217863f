//! `kymo report`: the analysis of a trace, as tables or JSON.

pub mod cell;
pub mod layout;
pub mod section;
pub mod table;
mod text;

pub use text::{Style, duration, only_tables, seconds, sum};

use std::path::PathBuf;

use anyhow::Context as _;
use kymo_analysis::{Analysis, Report};
use kymo_ctf::{Consequence, ItemRef, Problem, Trace};
use serde_json::Value;

use self::section::Section;
use self::table::Look;
use crate::dump::{deliver, flush};
use crate::exit::{Code, Usage};
use crate::input;
use crate::missed::Sampler;
use crate::pattern::nearest;
use crate::progress::Progress;
use crate::select::{self, Select, Verdict};
use crate::terminal::{self, Color};

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo report trace | less
  kymo report trace --section threads,locks --top 30
  kymo report trace --section locks --sort acquired --each
  kymo report trace --from 0.25 --to +5ms --cpu 0
  kymo report trace --where 'in_thread = \"worker\"' --section interrupts
  kymo report trace --json | jq '.wake_latency.worst'
  kymo report trace --json | jq '.locks[] | select(.longest_wait.ns > 1000000)'

A table is printed if the trace has events for it, and is as wide as the terminal (COLUMNS, or 100
columns in a file). Times are seconds since the trace began. JSON has every table in full, with times
in nanoseconds from the clock's origin. `-` is unknown: nothing is guessed where events were lost.

Of a selection, the state at its beginning comes from the events before it; times of threads and CPUs
are counted inside it only, and a wait, call or interrupt counts in full if it ends there.";

/// Command line of `kymo report`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// Print one JSON object with all tables.
    #[arg(long)]
    json: bool,
    /// Only these sections.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    section: Vec<Section>,
    /// Most rows of a table; 0 prints all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Order the rows of each table that has a column with this heading by it, such as max or
    /// on-a-cpu: the largest first, or names by letter.
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// Print each thread, lock and interrupt, also of those with the same name.
    #[arg(long)]
    each: bool,
    /// When to write colours.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: Color,
    #[command(flatten)]
    selection: select::Options,
}

/// Analyses the trace and prints the report.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let trace = input::of_one_clock(&arguments.trace)?;
    let mut select = arguments.selection.of(&trace)?;
    let analysis = Analysis::of_part(trace.metadata(), select.part());
    let (report, damage) = pass_over(&trace, &mut select, analysis, |_, _, _| ());
    if let (None, Some(missing)) = (&damage, select.missing()) {
        return Err(missing.into());
    }
    let text = match arguments.json {
        true => json(&report, &arguments.section)?,
        false => arguments.text(&report, &trace, select.is_partial)?,
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    if select.is_partial && report.events == 0 {
        message!("kymo: the selection matches no event of the trace.");
    }
    match damage {
        Some(error) => Err(input::of_trace(&arguments.trace, error)),
        None => Ok(Code::Ok),
    }
}

impl Arguments {
    /// The report as tables.
    fn text(&self, report: &Report, trace: &Trace, is_partial: bool) -> anyhow::Result<String> {
        let style = Style {
            look: Look {
                width: terminal::width(),
                has_colors: self.color.is_on(),
                top: Some(self.top).filter(|top| *top > 0),
                sort: self.sort.clone(),
                seen: Default::default(),
            },
            each: self.each,
            sections: self.section.clone(),
            is_partial,
        };
        let text = text::tables(report, Sampler::of(trace.metadata()), &style);
        check_sort(style.look)?;
        Ok(text)
    }
}

/// Fails if none of the tables that were printed has the column by which they are ordered.
pub fn check_sort(look: Look) -> Result<(), Usage> {
    let (heads, is_sorted) = look.seen.into_inner();
    let Some(sort) = look.sort.filter(|_| !is_sorted) else {
        return Ok(());
    };
    let hint = match nearest(&table::plain(&sort), heads.iter().map(String::as_str)) {
        Some(head) => format!("did you mean {head}?"),
        None => format!("there are {}", Vec::from_iter(heads).join(", ")),
    };
    Err(Usage(format!("no table has a column \"{sort}\"; {hint}")))
}

/// The report as one JSON object and a newline: all of it, or the chosen sections.
fn json(report: &Report, sections: &[Section]) -> anyhow::Result<String> {
    let cannot = "cannot write the report as JSON";
    if sections.is_empty() {
        return Ok(serde_json::to_string(report).context(cannot)? + "\n");
    }
    let mut all = serde_json::to_value(report).context(cannot)?;
    if let Value::Object(members) = &mut all {
        let all: &[Section] = clap::ValueEnum::value_variants();
        let others = all.iter().filter(|section| !sections.contains(section));
        for member in others.flat_map(|section| section.members()) {
            members.remove(*member);
        }
    }
    Ok(format!("{all}\n"))
}

/// Reads the whole trace through the analysis and passes each item to `look` afterwards. The second
/// value is the first damage that was found, if any.
pub fn pass(
    trace: &Trace,
    analysis: Analysis,
    mut look: impl FnMut(&ItemRef<'_>, &Analysis),
) -> (Report, Option<kymo_ctf::Error>) {
    let look = |item: &ItemRef<'_>, analysis: &Analysis, _| look(item, analysis);
    pass_over(trace, &mut Select::default(), analysis, look)
}

/// Reads the trace as far as the selection goes, and passes each item to `look` after the analysis
/// had it, with whether it is selected. The second value is the first damage that was found, if any.
pub fn pass_over(
    trace: &Trace,
    select: &mut Select,
    mut analysis: Analysis,
    mut look: impl FnMut(&ItemRef<'_>, &Analysis, bool),
) -> (Report, Option<kymo_ctf::Error>) {
    let mut progress = Progress::new(trace);
    let map = trace.map();
    // From the beginning: the state at the selection's begin comes from what is before it.
    let mut reader = map.read();
    let mut damage = None;
    for error in map.failed() {
        analysis.damaged(error);
    }
    while let Some(item) = reader.next() {
        match select.judge(&item) {
            Verdict::Take => {
                analysis.add(&item);
                look(&item, &analysis, true);
            }
            Verdict::Leave => {
                analysis.pass_over(&item);
                look(&item, &analysis, false);
            }
            Verdict::End => {
                analysis.pass_over(&item);
                break;
            }
        }
        progress.pass(&item);
        if let ItemRef::Problem(problem) = &item
            && problem.consequence != Consequence::Clamped
        {
            damage.get_or_insert_with(|| Problem::clone(problem).into());
        }
    }
    drop(reader);
    progress.done();
    let damage = map.into_failed().into_iter().next().or(damage);
    (analysis.finish(), damage)
}
