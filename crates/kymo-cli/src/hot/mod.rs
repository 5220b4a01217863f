//! `kymo hot`: the functions and lines with the most samples, and the call tree.

mod tree;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use kymo_profile::{Hot, Options, Place, Profile, ProfileImage, Share};
use serde_json::{Value, json};

use crate::dump::{deliver, escape_controls, flush};
use crate::exit::Code;
use crate::flame::{Part, only};
use crate::profile::{Outcome, What, print_account, read};
use crate::select;
use crate::summary::thousands;

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo hot trace
  kymo hot trace --by line --top 50
  kymo hot trace --only kernel --thread worker --from 0.25
  kymo hot trace --tree --least 5         callers above what they call
  kymo hot trace --inlined all            functions of libraries, too, that were inlined
  kymo hot trace --json | jq '.places[] | select(.total.share > 0.1)'

`self` is the share of samples in the function itself; `total` includes what it calls. With a
probability of 95 %, the interval contains the share of time that the function really took. This
assumes independent samples: for a function that runs for many samples in a row, it is too narrow.

A function of a library that was inlined counts for the function that has it inlined, here and in
every other picture and file: `kymo flame` and `kymo export` have the same option.";

/// Command line of `kymo hot`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// What to list.
    #[arg(long, value_enum, default_value_t = Unit::Function)]
    by: Unit,
    /// Print the call tree: each function above those that it calls, with their shares.
    #[arg(long, conflicts_with_all = ["by", "top"])]
    tree: bool,
    /// Fold branches of the tree with a smaller share, in percent; --json folds none unless it is
    /// given. Default: 1.
    #[arg(long, value_name = "PERCENT", requires = "tree", value_parser = percent)]
    least: Option<f64>,
    /// Most rows to print; --json prints all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Only samples taken in the kernel, with its part of the chains, or only those in programs.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Keep samples of idle CPUs.
    #[arg(long)]
    include_idle: bool,
    #[command(flatten)]
    symbols: kymo_images::Symbols,
    #[command(flatten)]
    selection: select::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unit {
    /// Functions.
    Function,
    /// Lines of source files, with their text where the file is at hand.
    Line,
}

/// Runs `kymo hot`.
///
/// # Errors
/// If the trace cannot be read or has no samples, or the output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let what = What::Samples(Options {
        only: only(arguments.only),
        include_idle: arguments.include_idle,
        ..Options::default()
    });
    let trace = &arguments.trace;
    let Outcome {
        profile,
        damage,
        sampler,
    } = read(trace, what, &arguments.selection, &arguments.symbols)?;
    let text = match arguments.tree {
        true => tree::print(&profile, arguments.least, arguments.json)?,
        false => list(&profile, arguments)?,
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    print_account(&profile, what, sampler);
    match damage {
        Some(damage) => Err(damage.into()),
        None => Ok(Code::Ok),
    }
}

/// A share in percent.
fn percent(text: &str) -> Result<f64, &'static str> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.ok_or("expected a number from 0 to 100")
}

fn list(profile: &Profile, arguments: &Arguments) -> anyhow::Result<String> {
    let hot = profile.hot(match arguments.by {
        Unit::Function => Place::Function,
        Unit::Line => Place::Line,
    });
    Ok(match arguments.json {
        true => serde_json::to_string(&object(profile, &hot)).context("cannot write JSON")? + "\n",
        false => table(profile, &hot, arguments.by, arguments.top),
    })
}

/// The functions with the most samples, as a table.
pub fn top(profile: &Profile, most: usize) -> String {
    let mut hot = profile.hot(Place::Function);
    hot.truncate(most);
    table(profile, &hot, Unit::Function, most)
}

fn table(profile: &Profile, hot: &[Hot], by: Unit, top: usize) -> String {
    let by_line = by == Unit::Line;
    let mut sources = Sources::default();
    let what = if by_line { "line" } else { "function" };
    let mut text = format!(
        "{:>6}  {:<13}  {:>6}  {:>9}  {what}\n",
        "self", "95 %", "total", "samples"
    );
    for place in hot.iter().take(top) {
        let (low, high) = place.own.interval;
        let interval = format!("{:.1}-{:.1}%", low * 100.0, high * 100.0);
        let mut line = format!(
            "{:>5.1}%  {interval:<13}  {:>5.1}%  {:>9}  ",
            place.own.share * 100.0,
            place.total.share * 100.0,
            thousands(place.own.weight),
        );
        match (&place.file, place.line) {
            (Some(file), Some(number)) => {
                line += &format!("{file}:{number}  {}", place.function);
                if let Some(source) = sources.line(file, number) {
                    line += &format!("  | {}", source.trim());
                }
            }
            _ => line += &place.function,
        }
        if let Some(image) = program(profile, place) {
            line += &format!("  ({image})");
        }
        escape_controls(&mut line);
        text += &line;
        text.push('\n');
    }
    if hot.len() > top {
        let more = thousands((hot.len() - top) as u64);
        text += &format!("... {more} more; --top prints them\n");
    }
    text
}

fn image_of<'a>(profile: &'a Profile, place: &Hot) -> Option<&'a ProfileImage> {
    profile.images.get(place.image?.index())
}

/// The program's name; `None` for the kernel.
fn program<'a>(profile: &'a Profile, place: &Hot) -> Option<&'a str> {
    let image = image_of(profile, place)?;
    (!image.is_kernel).then_some(&*image.name)
}

fn object(profile: &Profile, hot: &[Hot]) -> Value {
    let places = hot.iter().map(|place| {
        json!({
            "function": &*place.function,
            "image": image_of(profile, place).map(|image| &*image.name),
            "file": place.file.as_deref(),
            "line": place.line,
            "self": share(&place.own),
            "total": share(&place.total),
        })
    });
    let mut object = totals(profile);
    object["places"] = places.collect();
    object
}

fn share(share: &Share) -> Value {
    json!({
        "samples": share.weight,
        "share": share.share,
        "low": share.interval.0,
        "high": share.interval.1,
    })
}

/// How many samples there are, and how many there are not.
fn totals(profile: &Profile) -> Value {
    let totals = &profile.totals;
    json!({
        "samples": totals.kept,
        "idle": totals.idle,
        "missed": totals.missed,
        "lost": totals.lost,
        "gaps": totals.gaps,
        "cut": totals.cut,
        "untrusted": totals.untrusted,
    })
}

/// Source files at hand, each read once.
#[derive(Default)]
struct Sources {
    files: HashMap<PathBuf, Option<Vec<String>>>,
}

impl Sources {
    /// A line of a file, from 1.
    fn line(&mut self, file: &str, number: u32) -> Option<&str> {
        let lines = self.files.entry(PathBuf::from(file)).or_insert_with(|| {
            let text = std::fs::read_to_string(Path::new(file)).ok()?;
            Some(text.lines().map(str::to_owned).collect())
        });
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        Some(lines.as_ref()?.get(place)?.as_str())
    }
}
