//! What a trace of a newly instrumented kernel lacks or has wrong, and where to look in the kernel.
//!
//! [`Doctor`] watches an [`Analysis`] that reads the trace. It counts the machine's changes and
//! judges at the end, together with the [`Report`]; it does not interpret events itself. One file
//! has the rules of one subject.

mod clocks;
mod coverage;
mod losses;
mod names;
mod pairs;
mod samples;
mod skew;
mod switches;
mod wakes;

use std::collections::BTreeMap;

use kymo::ChannelKind;
use kymo::event::Event as _;
use kymo::vocabulary::{self, SchedWakeup};
use kymo_ctf::{EventRef, ItemRef, Metadata};
use kymo_machine::{Change, Machine, ThreadId, channel_of, is_kymos, is_program};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::Analysis;
use crate::section::{Contradiction, Report};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The trace says something that cannot be true, and a report on it may mislead.
    Wrong,
    /// Something is not recorded that is needed for a part of the report.
    Missing,
    /// What the kernel does not record so far, or what may be intended.
    Hint,
}

/// Something that the trace lacks or has wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The rule's name: short and stable.
    pub rule: &'static str,
    /// A sentence without a full stop.
    pub message: String,
    /// Time of the first event that shows it, in nanoseconds from the clock's origin.
    pub time_ns: Option<i64>,
    /// Number of that event's CPU.
    pub cpu: Option<u64>,
    /// What to look at in the kernel, as a sentence without a full stop; `None` for a trace that
    /// Kymo has not recorded.
    pub remedy: Option<&'static str>,
    /// The page of the book, with the section, that explains it.
    pub page: Option<&'static str>,
}

/// Number of things of a kind that the rules looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// Their plural.
    pub what: &'static str,
    /// Their number.
    pub count: u64,
}

/// The findings on a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Those that matter most first.
    pub findings: Vec<Finding>,
    /// What the rules looked at.
    pub looked_at: Vec<Looked>,
    /// Whether the trace has anything by which it can be judged.
    pub is_judged: bool,
}

impl Diagnosis {
    /// Number of findings that matter so much.
    pub fn count(&self, severity: Severity) -> usize {
        let of = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(of).count()
    }
}

/// An event's time and CPU.
#[derive(Clone, Copy, Debug)]
struct Place {
    time: i64,
    cpu: Option<u64>,
}

/// What to look at in the kernel, and the page that explains it.
#[derive(Clone, Copy, Debug)]
struct Remedy {
    text: &'static str,
    page: &'static str,
}

/// Collects the findings.
#[derive(Debug)]
struct Findings {
    list: Vec<Finding>,
    /// Whether remedies for a kernel with Kymo apply.
    is_kymos: bool,
}

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        rule: &'static str,
        message: String,
        first: Option<Place>,
        remedy: Remedy,
    ) {
        let remedy = Some(remedy).filter(|_| self.is_kymos);
        self.list.push(Finding {
            severity,
            rule,
            message,
            time_ns: first.map(|place| place.time),
            cpu: first.and_then(|place| place.cpu),
            remedy: remedy.map(|remedy| remedy.text),
            page: remedy.map(|remedy| remedy.page),
        });
    }
}

/// Who records an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Actor {
    Thread(ThreadId),
    /// Of an interrupt, or where the thread is not known.
    Cpu(Option<u64>),
}

/// Events of the vocabulary in the trace, by name.
#[derive(Debug, Default)]
struct Counts {
    names: FxHashMap<&'static str, (u64, Place)>,
    /// Of events that come in pairs, how often each thread, or CPU, recorded them.
    actors: FxHashMap<(&'static str, Actor), u64>,
    /// Whether there are events of what the kernel does: others than names, samples, counts and
    /// the session's own.
    has_activity: bool,
}

impl Counts {
    fn of(&self, name: &str) -> u64 {
        self.names.get(name).map_or(0, |(count, _)| *count)
    }

    fn first(&self, name: &str) -> Option<Place> {
        self.names.get(name).map(|(_, first)| *first)
    }

    fn add(&mut self, name: &'static str, place: Place) {
        self.names.entry(name).or_insert((0, place)).0 += 1;
    }

    /// Counts one of a pair.
    fn add_of_pair(&mut self, name: &'static str, actor: Actor) {
        *self.actors.entry((name, actor)).or_insert(0) += 1;
    }

    /// How many of these events are beyond the first of each thread or CPU: the other one of its
    /// pair may have come before the trace, or may come behind it.
    fn beyond_firsts(&self, name: &str) -> u64 {
        let of = self.actors.iter().filter(|((of, _), _)| *of == name);
        of.map(|(_, count)| count - 1).sum()
    }
}

/// Most things that a message lists.
const LISTED: usize = 8;

/// Lists things: `1, 2 and 3 more`.
fn list(things: &[String]) -> String {
    let (shown, more) = things.split_at(things.len().min(LISTED));
    match (shown, more.len()) {
        (shown, more @ 1..) => format!("{} and {more} more", shown.join(", ")),
        ([rest @ .., last], _) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        (shown, _) => shown.join(", "),
    }
}

/// A count with its noun.
fn many(count: u64, one: &str, several: &str) -> String {
    let what = if count == 1 { one } else { several };
    format!("{count} {what}")
}

/// `once` or the number of times.
fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// Watches the reading of a trace.
#[derive(Debug)]
pub struct Doctor {
    is_kymos: bool,
    /// Whether a program recorded itself. It has no CPUs and no scheduler.
    is_program: bool,
    /// Names of the declared events that are in the vocabulary.
    declared: Vec<&'static str>,
    counts: Counts,
    /// Number of events that some rule may use.
    known: u64,
    contradictions: BTreeMap<&'static str, Contradiction>,
    clocks: clocks::Clocks,
    skew: skew::Skew,
    switches: switches::Switches,
    wakes: wakes::Wakes,
    pairs: pairs::Pairs,
    names: names::Names,
    losses: losses::Rings,
    samples: samples::Samples,
}

/// The vocabulary's name of an event.
fn in_vocabulary(name: &str) -> Option<&'static str> {
    let mut all = vocabulary::TYPES.iter().flat_map(|subject| subject.iter());
    all.find(|(_, of)| *of == name).map(|(_, of)| *of)
}

impl Doctor {
    /// Begins with a trace of this metadata.
    pub fn new(metadata: &Metadata) -> Doctor {
        let classes = metadata.streams().flat_map(|of| of.events.values());
        Doctor {
            is_kymos: is_kymos(metadata),
            is_program: is_program(metadata),
            declared: classes.filter_map(|of| in_vocabulary(&of.name)).collect(),
            counts: Counts::default(),
            known: 0,
            contradictions: BTreeMap::new(),
            clocks: clocks::Clocks::default(),
            skew: skew::Skew::default(),
            switches: switches::Switches::default(),
            wakes: wakes::Wakes::default(),
            pairs: pairs::Pairs::default(),
            names: names::Names::default(),
            losses: losses::Rings::default(),
            samples: samples::Samples::default(),
        }
    }

    /// Looks at an item, after the analysis has added it.
    pub fn add(&mut self, item: &ItemRef<'_>, analysis: &Analysis) {
        let machine = analysis.machine();
        let place = Place {
            time: machine.now(),
            cpu: machine.cpu(),
        };
        match item {
            ItemRef::Event(event) => self.event(event, place, machine),
            ItemRef::Loss(loss) => self.losses.lose(loss, place),
            _ => {}
        }
        for change in machine.changes() {
            self.change(change, place, machine);
        }
    }

    fn event(&mut self, event: &EventRef<'_>, place: Place, machine: &Machine) {
        self.losses.add(event);
        if machine.understands(event) {
            self.known += 1;
            for name in machine.amounts_to(event) {
                self.count(name, place, machine);
            }
        } else if let Some(name) = in_vocabulary(event.name()) {
            self.known += 1;
            self.count(name, place, machine);
        }
        match channel_of(event.stream()) {
            Some(ChannelKind::Names) => {}
            Some(ChannelKind::Samples) => self.samples.add(event, place, machine),
            _ => {
                let counts = &mut self.counts;
                counts.has_activity |=
                    !counts.has_activity && !coverage::is_the_recordings(event.name());
                self.clocks.add(event, place);
                self.samples.add(event, place, machine);
            }
        }
    }

    fn count(&mut self, name: &'static str, place: Place, machine: &Machine) {
        self.counts.add(name, place);
        if let Some(is_cpus) = pairs::of(name) {
            let running = place.cpu.and_then(|cpu| machine.running(cpu));
            let actor = match running.filter(|_| !is_cpus) {
                Some(thread) => Actor::Thread(thread),
                None => Actor::Cpu(place.cpu),
            };
            self.counts.add_of_pair(name, actor);
        }
    }

    fn change(&mut self, change: &Change, place: Place, machine: &Machine) {
        if let Change::Contradiction(broken) = change {
            let first = self.contradictions.entry(broken.rule());
            first.or_insert_with(|| Contradiction::of(*broken, machine));
        }
        self.skew.take(change, place, machine);
        self.switches.take(change, place, machine);
        self.wakes.take(change, place, machine);
        self.pairs.take(change, place, machine);
        self.names.take(change, place, machine);
    }

    /// Gives the findings, with the report of the analysis.
    pub fn finish(mut self, report: &Report) -> Diagnosis {
        let mut found = Findings {
            list: Vec::new(),
            is_kymos: self.is_kymos,
        };
        self.losses.finish(report, &mut found);
        let looked_at = self.looked_at(report);
        if !self.counts.has_activity && report.samples.is_none() && report.counters.is_none() {
            coverage::empty(report, &mut found);
            return diagnosis(found, looked_at, true);
        }
        let is_judged = self.known > 0 || report.samples.is_some() || report.counters.is_some();
        if !is_judged {
            coverage::unknown(report, &mut found);
        }
        // A session that only samples or counts records no more than the lives of threads.
        let is_partial = (report.samples.is_some() || report.counters.is_some())
            && self.switches.is_empty()
            && self.pairs.is_empty();
        let explained = self.skew.finish(&mut found);
        self.contradicted(report, explained, &mut found);
        self.clocks.finish(report, &mut found);
        self.pairs.finish(&self.counts, report, &mut found);
        self.samples.finish(report, &mut found);
        if !self.is_program {
            if !is_partial {
                self.switches.finish(&mut found);
            }
            let wakeups = self.counts.of(SchedWakeup::SCHEMA.name);
            self.wakes.finish(wakeups, &mut found);
            self.names.finish(report, &mut found);
        }
        if self.is_kymos && !self.is_program && !is_partial {
            self.declared.sort_unstable();
            coverage::judge(&self.counts, &self.declared, &mut found);
        }
        diagnosis(found, looked_at, is_judged)
    }

    /// Adds the machine's contradictions, the first of each rule. `explained` is the number of
    /// `one-cpu` that another finding explains.
    fn contradicted(&self, report: &Report, explained: u64, found: &mut Findings) {
        for (&rule, &count) in &report.contradictions.counts {
            let count = match rule {
                "one-cpu" => count.saturating_sub(explained),
                _ => count,
            };
            let Some(first) = self.contradictions.get(rule).filter(|_| count > 0) else {
                continue;
            };
            let mut message = capitalized(&first.message);
            if count > 1 {
                message += &format!("; the trace has {count} such contradictions");
            }
            let place = Place {
                time: first.time_ns,
                cpu: Some(first.cpu),
            };
            let remedy = remedy_of(rule);
            found.add(Severity::Wrong, rule, message, Some(place), remedy);
        }
    }

    fn looked_at(&self, report: &Report) -> Vec<Looked> {
        let of = |what, count| Looked { what, count };
        let sampling = report.samples.as_ref().map_or(0, |samples| samples.count);
        let names = vocabulary::TYPES.iter().flat_map(|of| of.iter());
        let names = names.map(|(_, name)| *name);
        let names = names.filter(|name| name.ends_with("_name") || name.ends_with("_state"));
        vec![
            of("events", report.events),
            of("CPUs", report.cpus.len() as u64),
            of("clocks", report.clocks.len() as u64),
            of("switches", report.cpus.iter().map(|cpu| cpu.switches).sum()),
            of("wake-ups", self.wakes.count()),
            of(
                "interrupts",
                report.interrupts.iter().map(|of| of.count).sum(),
            ),
            of(
                "system calls",
                report.system_calls.iter().map(|of| of.count).sum(),
            ),
            of("locks", report.locks.len() as u64),
            of("names", names.map(|name| self.counts.of(name)).sum()),
            of("samples", sampling),
            of("lost events", report.losses.events),
        ]
    }
}

fn diagnosis(mut found: Findings, looked_at: Vec<Looked>, is_judged: bool) -> Diagnosis {
    found.list.sort_by_key(|finding| finding.severity);
    Diagnosis {
        findings: found.list,
        looked_at,
        is_judged,
    }
}

fn capitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// What to look at where events break one of the machine's rules.
fn remedy_of(rule: &str) -> Remedy {
    let (text, page) = match rule {
        "switch-chain" | "one-cpu" => (
            "Record `sched_switch` at every switch, just before the stacks change places, with \
             the thread that really leaves; and see that the port gives this CPU's blocks",
            "your-kernel.md#record",
        ),
        "after-end" => (
            "Record the last switch of a thread, and `thread_exit`, once; and `thread_create` \
             before a number is used again",
            "events.md#thread_exit",
        ),
        "irq-pair" => (
            "Record `irq_handler_entry` first in every handler, and `irq_handler_exit` last, with \
             the same number, before a switch that the interrupt causes",
            "your-kernel.md#record",
        ),
        "syscall-pair" => (
            "Record `sys_enter` and `sys_exit` with the same number, on every way out of the \
             kernel",
            "events.md#sys_exit",
        ),
        "lock-held" => (
            "Record `lock_acquired` in every function that takes a lock, and `lock_release` in \
             the thread that holds it, with the same address",
            "events.md#lock_acquired",
        ),
        "idle-thread" => (
            "Number the threads from 1: 0 is the idle thread of each CPU",
            "recipes.md#thread-0-is-the-idle-thread",
        ),
        _ => (
            "See that the port reads a clock that never steps back, the same on all CPUs, \
             at the time of the event; on 32 bits, that its halves belong together",
            "your-kernel.md#the-platform",
        ),
    };
    Remedy { text, page }
}
