//! Reading a trace's samples, for the verbs that show where the time goes.

use std::collections::HashSet;
use std::path::Path;

use kymo_ctf::{Consequence, EventRef, ItemRef, Problem, Trace};
use kymo_profile::{Chains, Collector, Profile, Totals, WaitKind, Waits};

use crate::exit::{BadInput, Usage};
use crate::progress::Progress;
use crate::report::duration;
use crate::select::{Select, Verdict};
use crate::summary::{count, thousands};
use crate::{images, input, select};

/// What to profile.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Samples, or the chains of selected events.
    Samples(kymo_profile::Options),
    /// Time off CPU, or waiting for locks.
    Waits(WaitKind),
}

/// A profile, and the first damage of the trace.
pub struct Outcome {
    /// The profile.
    pub profile: Profile,
    /// The trace's damage.
    pub damage: Option<kymo_ctf::Error>,
}

/// Reads the trace and looks up its functions.
///
/// # Errors
/// [`BadInput`] if the trace has nothing of what is asked for, or a file of symbols cannot be read;
/// [`Usage`] if the selection leaves nothing.
pub fn read(
    directory: &Path,
    what: What,
    selection: &select::Options,
    symbols: &images::Symbols,
) -> anyhow::Result<Outcome> {
    symbols.check_files()?;
    let trace = input::of_one_clock(directory)?;
    let mut damage = None;
    let (chains, select) = match what {
        What::Samples(options) => {
            let files = images::StackFiles::of(symbols, directory, &trace)?;
            samples(&trace, options, &files, selection, &mut damage)?
        }
        What::Waits(kind) => waits(&trace, kind, selection, &mut damage)?,
    };
    if let Some(missing) = select.missing() {
        return Err(missing.into());
    }
    if chains.totals().kept == 0 {
        return Err(match damage {
            Some(damage) => anyhow::Error::from(damage).context(format!(
                "{} is damaged, and nothing to show was found in the rest",
                directory.display()
            )),
            None => nothing_to_show(
                directory,
                chains.totals(),
                what,
                select.is_partial,
                !selection.event.is_empty(),
            ),
        });
    }
    let profile = symbols.symbolize(chains, directory, &trace)?;
    Ok(Outcome { profile, damage })
}

fn samples(
    trace: &Trace,
    mut options: kymo_profile::Options,
    files: &images::StackFiles,
    selection: &select::Options,
    damage: &mut Option<kymo_ctf::Error>,
) -> anyhow::Result<(Chains, Select)> {
    let events = Events::of(selection, trace)?;
    options.of_events = events.as_ref().is_some_and(|events| events.by_id);
    // The names of threads may come before the selection, so the trace is read from its beginning.
    let others = select::Options {
        event: Vec::new(),
        ..selection.clone()
    };
    let mut select = others.of(trace)?;
    let mut collector = Collector::new(options).unwinding(files.unwind());
    pass(trace, damage, |item| {
        let verdict = select.judge(item);
        let meant = match (&events, item) {
            (Some(events), ItemRef::Event(event)) => events.take(event),
            _ => true,
        };
        collector.add(item, verdict == Verdict::Take && meant);
        verdict != Verdict::End
    });
    Ok((collector.finish(), select))
}

fn waits(
    trace: &Trace,
    kind: WaitKind,
    selection: &select::Options,
    damage: &mut Option<kymo_ctf::Error>,
) -> anyhow::Result<(Chains, Select)> {
    let mut select = selection.of(trace)?;
    let tids = select.selected_threads();
    let meant = |tid: u64| tids.as_ref().is_none_or(|tids| tids.contains(&tid));
    let mut waits = Waits::new(kind);
    let mut ended = false;
    pass(trace, damage, |item| {
        let verdict = select.judge(item);
        waits.add(item, |tid| verdict == Verdict::Take && meant(tid));
        ended |= verdict == Verdict::End;
        !ended
    });
    Ok((waits.finish(|tid| !ended && meant(tid)), select))
}

/// Passes the trace's items on until `take` says no more, and notes the first damage.
fn pass(
    trace: &Trace,
    damage: &mut Option<kymo_ctf::Error>,
    mut take: impl FnMut(&ItemRef<'_>) -> bool,
) {
    let mut progress = Progress::new(trace);
    let map = trace.map();
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        if !take(&item) {
            break;
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
    if let Some(error) = map.into_failed().into_iter().next() {
        *damage = Some(error);
    }
}

/// The events whose chains are asked for with --event.
struct Events {
    /// Ids of stream class and event class.
    classes: HashSet<(u64, u64)>,
    ids: HashSet<u64>,
    /// Whether chains are events of their own, which name the event by its id.
    by_id: bool,
}

impl Events {
    fn of(selection: &select::Options, trace: &Trace) -> anyhow::Result<Option<Events>> {
        let Some(classes) = selection.classes(trace)? else {
            return Ok(None);
        };
        let mut all = trace
            .metadata()
            .streams()
            .flat_map(|stream| stream.events.values());
        Ok(Some(Events {
            ids: classes.iter().map(|(_, id)| *id).collect(),
            by_id: all.any(|class| &*class.name == "event_stack"),
            classes,
        }))
    }

    fn take(&self, event: &EventRef<'_>) -> bool {
        if self.by_id {
            let of = event.field("event").and_then(|value| value.as_u64());
            return of.is_some_and(|id| self.ids.contains(&id));
        }
        let class = event.class();
        self.classes.contains(&(class.stream_id, class.id))
    }
}

/// Why a profile is empty, and what to do.
fn nothing_to_show(
    trace: &Path,
    totals: &Totals,
    what: What,
    is_partial: bool,
    of_events: bool,
) -> anyhow::Error {
    let trace = trace.display();
    let others = totals.idle + totals.other_mode;
    match what {
        What::Waits(_) if is_partial => {
            Usage(format!("the selection has no finished wait of {trace}")).into()
        }
        What::Waits(WaitKind::OffCpu) => BadInput(format!(
            "{trace} has no switches, which show when threads block; record the events \
             sched_switch"
        ))
        .into(),
        What::Waits(WaitKind::Locks) => BadInput(format!(
            "no thread waits for a lock in {trace}; record the events lock_*"
        ))
        .into(),
        What::Samples(_) if totals.idle > 0 && others == totals.idle => Usage(format!(
            "{trace} has only samples of idle CPUs; --include-idle keeps them"
        ))
        .into(),
        What::Samples(_) if others > 0 => Usage(format!(
            "{trace} has no sample of the mode that --only keeps"
        ))
        .into(),
        What::Samples(_) if is_partial => {
            Usage(format!("the selection has no sample of {trace}")).into()
        }
        What::Samples(_) if of_events => BadInput(format!(
            "{trace} has no call chain of this event; record it with --stacks EVENT"
        ))
        .into(),
        What::Samples(_) => BadInput(format!(
            "{trace} has no samples and no events with call chains; record samples with kymo \
             record --mode sample"
        ))
        .into(),
    }
}

/// The numbers of samples in the profile and of those that are missing: a line for each, the kept
/// ones first.
pub fn account(profile: &Profile, what: What) -> Vec<String> {
    let totals = &profile.totals;
    if let What::Waits(_) = what {
        return vec![format!(
            "{} in {}",
            duration(profile.weight()),
            count(totals.kept, "wait", "waits")
        )];
    }
    let left = totals.idle.saturating_sub(idle_kept(profile));
    let mut lines = vec![format!("{} kept", count(totals.kept, "sample", "samples"))];
    if left > 0 {
        lines.push(format!(
            "{} left out (--include-idle keeps them)",
            count(left, "sample of an idle CPU", "samples of idle CPUs")
        ));
    }
    if totals.other_mode > 0 {
        lines.push(format!(
            "{} left out by --only",
            count(totals.other_mode, "sample", "samples")
        ));
    }
    lines.push(match totals.missed {
        0 => "none missed".to_owned(),
        missed => format!(
            "{} missed: due, but the machine could not be interrupted",
            thousands(missed)
        ),
    });
    lines.push(match (totals.lost, totals.gaps) {
        (0, 0) => "none lost".to_owned(),
        (lost, 0) => format!("{} lost: the trace had no room", thousands(lost)),
        (0, gaps) => format!(
            "an unknown number lost in {}",
            count(gaps, "hole in the trace", "holes in the trace")
        ),
        (lost, gaps) => format!(
            "{} lost, and an unknown number in {}",
            thousands(lost),
            count(gaps, "hole in the trace", "holes in the trace")
        ),
    });
    if totals.cut > 0 {
        lines.push(format!(
            "{} cut at the greatest depth",
            count(totals.cut, "call chain", "call chains")
        ));
    }
    if totals.untrusted > 0 {
        lines.push(format!(
            "{} early, at a frame that failed a check",
            count(totals.untrusted, "call chain ends", "call chains end")
        ));
    }
    lines
}

/// The account in one line, short enough to stand under a picture's title.
pub fn short_account(profile: &Profile, what: What) -> String {
    let totals = &profile.totals;
    if let What::Waits(_) = what {
        return account(profile, what).join("; ");
    }
    let counted = |number: u64, what: &str| match number {
        0 => format!("none {what}"),
        number => format!("{} {what}", thousands(number)),
    };
    let left = totals.idle.saturating_sub(idle_kept(profile));
    let mut parts = vec![format!("{} kept", count(totals.kept, "sample", "samples"))];
    let rare = [
        (left, "idle left out"),
        (totals.other_mode, "of the other mode left out"),
    ];
    parts.extend(
        rare.iter()
            .filter(|(number, _)| *number > 0)
            .map(|&(number, what)| counted(number, what)),
    );
    parts.push(counted(totals.missed, "missed"));
    parts.push(match (totals.lost, totals.gaps) {
        (lost, 0) => counted(lost, "lost"),
        (0, _) => "an unknown number lost".to_owned(),
        _ => format!("{} and more lost", thousands(totals.lost)),
    });
    let rare = [
        (totals.cut, "call chains cut"),
        (totals.untrusted, "call chains end early"),
    ];
    parts.extend(
        rare.iter()
            .filter(|(number, _)| *number > 0)
            .map(|&(number, what)| counted(number, what)),
    );
    parts.join("; ")
}

/// Prints the account, a line for each.
pub fn print_account(profile: &Profile, what: What) {
    for line in account(profile, what) {
        message!("kymo: {line}.");
    }
}

/// Number of idle samples in the rows.
fn idle_kept(profile: &Profile) -> u64 {
    let rows = profile.rows.iter();
    rows.filter(|row| row.mode == kymo_profile::Mode::Idle)
        .map(|row| row.weight)
        .sum()
}
