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
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Write {
            path: path.to_owned(),
            source,
        }
    }
}
