//! A part of the timeline between two times: what each of its rows has.

use crate::registry::RowId;
use crate::run::{Run, Values, append, reduced};

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

    pub(crate) fn reduced(&self, resolution: u64) -> Content {
        match self {
            Content::Runs(runs) => Content::Runs(reduced(runs.iter().copied(), resolution)),
            Content::Values(values) => Content::Values(reduced(values.iter().copied(), resolution)),
        }
    }

    pub(crate) fn append(&mut self, part: &Content) {
        match (self, part) {
            (Content::Runs(runs), Content::Runs(part)) => append(runs, part),
            (Content::Values(values), Content::Values(part)) => append(values, part),
            // A row has only one of both.
            _ => {}
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

impl Part {
    /// What is shorter than this, in nanoseconds, may be merged in a part of the pyramid.
    pub(crate) fn resolution(&self) -> u64 {
        resolution(self.begin, self.end)
    }

    pub(crate) fn reduced(&self, resolution: u64) -> Part {
        let rows = self.rows.iter();
        Part {
            begin: self.begin,
            end: self.end,
            rows: rows
                .map(|(row, content)| (*row, content.reduced(resolution)))
                .collect(),
        }
    }

    /// Adds the part that follows.
    pub(crate) fn append(&mut self, next: &Part) {
        self.end = next.end;
        for (row, content) in &next.rows {
            match self.rows.binary_search_by_key(row, |(id, _)| *id) {
                Ok(place) => {
                    if let Some((_, before)) = self.rows.get_mut(place) {
                        before.append(content);
                    }
                }
                Err(place) => self.rows.insert(place, (*row, content.clone())),
            }
        }
    }
}

/// The step of a part of the pyramid between these times.
pub(crate) fn resolution(begin: u64, end: u64) -> u64 {
    end.saturating_sub(begin) / RESOLUTION
}

/// Into how many steps a part of the pyramid divides its time.
pub(crate) const RESOLUTION: u64 = 64;
