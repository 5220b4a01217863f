//! What is said beside one slice or point: the fields of its events.

use std::io;

use kymo_timeline::{Canvas, Label, Track, TrackId};

use crate::collector::{Collector, Numbers};
use crate::registry::{RowInfo, RowKind};

/// A canvas that keeps the notes of one slice or point.
#[derive(Debug)]
pub(crate) struct Finder<N> {
    /// Knows how deep slices are.
    inner: Collector<N>,
    row: RowInfo,
    begin: u64,
    /// Whether the slice has begun and not ended.
    is_open: bool,
    /// Names and values, as they were met.
    pub(crate) notes: Vec<(String, String)>,
}

impl<N: Numbers> Finder<N> {
    pub(crate) fn new(inner: Collector<N>, row: RowInfo, begin: u64) -> Finder<N> {
        Finder {
            inner,
            row,
            begin,
            is_open: false,
            notes: Vec::new(),
        }
    }

    /// Whether the next slice of this track is one of the row.
    fn is_next(&mut self, track: TrackId) -> bool {
        let depth = self.inner.depth(track);
        track == self.row.track && self.row.kind == RowKind::Slices(depth)
    }

    fn take(&mut self, label: &Label<'_>) {
        let mut notes: Vec<_> = label.notes.iter().collect();
        notes.sort_unstable_by_key(|noted| noted.rank);
        for noted in notes {
            let name = noted.name.text.to_owned();
            let value = noted.note.to_string();
            if !self.notes.iter().any(|(known, _)| *known == name) {
                self.notes.push((name, value));
            }
        }
    }
}

impl<N: Numbers> Canvas for Finder<N> {
    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        self.inner.track(track)
    }

    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        if at == self.begin && self.is_next(track) {
            self.notes.clear();
            self.take(label);
            self.is_open = true;
        }
        self.inner.begin(at, track, label)
    }

    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.inner.end(at, track, label)?;
        if self.is_open && self.is_next(track) {
            self.take(label);
            self.is_open = false;
        }
        Ok(())
    }

    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        if at == self.begin && track == self.row.track && self.row.kind == RowKind::Points {
            self.take(label);
        }
        self.inner.point(at, track, label)
    }

    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()> {
        self.inner.counter(at, track, value)
    }
}
