//! What can go wrong.

use std::io;

use kymo_ctf::WriteError;

/// Why nothing, or no more, can be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be written. What was written before can be read.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A record that does not have the layout of its kind.
    #[error("a record of the kernel's cannot be understood: {source}")]
    Record {
        /// What is wrong with it.
        source: io::Error,
    },
    /// A file that `perf record` has not written.
    #[error("this is no file of perf record: {0}")]
    PerfData(String),
    /// This process may not take samples.
    #[cfg(target_os = "linux")]
    #[error("this process may not take samples: {paranoid}{}", .paranoid.way_out(*.needs))]
    NotPermitted {
        /// The system's setting.
        paranoid: kymo_perf::Paranoid,
        /// What it takes.
        needs: kymo_perf::Needs,
    },
    /// The events cannot be opened.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Perf(#[from] kymo_perf::Error),
    /// A system call failed that fails on no known machine.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}
