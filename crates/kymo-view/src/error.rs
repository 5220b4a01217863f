//! What can go wrong.

use std::io;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The port cannot be had.
    #[error("cannot listen on port {port} of this machine: {error}")]
    Listen {
        /// The port; 0 for any.
        port: u16,
        /// Why.
        error: io::Error,
    },
    /// The machine has no random bytes.
    #[error("there are no random bytes for the address: {0}")]
    Random(String),
    /// What the page shows cannot be put into a file.
    #[error("the page cannot be made: {0}")]
    Pack(io::Error),
    /// A file with the code of the traced machine cannot be used. Already a sentence.
    #[error("{0}")]
    Code(String),
    /// Nothing can be shown.
    #[error("there is no event in this time")]
    Nothing,
    /// The trace's files cannot be read.
    #[error(transparent)]
    Trace(#[from] kymo_ctf::Error),
    /// Something about the index.
    #[error(transparent)]
    Index(#[from] kymo_index::Error),
}
