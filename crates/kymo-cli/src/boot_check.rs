//! Checks whether a kernel followed the word `kymo=` of its command line, by what it recorded.

mod settings;

use std::path::Path;

use kymo::event::Event as _;
use kymo::vocabulary::{ALL, CountedEvent, EventCount, EventStack, GroupCount, Sample, Sampling};
use kymo::{ChannelKind, Mode};
use kymo_capture::qemu::Boot;
use kymo_ctf::{Event, Item, Trace};

use settings::Settings;

/// Number of events to check for those that were not asked for: a kernel that ignores the word
/// records other events early.
const LOOKED_AT: usize = 100_000;

/// Prints which requests the kernel evidently ignored; returns whether there were any.
/// `not_rolling`: the kernel was asked to keep the newest events and reports that it does not.
pub fn report(trace: &Path, boot: &Boot, not_rolling: bool) -> bool {
    let ignored = ignored(trace, boot, not_rolling);
    for what in &ignored {
        message!("kymo: {what}; does it read the word kymo= of its command line?");
    }
    !ignored.is_empty()
}

/// What the kernel did instead of what it was asked for, a sentence each.
fn ignored(trace: &Path, boot: &Boot, not_rolling: bool) -> Vec<String> {
    let mut ignored = Vec::new();
    if not_rolling {
        ignored.push(
            "the kernel keeps the oldest events, although it was asked to keep the newest"
                .to_owned(),
        );
    }
    let seen = Seen::of(trace, boot);
    if let Some(name) = &seen.stray {
        let asked = boot.events.join(",");
        ignored.push(format!(
            "the kernel was asked to record {asked} and recorded {name}"
        ));
    }
    let mut missing = |is_missing: bool, asked: &str, has: &str| {
        if is_missing {
            ignored.push(format!(
                "the kernel was asked for {asked}, and its trace has {has}"
            ));
        }
    };
    missing(seen.samples.is_missing(), "samples", "none");
    missing(seen.counts.is_missing(), "counts", "none");
    missing(
        seen.stacks.is_missing(),
        &format!("the callers of {}", boot.stacks.join(",")),
        "these events without them",
    );
    missing(
        seen.counts_on.is_missing(),
        &format!("the counts at {}", boot.counters_on.join(",")),
        "these events without them",
    );
    ignored.extend(seen.settings.differences(boot));
    ignored
}

/// Whether the trace has what was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// It was not asked for, or there was no occasion for it.
    Not,
    /// It has to be there, and was not seen so far.
    Missing,
    There,
}

impl Asked {
    fn when(asked: bool) -> Asked {
        if asked { Asked::Missing } else { Asked::Not }
    }

    fn is_missing(self) -> bool {
        self == Asked::Missing
    }

    /// An occasion for it was seen.
    fn due(&mut self) {
        if *self == Asked::Not {
            *self = Asked::Missing;
        }
    }
}

/// What was seen of what the kernel was asked for.
struct Seen {
    samples: Asked,
    counts: Asked,
    stacks: Asked,
    counts_on: Asked,
    /// The first event that was not asked for.
    stray: Option<String>,
    settings: Settings,
}

impl Seen {
    /// Reads the trace until all is seen. A trace that cannot be read is reported when it is read.
    fn of(trace: &Path, boot: &Boot) -> Seen {
        let mut seen = Seen {
            samples: Asked::when(boot.modes.contains(&Mode::Sample)),
            counts: Asked::when(boot.modes.contains(&Mode::Count) || !boot.counters.is_empty()),
            stacks: Asked::Not,
            counts_on: Asked::Not,
            stray: None,
            settings: Settings::default(),
        };
        let Ok(trace) = Trace::open(trace) else {
            return Seen {
                samples: Asked::Not,
                counts: Asked::Not,
                ..seen
            };
        };
        let clock = trace.metadata().clocks().first();
        seen.settings = Settings::of_clock(clock.map_or(0, |clock| clock.frequency));
        for (number, item) in trace.events().enumerate() {
            if number >= LOOKED_AT && seen.is_complete(boot) {
                break;
            }
            if let Ok(Item::Event(event)) = item {
                seen.event(&event, boot, number < LOOKED_AT);
            }
        }
        seen
    }

    /// Whether nothing that may still come changes what is said.
    fn is_complete(&self, boot: &Boot) -> bool {
        let is_open = |asked: &[String], seen: Asked| !asked.is_empty() && seen != Asked::There;
        !self.samples.is_missing()
            && !self.counts.is_missing()
            && !is_open(&boot.stacks, self.stacks)
            && !is_open(&boot.counters_on, self.counts_on)
    }

    fn event(&mut self, event: &Event, boot: &Boot, is_early: bool) {
        let name = event.name();
        if [Sample::SCHEMA.name, Sampling::SCHEMA.name].contains(&name) {
            self.samples = Asked::There;
        } else if [CountedEvent::SCHEMA.name, GroupCount::SCHEMA.name].contains(&name) {
            self.counts = Asked::There;
        } else if name == EventStack::SCHEMA.name {
            self.stacks = Asked::There;
        } else if name == EventCount::SCHEMA.name {
            self.counts_on = Asked::There;
        }
        self.settings.see(event);
        if Boot::fits(&boot.stacks, name) {
            self.stacks.due();
        }
        if Boot::fits(&boot.counters_on, name) {
            self.counts_on.due();
        }
        if is_early && self.stray.is_none() && is_stray(event, boot) {
            self.stray = Some(name.to_owned());
        }
    }
}

/// Whether a mode other than `trace` brings this event with it.
fn comes_with(modes: &[Mode], name: &str) -> bool {
    let mut others = modes.iter().filter(|mode| **mode != Mode::Trace);
    let event = ALL.events().iter().find(|event| event.name == name);
    event.is_some_and(|event| others.any(|mode| mode.records(event.channel, event.id)))
}

/// Whether the event was not asked for. Kernels always record the names and states in the `names_`
/// streams, which explain other events, and Kymo's own events.
fn is_stray(event: &Event, boot: &Boot) -> bool {
    let stream = event.stream();
    let of = |kind: ChannelKind| {
        let rest = stream.strip_prefix(kind.label());
        rest.is_some_and(|rest| rest.starts_with('_'))
    };
    !of(ChannelKind::Names)
        && !of(ChannelKind::Samples)
        && !event.name().starts_with("kymo_")
        && !comes_with(&boot.modes, event.name())
        && !boot.records(event.name())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kymo::Sequence;
    use kymo::vocabulary::{Address, ChainEnd, IrqEnter, SamplingDriver, SchedEnter, Tid};
    use kymo_made::Made;

    use super::*;

    fn boot(word: &str) -> Boot {
        let (mut boot, name) = (Boot::default(), |names: &str| Boot::names(names).unwrap());
        for part in word.split_whitespace() {
            match part.split_once('=').unwrap() {
                ("events", names) => boot.events = name(names),
                ("mode", "sample") => boot.modes = vec![Mode::Sample],
                ("mode", "count") => boot.modes = vec![Mode::Count],
                ("counters", names) => boot.counters = vec![name(names)],
                ("stacks", names) => boot.stacks = name(names),
                ("counters_on", names) => boot.counters_on = name(names),
                other => unreachable!("{other:?}"),
            }
        }
        boot
    }

    /// A kernel that records what it always records says nothing of what it was asked for.
    #[test]
    fn what_the_kernel_ignored_is_told() {
        let mut made = Made::with_samples("boot-check-ignored");
        made.event(0, 1, SchedEnter {});
        let trace = made.finish();
        let told = |word: &str| ignored(trace, &boot(word), false);
        for (word, told_of) in [
            ("mode=sample", "asked for samples, and its trace has none"),
            ("mode=count", "asked for counts, and its trace has none"),
            (
                "counters=cycles",
                "asked for counts, and its trace has none",
            ),
            ("stacks=sched_*", "asked for the callers of sched_*, and"),
            (
                "counters_on=sched_enter",
                "asked for the counts at sched_enter, and",
            ),
            (
                "events=irq_*",
                "asked to record irq_* and recorded sched_enter",
            ),
        ] {
            let told = told(word);
            assert!(
                told.iter().any(|told| told.contains(told_of)),
                "{word}: {told:?}"
            );
        }
        // There was no occasion.
        assert_eq!(told("stacks=irq_* counters_on=irq_*"), [""; 0]);
        assert_eq!(told("events=sched_*"), [""; 0]);
        assert_eq!(ignored(trace, &boot("events=sched_*"), true).len(), 1);
    }

    #[test]
    fn a_kernel_that_follows_gets_no_message() {
        let mut made = Made::with_samples("boot-check-followed");
        made.event(
            0,
            1,
            Sampling {
                period: 10,
                depth: 0,
                driver: SamplingDriver::Timer,
            },
        );
        made.event(
            0,
            2,
            GroupCount {
                time_enabled: 1,
                time_running: 1,
                group: 0,
                counts: Sequence::new(&[1]),
            },
        );
        made.event(0, 3, IrqEnter { irq: kymo::Irq(1) });
        let stack = EventStack {
            event: IrqEnter::ID,
            ip: Address(1),
            tid: Tid(1),
            kernel_callers: 0,
            kernel_end: ChainEnd::Complete,
            user_end: ChainEnd::Complete,
            callchain: Sequence::new(&[]),
        };
        made.event(0, 4, stack);
        made.event(
            0,
            5,
            EventCount {
                event: IrqEnter::ID as u16,
                group: 0,
                turns: 0,
                counts: Sequence::new(&[1]),
            },
        );
        let trace = made.finish();
        for word in [
            "mode=sample",
            "mode=count events=irq_*",
            "stacks=irq_* counters_on=irq_* counters=cycles events=irq_*,event_count,group_count",
        ] {
            assert_eq!(ignored(trace, &boot(word), false), [""; 0], "{word}");
        }
    }
}
