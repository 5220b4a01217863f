//! The pass over the trace that gathers the verdicts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kymo::event::Event as _;
use kymo::vocabulary::{
    IrqEnter, IrqExit, LockAcquired, LockReleased, LockWait, SchedSwitch, SchedWakeup,
    SyscallEnter, SyscallExit,
};
use kymo_ctf::{Event, EventRef, ItemRef, Loss, LossKind, Metadata, Packet};
use kymo_machine::{Named, Span, SpanKind};

use super::names::{NameClass, Names, is_cut, named};
use super::pattern::{Fit, fits, number, resolve, texts};
use super::tally::{Found, State, Tally};
use super::verdict::{Verdict, verdict};
use super::{ExpectError, Expectation, Expectations, Subject, Term, Test};
use crate::analysis::Analysis;

/// Checks a trace against expectations.
#[derive(Debug)]
pub struct Judge {
    list: Vec<(Expectation, State)>,
    /// Objects whose names were cut to the length of their events' fields.
    cut: HashSet<Named>,
    /// Names in the file, and whether the trace has them.
    wanted: HashMap<(NameClass, String), bool>,
    /// Number of items so far.
    items: u64,
    /// Whether an expectation counts events of the class, by class index.
    concerned: Vec<bool>,
    /// The packet of the last relevant event, with its stream and number.
    packet: Option<((usize, u64), Arc<Packet>)>,
}

impl Judge {
    /// Resolves the expectations in a trace's metadata.
    ///
    /// # Errors
    /// Gives the line of an expectation with an event, a field or a label that the metadata lacks.
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

    /// Adds the item that was last added to the analysis.
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

    /// Passes over an item that is not selected, which the analysis was told, too. Only the names that
    /// it gives count.
    pub fn pass_over(&mut self, item: &ItemRef<'_>, analysis: &Analysis) {
        self.items += 1;
        if let ItemRef::Event(event) = item {
            named(analysis.machine()).for_each(|named| self.name(named, event, analysis));
        }
    }

    /// Whether an expectation may count the event, or a span that it ends.
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

    /// The event's packet; most events share the previous event's.
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

    /// Handles a name that the event gives.
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
                            .map(|term| fits_span(term, &span, &names))
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

    /// Gives the verdicts, in the order of the file. `damage` is
    /// [`Report::damage`](crate::Report::damage): the time stamps behind it are unknown, so it
    /// fails expectations of time stamps.
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

    /// Number of objects in memory. It does not grow with the length of a trace.
    pub fn live_state(&self) -> usize {
        let states = self.list.iter().map(|(_, state)| {
            state.tallies.iter().map(Tally::live).sum::<usize>()
                + state.pending.values().map(Tally::live).sum::<usize>()
        });
        states.sum::<usize>() + self.cut.len()
    }
}

/// Whether expectations count events of each class, by class index.
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
        let message = format!("cannot be measured: the trace has no event {missing:?}");
        return Err(ExpectError { line, message });
    }
    for term in of {
        if !properties.contains(&&*term.field) {
            let message = format!(
                "of takes {} for this duration, not {:?}",
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
                message: format!("expected the number of a CPU, found {text:?}"),
            });
        }
    }
    Ok(())
}

fn fits_span(term: &Term, span: &Span, names: &Names<'_>) -> Fit {
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

impl Subject {
    pub(super) fn names(&self) -> Vec<(NameClass, String)> {
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
