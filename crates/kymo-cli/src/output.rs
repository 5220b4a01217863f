//! Output: directories, new or empty and never inside the input trace, and files.

use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

use crate::dump::not_written;
use crate::exit::Usage;

/// An empty directory for a new trace.
pub struct OutputDirectory {
    /// The directories that were created: the output directory itself and its missing parents.
    made: Vec<PathBuf>,
}

impl OutputDirectory {
    /// Removes the created directories that are empty.
    pub fn undo(&self) {
        // `remove_dir` refuses a directory that is not empty, which is intended.
        self.made.iter().for_each(|path| drop(fs::remove_dir(path)));
    }
}

/// Creates the directory for a new trace; refuses one that is not empty. `how` completes the
/// message with how to choose another one.
pub fn create_directory(path: &Path, how: &str) -> anyhow::Result<OutputDirectory> {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Usage(format!(
                    "{} is not empty; give a new directory for the trace",
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
            fs::create_dir_all(path).with_context(|| {
                format!("cannot create the directory {} ({how})", path.display())
            })?;
            Ok(OutputDirectory { made })
        }
        Err(error) => Err(Usage(format!(
            "{} cannot be used as a trace directory: {error}; {how}",
            path.display()
        ))
        .into()),
    }
}

/// Refuses output that would become a part of the input trace.
pub fn refuse_inside(out: &Path, trace: &Path) -> Result<(), Usage> {
    match is_in(out, trace) {
        true => Err(Usage(format!(
            "the output {} lies inside the input trace; choose another directory",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// Whether the output path is the directory or lies inside it.
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

/// The path without `missing/..` pairs. [`Path::canonicalize`] fails on them, but creating the
/// directories would resolve them.
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

/// The file that is meant by a path: `-` is the standard output, as no path is.
pub fn file(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| *path != Path::new("-"))
}

/// The path for a picture or a file of a viewer, which no terminal can show: without a path, a file
/// of this name in the working directory, if the standard output is a terminal.
pub fn file_at_terminal(path: Option<&Path>, name: Option<&str>) -> Option<PathBuf> {
    match (path, name) {
        (None, Some(name)) if io::stdout().is_terminal() => Some(PathBuf::from(name)),
        _ => path.map(Path::to_owned),
    }
}

/// Passes a writer on, for the file or for the standard output.
///
/// A reader that closes the pipe is no error. A file gets its name when it is complete.
pub fn write(
    path: Option<&Path>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if let Some(path) = file(path) {
        return Ok(kymo_export::write_file(path, fill)?);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(not_written(error)),
        Ok(()) => Ok(()),
    }
}
