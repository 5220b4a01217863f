//! A part of the timeline between two times: what each of its rows has.

use crate::registry::RowId;
use crate::run::{Run, Values};

/// What a row has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Slices or points, by time. Points have the length 0.
    Runs(Vec<Run>),
    /// Values of a counter, by time.
    Values(Vec<Values>),
}

impl Content {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Content::Runs(runs) => runs.is_empty(),
            Content::Values(values) => values.is_empty(),
        }
    }
}

/// The rows of a part of the timeline; those without content are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it begins, in nanoseconds of the timeline.
    pub(crate) begin: u64,
    /// Where the next one begins.
    pub(crate) end: u64,
    /// By number.
    pub(crate) rows: Vec<(RowId, Content)>,
}

/// The step of a part of the pyramid between these times, in nanoseconds: what is shorter may be
/// merged.
pub(crate) fn resolution(begin: u64, end: u64) -> u64 {
    end.saturating_sub(begin) / RESOLUTION
}

/// Into how many steps a part of the pyramid divides its time.
pub(crate) const RESOLUTION: u64 = 64;
