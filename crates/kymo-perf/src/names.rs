//! Events by name, tracepoints and those of PMUs included, and lists of groups.

use kymo::count::{EventKind, EventSpec, Exclude, GroupSpec};

use crate::error::Error;
use crate::pmu::{PmuEvent, Pmus};
use crate::target::Target;
use crate::tracepoints::Tracepoints;

/// An event, and what the user calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedEvent {
    /// The event. Of a PMU that sysfs describes, its kind is [`EventKind::Raw`].
    pub event: EventSpec,
    /// Its name. A tracepoint's is not that of its number.
    pub name: String,
    /// The PMUs that count it, whose counts are added up; none if the event's kind says it.
    pub pmus: Vec<PmuEvent>,
}

impl From<EventSpec> for NamedEvent {
    fn from(event: EventSpec) -> NamedEvent {
        NamedEvent {
            event,
            name: event.to_string(),
            pmus: Vec::new(),
        }
    }
}

/// A group, and what the user calls its events.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedGroup {
    /// The events.
    pub spec: GroupSpec,
    /// Their names, in the same order.
    pub names: Vec<String>,
    /// The PMUs that count each of them.
    pmus: Vec<Vec<PmuEvent>>,
}

impl From<GroupSpec> for NamedGroup {
    fn from(spec: GroupSpec) -> NamedGroup {
        let events = spec.events();
        NamedGroup {
            spec,
            names: events.iter().map(EventSpec::to_string).collect(),
            pmus: events.iter().map(|_| Vec::new()).collect(),
        }
    }
}

impl NamedGroup {
    /// A group of these events.
    ///
    /// # Errors
    /// Those of [`GroupSpec::new`], and [`Error::BadPmuEvent`] if several PMUs count one of the
    /// events, and not all of the others.
    pub fn new(events: Vec<NamedEvent>) -> Result<NamedGroup, Error> {
        let specs: Vec<EventSpec> = events.iter().map(|event| event.event).collect();
        let copies = |event: &NamedEvent| event.pmus.len().max(1);
        if let Some(many) = events.iter().find(|event| copies(event) > 1)
            && events.iter().any(|event| copies(event) != copies(many))
        {
            return Err(Error::BadPmuEvent {
                name: many.name.clone(),
                what: format!(
                    "{} PMUs count it, and not the other events of its group; count it alone",
                    copies(many)
                ),
            });
        }
        Ok(NamedGroup {
            spec: GroupSpec::new(&specs)?,
            names: events.iter().map(|event| event.name.clone()).collect(),
            pmus: events.into_iter().map(|event| event.pmus).collect(),
        })
    }

    /// How many groups have to be open for each target: one for each PMU of the kind.
    pub fn copies(&self) -> usize {
        let copies = self.pmus.iter().map(|pmus| pmus.len().max(1));
        copies.max().unwrap_or(1)
    }

    /// The PMU that counts an event of a copy; `None` if the event's kind says it.
    pub fn pmu(&self, event: usize, copy: usize) -> Option<&PmuEvent> {
        self.pmus.get(event)?.get(copy)
    }

    /// Whether all events of a copy can be counted for a target.
    ///
    /// # Errors
    /// [`Error::OnlyForCpus`] if the target is a thread, and several CPUs share a PMU.
    pub fn covers(&self, copy: usize, target: Target) -> Result<bool, Error> {
        let (_, cpu) = target.numbers();
        for (event, name) in self.names.iter().enumerate() {
            let Some(pmu) = self.pmu(event, copy) else {
                continue;
            };
            if pmu.is_shared && !target.is_cpu() {
                return Err(Error::OnlyForCpus { name: name.clone() });
            }
            let is_there = |cpus: &Vec<u32>| cpus.iter().any(|of| i64::from(*of) == i64::from(cpu));
            if cpu >= 0 && !pmu.cpus.as_ref().is_none_or(is_there) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The names of events: those that are known everywhere, the kernel's tracepoints, and those of its
/// PMUs.
#[derive(Clone, Debug, Default)]
pub struct EventNames {
    /// Tracepoints.
    pub tracepoints: Tracepoints,
    /// PMUs.
    pub pmus: Pmus,
}

impl EventNames {
    /// The event with a name that [`EventSpec::from_name`] knows, with that of a tracepoint, such
    /// as `sched:sched_switch`, behind which `:u` or `:k` may stand too, or with that of an event of
    /// a PMU, such as `cpu/event=0x3c/u` ([`Pmus::event`]).
    ///
    /// # Errors
    /// [`Error::UnknownEvent`], [`Error::UnknownModifier`], those of
    /// [`number`](Tracepoints::number) and of [`Pmus::event`].
    pub fn event(&self, name: &str) -> Result<NamedEvent, Error> {
        if let Some(event) = EventSpec::from_name(name) {
            return Ok(NamedEvent {
                name: name.to_owned(),
                ..event.into()
            });
        }
        if is_of_pmu(name) {
            return self.pmus.event(name);
        }
        let colons = name.match_indices(':').map(|(at, _)| name.split_at(at));
        let mut kinds =
            colons.filter_map(|(event, modes)| Some((EventKind::from_name(event)?, modes)));
        let (event, modes) = match (kinds.next_back(), name.rsplit_once(':')) {
            (Some((event, modes)), _) => (event, modes.trim_start_matches(':')),
            (None, Some((event, modes))) if event.contains(':') => (self.tracepoint(event)?, modes),
            (None, Some(_)) => (self.tracepoint(name)?, ""),
            (None, None) => {
                return Err(Error::UnknownEvent {
                    name: name.to_owned(),
                });
            }
        };
        let exclude = exclude(name, modes)?;
        Ok(NamedEvent {
            name: name.to_owned(),
            ..EventSpec {
                exclude,
                ..EventSpec::of(event)
            }
            .into()
        })
    }

    fn tracepoint(&self, name: &str) -> Result<EventKind, Error> {
        self.tracepoints.number(name).map(EventKind::Tracepoint)
    }

    /// The groups of a list: events between braces are one group, every other event is a group of
    /// its own. `{cycles,instructions},page-faults` is two groups.
    ///
    /// # Errors
    /// [`Error::BadList`], those of [`event`](Self::event) and of [`GroupSpec::new`].
    pub fn groups(&self, list: &str) -> Result<Vec<NamedGroup>, Error> {
        let split = split_groups(list).map_err(|what| Error::BadList {
            list: list.to_owned(),
            what,
        })?;
        let groups = split.into_iter().map(|names| {
            let events = names.into_iter().map(|name| self.event(name));
            NamedGroup::new(events.collect::<Result<_, _>>()?)
        });
        groups.collect()
    }
}

/// The names of the events of each group of a list: those between braces are one group, every other
/// name is a group of its own. A name may be of no event.
///
/// # Errors
/// What is wrong with the braces, or that a name is missing.
pub fn split_groups(list: &str) -> Result<Vec<Vec<&str>>, &'static str> {
    let mut groups = Vec::new();
    let mut rest = list.trim_start();
    loop {
        let (group, after) = match rest.strip_prefix('{') {
            Some(inside) => inside.split_once('}').ok_or("a brace is not closed")?,
            None => rest.split_at(comma(rest).unwrap_or(rest.len())),
        };
        match group.find('{') {
            Some(_) if rest.starts_with('{') => return Err("a group cannot be inside another"),
            Some(_) => return Err("before an opening brace stands a comma, or nothing"),
            None => {}
        }
        if group.contains('}') {
            return Err("a brace closes what none opened");
        }
        let mut names = Vec::new();
        let mut left = Some(group);
        while let Some(list) = left {
            let end = comma(list);
            let (name, after) = list.split_at(end.unwrap_or(list.len()));
            match name.trim() {
                "" => return Err("a name is missing"),
                name => names.push(name),
            }
            left = end.and_then(|_| after.strip_prefix(','));
        }
        groups.push(names);
        rest = match after.trim_start().strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.trim().is_empty() => return Ok(groups),
            None => return Err("behind a closing brace stands a comma, or nothing"),
        };
    }
}

/// Whether a name is that of an event of a PMU: a slash that is not an address' length stands in
/// it.
fn is_of_pmu(name: &str) -> bool {
    let pmu = name.split_once('/').map(|(pmu, _)| pmu);
    pmu.is_some_and(|pmu| !pmu.contains(':'))
}

/// Where the first comma is between two names. A comma between two slashes is between two
/// parameters of one event.
fn comma(list: &str) -> Option<usize> {
    let mut is_inside = false;
    for (at, letter) in list.char_indices() {
        match letter {
            '/' if is_inside => is_inside = false,
            '/' => is_inside = is_of_pmu(list.get(..=at).unwrap_or_default()),
            ',' if !is_inside => return Some(at),
            _ => {}
        }
    }
    None
}

/// What the letters behind an event's name leave out: `u` counts what happens in programs, `k` what
/// happens in the kernel.
///
/// # Errors
/// [`Error::UnknownModifier`].
pub(crate) fn exclude(name: &str, modes: &str) -> Result<Exclude, Error> {
    let mut counted = Exclude::NOTHING;
    for modifier in modes.chars() {
        match modifier {
            'u' => counted.user = true,
            'k' => counted.kernel = true,
            _ => {
                return Err(Error::UnknownModifier {
                    name: name.to_owned(),
                    modifier,
                });
            }
        }
    }
    Ok(match counted.is_something() {
        true => Exclude {
            kernel: !counted.kernel,
            user: !counted.user,
        },
        false => Exclude::NOTHING,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// A folder as tracefs has, which is removed at the end.
    struct Fake(PathBuf);

    impl Fake {
        fn new(test: &str) -> (Fake, EventNames) {
            let path = std::env::temp_dir().join(format!("kymo-{test}-{}", std::process::id()));
            for (name, number) in [("sched/sched_switch", 316), ("irq/irq_handler_entry", 77)] {
                let folder = path.join("events").join(name);
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(folder.join("id"), format!("{number}\n")).expect("a file");
            }
            let device = path.join("devices/cpu");
            fs::create_dir_all(device.join("format")).expect("a folder");
            for (file, text) in [
                ("type", "4"),
                ("format/event", "config:0-7"),
                ("format/umask", "config:8-15"),
            ] {
                fs::write(device.join(file), text).expect("a file");
            }
            let names = EventNames {
                tracepoints: Tracepoints::of(&path),
                pmus: Pmus::of(&path.join("devices")),
            };
            (Fake(path), names)
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// K-02: a tracepoint has a name besides its number.
    #[test]
    fn a_tracepoint_is_found_by_its_name() {
        let (_folder, events) = Fake::new("names");
        for (name, spec) in [
            ("sched:sched_switch", "tracepoint:316"),
            ("sched:sched_switch:u", "tracepoint:316:u"),
            ("irq:irq_handler_entry:k", "tracepoint:77:k"),
            ("tracepoint:5", "tracepoint:5"),
            ("cycles:u", "cycles:u"),
        ] {
            let event = events.event(name).expect(name);
            assert_eq!(event.event.to_string(), spec);
            assert_eq!(event.name, name);
        }
        let names = events.tracepoints.names();
        assert_eq!(names, ["irq:irq_handler_entry", "sched:sched_switch"]);
        for (name, words) in [
            ("sched:nothing", "no tracepoint \"sched:nothing\""),
            ("..:y", "no tracepoint"),
            ("cycle", "no event is called \"cycle\""),
        ] {
            let error = events.event(name).expect_err(name).to_string();
            assert!(error.contains(words), "{error}");
        }
        let nowhere = EventNames {
            tracepoints: Tracepoints::of(Path::new("/nowhere")),
            ..events.clone()
        };
        let error = nowhere.event("sched:sched_switch").expect_err("no folder");
        assert!(error.to_string().contains("/nowhere/events"), "{error}");
    }

    /// Each modifier of `perf` that samples, or chooses a machine, is refused by its name.
    #[test]
    fn a_modifier_that_counting_does_not_have_is_named() {
        let (_folder, events) = Fake::new("modifiers");
        for (name, words) in [
            ("cycles:pp", "the modifier p (precise addresses of samples)"),
            ("cycles:uP", "the modifier P ("),
            ("cycles:G", "the modifier G (only virtual machines)"),
            ("cycles:H", "the modifier H ("),
            ("cycles:h", "the modifier h ("),
            ("r1c2:I", "the modifier I ("),
            ("mem:0x1000:rw:S", "the modifier S ("),
            ("tracepoint:7:D", "the modifier D ("),
            ("sched:sched_switch:W", "the modifier W ("),
            ("cpu/event=1/e", "the modifier e ("),
            ("cycles:q", "\"cycles:q\" has the modifier q, which is none"),
            ("cycles:u:k", "has the modifier :, which is none"),
        ] {
            let error = events.event(name).expect_err(name);
            let sentence = error.to_string();
            assert!(sentence.contains(words), "{name}: {sentence}");
            assert!(sentence.contains(name), "{name}: {sentence}");
        }
        for (name, spec) in [
            ("cycles:uk", "cycles"),
            ("sched:sched_switch:ku", "tracepoint:316"),
            ("cpu/event=1/k", "r1:k"),
        ] {
            let event = events.event(name).expect(name);
            assert_eq!(event.event.to_string(), spec);
        }
    }

    /// Several PMUs of one kind count as one event, if it is alone.
    #[test]
    fn a_group_is_of_events_that_as_many_pmus_count() {
        let (_folder, events) = Fake::new("copies");
        let mut wide = events.event("cpu/event=1/").expect("an event");
        wide.pmus = [7, 8]
            .map(|number| PmuEvent {
                number,
                ..wide.pmus[0].clone()
            })
            .to_vec();
        let alone = NamedGroup::new(vec![wide.clone(), wide.clone()]).expect("a group");
        assert_eq!(alone.copies(), 2);
        let numbers = [0, 1, 2].map(|copy| alone.pmu(1, copy).map(|pmu| pmu.number));
        assert_eq!(numbers, [Some(7), Some(8), None]);
        let cycles = events.event("cycles").expect("an event");
        let error = NamedGroup::new(vec![cycles.clone(), wide]).expect_err("no group");
        assert!(error.to_string().contains("2 PMUs count it"), "{error}");
        assert_eq!(NamedGroup::new(vec![cycles]).expect("a group").copies(), 1);
    }

    /// K-14: what CPUs share is counted for CPUs, and only on those that count it.
    #[test]
    fn a_group_covers_the_cpus_of_its_pmus() {
        let (_folder, events) = Fake::new("covers");
        let mut event = events.event("cpu/event=1/").expect("an event");
        event.pmus[0].cpus = Some(vec![1, 3]);
        let targets = [
            Target::Cpu(1),
            Target::Cpu(2),
            Target::Process(9),
            Target::ProcessOnCpu(9, 2),
        ];
        for (is_shared, covered) in [
            (false, [Some(true), Some(false), Some(true), Some(false)]),
            (true, [Some(true), Some(false), None, None]),
        ] {
            event.pmus[0].is_shared = is_shared;
            let group = NamedGroup::new(vec![event.clone()]).expect("a group");
            let found = targets.map(|target| group.covers(0, target).ok());
            assert_eq!(found, covered);
        }
    }

    #[test]
    fn braces_make_groups() {
        let (_folder, events) = Fake::new("braces");
        for (list, groups) in [
            ("cycles", &["cycles"][..]),
            ("cycles,instructions", &["cycles", "instructions"]),
            ("{cycles,instructions}", &["cycles+instructions"]),
            (
                " { cycles, instructions } , page-faults,{cs}",
                &["cycles+instructions", "page-faults", "cs"],
            ),
            (
                "{cycles:u,sched:sched_switch}",
                &["cycles:u+sched:sched_switch"],
            ),
            (
                "cpu/event=1,umask=2/,{cpu/event=3,umask=4/u,cs},mem:0x10/8:w,cs",
                &[
                    "cpu/event=1,umask=2/",
                    "cpu/event=3,umask=4/u+cs",
                    "mem:0x10/8:w",
                    "cs",
                ],
            ),
        ] {
            let found = events.groups(list.trim()).expect(list);
            let names: Vec<String> = found.iter().map(|group| group.names.join("+")).collect();
            assert_eq!(names, groups, "{list}");
        }
        for (list, words) in [
            ("a{b}", "before an opening brace"),
            ("", "a name is missing"),
            ("cycles,", "a name is missing"),
            ("{}", "a name is missing"),
            ("{cycles", "not closed"),
            ("cycles}", "none opened"),
            ("{cycles,{cs}}", "inside another"),
            ("{cycles}cs", "a comma, or nothing"),
        ] {
            let error = events.groups(list).expect_err(list).to_string();
            assert!(error.contains(words), "{list}: {error}");
        }
    }
}
