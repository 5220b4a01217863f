//! `kymo flame`: where the time goes, as a flame graph.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kymo_export::FlameGraph;
use kymo_profile::{By, Only, Options, Profile, Unit, WaitKind};

use crate::exit::{Code, Usage};
use crate::profile::{Outcome, What, account, print_account, read, short_account};
use crate::profile_file::Format;
use crate::report::duration;
use crate::summary::{count, thousands};
use crate::{output, select};

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo flame trace                        writes flame.svg, if at a terminal
  kymo flame trace -o out.svg             open it in a browser; a click zooms, Ctrl-F searches
  kymo flame trace --by thread --only kernel -o kernel.svg
  kymo flame trace --thread worker --from 0.25 --to +50ms -o worker.svg
  kymo flame trace --kernel kernel.elf --images rootfs -o out.svg
  kymo flame trace --event page_fault -o faults.svg   needs record --stacks page_fault
  kymo flame trace --off-cpu -o blocked.svg
  kymo flame trace --locks -o locks.svg
  kymo flame --diff before after -o diff.svg
  kymo flame trace --format folded | sort -k2 -n
  kymo flame trace --format firefox -o out.json       open it at profiler.firefox.com

A frame is as wide as the number of samples in its function and in what that calls. Samples of idle
CPUs are left out. Samples that the machine missed, or for which the trace had no room, are counted:
the numbers are printed, and stand below the graph's title.";

/// Command line of `kymo flame`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    #[arg(required_unless_present = "diff")]
    trace: Option<PathBuf>,
    /// The file to write, or - for the standard output; default: the standard output, but a file in
    /// the working directory, such as flame.svg, for what a terminal cannot show.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Format::Svg)]
    format: Format,
    /// Put the CPU, the thread or the process below each stack.
    #[arg(long, value_enum, conflicts_with_all = ["off_cpu", "locks"])]
    by: Option<Below>,
    /// Only samples taken in the kernel, with its part of the chains, or only those in programs.
    #[arg(long, value_enum, conflicts_with_all = ["off_cpu", "locks"])]
    only: Option<Part>,
    /// Keep samples of idle CPUs.
    #[arg(long, conflicts_with_all = ["off_cpu", "locks"])]
    include_idle: bool,
    /// Show how long threads were blocked, asleep or suspended: by thread, reason and stack.
    #[arg(long, conflicts_with_all = ["locks", "event"])]
    off_cpu: bool,
    /// Show how long threads waited for locks: by lock, waiter and owner.
    #[arg(long, conflicts_with = "event")]
    locks: bool,
    /// Show what changed between two traces: the width is that of AFTER, red is more than before
    /// and blue is less.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with = "trace")]
    diff: Option<Vec<PathBuf>>,
    #[command(flatten)]
    symbols: kymo_images::Symbols,
    #[command(flatten)]
    selection: select::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Below {
    /// The CPU.
    Cpu,
    /// The thread.
    Thread,
    /// The process.
    Process,
}

/// A part of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The kernel.
    Kernel,
    /// The programs.
    User,
}

/// What --only asks for.
pub fn only(part: Option<Part>) -> Only {
    match part {
        None => Only::Both,
        Some(Part::Kernel) => Only::Kernel,
        Some(Part::User) => Only::User,
    }
}

/// Runs `kymo flame`.
///
/// # Errors
/// If a trace cannot be read or has nothing of what is asked for, or the output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let given = arguments.output.as_deref();
    let path = arguments.format.path(given);
    let out = output::file(path.as_deref());
    let traces = arguments
        .trace
        .iter()
        .chain(arguments.diff.iter().flatten());
    for trace in traces {
        if let Some(out) = out {
            output::refuse_inside(out, trace)?;
        }
    }
    let damage = match (&arguments.trace, arguments.diff.as_deref()) {
        (_, Some([before, after])) => difference(arguments, before, after, out)?,
        (Some(trace), _) => graph(arguments, trace, out)?,
        _ => None,
    };
    arguments.format.print_path(given, out);
    match damage {
        Some(damage) => Err(damage),
        None => Ok(Code::Ok),
    }
}

impl Arguments {
    fn what(&self) -> What {
        match (self.off_cpu, self.locks) {
            (true, _) => What::Waits(WaitKind::OffCpu),
            (_, true) => What::Waits(WaitKind::Locks),
            _ => What::Samples(Options {
                only: only(self.only),
                include_idle: self.include_idle,
                keep_times: self.format.has_samples(),
                ..Options::default()
            }),
        }
    }

    fn by(&self) -> By {
        match self.by {
            None => By::Nothing,
            Some(Below::Cpu) => By::Cpu,
            Some(Below::Thread) => By::Thread,
            Some(Below::Process) => By::Process,
        }
    }

    fn read(&self, trace: &Path) -> anyhow::Result<Outcome> {
        read(trace, self.what(), &self.selection, &self.symbols)
    }

    /// The heading for what is shown.
    fn title(&self) -> &'static str {
        match (self.off_cpu, self.locks) {
            (true, _) => "Time off CPU",
            (_, true) => "Waits for locks",
            _ => "Where the time goes",
        }
    }
}

/// Draws a trace that was read, as an SVG file.
pub fn draw(outcome: &Outcome, what: What, trace: &Path, svg: &Path) -> anyhow::Result<()> {
    let profile = &outcome.profile;
    let graph = FlameGraph {
        title: format!("Where the time goes: {}", trace.display()),
        subtitle: short_account(profile, what, outcome.sampler),
        unit: profile.unit.label().to_owned(),
        frame: "Function:".to_owned(),
        widest_first: false,
    };
    output::write(output::file(Some(svg)), |out| {
        Format::Svg.write(profile, &graph, By::Nothing, out)
    })
}

/// Draws one trace. Returns its first damage.
fn graph(
    arguments: &Arguments,
    trace: &Path,
    out: Option<&Path>,
) -> anyhow::Result<Option<anyhow::Error>> {
    let Outcome {
        profile,
        damage,
        sampler,
    } = arguments.read(trace)?;
    let what = arguments.what();
    let graph = FlameGraph {
        title: format!("{}: {}", arguments.title(), trace.display()),
        subtitle: short_account(&profile, what, sampler),
        unit: profile.unit.label().to_owned(),
        frame: "Function:".to_owned(),
        widest_first: arguments.off_cpu || arguments.locks,
    };
    output::write(out, |out| {
        arguments
            .format
            .write(&profile, &graph, arguments.by(), out)
    })?;
    print_account(&profile, what, sampler);
    Ok(damage.map(anyhow::Error::from))
}

/// Draws what changed between two traces. Returns the first damage of either, with its trace.
fn difference(
    arguments: &Arguments,
    before: &Path,
    after: &Path,
    out: Option<&Path>,
) -> anyhow::Result<Option<anyhow::Error>> {
    if !matches!(arguments.format, Format::Svg | Format::Folded) {
        let sentence = "--diff writes only svg or folded; choose one of them with --format";
        return Err(Usage(sentence.to_owned()).into());
    }
    let (old, new) = (arguments.read(before)?, arguments.read(after)?);
    let what = arguments.what();
    let (of_old, of_new) = (amount(&old.profile), amount(&new.profile));
    output::write(out, |out| {
        let (by, old, new) = (arguments.by(), &old.profile, &new.profile);
        match arguments.format {
            Format::Folded => {
                let lines = kymo_export::difference(&old.folded(by), &new.folded(by), false);
                out.write_all(lines.as_bytes())
            }
            _ => FlameGraph {
                title: format!(
                    "{}: {} after {}",
                    arguments.title(),
                    after.display(),
                    before.display()
                ),
                subtitle: format!(
                    "width: after ({}, {of_new}); red: more than before ({}, {of_old}, scaled to \
                     the same total), blue: less",
                    after.display(),
                    before.display()
                ),
                unit: new.unit.label().to_owned(),
                frame: "Function:".to_owned(),
                widest_first: arguments.off_cpu || arguments.locks,
            }
            .draw_difference(&old.folded(by), &new.folded(by), out),
        }
    })?;
    for (label, path, of) in [("before", before, &old), ("after", after, &new)] {
        message!(
            "kymo: {label}, {}: {}.",
            path.display(),
            account(&of.profile, what, of.sampler).join("; ")
        );
    }
    let in_trace = |damage: kymo_ctf::Error, trace: &Path| {
        anyhow::Error::from(damage).context(trace.display().to_string())
    };
    let of_old = old.damage.map(|damage| in_trace(damage, before));
    Ok(of_old.or_else(|| Some(in_trace(new.damage?, after))))
}

/// The total of a profile with its unit.
fn amount(profile: &Profile) -> String {
    match profile.unit {
        Unit::Samples => count(profile.weight(), "sample", "samples"),
        Unit::Nanoseconds => duration(profile.weight()),
        Unit::Bytes => thousands(profile.weight()),
    }
}
