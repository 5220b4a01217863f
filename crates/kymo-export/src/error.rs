//! Errors of an export.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a trace was not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to write.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory is not empty: files of two traces must not mix.
    #[error("{} already exists and is not an empty directory", .0.display())]
    Occupied(PathBuf),
    /// Tables are files of a directory, and cannot go to the standard output.
    #[error("CSV and Parquet are directories of files, which cannot go to the standard output")]
    Folder,
    /// This program was built without the feature `parquet`.
    #[error("this program was built without Parquet")]
    NotBuilt,
}

impl Error {
    /// The culprit: [`InvalidInput`](io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](io::ErrorKind::InvalidData) for the trace, anything else for the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Write { .. } | Error::NotBuilt => io::ErrorKind::Other,
            Error::Occupied(_) | Error::Folder => io::ErrorKind::InvalidInput,
        }
    }

    /// A remedy, as a clause that begins with a verb; `None` if the message implies it.
    pub fn advice(&self) -> Option<&'static str> {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        Some(match self {
            Error::Write { source, .. } => match source.kind() {
                StorageFull | QuotaExceeded | FileTooLarge => {
                    "make room there, or give another place"
                }
                _ => "give another place, where you may write",
            },
            Error::Occupied(_) => "give a directory that is new or empty",
            Error::Folder => "give a directory, or --to perfetto or chrome",
            Error::NotBuilt => {
                "install it with: cargo install --path crates/kymo-cli --features parquet"
            }
        })
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Write {
            path: path.to_owned(),
            source,
        }
    }
}
