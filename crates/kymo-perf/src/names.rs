//! Events by name, tracepoints included, and lists of groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kymo::count::{EventKind, EventSpec, GroupSpec};

use crate::error::Error;

/// An event, and what the user calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEvent {
    /// The event.
    pub event: EventSpec,
    /// Its name. A tracepoint's is not that of its number.
    pub name: String,
}

/// A group, and what the user calls its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedGroup {
    /// The events.
    pub spec: GroupSpec,
    /// Their names, in the same order.
    pub names: Vec<String>,
}

impl NamedGroup {
    /// A group of these events.
    ///
    /// # Errors
    /// Those of [`GroupSpec::new`].
    pub fn new(events: Vec<NamedEvent>) -> Result<NamedGroup, Error> {
        let specs: Vec<EventSpec> = events.iter().map(|event| event.event).collect();
        Ok(NamedGroup {
            spec: GroupSpec::new(&specs)?,
            names: events.into_iter().map(|event| event.name).collect(),
        })
    }
}

/// The folder in which the kernel describes its tracepoints.
#[derive(Clone, Debug)]
pub struct Tracepoints {
    events: PathBuf,
}

impl Default for Tracepoints {
    fn default() -> Tracepoints {
        // The second is where kernels before 4.1 have it.
        let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let place = places
            .iter()
            .find(|place| Path::new(place).join("events").exists());
        Tracepoints {
            events: Path::new(place.unwrap_or(&places[0])).join("events"),
        }
    }
}

impl Tracepoints {
    /// The tracepoints of a folder that has a folder `events`, as tracefs has.
    pub fn of(tracefs: &Path) -> Tracepoints {
        Tracepoints {
            events: tracefs.join("events"),
        }
    }

    /// The number of `system:name`.
    ///
    /// # Errors
    /// [`Error::UnknownTracepoint`], [`Error::NoTracefs`].
    pub fn number(&self, name: &str) -> Result<u64, Error> {
        let unknown = || Error::UnknownTracepoint {
            name: name.to_owned(),
        };
        let (system, event) = name.split_once(':').ok_or_else(unknown)?;
        let is_word = |part: &str| {
            let mut letters = part.bytes();
            !part.is_empty()
                && letters.all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        if !is_word(system) || !is_word(event) {
            return Err(unknown());
        }
        let path = self.events.join(system).join(event).join("id");
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| unknown()),
            // Where the folder is there, so would be the tracepoint.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && self.events.join("sched").exists() =>
            {
                Err(unknown())
            }
            Err(source) => Err(Error::NoTracefs {
                name: name.to_owned(),
                path,
                source,
            }),
        }
    }

    /// The names of all tracepoints, sorted; none where the folder cannot be read.
    pub fn names(&self) -> Vec<String> {
        let folders = |path: &Path| -> Vec<String> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.path().is_dir());
            folders
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect()
        };
        let mut names = Vec::new();
        for system in folders(&self.events) {
            // Ftrace's own records are no tracepoints: nothing can count them.
            if system == "ftrace" {
                continue;
            }
            let events = folders(&self.events.join(&system));
            names.extend(events.into_iter().map(|event| format!("{system}:{event}")));
        }
        names.sort_unstable();
        names
    }

    /// The event with a name that [`EventSpec::from_name`] knows, or with that of a tracepoint,
    /// such as `sched:sched_switch`, behind which `:u` or `:k` may stand too.
    ///
    /// # Errors
    /// [`Error::UnknownEvent`], [`Error::UnknownModifier`], and those of
    /// [`number`](Tracepoints::number).
    pub fn event(&self, name: &str) -> Result<NamedEvent, Error> {
        let named = |event| NamedEvent {
            event,
            name: name.to_owned(),
        };
        if let Some(event) = EventSpec::from_name(name) {
            return Ok(named(event));
        }
        let (tracepoint, modes) = match name.rsplit_once(':') {
            Some((tracepoint, "u" | "k")) if tracepoint.contains(':') => {
                (tracepoint, name.get(tracepoint.len()..).unwrap_or_default())
            }
            // `cycles:pp` is no tracepoint.
            Some((event, _)) if EventSpec::from_name(event).is_some() => {
                return Err(Error::UnknownModifier {
                    name: name.to_owned(),
                });
            }
            Some(_) => (name, ""),
            None => {
                return Err(Error::UnknownEvent {
                    name: name.to_owned(),
                });
            }
        };
        let number = self.number(tracepoint)?;
        let modes = EventSpec::from_name(&format!("tracepoint:{number}{modes}"));
        let plain = EventSpec::of(EventKind::Tracepoint(number));
        Ok(named(modes.unwrap_or(plain)))
    }

    /// The groups of a list: events between braces are one group, every other event is a group of
    /// its own. `{cycles,instructions},page-faults` is two groups.
    ///
    /// # Errors
    /// [`Error::BadList`], those of [`event`](Tracepoints::event) and of [`GroupSpec::new`].
    pub fn groups(&self, list: &str) -> Result<Vec<NamedGroup>, Error> {
        let bad = |what| Error::BadList {
            list: list.to_owned(),
            what,
        };
        let mut groups = Vec::new();
        let mut rest = list;
        loop {
            let (events, after) = match rest.strip_prefix('{') {
                Some(inside) => inside
                    .split_once('}')
                    .ok_or_else(|| bad("a brace is not closed"))?,
                None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
            };
            if events.contains('{') {
                return Err(bad("a group cannot be inside another"));
            }
            if events.contains('}') {
                return Err(bad("a brace closes what none opened"));
            }
            let mut named = Vec::new();
            for name in events.split(',') {
                match name.trim() {
                    "" => return Err(bad("a name is missing")),
                    name => named.push(self.event(name)?),
                }
            }
            groups.push(NamedGroup::new(named)?);
            rest = match after.trim_start().strip_prefix(',') {
                Some(next) => next.trim_start(),
                None if after.trim().is_empty() => return Ok(groups),
                None => return Err(bad("behind a closing brace stands a comma, or nothing")),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as tracefs has, which is removed at the end.
    struct Fake(PathBuf);

    impl Fake {
        fn new(test: &str) -> (Fake, Tracepoints) {
            let path = std::env::temp_dir().join(format!("kymo-{test}-{}", std::process::id()));
            for (name, number) in [("sched/sched_switch", 316), ("irq/irq_handler_entry", 77)] {
                let folder = path.join("events").join(name);
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(folder.join("id"), format!("{number}\n")).expect("a file");
            }
            let tracepoints = Tracepoints::of(&path);
            (Fake(path), tracepoints)
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
        let (_folder, tracepoints) = Fake::new("names");
        for (name, spec) in [
            ("sched:sched_switch", "tracepoint:316"),
            ("sched:sched_switch:u", "tracepoint:316:u"),
            ("irq:irq_handler_entry:k", "tracepoint:77:k"),
            ("tracepoint:5", "tracepoint:5"),
            ("cycles:u", "cycles:u"),
        ] {
            let event = tracepoints.event(name).expect(name);
            assert_eq!(event.event.to_string(), spec);
            assert_eq!(event.name, name);
        }
        let names = tracepoints.names();
        assert_eq!(names, ["irq:irq_handler_entry", "sched:sched_switch"]);
        for (name, words) in [
            ("sched:nothing", "no tracepoint \"sched:nothing\""),
            ("../x:y", "no tracepoint"),
            ("cycle", "no event is called \"cycle\""),
            ("cycles:pp", "has a modifier that counting does not have"),
        ] {
            let error = tracepoints.event(name).expect_err(name).to_string();
            assert!(error.contains(words), "{error}");
        }
        let nowhere = Tracepoints::of(Path::new("/nowhere"));
        let error = nowhere.event("sched:sched_switch").expect_err("no folder");
        assert!(error.to_string().contains("/nowhere/events"), "{error}");
    }

    #[test]
    fn braces_make_groups() {
        let (_folder, tracepoints) = Fake::new("braces");
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
        ] {
            let found = tracepoints.groups(list.trim()).expect(list);
            let names: Vec<String> = found.iter().map(|group| group.names.join("+")).collect();
            assert_eq!(names, groups, "{list}");
        }
        for (list, words) in [
            ("", "a name is missing"),
            ("cycles,", "a name is missing"),
            ("{}", "a name is missing"),
            ("{cycles", "not closed"),
            ("cycles}", "none opened"),
            ("{cycles,{cs}}", "inside another"),
            ("{cycles}cs", "a comma, or nothing"),
        ] {
            let error = tracepoints.groups(list).expect_err(list).to_string();
            assert!(error.contains(words), "{list}: {error}");
        }
    }
}
