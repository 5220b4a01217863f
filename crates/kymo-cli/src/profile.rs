//! Reading a trace's samples, for the verbs that show where the time goes.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use kymo_ctf::{Consequence, EventRef, ItemRef, Problem, Trace};
use kymo_profile::{Chains, Chosen, Collector, Kind, Profile, Totals, WaitKind, Waits};

use crate::exit::{BadInput, Usage};
use crate::message::say;
use crate::progress::Progress;
use crate::report::duration;
use crate::select::{Select, Verdict};
use crate::summary::{count, thousands};
use crate::{input, missed, select};

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
    /// Who took the samples.
    pub sampler: missed::Sampler,
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
    symbols: &kymo_images::Symbols,
) -> anyhow::Result<Outcome> {
    symbols.check_files()?;
    let trace = input::of_one_clock(directory)?;
    let mut damage = None;
    let (chains, select) = match what {
        What::Samples(options) => {
            let files = kymo_images::StackFiles::of(symbols, directory, &trace)?;
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
    let profile = symbols.symbolize(chains, directory, &trace, &mut say)?;
    Ok(Outcome {
        profile,
        damage,
        sampler: missed::Sampler::of(trace.metadata()),
    })
}

fn samples(
    trace: &Trace,
    mut options: kymo_profile::Options,
    files: &kymo_images::StackFiles,
    selection: &select::Options,
    damage: &mut Option<kymo_ctf::Error>,
) -> anyhow::Result<(Chains, Select)> {
    let events = Events::of(selection, trace)?;
    options.of_events = events.as_ref().is_some_and(|events| events.by_id);
    let collected = collect(trace, options, files, selection, events.as_ref(), damage)?;
    let (collector, _) = &collected;
    let kinds = collector.kinds();
    let chosen = match Kind::choose(kinds) {
        Chosen::Only(chosen) if events.is_none() => chosen,
        Chosen::Unclear if events.is_none() => return Err(Usage(mixed(kinds)).into()),
        _ => return Ok(finished(collected)),
    };
    let (name, others) = (Arc::clone(&chosen.name), Kind::others(kinds, &chosen.name));
    let events = Events::called(&name, trace);
    let collected = collect(trace, options, files, selection, Some(&events), damage)?;
    message!("kymo: shown is {name}; --event shows others: {others}.");
    Ok(finished(collected))
}

fn finished((collector, select): (Collector<'_>, Select)) -> (Chains, Select) {
    (collector.finish(), select)
}

/// Says that there are several kinds of events, and which.
fn mixed(kinds: &[Kind]) -> String {
    format!(
        "the trace has call chains of several events, which count different things: {}; choose one \
         with --event, or several to add them",
        Kind::others(kinds, "")
    )
}

/// Collects the samples of a selection, or those of some events only.
fn collect<'u>(
    trace: &Trace,
    options: kymo_profile::Options,
    files: &'u kymo_images::StackFiles,
    selection: &select::Options,
    events: Option<&Events>,
    damage: &mut Option<kymo_ctf::Error>,
) -> anyhow::Result<(Collector<'u>, Select)> {
    // The names of threads may come before the selection, so the trace is read from its beginning.
    let others = select::Options {
        event: Vec::new(),
        ..selection.clone()
    };
    let mut select = others.of(trace)?;
    let mut collector = Collector::new(options).unwinding(files.unwind());
    pass(trace, damage, |item| {
        let verdict = select.judge(item);
        let meant = match (events, item) {
            (Some(events), ItemRef::Event(event)) => events.take(event),
            _ => true,
        };
        collector.add(item, verdict == Verdict::Take && meant);
        verdict != Verdict::End
    });
    Ok((collector, select))
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

    /// The events of this name, which carry their own chains.
    fn called(name: &str, trace: &Trace) -> Events {
        let all = trace
            .parts()
            .iter()
            .flat_map(|part| part.metadata.streams());
        let all = all.flat_map(|stream| stream.events.values());
        let classes = all.filter(|class| *class.name == *name);
        Events {
            classes: classes.map(|class| (class.stream_id, class.id)).collect(),
            ids: HashSet::new(),
            by_id: false,
        }
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
        What::Waits(WaitKind::OffCpu) if totals.throughout > 0 => BadInput(format!(
            "no thread began to wait, or ended a wait, in {trace}; {} all the time",
            count(totals.throughout, "one waited", "threads waited")
        ))
        .into(),
        What::Waits(WaitKind::OffCpu) if totals.sources > 0 => BadInput(format!(
            "no thread was blocked, asleep or suspended in {trace}, which has {}",
            count(totals.sources, "switch", "switches")
        ))
        .into(),
        What::Waits(WaitKind::OffCpu) => BadInput(format!(
            "{trace} has no switches, which show when threads block; record the events \
             sched_switch"
        ))
        .into(),
        What::Waits(WaitKind::Locks) if totals.sources > 0 => BadInput(format!(
            "no thread waited for a lock in {trace}, which has {}",
            count(totals.sources, "event of locks", "events of locks")
        ))
        .into(),
        What::Waits(WaitKind::Locks) => BadInput(format!(
            "{trace} has no events of locks; record the events lock_*"
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
pub fn account(profile: &Profile, what: What, sampler: missed::Sampler) -> Vec<String> {
    let totals = &profile.totals;
    if let What::Waits(_) = what {
        let mut lines = vec![format!(
            "{} in {}",
            duration(profile.weight()),
            count(totals.kept, "wait", "waits")
        )];
        if totals.throughout > 0 {
            lines.push(count(
                totals.throughout,
                "thread that waited all the time is left out",
                "threads that waited all the time are left out",
            ));
        }
        return lines;
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
    if totals.is_sampled {
        lines.push(missed::told(totals.missed, taken(profile), sampler));
    }
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
            "callers may be missing in {}: the chain ends where a program begins, or at a frame that \
             failed a check",
            count(totals.untrusted, "call chain", "call chains")
        ));
    }
    lines
}

/// The account in one line, short enough to stand under a picture's title.
pub fn short_account(profile: &Profile, what: What, sampler: missed::Sampler) -> String {
    let totals = &profile.totals;
    if let What::Waits(_) = what {
        return account(profile, what, sampler).join("; ");
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
    if totals.is_sampled {
        parts.push(missed::told_shortly(totals.missed, taken(profile)));
    }
    parts.push(match (totals.lost, totals.gaps) {
        (lost, 0) => counted(lost, "lost"),
        (0, _) => "an unknown number lost".to_owned(),
        _ => format!("{} and more lost", thousands(totals.lost)),
    });
    let rare = [
        (totals.cut, "call chains cut"),
        (totals.untrusted, "call chains may lack callers"),
    ];
    parts.extend(
        rare.iter()
            .filter(|(number, _)| *number > 0)
            .map(|&(number, what)| counted(number, what)),
    );
    parts.join("; ")
}

/// Prints the account, a line for each.
pub fn print_account(profile: &Profile, what: What, sampler: missed::Sampler) {
    for line in account(profile, what, sampler) {
        message!("kymo: {line}.");
    }
}

/// Number of samples that were taken and not lost.
fn taken(profile: &Profile) -> u64 {
    let totals = &profile.totals;
    let left = totals.idle.saturating_sub(idle_kept(profile));
    totals.kept + left + totals.other_mode
}

/// Number of idle samples in the rows.
fn idle_kept(profile: &Profile) -> u64 {
    let rows = profile.rows.iter();
    rows.filter(|row| row.mode == kymo_profile::Mode::Idle)
        .map(|row| row.weight)
        .sum()
}
