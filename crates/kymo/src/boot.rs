//! What a kernel's command line says about recording: the word `kymo=`, with any of these,
//! separated by commas:
//!
//! | | |
//! | --- | --- |
//! | `start`, `off` | record from the first moment on; do not |
//! | `rolling`, `discard` | a full ring loses its oldest packet, or the new event |
//! | `reader=none`, `reader=kernel`, `reader=host` | who takes packets out of a ring that discards |
//! | `events=NAME:NAME..` | only these are on; a name may end with `*` |
//! | `mode=trace`, `mode=sample`, `mode=trace:count` | what to record: events, samples, counts, or several of them |
//! | `period_ns=N`, `depth=N` | nanoseconds between two samples of a CPU; most callers of a sample |
//! | `driver=timer`, `driver=nmi`, `driver=ipi` | what makes the samples |
//! | `driver=cycles`, `driver=instructions`, `count=N` | a counter makes the samples; how many of these lie between two samples of a CPU |
//! | `stacks=NAME:NAME..` | these events record who called their tracepoints |
//! | `counters=NAME+NAME..` | what every CPU counts, as one group: names of [events](EventSpec::from_name) |
//! | `counters=NAME+NAME..++NAME..` | several groups, at most 4, which take turns where they do not fit together |
//! | `count_ns=N` | nanoseconds until the counts are recorded again |
//! | `counters_on=NAME:NAME..` | these events record the counts, too |
//! | `send` | a program of the kernel's is to start, read, and send what it read over a port (see [`wire`](crate::wire)) |
//!
//! The kernel decides what the word leaves open. `kymo record` writes this word when it is asked
//! for a kind of recording.

use crate::channel::ChannelKind;
use crate::count::{EventSpec, GroupSpec, MAX_GROUPS, Refused};
use crate::event::{Vocabulary, name_fits};
use crate::recorder::{Mode, flags};
use crate::ring::config::Config;
use crate::ring::layout::{Consumer, Overflow};
use crate::sample::LONGEST_PERIOD;
use crate::text::split_once;
use crate::vocabulary::{Sampling, SamplingDriver};

/// What the word says; `None` for what it does not mention.
///
/// ```
/// let options = kymo::boot::Options::parse("console=ttyS0 kymo=start,rolling,events=sched_*:irq_handler_entry").unwrap();
/// assert_eq!(options.start, Some(true));
/// assert_eq!(options.overflow, Some(kymo::Overflow::Overwrite));
/// assert!(options.records("sched_switch") && !options.records("syscall_enter"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// Whether to record from the first moment on.
    pub start: Option<bool>,
    /// What a full ring does.
    pub overflow: Option<Overflow>,
    /// Who reads.
    pub consumer: Option<Consumer>,
    /// Whether a program is to record and send.
    pub send: bool,
    /// Names of events, separated by colons.
    pub events: Option<&'a str>,
    /// The modes, by number: whether each is to be started.
    pub modes: Option<[bool; Mode::ALL.len()]>,
    /// Nanoseconds between two samples of a CPU; never 0.
    pub period_ns: Option<u64>,
    /// Events of the driver's counter between two samples of a CPU; never 0.
    pub count: Option<u64>,
    /// Most callers of a sample.
    pub depth: Option<u32>,
    /// What makes the samples.
    pub driver: Option<SamplingDriver>,
    /// Names of events that record their callers, separated by colons.
    pub stacks: Option<&'a str>,
    /// Names of what every CPU counts: those of a group's events, 1 to 16 of them, are separated by
    /// a plus sign each, and groups, 1 to [`MAX_GROUPS`] of them, by two.
    pub counters: Option<&'a str>,
    /// Nanoseconds until the counts are recorded again; never 0.
    pub count_ns: Option<u64>,
    /// Names of events that record the counts, too, separated by colons.
    pub counters_on: Option<&'a str>,
}

/// Nanoseconds between two samples where nobody says: 1,000 a second.
const PERIOD_NS: u64 = 1_000_000;
/// Nanoseconds until the counts are recorded again where nobody says.
const COUNT_NS: u64 = 100_000_000;
/// What every CPU counts where nobody says.
const COUNTERS: &str = "cycles+instructions";
/// Events of a counter between two samples where nobody says.
const COUNT: u64 = 1_000_000;

impl Default for Options<'_> {
    fn default() -> Self {
        Options::NONE
    }
}

impl<'a> Options<'a> {
    /// A line without the word.
    pub const NONE: Options<'static> = Options {
        start: None,
        overflow: None,
        consumer: None,
        send: false,
        events: None,
        modes: None,
        period_ns: None,
        count: None,
        depth: None,
        driver: None,
        stacks: None,
        counters: None,
        count_ns: None,
        counters_on: None,
    };

    /// Reads every word `kymo=` of the line; later parts win.
    ///
    /// # Errors
    /// The part of such a word that cannot be used: also a period in time for a driver that counts,
    /// a count for any other, and what events record besides themselves without the mode for it.
    pub fn parse(line: &'a str) -> Result<Options<'a>, &'a str> {
        let mut options = Options::default();
        let words = line
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix("kymo="));
        let (mut period, mut count, mut stacks, mut counters_on) = (None, None, None, None);
        for part in words.flat_map(|word| word.split(',')) {
            match part.split_once('=') {
                Some(("period_ns", _)) => period = Some(part),
                Some(("count", _)) => count = Some(part),
                Some(("stacks", _)) => stacks = Some(part),
                Some(("counters_on", _)) => counters_on = Some(part),
                _ => {}
            }
            match part {
                "start" => options.start = Some(true),
                "off" => options.start = Some(false),
                "rolling" => options.overflow = Some(Overflow::Overwrite),
                "discard" => options.overflow = Some(Overflow::Discard),
                "reader=none" => options.consumer = Some(Consumer::None),
                "reader=kernel" => options.consumer = Some(Consumer::Kernel),
                "reader=host" => options.consumer = Some(Consumer::Host),
                "send" => options.send = true,
                _ => options.set(part).ok_or(part)?,
            }
        }
        let by_counter = options.samples_by_counter();
        let useless = [
            period.filter(|_| by_counter),
            count.filter(|_| !by_counter),
            stacks.filter(|_| !options.starts(Mode::Trace)),
            counters_on.filter(|_| !options.starts(Mode::Count)),
        ];
        useless
            .into_iter()
            .flatten()
            .next()
            .map_or(Ok(options), Err)
    }

    /// Takes a part of the form `key=value`.
    fn set(&mut self, part: &'a str) -> Option<()> {
        let (key, value) = part.split_once('=')?;
        let names = || Some(value).filter(|names| names.split(':').all(|name| !name.is_empty()));
        match key {
            "events" => self.events = Some(names()?),
            "stacks" => self.stacks = Some(names()?),
            "counters" => {
                self.counters = Some(value);
                self.groups().map(drop).ok()?;
            }
            "counters_on" => self.counters_on = Some(names()?),
            "count_ns" => self.count_ns = Some(value.parse().ok().filter(|&ns| ns > 0)?),
            "mode" => {
                let mut modes = [false; Mode::ALL.len()];
                for name in value.split(':') {
                    let mode = Mode::ALL.into_iter().find(|mode| mode.name() == name)?;
                    *modes.get_mut(mode as usize)? = true;
                }
                self.modes = Some(modes);
            }
            "period_ns" => self.period_ns = Some(value.parse().ok().filter(|&ns| ns > 0)?),
            "count" => self.count = Some(value.parse().ok().filter(|&count| count > 0)?),
            "depth" => self.depth = Some(value.parse().ok()?),
            "driver" => {
                self.driver = Some(match value {
                    "timer" => SamplingDriver::Timer,
                    "nmi" => SamplingDriver::Nmi,
                    "ipi" => SamplingDriver::Ipi,
                    "cycles" => SamplingDriver::Cycles,
                    "instructions" => SamplingDriver::Instructions,
                    _ => return None,
                })
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether a counter is to make the samples.
    fn samples_by_counter(&self) -> bool {
        self.driver.is_some_and(|driver| driver.counts().is_some())
    }

    /// Whether a mode is to be started. Where the word does not say: `trace`, and `count` if it
    /// names counters.
    pub fn starts(&self, mode: Mode) -> bool {
        match self.modes {
            Some(modes) => modes.get(mode as usize) == Some(&true),
            None => mode == Mode::Trace || (mode == Mode::Count && self.counts()),
        }
    }

    fn counts(&self) -> bool {
        self.counters.is_some() || self.counters_on.is_some()
    }

    /// What every CPU is to count, for [`Recorder::set_counting`](crate::Recorder::set_counting):
    /// the group of cycles and instructions where the word does not say.
    ///
    /// # Errors
    /// [`Refused`], for a word that [`parse`](Self::parse) did not give.
    pub fn groups(&self) -> Result<impl Iterator<Item = GroupSpec> + Clone + use<'a>, Refused> {
        let mut rest = Some(self.counters.unwrap_or(COUNTERS));
        let next = move || {
            let (group, others) = split_group(rest.take()?);
            rest = others;
            Some(group_of(group))
        };
        let groups = core::iter::from_fn(next);
        if groups.clone().count() > MAX_GROUPS {
            return Err(Refused::TooManyGroups(MAX_GROUPS));
        }
        groups.clone().try_for_each(|group| group.map(drop))?;
        // Not `flatten`, which keeps a group at each of its ends.
        Ok(groups.filter_map(Result::ok))
    }

    /// The names of events that are to record who called them.
    pub fn stacks(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        each(self.stacks)
    }

    /// The names of events that are to record what their CPU has counted.
    pub fn counters_on(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        each(self.counters_on)
    }

    /// Nanoseconds until the counts are recorded again: 100 ms where the word does not say.
    pub fn count_ns(&self) -> u64 {
        self.count_ns.unwrap_or(COUNT_NS)
    }

    /// The configuration, changed as the word says. Where samples or callers are wanted and it has
    /// no packets for them, they get as many as events.
    pub fn apply(&self, config: &Config) -> Config {
        let samples = self.starts(Mode::Sample) || self.stacks.is_some();
        let period = match (self.period_ns, config.sampling.period) {
            _ if self.samples_by_counter() => self.count.unwrap_or(COUNT).min(LONGEST_PERIOD),
            (None, 1..) => config.sampling.period,
            (ns, _) => {
                let ticks = u128::from(ns.unwrap_or(PERIOD_NS))
                    * u128::from(config.clock.frequency_hz)
                    / 1_000_000_000;
                // 63 bits: the sampler's words.
                u64::try_from(ticks).map_or(LONGEST_PERIOD, |ticks| ticks.clamp(1, LONGEST_PERIOD))
            }
        };
        Config {
            overflow: self.overflow.unwrap_or(config.overflow),
            consumer: self.consumer.unwrap_or(config.consumer),
            samples_packets: match config.samples_packets {
                0 if samples => config.packets,
                packets => packets,
            },
            sampling: Sampling {
                period,
                depth: self.depth.unwrap_or(config.sampling.depth),
                driver: self.driver.unwrap_or(config.sampling.driver),
            },
            ..*config
        }
    }

    /// The flags for [`Recorder::start`](crate::Recorder::start), changed as the word says.
    pub fn flags(&self, default: u32) -> u32 {
        match self.overflow {
            Some(Overflow::Overwrite) => default | flags::ROLLING,
            Some(Overflow::Discard) => default & !flags::ROLLING,
            None => default,
        }
    }

    /// The first name that fits no event of the vocabulary, or none that can do what is asked: a
    /// kernel refuses it rather than record less than was asked for.
    pub fn stray(&self, vocabulary: &Vocabulary) -> Option<&'a str> {
        self.stray_among(|pattern, kinds| {
            let mut events = vocabulary.events().iter();
            events.any(|event| kinds.contains(&event.channel) && name_fits(pattern, event.name))
        })
    }

    /// [`stray`](Self::stray) among other events: `has` says whether the pattern fits one of these
    /// channels.
    pub fn stray_among(&self, has: impl Fn(&str, &[ChannelKind]) -> bool) -> Option<&'a str> {
        // Names of things have no callers and carry no counts.
        let asked = [
            (self.events, &ChannelKind::ALL[..]),
            (self.stacks, &[ChannelKind::Events]),
            (self.counters_on, &[ChannelKind::Events]),
        ];
        asked
            .into_iter()
            .find_map(|(names, kinds)| names?.split(':').find(|pattern| !has(pattern, kinds)))
    }

    /// Whether an event of this name is to be on.
    pub fn records(&self, name: &str) -> bool {
        self.events
            .is_none_or(|names| names.split(':').any(|pattern| name_fits(pattern, name)))
    }
}

/// The names of a list. (As `split`, with which code that panics is linked.)
fn each(names: Option<&str>) -> impl Iterator<Item = &str> {
    let mut rest = names;
    core::iter::from_fn(move || {
        let (first, others) = split_first(rest.take()?, b':');
        rest = others;
        Some(first)
    })
}

/// What is before the first such byte, and what behind it, if there is one.
fn split_first(names: &str, at: u8) -> (&str, Option<&str>) {
    split_once(names, at).map_or((names, None), |(first, rest)| (first, Some(rest)))
}

/// The first group's names, and those of the others: no event has two plus signs in its name.
fn split_group(names: &str) -> (&str, Option<&str>) {
    let at = names.as_bytes().windows(2).position(|two| two == b"++");
    let first = at.and_then(|at| names.get(..at));
    let others = at.and_then(|at| names.get(at + 2..));
    (first.unwrap_or(names), others)
}

/// The group of these events; [`Refused::Empty`] if one of the names is of no event.
fn group_of(names: &str) -> Result<GroupSpec, Refused> {
    let event = |name| EventSpec::from_name(name).ok_or(Refused::Empty);
    let (leader, mut rest) = split_first(names, b'+');
    let mut group = GroupSpec::new(&[event(leader)?])?;
    while let Some(names) = rest {
        let name;
        (name, rest) = split_first(names, b'+');
        group.push(event(name)?)?;
    }
    Ok(group)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_found_and_later_parts_win() {
        assert_eq!(
            Options::parse("root=/dev/vda quiet"),
            Ok(Options::default())
        );
        assert_eq!(
            Options::parse("kymo=off x kymo=start,discard,reader=kernel,send"),
            {
                Ok(Options {
                    start: Some(true),
                    overflow: Some(Overflow::Discard),
                    consumer: Some(Consumer::Kernel),
                    send: true,
                    ..Options::default()
                })
            }
        );
        for (reader, consumer) in [("none", Consumer::None), ("host", Consumer::Host)] {
            assert_eq!(
                Options::parse(&format!("kymo=reader={reader}"))
                    .unwrap()
                    .consumer,
                Some(consumer)
            );
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (line, part) in [
            ("kymo=", ""),
            ("kymo=start,,rolling", ""),
            ("kymo=on", "on"),
            ("kymo=start=1", "start=1"),
            ("kymo=off=", "off="),
            ("kymo=reader=host=", "reader=host="),
            ("a kymo=start,reader=me b", "reader=me"),
            ("kymo=events=", "events="),
            ("kymo=events=a::b", "events=a::b"),
            ("kymo=stacks=", "stacks="),
            ("kymo=mode=", "mode="),
            ("kymo=mode=trace:all", "mode=trace:all"),
            ("kymo=period_ns=0", "period_ns=0"),
            ("kymo=period_ns=1ms", "period_ns=1ms"),
            ("kymo=depth=-1", "depth=-1"),
            ("kymo=counters=", "counters="),
            ("kymo=counters=cycles+", "counters=cycles+"),
            ("kymo=counters=cycles++", "counters=cycles++"),
            ("kymo=counters=++cycles", "counters=++cycles"),
            ("kymo=counters=cycles+++cs", "counters=cycles+++cs"),
            ("kymo=counters=cycles++cycels", "counters=cycles++cycels"),
            (
                "kymo=counters=cs++cs++cs++cs++cs",
                "counters=cs++cs++cs++cs++cs",
            ),
            ("kymo=counters=cycels", "counters=cycels"),
            ("kymo=counters_on=a::b", "counters_on=a::b"),
            ("kymo=count_ns=0", "count_ns=0"),
            ("kymo=count=0,driver=cycles", "count=0"),
            ("kymo=count=5", "count=5"),
            ("kymo=driver=cycles,count=5 kymo=driver=timer", "count=5"),
            ("kymo=period_ns=9,driver=instructions", "period_ns=9"),
            ("kymo=mode=sample,stacks=a", "stacks=a"),
            ("kymo=counters_on=a,mode=trace", "counters_on=a"),
            ("kymo=driver=", "driver="),
            ("kymo=driver=pmu", "driver=pmu"),
            ("kymo=speed=1", "speed=1"),
        ] {
            assert_eq!(Options::parse(line), Err(part), "{line}");
        }
    }

    #[test]
    fn only_the_named_events_are_on() {
        let options = Options::parse("kymo=events=irq_*:sched_switch").unwrap();
        let on = ["irq_handler_entry", "irq_", "sched_switch"];
        let off = ["sched_switch_", "sched", "irq", "syscall_enter"];
        assert!(on.iter().all(|name| options.records(name)));
        assert!(!off.iter().any(|name| options.records(name)));
        assert!(Options::default().records("anything"));
        let stray = |line| Options::parse(line).unwrap().stray(&crate::vocabulary::ALL);
        assert_eq!(
            (stray(""), stray("kymo=events=irq_*:sched_switch")),
            (None, None)
        );
        assert_eq!(
            stray("kymo=events=irq_*:sched_swich:nothing*"),
            Some("sched_swich")
        );
    }

    #[test]
    fn the_word_says_how_to_sample() {
        let base = Config {
            packets: 128,
            clock: crate::Clock::at(10_000_000),
            ..Config::DEFAULT
        };
        let apply = |line| {
            let options = Options::parse(line).unwrap();
            let Config {
                samples_packets,
                sampling,
                ..
            } = options.apply(&base);
            let modes = Mode::ALL.map(|mode| options.starts(mode));
            (
                modes,
                samples_packets,
                sampling.period,
                sampling.depth,
                sampling.driver,
            )
        };
        let timer = SamplingDriver::Timer;
        assert_eq!(apply(""), ([true, false, false], 0, 10_000, 127, timer));
        assert_eq!(
            apply("kymo=mode=sample,period_ns=100000,depth=8,driver=nmi"),
            ([false, true, false], 128, 1000, 8, SamplingDriver::Nmi)
        );
        assert_eq!(
            apply("kymo=mode=sample:trace,driver=ipi,period_ns=1"),
            ([true, true, false], 128, 1, 127, SamplingDriver::Ipi)
        );
        let instructions = SamplingDriver::Instructions;
        assert_eq!(
            apply("kymo=mode=sample,count=5000,driver=instructions"),
            ([false, true, false], 128, 5000, 127, instructions)
        );
        let unsaid = apply("kymo=mode=sample,driver=cycles");
        assert_eq!((unsaid.2, unsaid.4), (1_000_000, SamplingDriver::Cycles));
        assert_eq!(apply("kymo=stacks=sched_switch").1, 128);
        let longest = format!("kymo=mode=sample,period_ns={}", u64::MAX);
        let fast = Config {
            clock: crate::Clock::at(3_000_000_000),
            ..base
        };
        let options = Options::parse(&longest).unwrap();
        assert_eq!(options.apply(&fast).sampling.period, i64::MAX as u64);
        let own = Config {
            samples_packets: 4,
            sampling: Sampling {
                period: 77,
                ..base.sampling
            },
            ..base
        };
        let kept = Options::parse("kymo=mode=sample").unwrap().apply(&own);
        assert_eq!((kept.samples_packets, kept.sampling.period), (4, 77));
        let stray = |line| Options::parse(line).unwrap().stray(&crate::vocabulary::ALL);
        assert_eq!(
            stray("kymo=stacks=sched_*:lock_weight"),
            Some("lock_weight")
        );
        // There is such a name of things, and no such event.
        assert_eq!(stray("kymo=counters_on=sys_*:syscall_*"), Some("syscall_*"));
    }

    #[test]
    fn the_word_says_what_is_counted() {
        let groups = |line: &str| {
            let options = Options::parse(line).unwrap();
            let groups = options.groups().unwrap().map(|group| {
                let events = group.events().iter().map(EventSpec::to_string);
                events.collect::<Vec<_>>().join(" ")
            });
            groups.collect::<Vec<_>>()
        };
        assert_eq!(groups(""), ["cycles instructions"]);
        assert_eq!(
            groups("kymo=counters=cs+cycles:u"),
            ["context-switches cycles:u"]
        );
        assert_eq!(
            groups("kymo=counters=cs++cycles+mem:0x10/8:rw:k++r1c++cs"),
            [
                "context-switches",
                "cycles mem:0x10/8:rw:k",
                "r1c",
                "context-switches"
            ]
        );
        let events = ["cs"; 17].join("+");
        let line = format!("kymo=counters=cs++{events}");
        assert_eq!(Options::parse(&line), Err(&line[5..]));
    }

    #[test]
    fn rolling_and_discarding_become_flags() {
        let flags = |line| Options::parse(line).unwrap().flags(flags::ROLLING);
        assert_eq!(
            (flags(""), flags("kymo=discard"), flags("kymo=rolling")),
            (1, 0, 1)
        );
        assert_eq!(Options::parse("kymo=rolling").unwrap().flags(0), 1);
    }
}
