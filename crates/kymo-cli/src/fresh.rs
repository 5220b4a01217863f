//! Directories that a trace is written to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exit::Usage;

/// A directory that was made, or was there and empty.
pub struct Fresh {
    path: PathBuf,
    created: bool,
}

impl Fresh {
    /// Takes it away again if we made it and nothing came of it.
    pub fn undo(&self) {
        if self.created {
            // Fails, rightly, if something is in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Makes the directory for a new trace; refuses one that holds something. `how` says how another one is given.
pub fn fresh_directory(path: &Path, how: &str) -> anyhow::Result<Fresh> {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Usage(format!("{} is not empty: give a new directory for the trace", path.display())).into());
            }
            Ok(Fresh { path: path.to_owned(), created: false })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(path).with_context(|| format!("cannot make the directory {} ({how})", path.display()))?;
            Ok(Fresh { path: path.to_owned(), created: true })
        }
        Err(_) => Err(Usage(format!("{} is no directory that a trace could be written to: {how}", path.display())).into()),
    }
}

/// Whether what is to be written would lie in the directory, or be it.
pub fn is_in(out: &Path, directory: &Path) -> bool {
    let Ok(directory) = directory.canonicalize() else { return false };
    let there = out.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.canonicalize().ok()
    });
    there.is_some_and(|path| path.starts_with(&directory))
}
