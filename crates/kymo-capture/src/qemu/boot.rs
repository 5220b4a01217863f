//! Recording options in the kernel's command line.

use kymo::boot::Options;
use kymo::vocabulary::SamplingDriver;
use kymo::{Mode, Overflow};

/// Why the options cannot be added to the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BootError {
    /// The user's own command has no -append option.
    #[error(
        "The command after `--` has no -append, which would pass the recording options to the \
         kernel; add one (-append \"\" is enough), or leave --rolling, --events and --via out."
    )]
    NoAppend,
    /// The command line is not UTF-8.
    #[error("The kernel's command line is not UTF-8, so nothing can be added to it.")]
    NotText,
    /// The user's own word `kymo=` contradicts the options, or is not valid.
    #[error(
        "The kernel's command line has \"{word}\" in its word kymo=, which {contradicts}: leave \
         one of them out."
    )]
    Contradicts {
        /// What it has.
        word: String,
        /// The contradiction.
        contradicts: &'static str,
    },
    /// A name that is not a valid event name.
    #[error(
        "\"{name}\" is not a valid event name; give names such as sched_switch or irq_*, separated \
         by commas."
    )]
    Name {
        /// The name.
        name: String,
    },
}

/// Recording options for the kernel; see [`kymo::boot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// Whether a full ring overwrites its oldest packet.
    pub rolling: bool,
    /// Names of the events to record; a name may end with `*`. If empty, the kernel decides.
    pub events: Vec<String>,
    /// Whether a program in the guest reads and sends the trace.
    pub send: bool,
    /// The modes to start. If empty, the kernel decides.
    pub modes: Vec<Mode>,
    /// Nanoseconds between two samples of a CPU; `None` leaves it to the kernel.
    pub period_ns: Option<u64>,
    /// Events of the driver's counter between two samples of a CPU; `None` leaves it to the kernel.
    pub count: Option<u64>,
    /// Most callers of a sample; `None` leaves it to the kernel.
    pub depth: Option<u32>,
    /// What makes the samples; `None` leaves it to the kernel.
    pub driver: Option<SamplingDriver>,
    /// Names of the events that record who called their tracepoints; a name may end with `*`.
    pub stacks: Vec<String>,
    /// The groups that every CPU counts: names of events that counters count.
    pub counters: Vec<Vec<String>>,
    /// Nanoseconds until the counts are recorded again; `None` leaves it to the kernel.
    pub count_ns: Option<u64>,
    /// Names of the events that record the counts, too; a name may end with `*`.
    pub counters_on: Vec<String>,
}

impl Boot {
    /// Parses a comma-separated list of names.
    ///
    /// # Errors
    /// [`BootError::Name`].
    pub fn names(list: &str) -> Result<Vec<String>, BootError> {
        let good = |name: &str| {
            let stem = name.strip_suffix('*').unwrap_or(name);
            !name.is_empty()
                && stem
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        };
        let name = |name: &str| {
            let name = name.trim();
            if good(name) {
                Ok(name.to_owned())
            } else {
                Err(BootError::Name {
                    name: name.to_owned(),
                })
            }
        };
        list.split(',').map(name).collect()
    }

    /// Whether an event of this name was asked for.
    pub fn records(&self, name: &str) -> bool {
        self.events.is_empty() || Boot::fits(&self.events, name)
    }

    /// Whether one of these names, which may end with `*`, is the event's.
    pub fn fits(names: &[String], name: &str) -> bool {
        names.iter().any(|pattern| {
            pattern
                .strip_suffix('*')
                .map_or(pattern == name, |stem| name.starts_with(stem))
        })
    }

    pub(super) fn says_nothing(&self) -> bool {
        *self == Boot::default()
    }

    /// Adds the options to the kernel's command line `line`: to its last word `kymo=`, if it has
    /// one.
    pub(super) fn join(&self, line: &str) -> Result<String, BootError> {
        let contradicts = |word: &str, contradicts| BootError::Contradicts {
            word: word.to_owned(),
            contradicts,
        };
        let given = Options::parse(line).map_err(|word| {
            contradicts(word, "no kernel with Kymo accepts beside these options")
        })?;
        if self.rolling && given.overflow == Some(Overflow::Discard) {
            return Err(contradicts("discard", "contradicts --rolling"));
        }
        if let (false, Some(names)) = (self.events.is_empty(), given.events) {
            return Err(contradicts(
                &format!("events={names}"),
                "contradicts --events",
            ));
        }
        let (modes, period_ns) = (self.modes.iter(), self.period_ns);
        let said = [
            ("mode", given.modes.is_some(), !self.modes.is_empty()),
            ("period_ns", given.period_ns.is_some(), period_ns.is_some()),
            ("count", given.count.is_some(), self.count.is_some()),
            ("depth", given.depth.is_some(), self.depth.is_some()),
            ("driver", given.driver.is_some(), self.driver.is_some()),
            ("stacks", given.stacks.is_some(), !self.stacks.is_empty()),
            (
                "counters",
                given.counters.is_some(),
                !self.counters.is_empty(),
            ),
            (
                "count_ns",
                given.count_ns.is_some(),
                self.count_ns.is_some(),
            ),
            (
                "counters_on",
                given.counters_on.is_some(),
                !self.counters_on.is_empty(),
            ),
        ];
        if let Some((key, ..)) = said.iter().find(|(_, given, asked)| *given && *asked) {
            return Err(contradicts(key, "the options of `kymo record` say too"));
        }
        let mut parts = Vec::new();
        // The options imply `start`, unless the user's word says when the session starts.
        if given.start.is_none() && !given.send && !self.send {
            parts.push("start".to_owned());
        }
        if self.send && !given.send {
            parts.push("send".to_owned());
        }
        if self.rolling && given.overflow.is_none() {
            parts.push("rolling".to_owned());
        }
        if !self.events.is_empty() {
            parts.push(format!("events={}", self.events.join(":")));
        }
        if !self.modes.is_empty() {
            let modes: Vec<_> = modes.map(|mode| mode.name()).collect();
            parts.push(format!("mode={}", modes.join(":")));
        }
        parts.extend(period_ns.map(|ns| format!("period_ns={ns}")));
        parts.extend(self.count.map(|count| format!("count={count}")));
        parts.extend(self.depth.map(|depth| format!("depth={depth}")));
        parts.extend(self.driver.and_then(driver_word));
        if !self.stacks.is_empty() {
            parts.push(format!("stacks={}", self.stacks.join(":")));
        }
        if !self.counters.is_empty() {
            let groups: Vec<_> = self.counters.iter().map(|names| names.join("+")).collect();
            parts.push(format!("counters={}", groups.join("++")));
        }
        parts.extend(self.count_ns.map(|ns| format!("count_ns={ns}")));
        if !self.counters_on.is_empty() {
            parts.push(format!("counters_on={}", self.counters_on.join(":")));
        }
        let added = parts.join(",");
        if added.is_empty() {
            return Ok(line.to_owned());
        }
        let word = line
            .match_indices("kymo=")
            .map(|(at, _)| at)
            .filter(|&at| at == 0 || line[..at].ends_with([' ', '\t']))
            .last();
        Ok(match word {
            Some(at) => {
                let end = line[at..]
                    .find([' ', '\t'])
                    .map_or(line.len(), |len| at + len);
                format!("{},{added}{}", &line[..end], &line[end..])
            }
            None if line.trim().is_empty() => format!("kymo={added}"),
            None => format!("{line} kymo={added}"),
        })
    }
}

/// How the word names a driver; `None` for one that no kernel has.
fn driver_word(driver: SamplingDriver) -> Option<String> {
    let name = match driver {
        SamplingDriver::Timer => "timer",
        SamplingDriver::Nmi => "nmi",
        SamplingDriver::Ipi => "ipi",
        SamplingDriver::Cycles => "cycles",
        SamplingDriver::Instructions => "instructions",
        SamplingDriver::ThreadTime => return None,
    };
    Some(format!("driver={name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(rolling: bool, events: &[&str], send: bool) -> Boot {
        Boot {
            rolling,
            events: events.iter().map(|&name| name.to_owned()).collect(),
            send,
            ..Boot::default()
        }
    }

    #[test]
    fn the_word_says_how_to_sample() {
        let boot = Boot {
            modes: vec![Mode::Trace, Mode::Sample],
            period_ns: Some(100_000),
            depth: Some(8),
            driver: Some(SamplingDriver::Ipi),
            stacks: vec!["sched_*".to_owned(), "lock_wait".to_owned()],
            ..Boot::default()
        };
        let word = "kymo=start,mode=trace:sample,period_ns=100000,depth=8,driver=ipi,\
                    stacks=sched_*:lock_wait";
        let joined = boot.join("").unwrap();
        assert_eq!(joined, word);
        let options = Options::parse(&joined).unwrap();
        assert!(options.starts(Mode::Trace) && options.starts(Mode::Sample));
        assert_eq!(options.driver, boot.driver);
        for word in [
            "mode=sample",
            "period_ns=1",
            "depth=1",
            "driver=nmi",
            "stacks=a",
        ] {
            let error = boot.join(&format!("kymo={word}")).unwrap_err();
            let key = word.split('=').next().unwrap();
            assert!(
                matches!(&error, BootError::Contradicts { word, .. } if word == key),
                "{error}"
            );
        }
    }

    #[test]
    fn the_word_says_what_is_counted() {
        for (groups, word) in [
            (&[&["cycles:u"][..]][..], "kymo=start,counters=cycles:u"),
            (
                &[&["cs"], &["cycles", "instructions"]],
                "kymo=start,counters=cs++cycles+instructions",
            ),
        ] {
            let names = |group: &&[&str]| group.iter().map(|&name| name.to_owned()).collect();
            let boot = Boot {
                counters: groups.iter().map(names).collect(),
                ..Boot::default()
            };
            let joined = boot.join("").unwrap();
            assert_eq!(joined, word);
            let read = Options::parse(&joined).unwrap().groups().unwrap();
            let lens: Vec<_> = read.map(|group| group.events().len()).collect();
            assert_eq!(
                lens,
                groups.iter().map(|group| group.len()).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn the_word_is_made_or_joined() {
        for (boot, line, expected) in [
            (boot(true, &[], false), "", "kymo=start,rolling"),
            (
                boot(true, &["irq_*", "a"], false),
                "quiet",
                "quiet kymo=start,rolling,events=irq_*:a",
            ),
            (
                boot(false, &["a"], true),
                "x kymo=off y",
                "x kymo=off,send,events=a y",
            ),
            (boot(true, &[], false), "kymo=start", "kymo=start,rolling"),
            (
                boot(true, &[], true),
                "kymo=start,rolling,send",
                "kymo=start,rolling,send",
            ),
            (
                boot(false, &[], true),
                "a=kymo=x kymo=discard kymo=off\tz",
                "a=kymo=x kymo=discard kymo=off,send\tz",
            ),
            (boot(false, &[], true), "xkymo=1", "xkymo=1 kymo=send"),
        ] {
            let joined = boot.join(line).unwrap();
            assert_eq!(joined, expected);
            let options = Options::parse(&joined).unwrap();
            assert_eq!(
                (options.send, options.overflow == Some(Overflow::Overwrite)),
                (boot.send, boot.rolling),
                "{joined}"
            );
        }
    }

    #[test]
    fn what_contradicts_is_refused_by_name() {
        for (boot, line, word) in [
            (boot(true, &[], false), "kymo=discard", "discard"),
            (boot(false, &["a"], false), "kymo=events=b:c", "events=b:c"),
            (boot(false, &[], true), "kymo=stopped", "stopped"),
        ] {
            let error = boot.join(line).unwrap_err();
            assert!(
                matches!(&error, BootError::Contradicts { word: found, .. } if found == word),
                "{error}"
            );
        }
    }

    #[test]
    fn names_are_names() {
        assert_eq!(
            Boot::names("sched_switch,irq_*, *"),
            Ok(["sched_switch", "irq_*", "*"].map(String::from).to_vec())
        );
        for list in ["", "a,", "a b", "a:b", "a*b", "*a", "a=b", "\u{e4}"] {
            assert!(Boot::names(list).is_err(), "{list}");
        }
        let boot = boot(false, &["sched_*", "mark"], false);
        assert!(boot.records("sched_switch") && boot.records("mark") && !boot.records("marker"));
        assert!(Boot::default().records("anything"));
    }
}
