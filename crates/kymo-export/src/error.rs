//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// Why a trace is not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refuses it.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Files of two traces must not come together.
    #[error("{} is there already, and is not an empty directory", .0.display())]
    Occupied(PathBuf),
    /// This program was built without the feature `parquet`.
    #[error("this program was built without Parquet")]
    NotBuilt,
}

impl Error {
    /// What is to blame: [`InvalidInput`](io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Write { .. } | Error::NotBuilt => io::ErrorKind::Other,
            Error::Occupied(_) => io::ErrorKind::InvalidInput,
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Error::Write { .. } => "make room there, or give another place to which you may write",
            Error::Occupied(_) => "give a directory that is new or empty",
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
