//! Where output goes: new directories, and never into the trace that is read.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

use crate::exit::Usage;

/// An empty directory for a new trace.
pub struct OutputDirectory {
    /// The directories that were made for it: itself, and those above it that did not exist.
    made: Vec<PathBuf>,
}

impl OutputDirectory {
    /// Removes the directories that were made and hold nothing.
    pub fn undo(&self) {
        // Fails, rightly, where something is in it.
        self.made.iter().for_each(|path| drop(fs::remove_dir(path)));
    }
}

/// Makes the directory for a new trace; refuses one that holds something. `how` tells the user how
/// to give another one.
pub fn create_directory(path: &Path, how: &str) -> anyhow::Result<OutputDirectory> {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Usage(format!(
                    "{} is not empty: give a new directory for the trace",
                    path.display()
                ))
                .into());
            }
            Ok(OutputDirectory { made: Vec::new() })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = path
                .ancestors()
                .take_while(|path| !path.as_os_str().is_empty() && !path.exists());
            let made = made.map(Path::to_owned).collect();
            fs::create_dir_all(path)
                .with_context(|| format!("cannot make the directory {} ({how})", path.display()))?;
            Ok(OutputDirectory { made })
        }
        Err(_) => Err(Usage(format!(
            "{} is no directory that a trace could be written to: {how}",
            path.display()
        ))
        .into()),
    }
}

/// Refuses output that would become a part of the input trace.
pub fn refuse_inside(out: &Path, trace: &Path) -> Result<(), Usage> {
    match is_in(out, trace) {
        true => Err(Usage(format!(
            "the output {} lies inside the input trace; choose another place",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// Whether the output would lie in the directory, or be it.
fn is_in(out: &Path, directory: &Path) -> bool {
    let Ok(directory) = directory.canonicalize() else {
        return false;
    };
    let out = without_detours(out);
    let there = out.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        path.canonicalize().ok()
    });
    there.is_some_and(|path| path.starts_with(&directory))
}

/// The path without steps into directories that do not exist and out of them again: these are made
/// on the way.
fn without_detours(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir && !whole.as_os_str().is_empty() && !whole.exists() {
            whole.pop();
        } else {
            whole.push(component);
        }
    }
    whole
}
