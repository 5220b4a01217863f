//! Recovers a trace from the memory of a dead or stopped machine, or from a copy of it.

use std::path::Path;

use kymo::ring::layout::{Header, State};
use kymo::ring::reader::View;

use crate::region::Summary;
use crate::source::{Error, ImageSource, Source};

/// Result of a recovery.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Events and losses by channel.
    pub summary: Summary,
    /// The region's header.
    pub header: Header,
}

impl Recovered {
    /// Whether the session was still running when the memory was taken: after a crash or a kill, or
    /// in a copy of a running machine, in which the newest records may be missing.
    pub fn was_running(&self) -> bool {
        self.header.state == State::Running as u32
    }
}

/// Finds the region in `path` and writes what its rings hold to the new directory `out`.
///
/// # Errors
/// See [`Error`]. If no region is found, nothing is left in `out`.
pub fn recover(path: &Path, base: Option<u64>, out: &Path) -> Result<Recovered, Error> {
    let mut image = ImageSource::open(path, base, out)?;
    let header = image.header().clone();
    image.poll(View::PostMortem)?;
    Ok(Recovered {
        summary: image.finish()?,
        header,
    })
}
