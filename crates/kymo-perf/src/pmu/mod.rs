//! PMUs that the kernel describes in sysfs, and their events (Linux, `Documentation/ABI/testing`,
//! `sysfs-bus-event_source-devices-*`).
//!
//! A PMU is a folder: `type` is its number for `perf_event_open(2)`, `format` has a file for each
//! parameter of an event with the bits that it has, and `events` one for each event with a name.
//! Beside an event, `NAME.scale` and `NAME.unit` say what a count is. `cpumask` names the CPUs that
//! count for all of those that share the PMU; `cpus` names those that have a PMU of this kind.

mod field;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kymo::count::{EventKind, EventSpec};

use crate::error::Error;
use crate::machine::cpu_list;
use crate::names::{NamedEvent, exclude};
use field::{Field, WORDS, number, word_number};

/// An event of a PMU, as `perf_event_open(2)` takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PmuEvent {
    /// The PMU's name, such as `uncore_imc_1`.
    pub pmu: String,
    /// Its number (`perf_event_attr.type`).
    pub number: u32,
    /// `config`, `config1`, `config2` and `config3` of `perf_event_attr`.
    pub config: [u64; 4],
    /// The CPUs that can count it; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// Whether several CPUs share the PMU. Then it counts what all of them do, for no thread.
    pub is_shared: bool,
    /// What a count of 1 is, in the unit.
    pub scale: f64,
    /// The unit of a scaled count, such as `Joules`; `None` for events.
    pub unit: Option<String>,
}

/// The folder in which the kernel describes its PMUs.
#[derive(Clone, Debug)]
pub struct Pmus {
    devices: PathBuf,
}

impl Default for Pmus {
    fn default() -> Pmus {
        Pmus::of(Path::new("/sys/bus/event_source/devices"))
    }
}

/// Files beside an event, which are no events.
const ATTRIBUTES: [&str; 4] = [".scale", ".unit", ".per-pkg", ".snapshot"];

impl Pmus {
    /// The PMUs of a folder that is like `/sys/bus/event_source/devices`.
    pub fn of(devices: &Path) -> Pmus {
        Pmus {
            devices: devices.to_owned(),
        }
    }

    /// The events that have names, such as `cpu/cache-misses/`, sorted. Of PMUs whose names differ
    /// only by a number behind them, those of the first.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for pmu in files(&self.devices) {
            let kind = kind_of(&pmu);
            let events = files(&self.devices.join(&pmu).join("events"));
            let events = events.iter().filter(|event| !is_attribute(event));
            names.extend(events.map(|event| format!("{kind}/{event}/")));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The event with a name like `PMU/event=0x3c,umask=1/`, `PMU/cache-misses/` or `PMU/r1c2/`,
    /// behind which `u` or `k` may stand for what happens in programs or in the kernel. Parameters
    /// are those of the PMU's folder `format`, and `config`, `config1`, `config2` and `config3`; a
    /// parameter without a value is 1. Of several values of one parameter the last counts, so one
    /// behind a name changes that event.
    ///
    /// If no PMU has the name, but PMUs have it with `_0`, `_1` and so on behind it, the event is
    /// counted on all of them and added up.
    ///
    /// # Errors
    /// [`Error::UnknownPmu`], [`Error::BadPmuEvent`], [`Error::UnknownModifier`].
    pub fn event(&self, name: &str) -> Result<NamedEvent, Error> {
        let bad = |what: String| Error::BadPmuEvent {
            name: name.to_owned(),
            what,
        };
        let (pmu, rest) = name.split_once('/').unwrap_or((name, ""));
        let (terms, modes) = rest
            .rsplit_once('/')
            .ok_or_else(|| bad("a slash stands at both ends of its parameters".to_owned()))?;
        let exclude = exclude(name, modes.strip_prefix(':').unwrap_or(modes))?;
        let events: Result<Vec<PmuEvent>, Error> = self
            .of_kind(pmu)?
            .into_iter()
            .map(|pmu| {
                Folder {
                    pmus: self,
                    pmu,
                    name,
                }
                .event(terms)
            })
            .collect();
        let events = events?;
        let first = events.first().map_or(0, |event| event.config[0]);
        Ok(NamedEvent {
            event: EventSpec {
                exclude,
                ..EventSpec::of(EventKind::Raw(first))
            },
            name: name.to_owned(),
            pmus: events,
        })
    }

    /// The names of the PMU or PMUs that a name stands for.
    fn of_kind(&self, name: &str) -> Result<Vec<String>, Error> {
        let unknown = || Error::UnknownPmu {
            name: name.to_owned(),
            known: files(&self.devices).join(", "),
        };
        if !is_word(name) {
            return Err(unknown());
        }
        if self.devices.join(name).join("type").exists() {
            return Ok(vec![name.to_owned()]);
        }
        let mut numbered: Vec<(u32, String)> = files(&self.devices)
            .into_iter()
            .filter_map(|pmu| {
                let number = pmu.strip_prefix(name)?.strip_prefix('_')?;
                let number = number.parse().ok()?;
                Some((number, pmu))
            })
            .collect();
        numbered.sort_unstable();
        match numbered.is_empty() {
            true => Err(unknown()),
            false => Ok(numbered.into_iter().map(|(_, pmu)| pmu).collect()),
        }
    }
}

/// A parameter and its value, which may be missing.
type Term = (String, Option<String>);

/// A PMU's folder, and the event that is asked of it.
struct Folder<'p> {
    pmus: &'p Pmus,
    pmu: String,
    /// The whole name of the event.
    name: &'p str,
}

impl Folder<'_> {
    fn bad(&self, what: String) -> Error {
        Error::BadPmuEvent {
            name: self.name.to_owned(),
            what,
        }
    }

    fn path(&self) -> PathBuf {
        self.pmus.devices.join(&self.pmu)
    }

    /// The text of a file; `None` if it is not there.
    fn text(&self, file: &str) -> Result<Option<String>, Error> {
        let path = self.path().join(file);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.bad(format!("{} cannot be read: {error}", path.display()))),
        }
    }

    fn event(&self, text: &str) -> Result<PmuEvent, Error> {
        let number = self.text("type")?.and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| self.bad(format!("{} has no number", self.pmu)))?;
        let (mut scale, mut unit) = (1.0, None);
        let mut terms: Vec<Term> = Vec::new();
        for term in split(text) {
            let (key, value) = term;
            if !is_word(&key) {
                return Err(self.bad(format!("{key:?} is no parameter")));
            }
            let event = format!("events/{key}");
            match (value, self.text(&event)?.filter(|_| !is_attribute(&key))) {
                (None, Some(of_event)) => {
                    terms.extend(split(&of_event));
                    if let Some(text) = self.text(&format!("{event}.scale"))? {
                        let number: Option<f64> = text.parse().ok();
                        let number = number.filter(|number| number.is_finite() && *number > 0.0);
                        let wrong = || self.bad(format!("{text:?} is no scale"));
                        scale = number.ok_or_else(wrong)?;
                    }
                    unit = self.text(&format!("{event}.unit"))?.or(unit);
                }
                (value, _) => terms.push((key, value)),
            }
        }
        if terms.is_empty() {
            return Err(self.bad(format!("no event is named; {}", self.known())));
        }
        let shared = self.text("cpumask")?;
        let is_shared = shared.is_some();
        let cpus = match shared.map_or_else(|| self.text("cpus"), |cpus| Ok(Some(cpus)))? {
            None => None,
            Some(list) => {
                let cpus = cpu_list(&list);
                Some(cpus.ok_or_else(|| self.bad(format!("{} is on no CPU", self.pmu)))?)
            }
        };
        Ok(PmuEvent {
            pmu: self.pmu.clone(),
            number,
            config: self.config(&terms)?,
            cpus,
            is_shared,
            scale,
            unit,
        })
    }

    fn config(&self, terms: &[Term]) -> Result<[u64; WORDS], Error> {
        let mut config = [0; WORDS];
        for (at, (key, text)) in terms.iter().enumerate() {
            // What must be given stands as `core=?` in the event's file.
            if text.as_deref() == Some("?") {
                let mut later = terms.iter().skip(at + 1);
                if later.any(|(other, _)| other == key) {
                    continue;
                }
                return Err(self.bad(format!("it needs a value of {key}; add {key}=NUMBER")));
            }
            let value = match text {
                Some(text) => number(text)
                    .ok_or_else(|| self.bad(format!("{text:?} is no number for {key}")))?,
                None => 1,
            };
            let (field, value) = match (self.field(key)?, word_number(key)) {
                (Some(field), _) => (field, value),
                (None, Some(word)) if text.is_some() => (Field::whole(word), value),
                _ => match raw(key).filter(|_| text.is_none()) {
                    Some(raw) => (Field::whole(0), raw),
                    None => return Err(self.unknown(key)),
                },
            };
            if !field.set(value, &mut config) {
                let bits = field.len();
                return Err(self.bad(format!("{key}={value:#x} has more than {bits} bits")));
            }
        }
        Ok(config)
    }

    fn field(&self, key: &str) -> Result<Option<Field>, Error> {
        let Some(text) = self.text(&format!("format/{key}"))? else {
            return Ok(None);
        };
        let field = Field::parse(&text);
        let unread = || self.bad(format!("the bits of {key}, {text:?}, cannot be read"));
        field.map(Some).ok_or_else(unread)
    }

    fn unknown(&self, key: &str) -> Error {
        let (pmu, known) = (&self.pmu, self.known());
        self.bad(format!("{pmu} has no event or parameter {key}; {known}"))
    }

    /// What can be asked of the PMU.
    fn known(&self) -> String {
        let mut all = files(&self.path().join("format"));
        let events = files(&self.path().join("events"));
        all.extend(events.into_iter().filter(|event| !is_attribute(event)));
        match all.is_empty() {
            true => "give config=NUMBER".to_owned(),
            false => format!("it has {}", all.join(", ")),
        }
    }
}

/// Parameters between commas.
fn split(text: &str) -> impl Iterator<Item = Term> {
    let terms = text.split(',').map(str::trim);
    terms.filter(|term| !term.is_empty()).map(|term| {
        let (key, value) = match term.split_once('=') {
            Some((key, value)) => (key, Some(value.trim().to_owned())),
            None => (term, None),
        };
        (key.trim().to_owned(), value)
    })
}

/// `r1c2`: an event by its number.
fn raw(key: &str) -> Option<u64> {
    number(&format!("0x{}", key.strip_prefix('r')?))
}

/// A PMU's name without the number that tells it from others of its kind.
fn kind_of(pmu: &str) -> &str {
    match pmu.rsplit_once('_') {
        Some((kind, number)) if number.parse::<u32>().is_ok() => kind,
        _ => pmu,
    }
}

fn is_attribute(event: &str) -> bool {
    ATTRIBUTES.iter().any(|ending| event.ends_with(ending))
}

/// Whether it names a file of a folder.
fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_letter)
}

/// The names in a folder, sorted; none if it cannot be read.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}
