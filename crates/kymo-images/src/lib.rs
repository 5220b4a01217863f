//! The ELF files of the kernel and the programs of a trace.
//!
//! [`Symbols`] are the options of a command that shows functions: which files to take. Beside what
//! they give, `kymo record` notes beside the trace which kernel it booted, and a program that
//! samples itself which files it has loaded, and where. What the command line gives comes first.
//!
//! - [`kymo_symbols`] says what code is at an address; [`kymo_profile`], which addresses there are.
//! - A file that the command line names must be readable; one that was noted may have gone. What is
//!   missing is said in sentences, which are handed to the caller: nothing here prints.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod missing;
mod note;
mod read;
mod stack_files;
mod symbolize;
mod symbols;

use std::io::{self, ErrorKind};
use std::path::PathBuf;

pub use note::{HadBuildId, note_files, note_kernel};
pub use stack_files::StackFiles;
pub use symbols::Symbols;

/// Why the files that the command line names are of no use, or cannot be noted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a directory cannot be read.
    #[error("cannot read {}: {source}; give {instead}", path.display())]
    Unreadable {
        /// What was given.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
        /// What is meant by the option.
        instead: &'static str,
    },
    /// A file is no ELF file, or damaged.
    #[error("cannot read {}: {source}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: kymo_symbols::Error,
    },
    /// A path that cannot be noted beside a trace.
    #[error("the path {} is not valid text, and is not noted beside the trace: `kymo flame` finds \
             the kernel there only if --kernel names it", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// `InvalidData`: the input cannot be used.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidData
    }

    /// Advice for the user, as a clause that begins with a verb, where the sentence has none.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Unreadable { .. } | Error::NotText { .. } => None,
            Error::Image { source, .. } => source.advice(),
        }
    }
}
