//! From the samples of a trace to distinct chains and their counts.

use std::sync::Arc;

use kymo::ChannelKind;
use kymo::event::{Enumeration, Event};
use kymo::vocabulary::{ChainEnd, CpuMode, Sampling, SamplingDriver};
use kymo_ctf::{Consequence, EventRef, ItemRef, Loss, LossKind, Problem};
use kymo_machine::{CallChain, ChainOf, ChainPart, Machine, Period, ThreadId, channel_of};
use kymo_text::thousands;

use crate::counts::Counts;
use crate::profile::Mode;
use crate::stacks::{Stacks, Unwind};
use crate::symbolize::Chains;
use crate::tally::{Counted, Counter, Key, NONE};

/// Most kinds of events that a text names.
const MOST_KINDS: usize = 8;

/// Which part of the machine to profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// Kernel and programs.
    #[default]
    Both,
    /// Samples taken in the kernel, without the program's part of the chain.
    Kernel,
    /// Samples taken in programs.
    User,
}

/// What to collect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Kernel, programs, or both.
    pub only: Only,
    /// Whether to keep samples of idle CPUs.
    pub include_idle: bool,
    /// Whether to keep the time of each sample.
    pub keep_times: bool,
    /// Whether to take the chains of events (`event_stack`) instead of samples.
    pub of_events: bool,
}

/// Counts the samples among a trace's items, added in time order.
#[derive(Debug, Default)]
pub struct Collector<'u> {
    finder: Finder<'u>,
    counter: Counter,
}

/// Finds the samples among a trace's items.
#[derive(Debug, Default)]
pub(crate) struct Finder<'u> {
    options: Options,
    pub(crate) machine: Machine,
    pub(crate) counts: Counts,
    /// The addresses of the last sample, the innermost first.
    pub(crate) addresses: Vec<u64>,
    stacks: Stacks<'u>,
    /// Whether a counter makes the samples: their periods are events, and not ticks.
    periods_are_events: bool,
    kinds: Vec<Kind>,
}

/// A sample that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) counted: Counted,
    pub(crate) chain: CallChain,
    pub(crate) thread: Option<ThreadId>,
    /// Whether the period, if there is one, counts what a counter counted.
    pub(crate) period_is_events: bool,
}

/// Events of one name by another tracer, whose chains are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The event's name.
    pub name: Arc<str>,
    /// What its samples stand for; `None` if they are no samples, but events with a chain.
    pub unit: Option<Period>,
    /// How many were kept.
    pub kept: u64,
}

impl Kind {
    /// Whether they are samples at intervals of time: of a clock, or of the CPU's cycles.
    pub fn is_of_time(&self) -> bool {
        let name = self.name.split(':').next().unwrap_or_default();
        self.unit == Some(Period::Nanoseconds)
            || (self.unit == Some(Period::Events) && matches!(name, "cycles" | "cpu-cycles"))
    }

    /// Which of several kinds a profile is to be of: their sum would mean nothing. Those at
    /// intervals of time come first, and chains of events that are no samples never.
    pub fn choose(kinds: &[Kind]) -> Chosen<'_> {
        if kinds.len() < 2 {
            return Chosen::All;
        }
        let only = |is_meant: fn(&Kind) -> bool| {
            let mut meant = kinds.iter().filter(|kind| is_meant(kind));
            meant.next().filter(|_| meant.next().is_none())
        };
        let chosen = match kinds.iter().any(Kind::is_of_time) {
            true => only(Kind::is_of_time),
            false => only(|kind| kind.unit.is_some()),
        };
        chosen.map_or(Chosen::Unclear, Chosen::Only)
    }

    /// The kinds but that of this name, with how many of each there are: `cycles (3), page-faults
    /// (5)`. Of many, the first.
    pub fn others(kinds: &[Kind], name: &str) -> String {
        let others = kinds.iter().filter(|kind| *kind.name != *name);
        let shown = others.map(|kind| format!("{} ({})", kind.name, thousands(kind.kept)));
        let mut shown: Vec<String> = shown.collect();
        if shown.len() > MOST_KINDS {
            shown.truncate(MOST_KINDS);
            shown.push("...".to_owned());
        }
        shown.join(", ")
    }
}

/// The kind of samples that a profile is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen<'k> {
    /// There is at most one.
    All,
    /// This one, of several.
    Only(&'k Kind),
    /// There are several, and no reason to prefer one of them.
    Unclear,
}

impl<'u> Collector<'u> {
    /// Nothing yet.
    pub fn new(options: Options) -> Collector<'u> {
        Collector {
            finder: Finder::new(options, None),
            counter: Counter::default(),
        }
    }

    /// Finds callers of samples whose stacks were copied, for programs without frame pointers.
    #[must_use]
    pub fn unwinding(self, unwind: Option<Box<Unwind<'u>>>) -> Collector<'u> {
        Collector {
            finder: Finder::new(self.finder.options, unwind),
            ..self
        }
    }

    /// The machine's state after the last item.
    pub fn machine(&self) -> &Machine {
        &self.finder.machine
    }

    /// Adds the next item; its samples and losses count only if it is `selected`.
    #[inline]
    pub fn add(&mut self, item: &ItemRef<'_>, selected: bool) {
        if let Some(found) = self.finder.add(item, selected) {
            self.counter.add(found.counted, &self.finder.addresses);
        }
    }

    /// The kinds of events of other tracers whose chains were kept, in order of appearance. Those
    /// of different kinds count different things.
    pub fn kinds(&self) -> &[Kind] {
        &self.finder.kinds
    }

    /// Ends the collection.
    pub fn finish(self) -> Chains {
        let Finder {
            counts, machine, ..
        } = self.finder;
        counts.finish(self.counter.finish(), &machine)
    }
}

impl<'u> Finder<'u> {
    pub(crate) fn new(options: Options, unwind: Option<Box<Unwind<'u>>>) -> Finder<'u> {
        Finder {
            options,
            stacks: Stacks::new(unwind),
            ..Finder::default()
        }
    }

    /// Adds the next item, and gives its sample, if it is kept. Until the next item, the machine is
    /// as after this one.
    #[inline]
    pub(crate) fn add(&mut self, item: &ItemRef<'_>, selected: bool) -> Option<Found> {
        self.machine.add(item);
        let found = match item {
            ItemRef::Event(event) => {
                self.counts.totals.events += 1;
                self.event(event, selected)
            }
            _ => {
                self.note(item, selected);
                None
            }
        };
        self.counts.follow(self.machine.changes());
        found
    }

    /// Notes a loss or damage.
    #[cold]
    fn note(&mut self, item: &ItemRef<'_>, selected: bool) {
        let (ItemRef::Loss(Loss { stream, .. }) | ItemRef::Problem(Problem { stream, .. })) = item
        else {
            return;
        };
        if !is_samples(stream) {
            return;
        }
        self.stacks.forget();
        let totals = &mut self.counts.totals;
        match item {
            _ if !selected => {}
            ItemRef::Loss(loss) if loss.kind == LossKind::Events => {
                totals.lost = totals.lost.saturating_add(loss.count);
            }
            ItemRef::Problem(problem) if problem.consequence == Consequence::Clamped => {}
            _ => totals.gaps += 1,
        }
    }

    #[inline]
    fn event(&mut self, event: &EventRef<'_>, selected: bool) -> Option<Found> {
        let Some(mut chain) = self.machine.call_chain(event, &mut self.addresses) else {
            if event.name() == Sampling::SCHEMA.name {
                self.periods_are_events = counts(event);
            } else if self.stacks.is_used()
                && let Some(part) = self.machine.stack_part(event, &mut self.addresses)
            {
                self.stacks.add(&part, &self.addresses);
            }
            return None;
        };
        if self.stacks.is_used() && matches!(chain.of, ChainOf::Sample { .. }) {
            let thread = self.machine.whose(&chain);
            let thread = thread.and_then(|thread| self.machine.thread(thread));
            let pid = thread.and_then(|thread| thread.pid);
            self.stacks
                .find_callers(pid, &mut chain, &mut self.addresses);
        }
        let (ticks, missed) = match (chain.of, self.options.of_events) {
            (ChainOf::Sample { missed, .. }, false) if self.periods_are_events => (0, missed),
            (ChainOf::Sample { period, missed, .. }, false) => (period, missed),
            (ChainOf::This, _) | (ChainOf::EventBefore { .. }, true) => (0, None),
            _ => return None,
        };
        if !selected {
            return None;
        }
        let totals = &mut self.counts.totals;
        totals.is_sampled |= matches!(chain.of, ChainOf::Sample { .. });
        if let Some(missed) = missed {
            let sum = totals.missed.get_or_insert(0);
            *sum = sum.saturating_add(missed);
        }
        totals.idle += u64::from(chain.mode == CpuMode::Idle);
        if chain.mode == CpuMode::Idle && !self.options.include_idle {
            return None;
        }
        match (self.options.only, chain.mode) {
            (Only::Kernel, CpuMode::User) | (Only::User, CpuMode::Kernel | CpuMode::Idle) => {
                totals.other_mode += 1;
                None
            }
            (Only::Kernel, _) => {
                self.addresses.truncate(chain.kernel.len);
                let user = ChainPart::ABSENT;
                Some(self.keep(event, CallChain { user, ..chain }, ticks))
            }
            _ => Some(self.keep(event, chain, ticks)),
        }
    }

    /// Notes whose chain is kept.
    #[inline]
    fn note_kind(&mut self, event: &EventRef<'_>, of: ChainOf) {
        let unit = match of {
            ChainOf::Sample { unit, .. } => Some(unit),
            ChainOf::This => None,
            ChainOf::EventBefore { .. } => return,
        };
        if let Some(unit) = unit {
            self.counts.counts_in(unit, event.name());
        }
        if unit == Some(Period::Ticks) {
            return;
        }
        // They are few.
        let name = event.name();
        match self.kinds.iter_mut().find(|kind| *kind.name == *name) {
            Some(kind) => kind.kept += 1,
            None => self.kinds.push(Kind {
                name: Arc::from(name),
                unit,
                kept: 1,
            }),
        }
    }

    #[inline]
    fn keep(&mut self, event: &EventRef<'_>, chain: CallChain, ticks: u64) -> Found {
        let cpu = self.machine.cpu();
        let thread = self.machine.whose(&chain);
        let counts = &mut self.counts;
        let is_cut = chain.kernel.end == ChainEnd::Cut || chain.user.end == ChainEnd::Cut;
        let is_untrusted = chain.kernel.is_untrusted() || chain.user.is_untrusted();
        counts.totals.kept += 1;
        counts.totals.cut += u64::from(is_cut);
        counts.totals.untrusted += u64::from(is_untrusted);
        counts.totals.threadless += u64::from(thread.is_none());
        let key = Key {
            thread: counts.thread(thread),
            cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(NONE),
            chain: NONE,
            prefix: NONE,
            mode: match chain.mode {
                CpuMode::User => Mode::User,
                CpuMode::Kernel => Mode::Kernel,
                CpuMode::Idle => Mode::Idle,
            },
        };
        let counted = Counted {
            header: counts.header(&self.machine, thread, &chain),
            len: self.addresses.len(),
            key,
            ticks,
            time_ns: self.options.keep_times.then_some(self.machine.now()),
        };
        self.stamp(event, ticks);
        self.note_kind(event, chain.of);
        Found {
            counted,
            chain,
            thread,
            period_is_events: self.periods_are_events,
        }
    }

    /// Notes the sample's time.
    #[inline]
    fn stamp(&mut self, event: &EventRef<'_>, ticks: u64) {
        let (counts, now) = (&mut self.counts, self.machine.now());
        let (first, _) = *counts.span_ns.get_or_insert((now, now));
        counts.span_ns = Some((first, now));
        if ticks > 0 {
            counts.period = Some(ticks);
        }
        if counts.clock.is_none() {
            counts.clock = event.clock().cloned();
        }
    }
}

/// Whether a counter makes the samples from here on, so that their periods are no times.
#[cold]
fn counts(sampling: &EventRef<'_>) -> bool {
    let driver = sampling.field("driver").and_then(|driver| driver.as_u64());
    let driver = driver.and_then(SamplingDriver::from_value);
    driver.is_some_and(|driver| driver.counts().is_some())
}

/// Whether a stream holds samples: one of Kymo's, or of a tracer that has one kind of stream.
fn is_samples(stream: &str) -> bool {
    !matches!(
        channel_of(stream),
        Some(ChannelKind::Events | ChannelKind::Names)
    )
}
