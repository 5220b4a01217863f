//! Tracepoints by name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

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
}
