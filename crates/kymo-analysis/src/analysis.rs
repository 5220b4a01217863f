//! The pass over the trace.

use std::sync::Arc;

use kymo_ctf::{ClockClass, Consequence, Error, EventRef, ItemRef, Metadata, Problem};
use kymo_machine::{ChainOf, Change, Machine, Span, Taken};

use crate::part::Part;
use crate::section::{End, Report, Sections, ThreadRef};

/// A time as the machine has it.
fn narrow(nanos: i128) -> i64 {
    let limit = if nanos < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(nanos).unwrap_or(limit)
}

/// Most messages about damage that are kept.
const MOST_DAMAGE: usize = 100;

/// Builds a [`Report`] from a trace's items, added in time order.
#[derive(Debug)]
pub struct Analysis {
    machine: Machine,
    sections: Sections,
    clock: Option<Arc<ClockClass>>,
    /// Beginning of the first event's packet, in nanoseconds.
    zero: Option<i64>,
    /// The part of the trace that is reported.
    part: Part,
    /// Times of the first and the last event up to the part's end, in nanoseconds.
    span: Option<(i64, i64)>,
    /// Whether the trace goes on behind the part.
    is_past: bool,
    events: u64,
    placeless: u64,
    damage: Vec<String>,
    /// The call chain of the last sample, whose memory the next one uses.
    addresses: Vec<u64>,
}

impl Analysis {
    /// Starts the analysis of a trace with this metadata.
    pub fn new(metadata: &Metadata) -> Analysis {
        Analysis {
            machine: Machine::new(),
            sections: Sections::of(metadata),
            clock: metadata.clocks().first().cloned(),
            zero: None,
            part: Part::default(),
            span: None,
            is_past: false,
            events: 0,
            placeless: 0,
            damage: Vec::new(),
            addresses: Vec::new(),
        }
    }

    /// Starts the analysis of a part of a trace with this metadata.
    pub fn of_part(metadata: &Metadata, part: Part) -> Analysis {
        Analysis {
            part,
            ..Analysis::new(metadata)
        }
    }

    /// The machine's state after the last item.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The spans that the last item ended.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let changes = self.machine.changes().iter();
        changes.filter_map(|change| Span::of(change, &self.machine))
    }

    /// The thread that runs on the CPU of this number, if it is known.
    pub fn running(&self, cpu: u64) -> Option<ThreadRef> {
        ThreadRef::of(&self.machine, self.machine.running(cpu)?)
    }

    /// Adds the next item.
    pub fn add(&mut self, item: &ItemRef<'_>) {
        let taken = self.machine.add(item);
        match item {
            ItemRef::Event(event) => self.event(event, taken),
            _ => self.note(item, taken),
        }
        self.take_changes(true);
    }

    /// Passes over an item that is not selected. It counts nothing, but the state of the machine
    /// follows from it.
    pub fn pass_over(&mut self, item: &ItemRef<'_>) {
        if let ItemRef::Event(event) = item
            && let Some(time) = event.nanos()
        {
            let time = narrow(time);
            if self.part.is_past(time) {
                self.is_past = true;
                return;
            }
            self.begin(event);
            if self.machine.add(item) != Taken::Name {
                self.stretch(time);
            }
        } else if let ItemRef::Loss(loss) = item
            && loss
                .begin_nanos
                .is_some_and(|begin| self.part.is_past(narrow(begin)))
        {
            self.is_past = true;
            return;
        } else {
            self.machine.add(item);
        }
        self.take_changes(false);
    }

    #[inline]
    fn event(&mut self, event: &EventRef<'_>, taken: Taken) {
        self.events += 1;
        self.sections.event(event);
        self.placeless += u64::from(taken == Taken::Placeless);
        let time = event.time();
        if let Some(ticks) = time {
            self.sections.stamp(event, ticks.0);
        }
        if self.events == 1 {
            self.begin(event);
        }
        if time.is_some() && taken != Taken::Name {
            self.stretch(self.machine.now());
        }
        if let Some(chain) = self.machine.call_chain(event, &mut self.addresses)
            && let ChainOf::Sample { missed, .. } = chain.of
        {
            let thread = self.machine.whose(&chain);
            self.sections.sampled(thread, chain.mode, missed);
        } else if self.is_in_no_table(event) {
            let (tid, pid) = self.machine.context(event);
            self.sections.other(event, tid, pid);
        }
    }

    /// Whether no table but that of other events uses an event.
    #[inline]
    fn is_in_no_table(&self, event: &EventRef<'_>) -> bool {
        // An event's context may name its thread, whatever the event is.
        let mut changes = self.machine.changes().iter();
        match changes.find(|change| !matches!(change, Change::Named(_))) {
            Some(change) => matches!(
                change,
                Change::Mark { .. }
                    | Change::SpanBegin { .. }
                    | Change::SpanEnd { .. }
                    | Change::Counter { .. }
            ),
            None => !self.machine.understands(event),
        }
    }

    /// Counts points in time from the begin of the first event's packet.
    #[cold]
    fn begin(&mut self, event: &EventRef<'_>) {
        if self.zero.is_none()
            && let (Some(packet), Some(clock)) = (event.packet(), event.clock())
            && let Some(begin) = packet.begin
        {
            let begin = clock.nanos_from_origin(begin);
            self.zero = Some(i64::try_from(begin).unwrap_or(i64::MIN));
        }
    }

    /// Notes a loss or a problem.
    #[cold]
    fn note(&mut self, item: &ItemRef<'_>, taken: Taken) {
        match (taken, item) {
            (Taken::Loss(number), ItemRef::Loss(loss)) => {
                self.sections.lose(loss, number);
            }
            (_, ItemRef::Problem(problem)) => self.problem(problem),
            _ => {}
        }
    }

    #[inline]
    fn take_changes(&mut self, is_selected: bool) {
        if !self.part.is_partial() {
            for change in self.machine.changes() {
                self.sections.take(change, &self.machine);
            }
            return;
        }
        for change in self.machine.changes() {
            if let Some(change) = self.part.clip(change, is_selected) {
                if self.part.began_before(&change) {
                    self.sections.began_before(&change);
                }
                self.sections.take(&change, &self.machine);
            }
        }
    }

    /// Notes a problem; not every one is kept, because a broken clock may step back at every event.
    fn problem(&mut self, problem: &Problem) {
        match problem.consequence {
            Consequence::Clamped if self.damage.len() < MOST_DAMAGE => {
                self.damage.push(problem.to_string());
            }
            Consequence::Clamped => {}
            _ => self.damaged(&Error::from(problem.clone())),
        }
    }

    /// Notes a stream, or a part of one, that could not be read.
    pub fn damaged(&mut self, error: &Error) {
        if self.damage.len() < MOST_DAMAGE {
            let goes_on = match error {
                Error::Stream {
                    resumes: Some(offset),
                    ..
                } => format!("reading goes on at byte {offset}"),
                _ => "nothing more is read from there".to_owned(),
            };
            self.damage.push(format!("{error}; {goes_on}"));
        }
    }

    /// Ends a part of the trace with the last item, and begins the next one there: gives the report
    /// of what was added since the last such end. What is open goes on in the next part. `metadata`
    /// is the trace's.
    pub fn split(&mut self, metadata: &Metadata) -> Report {
        let end = self.span.map(|(_, end)| end);
        let next = Analysis {
            machine: self.machine.clone(),
            zero: self.zero,
            part: Part {
                from_ns: end,
                ..self.part.clone()
            },
            span: end.map(|end| (end, end)),
            ..Analysis::new(metadata)
        };
        std::mem::replace(self, next).finish()
    }

    /// Ends the analysis and gives its results.
    pub fn finish(mut self) -> Report {
        let zero = self.zero.or(self.span.map(|(begin, _)| begin));
        let span = self.span.map(|(begin, end)| self.clipped(begin, end));
        let (begin, end) = span.unwrap_or((0, 0));
        self.machine.finish(end);
        self.take_changes(!self.part.only_some_events);
        let end = End {
            machine: &self.machine,
            begin,
            end,
            events: self.events,
            part: &self.part,
        };
        Report {
            zero_ns: zero,
            begin_ns: span.map(|(begin, _)| begin),
            end_ns: span.map(|(_, end)| end),
            events: self.events,
            events_without_place: self.placeless,
            damage: self.damage,
            ..self.sections.finish(&end, self.clock.as_ref())
        }
    }

    /// The part's times, in a trace that lasts from `begin` to `end` or, if it goes on behind the
    /// part, longer.
    fn clipped(&self, begin: i64, end: i64) -> (i64, i64) {
        let from = self.part.from_ns.map_or(begin, |from| from.max(begin));
        let to = self.part.to_ns.filter(|to| self.is_past || *to < end);
        (from, to.unwrap_or(end).max(from))
    }

    /// Number of objects in memory: threads, CPUs, locks, buckets and open operations. It does not
    /// grow with the length of a trace.
    pub fn live_state(&self) -> usize {
        self.machine.live_state() + self.sections.live()
    }

    #[inline]
    fn stretch(&mut self, time: i64) {
        let (begin, end) = self.span.unwrap_or((time, time));
        self.span = Some((begin.min(time), end.max(time)));
    }
}
