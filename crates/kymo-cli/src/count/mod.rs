//! `kymo count`: groups of performance counters, over a program, processes, CPUs, or a kernel of
//! one's own.

mod kernel;
mod list;
mod output;
mod plan;
mod repeat;
mod table;
mod targets;
mod watch;

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use kymo_perf::{Counters, HeldCommand, NamedGroup, Options, SlotLimit, Target};

use crate::exit::{Code, Usage};
use crate::pattern::nearest;
use output::{Part, Writer};
use plan::Plan;
use repeat::Runs;
use watch::{Counts, End, Watch};

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo count -- ls                                        what this machine can count
  kymo count -e '{cycles,instructions},{page-faults,context-switches}' -- make
  kymo count -e minor-faults --json -o counts.json -- make
  kymo count -e sched:sched_switch -C 0-3 -I 1000         each second, until ^C
  kymo count -r 10 -- make                                mean and spread of ten runs
  kymo count -A -a -e cycles -- sleep 1                   each CPU too
  kymo count -p 1234 --json | jq '.groups[].events[]'
  kymo count -e '{instructions,context-switches}' --kernel my-kernel.elf
  kymo count --list 'sched:*'

The events between two braces are a group: they count at the same time or not at all. Where the
groups need more counters than the processor has, they take turns, and `scaled` is what the count
would be had the group counted all the time. `:u` behind a name counts only what happens in
programs, `:k` only what happens in the kernel. Events of a PMU stand between slashes, such as
`cpu/event=0x3c,umask=1/u` and, with -a, `power/energy-pkg/`.

The exit status is the command's, or 128 and the number of the signal that ended it.";

/// Command line of `kymo count`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The events, with braces around those of a group; default: what this machine can count.
    #[arg(short, long, value_name = "EVENTS")]
    event: Vec<String>,
    /// Print what was counted every so many milliseconds too.
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    interval: Option<u64>,
    /// Count these running processes, with all their threads, until they end or ^C.
    #[arg(short, long, value_name = "PID", value_delimiter = ',',
        conflicts_with_all = ["all_cpus", "cpus", "command"])]
    pid: Vec<u32>,
    /// Count all CPUs, whatever runs there, until the command ends or ^C.
    #[arg(short, long)]
    all_cpus: bool,
    /// Count these CPUs, such as 0,2-3.
    #[arg(short = 'C', long, value_name = "CPUS", conflicts_with = "all_cpus")]
    cpus: Option<String>,
    /// Print also what each CPU counted by itself (with -a or -C), or each thread (with -p).
    #[arg(short = 'A', long, conflicts_with = "kernel")]
    no_aggr: bool,
    /// Run the command so often, and print the mean of its counts and their relative standard
    /// deviation.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["interval", "pid", "no_aggr", "kernel"])]
    repeat: Option<u32>,
    /// Leave out threads and processes that are created while it counts.
    #[arg(long, conflicts_with_all = ["all_cpus", "cpus"])]
    no_inherit: bool,
    /// Boot this kernel on the standard machine of `kymo record`, and count on all its CPUs until
    /// the machine ends or ^C: one group, or up to 4 in braces, beside which a name is a group of
    /// its own. Times are the machine's.
    #[arg(long, value_name = "KERNEL",
        conflicts_with_all = ["pid", "all_cpus", "cpus", "command", "no_inherit"])]
    kernel: Option<std::path::PathBuf>,
    /// Number of the machine's CPUs; default: 4.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=512))]
    smp: Option<u32>,
    /// The kernel's command line.
    #[arg(long, value_name = "TEXT")]
    append: Option<String>,
    /// Let the machine's time advance with its instructions, so that every run counts the same.
    #[arg(long)]
    deterministic: bool,
    /// The file for the counts, or - for the standard output; default: the standard output, but the
    /// standard error with a command, whose output is not mixed with the counts.
    #[arg(short, long, value_name = "FILE")]
    output: Option<std::path::PathBuf>,
    /// Print JSON: one object, and one more per line for every interval.
    #[arg(long)]
    json: bool,
    /// List events, and whether this machine counts them; with a pattern also tracepoints.
    #[arg(long, value_name = "PATTERN", num_args = 0..=1,
        conflicts_with_all = ["event", "interval", "pid", "all_cpus", "cpus", "command", "kernel",
            "no_aggr", "repeat"])]
    list: Option<Option<String>>,
    /// The command to count, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `kymo count`.
///
/// # Errors
/// If nothing is named that could be counted, the events are not known or cannot be counted here,
/// or the command cannot be started.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    if let Some(pattern) = &arguments.list {
        return list::print(pattern.as_deref(), arguments.json);
    }
    if let Some(kernel) = &arguments.kernel {
        return kernel::count(arguments, kernel).map_err(explain);
    }
    // (clap does not require an option that excludes another one given.)
    if arguments.smp.is_some() || arguments.append.is_some() || arguments.deterministic {
        let what = "--smp, --append and --deterministic are about a machine; add --kernel";
        return Err(Usage(what.to_owned()).into());
    }
    if arguments.pid.contains(&0) {
        // To the kernel, 0 is the process that asks.
        let what = "-p takes the numbers of processes, and 0 is none; write them as ps shows them";
        return Err(Usage(what.to_owned()).into());
    }
    if arguments.pid.is_empty() && !counts_cpus(arguments) && arguments.command.is_empty() {
        return Err(Usage(
            "there is nothing to count; give a command after --, a process (-p PID), CPUs (-a, -C \
             CPUS), or a kernel (--kernel)"
                .to_owned(),
        )
        .into());
    }
    if arguments.no_aggr && arguments.pid.is_empty() && !counts_cpus(arguments) {
        // What a thread counts that a command has made is added to its maker's.
        let what = "-A is about CPUs (-a, -C CPUS) or threads that run already (-p PID); a \
                    command's threads are counted together";
        return Err(Usage(what.to_owned()).into());
    }
    if arguments.repeat.is_some() && arguments.command.is_empty() {
        let what = "--repeat runs a command several times; give one after --";
        return Err(Usage(what.to_owned()).into());
    }
    count(arguments).map_err(explain)
}

fn counts_cpus(arguments: &Arguments) -> bool {
    arguments.all_cpus || arguments.cpus.is_some()
}

/// How an error of the library or the command itself is shown.
fn explain(error: anyhow::Error) -> anyhow::Error {
    let Some(cause) = error.downcast_ref::<kymo_perf::Error>() else {
        return error;
    };
    let mut sentence = cause.to_string();
    if let kymo_perf::Error::UnknownEvent { name } = cause {
        let known = list::known();
        if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
            sentence += &format!(" (did you mean {near}?)");
        }
    }
    if let Some(advice) = cause.advice() {
        sentence += "; ";
        sentence += advice;
    }
    match cause.kind() {
        std::io::ErrorKind::InvalidInput => Usage(sentence).into(),
        _ => anyhow::Error::msg(sentence),
    }
}

fn count(arguments: &Arguments) -> anyhow::Result<Code> {
    let limit = SlotLimit::of_machine()?;
    if let Some(sentence) = limit.message() {
        message!("kymo: {sentence}.");
    }
    let targets = plan::targets(arguments)?;
    let probe = targets.first().copied().unwrap_or(Target::SELF);
    let Plan { groups, message } = match arguments.event.as_slice() {
        [] => plan::default_groups(probe, limit)?,
        lists => plan::listed_groups(lists)?,
    };
    let has_command = !arguments.command.is_empty();
    let mut out = Writer::create(arguments.output.as_deref(), arguments.json, has_command)?;
    let mut run = Run {
        arguments,
        limit,
        targets,
        groups,
        message,
        watch: Watch::new()?,
    };
    let code = match arguments.repeat {
        Some(runs) if runs > 1 => run.repeat(runs, &mut out)?,
        _ => run
            .once(&mut out, |out, counts, end| {
                out.write(counts, Part::Total, end)
            })?
            .report(&arguments.command),
    };
    out.finish()?;
    Ok(code)
}

/// What is counted, once or several times.
struct Run<'a> {
    arguments: &'a Arguments,
    limit: SlotLimit,
    /// None if it is the command that is counted.
    targets: Vec<Target>,
    groups: Vec<NamedGroup>,
    /// What the user should know about the groups, when they are open.
    message: Option<String>,
    watch: Watch,
}

impl Run<'_> {
    /// Counts until the end, and gives the counts of all the time to `done`.
    fn once(
        &mut self,
        out: &mut Writer,
        done: impl FnOnce(&mut Writer, &Counts<'_>, &End) -> anyhow::Result<()>,
    ) -> anyhow::Result<End> {
        let (arguments, groups) = (self.arguments, &self.groups);
        let counts_command = self.targets.is_empty();
        let options = Options {
            inherit: !arguments.no_inherit,
            on_exec: counts_command,
            ..Options::default()
        };
        let mut held = match arguments.command.as_slice() {
            [] => None,
            [program, rest @ ..] => {
                let mut command = Command::new(program);
                command.args(rest);
                Some(HeldCommand::new(command)?)
            }
        };
        let own = held.as_ref().map(|held| Target::Process(held.pid()));
        let own = own.filter(|_| counts_command).map(|own| vec![own]);
        let targets = own.as_ref().unwrap_or(&self.targets);
        let mut counters = match arguments.pid.as_slice() {
            [] => Counters::open(groups, targets, options, self.limit)?,
            pids => Counters::open_processes(groups, pids, options, self.limit)?,
        };
        if let Some(sentence) = self.message.take() {
            message!("kymo: {sentence}.");
        }
        if counters.may_lack_threads() {
            message!(
                "kymo: threads kept starting while the groups were opened; some may not be counted."
            );
        }
        let labels = match arguments.no_aggr {
            true => targets::labels(&counters, groups.len()),
            false => Vec::new(),
        };
        let interval = arguments.interval.map(Duration::from_millis);
        let mut session = watch::Session::new(groups, &labels, interval);
        if !counts_command {
            counters.start()?;
        }
        session.begin();
        let child = held.take().map(HeldCommand::release).transpose()?;
        let end = self
            .watch
            .wait(&mut session, &counters, child, &arguments.pid, out)?;
        counters.stop()?;
        let counts = session.finish(&counters, out)?;
        done(out, &counts, &end)?;
        Ok(end)
    }

    /// Runs the command so often, and writes the mean of its counts. The exit status is that of the
    /// first run that failed. A run that a signal has ended, and those that would follow, do not
    /// count.
    fn repeat(&mut self, times: u32, out: &mut Writer) -> anyhow::Result<Code> {
        let (mut runs, mut failed) = (Runs::default(), None);
        for _ in 0..times {
            let mut with_this = runs.clone();
            let end = self.once(out, |_, counts, _| {
                with_this.add(counts);
                Ok(())
            })?;
            let code = end.report(&self.arguments.command);
            if self.watch.was_interrupted() {
                let done = runs.len();
                message!("kymo: interrupted; {done} of {times} runs are in the counts.");
                failed = failed.or(Some((code, end.status())));
                break;
            }
            if end.status() != Some(0) {
                failed = failed.or(Some((code, end.status())));
            }
            runs = with_this;
        }
        let (code, status) = failed.unwrap_or((Code::Ok, Some(0)));
        if runs.len() > 0 {
            out.write_runs(&runs, &self.groups, status)?;
        }
        Ok(code)
    }
}
