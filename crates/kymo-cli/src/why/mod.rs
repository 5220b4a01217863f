//! `kymo why`: who held a thread up, the critical path of a stretch of its time.

mod text;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context as _;
use kymo_analysis::{CriticalPath, History, Stretch, Stretches};
use kymo_ctf::{Consequence, Problem, Trace, TraceMap};
use kymo_machine::Machine;

use crate::dump::{deliver, flush};
use crate::exit::{Code, Usage};
use crate::input;
use crate::progress::Progress;
use crate::report::seconds;
use crate::select::{Anchors, Moment, Survey, begin, moment};
use crate::terminal::Color;

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo why trace --thread worker                    its longest wait
  kymo why trace --thread worker --at 0.25          the wait at that time
  kymo why trace --tid 12 --from 0.25 --to +5ms     any stretch of its time
  kymo why trace --thread 'worker*' --json | jq '.by_who[0]'

The path goes from the end of the stretch back to its beginning. While the thread runs, it is on
the path itself, or the interrupt on top of it; while it is runnable, what its CPU runs instead;
while it waits for a lock, the holder; while it is blocked, the thread or interrupt that wakes it
later. These are followed in the same way.

A stretch is a wait for a lock, or the time off CPU, or, if the thread runs at the given time, the
time from its last wake-up to its next wait. Without a time it is the longest wait; sleep counts
only if there is no other. The trace is read twice. What happened during the stretch is kept in
memory; if that is more than a million changes, the path begins later.";

/// Command line of `kymo why`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("whose").required(true).args(["thread", "tid"]))]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// The thread of this name; `*` stands for any characters, `?` for one. Of several, the one
    /// with the longest stretch.
    #[arg(long, value_name = "PATTERN")]
    thread: Option<String>,
    /// The thread of this number.
    #[arg(long, value_name = "NUMBER")]
    tid: Option<u64>,
    /// The stretch that contains this time, in seconds as printed (0.25) or with a unit ns, us, ms,
    /// s or min (250ms); -10ms is 10 ms before the trace's last event, @5003000000 a time_ns of
    /// the JSON output.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = begin)]
    at: Option<Moment>,
    /// The stretch from this time on, written as for --at.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = begin)]
    #[arg(conflicts_with = "at")]
    from: Option<Moment>,
    /// The stretch up to this time, written as for --at; +5ms is 5 ms after --from.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    #[arg(conflicts_with = "at")]
    to: Option<Moment>,
    /// Most segments to print, the longest of them; 0 prints all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// When to write colours.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: Color,
}

/// The times that are asked for, in nanoseconds from the clock's origin.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// The trace's begin.
    zero: i64,
    at: Option<i64>,
    from: Option<i64>,
    to: Option<i64>,
}

/// Finds the path and prints it.
///
/// # Errors
/// If the trace cannot be read, or the thread or the time is not in it. Of a damaged trace, the
/// path through what can be read is printed.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let trace = input::of_one_clock(&arguments.trace)?;
    let map = trace.map();
    let asked = arguments.asked(&map)?;
    let mut survey = Survey::default();
    let mut stretches = Stretches::new(asked.at);
    let mut damage = None;
    let mut progress = Progress::new(&trace);
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        stretches.add(&item);
        survey.names(&item, stretches.machine());
        progress.pass(&item);
        if let kymo_ctf::ItemRef::Problem(problem) = &item
            && problem.consequence != Consequence::Clamped
        {
            damage.get_or_insert_with(|| kymo_ctf::Error::from(Problem::clone(problem)));
        }
    }
    drop(reader);
    progress.done();
    stretches.finish();
    let stretch = match arguments.stretch(&stretches, &survey, asked) {
        Ok(stretch) => stretch,
        Err(refusal) => {
            // What is missing may be what could not be read.
            if let Some(error) = map.into_failed().into_iter().next().or(damage) {
                message!("kymo: {:#}", input::of_trace(&arguments.trace, error));
            }
            return Err(refusal.into());
        }
    };
    let path = walk(&trace, &map, stretch, stretches.machine());
    let text = match arguments.json {
        true => serde_json::to_string(&path).context("cannot write JSON")? + "\n",
        false => text::of(&path, asked.zero, arguments.top, arguments.color.is_on()),
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    match map.into_failed().into_iter().next().or(damage) {
        Some(error) => Err(input::of_trace(&arguments.trace, error)),
        None => Ok(Code::Ok),
    }
}

/// The second pass.
fn walk(trace: &Trace, map: &TraceMap, stretch: Stretch, names: &Machine) -> CriticalPath {
    let mut history = History::of(stretch);
    let mut progress = Progress::new(trace);
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        if !history.add(&item) {
            break;
        }
        progress.pass(&item);
    }
    progress.done();
    history.path(names)
}

impl Arguments {
    fn asked(&self, map: &TraceMap) -> Result<Asked, Usage> {
        let anchors = Anchors::of(map, [self.at, self.from, self.to]);
        let narrow = |nanos: i128| {
            let limit = if nanos < 0 { i64::MIN } else { i64::MAX };
            i64::try_from(nanos).unwrap_or(limit)
        };
        let from = self.from.map(|moment| anchors.nanos(moment, None));
        let to = self.to.map(|moment| anchors.nanos(moment, from));
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            return Err(Usage(
                "--to is before --from; change one of them".to_owned(),
            ));
        }
        let at = self.at.map(|moment| anchors.nanos(moment, None));
        Ok(Asked {
            zero: narrow(anchors.begin),
            at: at.map(narrow),
            from: from.map(narrow),
            to: to.map(narrow),
        })
    }

    /// The stretch that is asked for.
    fn stretch(
        &self,
        stretches: &Stretches,
        survey: &Survey,
        asked: Asked,
    ) -> Result<Stretch, Usage> {
        let machine = stretches.machine();
        let is_known = |tid: u64| machine.threads().iter().any(|thread| thread.tid == tid);
        let tids = match (&self.thread, self.tid) {
            (Some(pattern), _) => survey.named(pattern)?,
            (None, Some(tid)) if is_known(tid) => BTreeSet::from([tid]),
            (None, tid) => {
                return Err(Usage(format!(
                    "the trace has no event that names thread {}; kymo report lists the threads",
                    tid.unwrap_or_default()
                )));
            }
        };
        let who = match (&self.thread, self.tid) {
            (Some(pattern), _) => pattern.clone(),
            (None, tid) => format!("thread {}", tid.unwrap_or_default()),
        };
        let Some((begin, end)) = stretches.extent() else {
            return Err(Usage("the trace has no event with a time".to_owned()));
        };
        let text = |time: i64| seconds(asked.zero, Some(time));
        let outside = |time: i64| {
            Usage(format!(
                "the trace has nothing at {}: its events are from {} to {}",
                text(time),
                text(begin),
                text(end)
            ))
        };
        if let Some(at) = asked.at.filter(|at| !(begin..=end).contains(at)) {
            return Err(outside(at));
        }
        if asked.from.is_some() || asked.to.is_some() {
            if let Some(from) = asked.from.filter(|from| *from >= end) {
                return Err(outside(from));
            }
            if let Some(to) = asked.to.filter(|to| *to <= begin) {
                return Err(outside(to));
            }
            let from = asked.from.unwrap_or(begin).max(begin);
            let to = asked.to.unwrap_or(end).min(end);
            return match only(machine, &tids, &who)? {
                Some(thread) => Ok(Stretch::given(thread, from, to)),
                None => Err(Usage(format!("{who} is idle and waits for nobody"))),
            };
        }
        stretches.best(|tid| tids.contains(&tid)).ok_or_else(|| {
            let any = "--from and --to give any stretch";
            Usage(match asked.at {
                Some(at) => format!(
                    "the trace does not say since when {who} waits or runs at {}; {any}",
                    text(at)
                ),
                None => format!("the trace has no whole wait of {who}; {any}"),
            })
        })
    }
}

/// The only thread of these numbers; `None` if it is idle.
fn only(
    machine: &Machine,
    tids: &BTreeSet<u64>,
    who: &str,
) -> Result<Option<kymo_machine::ThreadId>, Usage> {
    let mut tids = tids.iter().copied();
    match (tids.next(), tids.next()) {
        (Some(tid), None) => Ok(machine.thread_of(tid, None)),
        (first, second) => {
            let some = first.into_iter().chain(second).map(|tid| tid.to_string());
            let some: Vec<String> = some.collect();
            let more = if tids.next().is_some() { ", ..." } else { "" };
            Err(Usage(format!(
                "{} threads are named {who} ({}{more}); give one by --tid",
                2 + tids.count() + usize::from(!more.is_empty()),
                some.join(", ")
            )))
        }
    }
}
