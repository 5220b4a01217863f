//! Takes what a timeline draws, part by part.

use std::io;
use std::mem;
use std::sync::Arc;

use kymo_timeline::{Canvas, Label, Track, TrackId};
use serde::{Deserialize, Serialize};

use crate::part::{Content, Part};
use crate::registry::{NameId, Registry, RowId, RowInfo, RowKind};
use crate::run::{Run, Values};

/// Where numbers of rows and names come from.
pub(crate) trait Numbers: Default {
    fn track(&mut self, track: &Track<'_>);
    /// `None` if it has no number.
    fn row(&mut self, row: RowInfo) -> Option<RowId>;
    fn name(&mut self, label: &Label<'_>) -> Option<NameId>;
}

/// What is new gets the next number.
impl Numbers for Registry {
    fn track(&mut self, track: &Track<'_>) {
        self.add_track(track);
    }

    fn row(&mut self, row: RowInfo) -> Option<RowId> {
        Some(self.add_row(row))
    }

    fn name(&mut self, label: &Label<'_>) -> Option<NameId> {
        Some(self.add_name(label))
    }
}

/// Everything has its number already.
impl Numbers for Arc<Registry> {
    fn track(&mut self, _: &Track<'_>) {}

    fn row(&mut self, row: RowInfo) -> Option<RowId> {
        Registry::row(self, row)
    }

    fn name(&mut self, label: &Label<'_>) -> Option<NameId> {
        Registry::name(self, label)
    }
}

/// A slice that has begun.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Open {
    row: RowId,
    begin: u64,
    name: NameId,
    is_cut: bool,
}

/// The canvas. What was drawn since the last [`cut`](Self::cut) is no part of a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Collector<N> {
    #[serde(skip)]
    pub(crate) numbers: N,
    /// Open slices by the track's number, the outermost first.
    open: Vec<Vec<Open>>,
    /// What counters have, by row.
    values: Vec<Option<i64>>,
    /// Slices that end behind the last cut, by row: losses end later than they are met.
    rest: Vec<(RowId, u64, NameId)>,
    /// Where the part begins.
    begin: u64,
    /// By row.
    #[serde(skip)]
    drawn: Vec<Content>,
}

impl<N: Numbers> Collector<N> {
    /// The content of a row so far.
    fn content(&mut self, row: RowId, empty: impl Fn() -> Content) -> Option<&mut Content> {
        let place = usize::try_from(row).ok().filter(|_| row != RowId::MAX)?;
        while self.drawn.len() <= place {
            self.drawn.push(Content::Runs(Vec::new()));
        }
        let content = self.drawn.get_mut(place)?;
        if content.is_empty() && mem::discriminant(content) != mem::discriminant(&empty()) {
            *content = empty();
        }
        Some(content)
    }

    fn add(&mut self, row: RowId, run: Run) {
        if let Some(Content::Runs(runs)) = self.content(row, || Content::Runs(Vec::new())) {
            runs.push(run);
        }
    }

    fn end_of(&mut self, open: Open, end: u64, goes_on: bool) {
        let run = Run {
            is_cut_before: open.is_cut,
            is_cut_behind: goes_on,
            ..Run::slice(open.begin, end.max(open.begin), open.name)
        };
        self.add(open.row, run);
    }

    /// Ends the part at this time, and gives it. Open slices are cut.
    pub(crate) fn cut(&mut self, at: u64) -> Part {
        // What begins with the next part is not in this one.
        let open = self.open.iter_mut().flatten();
        let cut = open.filter(|open| open.begin < at).map(|open| {
            let before = *open;
            (open.begin, open.is_cut) = (at, true);
            before
        });
        for before in cut.collect::<Vec<_>>() {
            self.end_of(before, at, true);
        }
        let mut rows = Vec::new();
        let mut rest = Vec::new();
        for (row, content) in (0..).zip(&mut self.drawn) {
            if let Content::Runs(runs) = content
                && let Some(last) = runs.last_mut().filter(|last| last.end > at)
            {
                rest.push((row, last.end, last.name));
                let is_cut_before = last.is_cut_before;
                *last = Run {
                    is_cut_before,
                    is_cut_behind: true,
                    ..Run::slice(last.begin.min(at), at, last.name)
                };
            }
            if !content.is_empty() {
                // The next part is probably as full, or somewhat more.
                let room = |now: usize| now + now / 4;
                let empty = match &*content {
                    Content::Runs(runs) => Content::Runs(Vec::with_capacity(room(runs.len()))),
                    Content::Values(values) => {
                        Content::Values(Vec::with_capacity(room(values.len())))
                    }
                };
                rows.push((row, mem::replace(content, empty)));
            }
        }
        self.rest = rest;
        let part = Part {
            begin: mem::replace(&mut self.begin, at),
            end: at,
            rows,
        };
        self.begin_part();
        part
    }

    /// Draws what lasts from before the part. Call it after a checkpoint was restored.
    pub(crate) fn begin_part(&mut self) {
        let begin = self.begin;
        for (row, end, name) in self.rest.clone() {
            let run = Run {
                is_cut_before: true,
                ..Run::slice(begin, end, name)
            };
            self.add(row, run);
        }
        for row in 0..self.values.len() {
            if let Some(value) = self.values.get(row).copied().flatten() {
                self.value(row as RowId, Values::one(begin, value, 0));
            }
        }
    }

    fn value(&mut self, row: RowId, value: Values) {
        if let Some(Content::Values(values)) = self.content(row, || Content::Values(Vec::new())) {
            values.push(value);
        }
    }

    /// The open slices of a track.
    fn open(&mut self, track: TrackId) -> Option<&mut Vec<Open>> {
        let place = usize::try_from(track).ok()?;
        while self.open.len() <= place {
            self.open.push(Vec::new());
        }
        self.open.get_mut(place)
    }

    /// Number of open slices of a track.
    pub(crate) fn depth(&mut self, track: TrackId) -> u32 {
        self.open(track).map_or(0, |open| open.len()) as u32
    }

    /// Begins the first part here.
    pub(crate) fn begin_at(&mut self, begin: u64) {
        self.begin = begin;
    }
}

impl<N: Numbers> Canvas for Collector<N> {
    const HAS_NOTES: bool = false;

    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        self.numbers.track(track);
        Ok(())
    }

    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        let name = self.numbers.name(label).unwrap_or(NameId::MAX);
        let depth = self.open(track).map_or(0, |open| open.len());
        let kind = RowKind::Slices(depth as u32);
        let row = self.numbers.row(RowInfo { track, kind });
        let row = row.unwrap_or(RowId::MAX);
        if let Some(open) = self.open(track) {
            open.push(Open {
                row,
                begin: at,
                name,
                is_cut: false,
            });
        }
        Ok(())
    }

    fn end(&mut self, at: u64, track: TrackId, _: &Label<'_>) -> io::Result<()> {
        if let Some(open) = self.open(track).and_then(Vec::pop) {
            self.end_of(open, at, false);
        }
        Ok(())
    }

    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        let kind = RowKind::Points;
        let name = self.numbers.name(label).unwrap_or(NameId::MAX);
        if let Some(row) = self.numbers.row(RowInfo { track, kind }) {
            self.add(row, Run::slice(at, at, name));
        }
        Ok(())
    }

    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()> {
        let kind = RowKind::Values;
        let Some(row) = self.numbers.row(RowInfo { track, kind }) else {
            return Ok(());
        };
        while self.values.len() <= row as usize {
            self.values.push(None);
        }
        if let Some(last) = self.values.get_mut(row as usize) {
            *last = Some(value);
        }
        self.value(row, Values::one(at, value, 1));
        Ok(())
    }
}
