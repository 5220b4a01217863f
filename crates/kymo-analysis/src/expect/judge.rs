//! The pass over the trace, and what comes of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kymo::event::Event as _;
use kymo::vocabulary::{
    IrqEnter, IrqExit, LockAcquired, LockReleased, LockWait, SchedSwitch, SchedWakeup,
    SyscallEnter, SyscallExit,
};
use kymo_ctf::{Event, EventRef, ItemRef, Loss, LossKind, Metadata, Packet};
use kymo_machine::Named;

use super::names::{NameClass, Names, is_cut, named};
use super::pattern::{Fit, Need, fits, number, resolve, texts};
use super::{ExpectError, Expectation, Expectations, Pattern, Subject, Term, Test};
use crate::analysis::Analysis;
use crate::section::ThreadRef;
use crate::span::{Span, SpanKind};

/// Offenders that an expectation keeps; of the rest there is a count.
const KEPT: usize = 10;
/// Combinations of numbers without a name that an expectation follows.
const PENDING: usize = 4096;

/// Something that is not as expected.
#[derive(Clone, Debug)]
pub enum Found {
    /// An event.
    Event {
        /// It.
        event: Event,
        /// The thread that ran on its CPU; not of switches, which say it themselves.
        thread: Option<ThreadRef>,
        /// When what it ends began, in nanoseconds from the clock's origin; and how long that took,
        /// in nanoseconds.
        lasted: Option<(i64, u64)>,
    },
    /// A loss.
    Loss(Loss),
}

impl Found {
    fn time(&self) -> i128 {
        match self {
            Found::Event { event, .. } => event.nanos().unwrap_or(i128::MIN),
            Found::Loss(loss) => loss.begin_nanos.unwrap_or(i128::MIN),
        }
    }

    fn cpu(&self) -> Option<u64> {
        match self {
            Found::Event { event, .. } => event.cpu(),
            Found::Loss(loss) => loss.cpu,
        }
    }
}

/// What became of one expectation.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Its name in the file; otherwise what it says.
    pub name: String,
    /// Its line in the file.
    pub line: usize,
    /// Whether the trace is as expected.
    pub holds: bool,
    /// What was expected and what was found, without a full stop.
    pub message: String,
    /// The first ten that are not as expected; of durations, those farthest off. Where too few were
    /// found, those.
    pub found: Vec<Found>,
    /// How many more there are.
    pub more: u64,
}

/// Holds a trace against expectations.
#[derive(Debug)]
pub struct Judge {
    list: Vec<(Expectation, State)>,
    /// Names that were cut to the room that their events have.
    cut: HashSet<Named>,
    /// Names that the file has, and whether the trace has them.
    wanted: HashMap<(NameClass, String), bool>,
    /// Items up to now.
    items: u64,
    /// By index of event classes: whether an expectation is about these events.
    concerned: Vec<bool>,
    /// The packet of the last event that an expectation was about, and which one that was.
    packet: Option<((usize, u64), Arc<Packet>)>,
}

/// What is known of one expectation.
#[derive(Debug, Default)]
struct State {
    /// One of each pattern: of counts, all are one. `at` is the place of the first event among all
    /// items.
    tallies: Vec<Tally>,
    pending: HashMap<(usize, Vec<Vec<Need>>), Tally>,
    /// There were more pending ones than can be followed.
    overrun: bool,
    /// Time of the last event.
    last: Option<i128>,
}

#[derive(Debug, Default)]
struct Tally {
    count: u64,
    /// The first ones.
    first: Vec<(u64, Found)>,
    /// Beyond what is allowed.
    over: u64,
    /// Of these, the first; or the worst, by how far off they are.
    worst: Vec<(u64, Found)>,
}

impl Tally {
    fn add(&mut self, at: u64, found: impl Fn() -> Found) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push((at, found()));
        }
    }

    /// `rank`: the lowest are kept.
    fn offend(&mut self, rank: u64, found: impl FnOnce() -> Found) {
        self.over += 1;
        let place = self.worst.partition_point(|(other, _)| *other <= rank);
        if place < KEPT {
            self.worst.insert(place, (rank, found()));
            self.worst.truncate(KEPT);
        }
    }

    fn merge(&mut self, other: Tally) {
        fn join(to: &mut Vec<(u64, Found)>, from: Vec<(u64, Found)>) {
            to.extend(from);
            to.sort_by_key(|(rank, _)| *rank);
            to.truncate(KEPT);
        }
        self.count += other.count;
        self.over += other.over;
        join(&mut self.first, other.first);
        join(&mut self.worst, other.worst);
    }

    fn live(&self) -> usize {
        1 + self.first.len() + self.worst.len()
    }
}

impl State {
    /// Where something is counted that fits, perhaps.
    fn tally(&mut self, place: usize, fit: Fit) -> Option<&mut Tally> {
        match fit {
            Fit::No => None,
            Fit::Yes => self.tallies.get_mut(place),
            Fit::If(ways) => {
                let key = (place, ways);
                if self.pending.len() >= PENDING && !self.pending.contains_key(&key) {
                    self.overrun = true;
                    return None;
                }
                Some(self.pending.entry(key).or_default())
            }
        }
    }

    /// Something has got a name, or another one.
    fn name(&mut self, named: Named, names: &Names<'_>) {
        let concerned = |ways: &[Vec<Need>]| {
            let mut needs = ways.iter().flatten();
            needs.any(|need| names.is(&need.number, named))
        };
        let keys: Vec<_> = self
            .pending
            .keys()
            .filter(|(_, ways)| concerned(ways))
            .cloned()
            .collect();
        for key in keys {
            let Some(tally) = self.pending.remove(&key) else {
                continue;
            };
            let (place, ways) = key;
            if let Some(to) = self.tally(place, Fit::If(ways).with(named, names)) {
                to.merge(tally);
            }
        }
    }
}

impl Judge {
    /// For a trace with this metadata.
    ///
    /// # Errors
    /// With the line, if an expectation is about an event, a field or a label that the metadata
    /// does not have.
    pub fn new(expectations: Expectations, metadata: &Metadata) -> Result<Judge, ExpectError> {
        let mut wanted = HashMap::new();
        let mut list = Vec::new();
        for mut expectation in expectations.list {
            let mut tallies = 1;
            match &mut expectation.subject {
                Subject::Count { any, .. } => any
                    .iter_mut()
                    .try_for_each(|pattern| resolve(pattern, metadata))?,
                Subject::Order(steps) => {
                    steps
                        .iter_mut()
                        .flatten()
                        .try_for_each(|pattern| resolve(pattern, metadata))?;
                    tallies = steps.iter().flatten().count();
                }
                Subject::Duration { kind, of, .. } => {
                    resolve_duration(expectation.line, *kind, of, metadata)?
                }
                _ => {}
            }
            let names = expectation.subject.names();
            wanted.extend(names.into_iter().map(|name| (name, false)));
            let state = State {
                tallies: (0..tallies).map(|_| Tally::default()).collect(),
                ..State::default()
            };
            list.push((expectation, state));
        }
        let concerned = concerned(&list, metadata);
        Ok(Judge {
            list,
            cut: HashSet::new(),
            wanted,
            items: 0,
            concerned,
            packet: None,
        })
    }

    /// Takes the item that the analysis was given last.
    pub fn add(&mut self, item: &ItemRef<'_>, analysis: &Analysis) {
        self.items += 1;
        match item {
            ItemRef::Event(event) => {
                named(analysis.machine()).for_each(|named| self.name(named, event, analysis));
                if self.is_concerned(event, analysis)
                    && let Some(packet) = self.packet(event)
                {
                    self.event(&event.to_event(packet), analysis);
                }
            }
            ItemRef::Loss(loss) => self.loss(self.items, loss),
            _ => {}
        }
    }

    /// Whether the event, or a stretch of time that it ends, can matter to an expectation.
    fn is_concerned(&self, event: &EventRef<'_>, analysis: &Analysis) -> bool {
        self.concerned
            .get(event.class().index())
            .is_none_or(|is| *is)
            || analysis.spans().any(|span| {
                let kinds = self
                    .list
                    .iter()
                    .map(|(expectation, _)| &expectation.subject);
                kinds
                    .into_iter()
                    .any(|of| matches!(of, Subject::Duration { kind, .. } if *kind == span.kind))
            })
    }

    /// The event's packet, which is the one before's for most.
    fn packet(&mut self, event: &EventRef<'_>) -> Option<Arc<Packet>> {
        let key = (event.stream_index(), event.packet_count());
        match &self.packet {
            Some((known, packet)) if *known == key => Some(Arc::clone(packet)),
            _ => {
                let packet = Arc::new(event.packet()?);
                self.packet = Some((key, Arc::clone(&packet)));
                Some(packet)
            }
        }
    }

    /// The event gives something a name.
    fn name(&mut self, named: Named, event: &EventRef<'_>, analysis: &Analysis) {
        if is_cut(event) {
            self.cut.insert(named);
        } else {
            self.cut.remove(&named);
        }
        let names = Names {
            machine: analysis.machine(),
            cut: &self.cut,
        };
        for ((class, text), seen) in &mut self.wanted {
            *seen |= names.is_class_called(named, *class, text);
        }
        for (_, state) in &mut self.list {
            state.name(named, &names);
        }
    }

    fn event(&mut self, event: &Event, analysis: &Analysis) {
        let at = self.items;
        let names = Names {
            machine: analysis.machine(),
            cut: &self.cut,
        };
        let is_switch = event.name() == SchedSwitch::SCHEMA.name;
        let found = |lasted: Option<(i64, u64)>| {
            let thread = event
                .cpu()
                .filter(|_| !is_switch)
                .and_then(|cpu| analysis.running(cpu));
            Found::Event {
                event: event.clone(),
                thread,
                lasted,
            }
        };
        for (expectation, state) in &mut self.list {
            match &expectation.subject {
                Subject::Count { any, bounds } => {
                    let fit = any
                        .iter()
                        .map(|pattern| fits(pattern, event, &names))
                        .reduce(Fit::or)
                        .unwrap_or(Fit::No);
                    if let Some(tally) = state.tally(0, fit) {
                        tally.add(at, || found(None));
                        if bounds.most.is_some_and(|most| tally.count > most) {
                            tally.offend(at, || found(None));
                        }
                    }
                }
                Subject::Order(steps) => {
                    for (place, pattern) in steps.iter().flatten().enumerate() {
                        let fit = fits(pattern, event, &names);
                        if let Some(tally) = state.tally(place, fit) {
                            tally.add(at, || found(None));
                        }
                    }
                }
                Subject::Duration {
                    kind,
                    of,
                    least,
                    most,
                    ..
                } => {
                    for span in analysis.spans().filter(|span| span.kind == *kind) {
                        let fit = of
                            .iter()
                            .map(|term| is_of(term, &span, &names))
                            .fold(Fit::Yes, Fit::and);
                        let Some(tally) = state.tally(0, fit) else {
                            continue;
                        };
                        let nanos = span.nanos();
                        let lasted = || found(Some((span.begin_ns, nanos)));
                        tally.count += 1;
                        let over = most
                            .and_then(|most| nanos.checked_sub(most))
                            .filter(|over| *over > 0);
                        let under = least
                            .and_then(|least| least.checked_sub(nanos))
                            .filter(|under| *under > 0);
                        if let Some(off) = over.or(under) {
                            tally.offend(u64::MAX - off, lasted);
                        }
                    }
                }
                Subject::Timestamps => {
                    let (Some(time), Some(tally)) = (event.nanos(), state.tallies.first_mut())
                    else {
                        continue;
                    };
                    tally.count += 1;
                    if state.last.is_some_and(|last| time < last) {
                        tally.offend(at, || found(None));
                    }
                    state.last = Some(time);
                }
                Subject::Losses { .. } => {}
            }
        }
    }

    fn loss(&mut self, at: u64, loss: &Loss) {
        for (expectation, state) in &mut self.list {
            let Subject::Losses {
                packets, on_cpu, ..
            } = &expectation.subject
            else {
                continue;
            };
            let is_it = *packets == (loss.kind == LossKind::Packets)
                && on_cpu.is_none_or(|cpu| loss.cpu == Some(cpu));
            if let Some(tally) = state.tallies.first_mut().filter(|_| is_it) {
                tally.offend(at, || Found::Loss(loss.clone()));
                tally.count = tally.count.saturating_add(loss.count);
            }
        }
    }

    /// What became of each expectation, in the order of the file. `damage`: a sentence on each
    /// stream that could not be read to its end, as in the report; nothing is known of the time
    /// stamps behind.
    pub fn finish(self, damage: &[String]) -> Vec<Verdict> {
        let missing: HashSet<&(NameClass, String)> = self
            .wanted
            .iter()
            .filter(|(_, seen)| !**seen)
            .map(|(key, _)| key)
            .collect();
        self.list
            .iter()
            .map(|(expectation, state)| verdict(expectation, state, &missing, damage))
            .collect()
    }

    /// How many things are remembered. It does not grow with the length of a trace.
    pub fn live_state(&self) -> usize {
        let states = self.list.iter().map(|(_, state)| {
            state.tallies.iter().map(Tally::live).sum::<usize>()
                + state.pending.values().map(Tally::live).sum::<usize>()
        });
        states.sum::<usize>() + self.cut.len()
    }
}

/// Which event classes the expectations are about, by index.
fn concerned(list: &[(Expectation, State)], metadata: &Metadata) -> Vec<bool> {
    let all = list
        .iter()
        .any(|(expectation, _)| matches!(expectation.subject, Subject::Timestamps));
    let mut names: HashSet<&str> = HashSet::new();
    for (expectation, _) in list {
        match &expectation.subject {
            Subject::Count { any, .. } => names.extend(any.iter().map(|of| &*of.event)),
            Subject::Order(steps) => names.extend(steps.iter().flatten().map(|of| &*of.event)),
            _ => {}
        }
    }
    let mut concerned = vec![true; metadata.event_class_count()];
    for class in metadata.streams().flat_map(|of| of.events.values()) {
        if let Some(place) = concerned.get_mut(class.index()) {
            *place = all || names.contains(&*class.name);
        }
    }
    concerned
}

fn class_of(property: &str) -> Option<NameClass> {
    match property {
        "thread" => Some(NameClass::Thread),
        "irq" => Some(NameClass::Irq),
        "lock" => Some(NameClass::Lock),
        "call" => Some(NameClass::Syscall),
        _ => None,
    }
}

fn resolve_duration(
    line: usize,
    kind: SpanKind,
    of: &mut [Term],
    metadata: &Metadata,
) -> Result<(), ExpectError> {
    const IRQ: [&str; 2] = [IrqEnter::SCHEMA.name, IrqExit::SCHEMA.name];
    const WAKE: [&str; 2] = [SchedWakeup::SCHEMA.name, SchedSwitch::SCHEMA.name];
    const WAIT: [&str; 2] = [LockWait::SCHEMA.name, LockAcquired::SCHEMA.name];
    const HOLD: [&str; 2] = [LockAcquired::SCHEMA.name, LockReleased::SCHEMA.name];
    const CALL: [&str; 2] = [SyscallEnter::SCHEMA.name, SyscallExit::SCHEMA.name];
    let (events, properties): (&[&str], &[&str]) = match kind {
        SpanKind::Interrupt => (&IRQ, &["irq", "cpu"]),
        SpanKind::WakeLatency => (&WAKE, &["thread", "cpu"]),
        SpanKind::LockWait => (&WAIT, &["lock", "thread", "cpu"]),
        SpanKind::LockHold => (&HOLD, &["lock", "thread", "cpu"]),
        SpanKind::SystemCall => (&CALL, &["call", "thread", "cpu"]),
        SpanKind::OffCpu | SpanKind::OnCpu => (&WAKE[1..], &["thread", "cpu"]),
    };
    let classes = || metadata.streams().flat_map(|stream| stream.events.values());
    let linux = kind == SpanKind::SystemCall
        && classes().any(|class| class.name.starts_with("syscall_entry_"));
    if let Some(missing) = events
        .iter()
        .find(|event| !linux && !classes().any(|class| *class.name == ***event))
    {
        let message = format!("this cannot be measured: the trace has no event called {missing:?}");
        return Err(ExpectError { line, message });
    }
    for term in of {
        if !properties.contains(&&*term.field) {
            let message = format!(
                "of takes {} here, not {:?}",
                properties.join(", "),
                term.field
            );
            return Err(ExpectError {
                line: term.line,
                message,
            });
        }
        term.class = class_of(&term.field);
        let mut all = Vec::new();
        texts(&term.test, &mut all);
        if let (None, Some(text)) = (term.class, all.first()) {
            return Err(ExpectError {
                line: term.line,
                message: format!("a CPU is a number, and {text:?} is none"),
            });
        }
    }
    Ok(())
}

fn is_of(term: &Term, span: &Span, names: &Names<'_>) -> Fit {
    let value = match &*term.field {
        "thread" => span.tid,
        "cpu" => Some(span.cpu),
        _ => span.object,
    };
    match (value, &span.call) {
        (Some(value), _) => {
            let numbered = |number| Some(names.numbered(term.class?, number, Some(span.cpu)));
            number(&term.test, i128::from(value), numbered, names)
        }
        (None, Some(call)) if term.field == "call" && is_text(&term.test, call) => Fit::Yes,
        _ => Fit::No,
    }
}

fn is_text(test: &Test, text: &str) -> bool {
    let mut all = Vec::new();
    texts(test, &mut all);
    all.iter().any(|wanted| wanted == text)
}

fn verdict(
    expectation: &Expectation,
    state: &State,
    missing: &HashSet<&(NameClass, String)>,
    damage: &[String],
) -> Verdict {
    let subject = &expectation.subject;
    let name = expectation
        .name
        .clone()
        .unwrap_or_else(|| subject.to_string());
    let mut verdict = Verdict {
        name,
        line: expectation.line,
        holds: true,
        message: String::new(),
        found: Vec::new(),
        more: 0,
    };
    let tally = state.tallies.first();
    let (count, over) = tally.map_or((0, 0), |tally| (tally.count, tally.over));
    let kept = |list: fn(&Tally) -> &Vec<(u64, Found)>| {
        let list = tally.map(|tally| list(tally).iter().map(|(_, found)| found.clone()));
        list.into_iter().flatten().collect::<Vec<Found>>()
    };
    match subject {
        Subject::Count { bounds, .. } => {
            verdict.holds = bounds.hold(count);
            verdict.message = format!("{bounds} expected, {count} found");
            if !verdict.holds {
                let too_many = bounds.most.is_some_and(|most| count > most);
                verdict.found = if too_many {
                    kept(|tally| &tally.worst)
                } else {
                    kept(|tally| &tally.first)
                };
                let all = if too_many { over } else { count };
                verdict.more = all.saturating_sub(verdict.found.len() as u64);
            }
        }
        Subject::Order(steps) => order(steps, state, &mut verdict),
        Subject::Duration {
            least,
            most,
            bounds,
            ..
        } => {
            verdict.holds = bounds.hold(count) && over == 0;
            let limits = match (least, most) {
                (None, None) => String::new(),
                (Some(least), None) => format!(", {over} of them under {}", nanos(*least)),
                (None, Some(most)) => format!(", {over} of them over {}", nanos(*most)),
                (Some(least), Some(most)) => format!(
                    ", {over} of them not within {} and {}",
                    nanos(*least),
                    nanos(*most)
                ),
            };
            verdict.message = match bounds.hold(count) {
                true => format!("{count} measured{limits}"),
                false => format!("{bounds} expected, {count} measured{limits}"),
            };
            verdict.found = kept(|tally| &tally.worst);
            verdict.more = over.saturating_sub(verdict.found.len() as u64);
        }
        Subject::Losses {
            packets, bounds, ..
        } => {
            verdict.holds = bounds.hold(count);
            let what = if *packets { "packets" } else { "events" };
            verdict.message = format!("{bounds} lost {what} expected, {count} lost");
            if !verdict.holds {
                verdict.found = kept(|tally| &tally.worst);
                verdict.more = over.saturating_sub(verdict.found.len() as u64);
            }
        }
        Subject::Timestamps => {
            verdict.holds = over == 0 && count > 0 && damage.is_empty();
            verdict.message = match (damage.first(), count) {
                (Some(damage), _) => damage.clone(),
                (None, 0) => "no event has a time".to_owned(),
                (None, _) => format!("{over} of {count} events are earlier than the one before"),
            };
            verdict.found = kept(|tally| &tally.worst);
            verdict.more = over.saturating_sub(verdict.found.len() as u64);
        }
    }
    if state.overrun {
        verdict.holds = false;
        verdict.message =
            "this cannot be told: too many numbers have events before a name is told for them"
                .to_owned();
    }
    if let Some((class, text)) = subject
        .names()
        .into_iter()
        .find(|name| missing.contains(name))
    {
        verdict.holds = false;
        verdict.message = format!("no {} of this trace is called {text:?}", class.one());
    }
    verdict
}

fn order(steps: &[Vec<Pattern>], state: &State, verdict: &mut Verdict) {
    let mut tallies = state.tallies.iter();
    let mut before: Vec<(&Pattern, &(u64, Found))> = Vec::new();
    for step in steps {
        let mut these = Vec::new();
        for pattern in step {
            let Some(first) = tallies.next().and_then(|tally| tally.first.first()) else {
                verdict.holds = false;
                verdict.message = format!("there is no {pattern}");
                return;
            };
            these.push((pattern, first));
        }
        for (earlier, (a, first)) in &before {
            for (later, (b, second)) in &these {
                // At the same time on two CPUs nobody can say which came first.
                let apart = first.time() != second.time() || first.cpu() == second.cpu();
                if b < a && apart {
                    verdict.holds = false;
                    verdict.message = format!("the first {later} comes before the first {earlier}");
                    verdict.found = vec![second.clone(), first.clone()];
                    return;
                }
            }
        }
        before = these;
    }
    verdict.message = format!("{} in order", state.tallies.len());
}

/// In the largest unit that leaves a whole number.
fn nanos(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units
        .into_iter()
        .find(|(size, _)| ns > 0 && ns.is_multiple_of(*size));
    unit.map_or_else(
        || format!("{ns} ns"),
        |(size, unit)| format!("{} {unit}", ns / size),
    )
}

impl Subject {
    fn names(&self) -> Vec<(NameClass, String)> {
        let terms: Vec<&Term> = match self {
            Subject::Count { any, .. } => any.iter().flat_map(|pattern| &pattern.terms).collect(),
            Subject::Order(steps) => steps
                .iter()
                .flatten()
                .flat_map(|pattern| &pattern.terms)
                .collect(),
            Subject::Duration { of, .. } => of.iter().collect(),
            _ => Vec::new(),
        };
        let mut names = Vec::new();
        for term in terms {
            if let Some(class) = term.class {
                let mut all = Vec::new();
                texts(&term.test, &mut all);
                names.extend(all.into_iter().map(|text| (class, text)));
            }
        }
        names
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |f: &mut std::fmt::Formatter<'_>, patterns: &[Pattern], word: &str| {
            for (index, pattern) in patterns.iter().enumerate() {
                write!(f, "{}{pattern}", if index == 0 { "" } else { word })?;
            }
            Ok(())
        };
        match self {
            // How many there are to be is said with what was found.
            Subject::Count { any, .. } => list(f, any, " or "),
            Subject::Order(steps) => {
                for (index, step) in steps.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", then " })?;
                    list(f, step, " and ")?;
                }
                Ok(())
            }
            Subject::Duration {
                kind,
                of,
                least,
                most,
                ..
            } => {
                let name = SpanKind::ALL
                    .into_iter()
                    .find(|(_, of)| of == kind)
                    .map_or("duration", |(name, _)| name);
                f.write_str(name)?;
                super::terms(f, of)?;
                if let Some(least) = least {
                    write!(f, ", {} at least", nanos(*least))?;
                }
                if let Some(most) = most {
                    write!(f, ", {} at most", nanos(*most))?;
                }
                Ok(())
            }
            Subject::Losses {
                packets, on_cpu, ..
            } => {
                write!(f, "lost {}", if *packets { "packets" } else { "events" })?;
                if let Some(cpu) = on_cpu {
                    write!(f, " on CPU {cpu}")?;
                }
                Ok(())
            }
            Subject::Timestamps => f.write_str("timestamps are non-decreasing"),
        }
    }
}
