//! Reads the options of QEMU's command line that concern the machine and its memory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Error, MIB};

/// Options that concern machine and memory.
#[derive(Default)]
pub(super) struct Options {
    pub(super) machines: Vec<Properties>,
    objects: Vec<Properties>,
    size: Option<String>,
}

/// One option of the form `word,key=value,key=value`.
pub(super) struct Properties {
    /// Index of the argument.
    pub(super) place: usize,
    /// The keys in order; a word without `=` is the value of the empty key.
    pairs: Vec<(String, String)>,
}

impl Options {
    /// Reads the options. QEMU accepts them in any order, with one dash or two. Free-text values
    /// are skipped, even if they look like options.
    pub(super) fn read(arguments: &[OsString]) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut places = 0..arguments.len();
        while let Some(place) = places.next() {
            let option = arguments
                .get(place)
                .and_then(|option| option.to_str())
                .unwrap_or_default();
            let name = name_of(option);
            if !takes_value(name) {
                continue;
            }
            let value = places
                .next()
                .and_then(|place| Some((place, arguments.get(place)?)));
            let (place, value) = value.ok_or_else(|| Error::NoValue {
                option: option.to_owned(),
            })?;
            let value = value.to_string_lossy();
            match name {
                "M" | "machine" => options.machines.push(Properties::read(place, &value)),
                "object" => options.objects.push(Properties::read(place, &value)),
                "m" => {
                    let memory = Properties::read(place, &value);
                    options.size = memory
                        .get("")
                        .or(memory.get("size"))
                        .map(str::to_owned)
                        .or(options.size);
                }
                _ => {}
            }
        }
        Ok(options)
    }

    /// The guest's memory in bytes, if `-m` gives it.
    pub(super) fn memory(&self) -> Result<Option<u64>, Error> {
        self.size.as_deref().map(memory_size).transpose()
    }

    pub(super) fn machine_type(&self) -> Option<&str> {
        self.machines
            .iter()
            .rev()
            .find_map(|machine| machine.get("").or(machine.get("type")))
    }

    pub(super) fn backend(&self) -> Option<&str> {
        self.machines
            .iter()
            .rev()
            .find_map(|machine| machine.get("memory-backend"))
    }

    /// File and size of the user's own backend, if the host can map it.
    pub(super) fn shared_file(&self, id: &str) -> Option<(PathBuf, u64)> {
        let object = self
            .objects
            .iter()
            .find(|object| object.get("id") == Some(id))?;
        let shared = matches!(object.get("share"), Some("on" | "yes" | "true"));
        if object.get("").or(object.get("qom-type")) != Some("memory-backend-file") || !shared {
            return None;
        }
        // Unlike -m, the unit of an object's size is bytes.
        let size = scaled(object.get("size")?, 1)?;
        Some((object.get("mem-path")?.into(), size))
    }
}

/// An option's name, without dashes.
fn name_of(option: &str) -> &str {
    option
        .strip_prefix('-')
        .map_or("", |name| name.strip_prefix('-').unwrap_or(name))
}

/// Whether the next word is the value of this option, even if it looks like an option. Covers only
/// options that matter here.
fn takes_value(name: &str) -> bool {
    matches!(
        name,
        "M" | "machine" | "m" | "object" | "append" | "kernel" | "initrd" | "dtb" | "name"
    )
}

/// Index of the value of the last option of this name, which is the one that QEMU uses: `append`
/// for the kernel's command line, `kernel` for its file.
pub(super) fn last_value(arguments: &[OsString], option: &str) -> Option<usize> {
    let mut found = None;
    let mut places = 0..arguments.len();
    while let Some(place) = places.next() {
        let name = arguments
            .get(place)
            .and_then(|option| option.to_str())
            .map_or("", name_of);
        if takes_value(name) {
            let value = places.next().filter(|&value| value < arguments.len());
            found = if name == option {
                value.or(found)
            } else {
                found
            };
        }
    }
    found
}

impl Properties {
    fn read(place: usize, text: &str) -> Properties {
        // A doubled comma stands for a comma in the value.
        let marked = text.replace(",,", "\0");
        let pairs = marked.split(',').map(|part| {
            let part = part.replace('\0', ",");
            part.split_once('=')
                .map_or((String::new(), part.clone()), |(key, value)| {
                    (key.to_owned(), value.to_owned())
                })
        });
        Properties {
            place,
            pairs: pairs.collect(),
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }
}

/// Parses the value of `-m` into bytes; without a suffix, the unit is MiB.
fn memory_size(value: &str) -> Result<u64, Error> {
    scaled(value, MIB)
        .filter(|&size| size > 0)
        .ok_or_else(|| Error::Size {
            value: value.to_owned(),
        })
}

/// Parses an integer with QEMU's suffixes.
fn scaled(text: &str, unit: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" => unit,
        "B" => 1,
        "K" => 1 << 10,
        "M" => MIB,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Escapes a path for use as the value of a QEMU property.
pub(super) fn double_commas(path: &Path) -> OsString {
    path.to_str()
        .map_or_else(|| path.into(), |path| path.replace(',', ",,").into())
}
