//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be written.
    #[error("the index {path} cannot be written: {error}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file cannot be read.
    #[error("the index {path} cannot be read: {error}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is no index, or a damaged one.
    #[error("{path} is no index of a trace: {what}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A part of the timeline cannot be kept in memory or in a checkpoint.
    #[error("the timeline cannot be kept: {0}")]
    Keep(String),
    /// The timeline cannot be drawn.
    #[error("the timeline cannot be drawn: {0}")]
    Draw(io::Error),
}
