//! The tracks of a timeline, their rows, and the names of slices.

use kymo_timeline::{Label, Note, Track, TrackId, TrackKind};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A track. Those without rows contain others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackInfo {
    /// The track that contains it.
    pub parent: Option<TrackId>,
    /// Its kind.
    pub kind: TrackKind,
    /// Its title.
    pub name: String,
    /// Its position among the tracks of its parent.
    pub rank: u64,
}

/// What a row of a track has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RowKind {
    /// Slices inside this many others. They do not overlap.
    Slices(u32),
    /// Points in time.
    Points,
    /// Values of a counter.
    Values,
}

/// A row: a sequence in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowInfo {
    /// Its track.
    pub track: TrackId,
    /// What it has.
    pub kind: RowKind,
}

/// A row's number, from 0.
pub type RowId = u32;

/// A name's number, from 0.
pub type NameId = u32;

/// What a slice or a point is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameInfo {
    /// `sched`, `irq`, `syscall`, `lock`, `span`, `lost` or `event`.
    pub category: String,
    /// The name.
    pub text: String,
    /// Number of the thread or interrupt that it names.
    pub number: Option<u64>,
}

/// Tracks, rows and names, in the order in which they appeared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    tracks: Vec<TrackInfo>,
    rows: Vec<RowInfo>,
    names: Vec<NameInfo>,
    #[serde(skip)]
    row_of: FxHashMap<RowInfo, RowId>,
    #[serde(skip)]
    name_of: FxHashMap<Box<str>, Vec<NameId>>,
}

impl Registry {
    /// The track of this number.
    pub fn track(&self, id: TrackId) -> Option<&TrackInfo> {
        self.tracks.get(usize::try_from(id.checked_sub(1)?).ok()?)
    }

    /// All tracks, with their numbers.
    pub fn tracks(&self) -> impl Iterator<Item = (TrackId, &TrackInfo)> {
        (1..).zip(&self.tracks)
    }

    /// All rows, by number.
    pub fn rows(&self) -> &[RowInfo] {
        &self.rows
    }

    /// All names, by number.
    pub fn names(&self) -> &[NameInfo] {
        &self.names
    }

    /// The row of a track, if it has it.
    pub fn row(&self, row: RowInfo) -> Option<RowId> {
        self.row_of.get(&row).copied()
    }

    /// The number of a label's name, if it was met.
    pub(crate) fn name(&self, label: &Label<'_>) -> Option<NameId> {
        let number = number(label);
        let same = self.name_of.get(label.name.text)?;
        let mut same = same.iter().copied();
        same.find(|id| {
            let known = self.names.get(*id as usize);
            known.is_some_and(|known| {
                known.number == number && known.category == label.name.category
            })
        })
    }

    pub(crate) fn add_track(&mut self, track: &Track<'_>) {
        let info = TrackInfo {
            parent: track.parent,
            kind: track.kind,
            name: track.name.to_owned(),
            rank: track.rank,
        };
        let place = usize::try_from(track.id.saturating_sub(1)).unwrap_or(usize::MAX);
        match self.tracks.get_mut(place) {
            // Renamed. A process's parent and rank are not said again.
            Some(known) => known.name = info.name,
            None => self.tracks.push(info),
        }
    }

    pub(crate) fn add_row(&mut self, row: RowInfo) -> RowId {
        let next = self.rows.len() as RowId;
        let id = *self.row_of.entry(row).or_insert(next);
        if id == next {
            self.rows.push(row);
        }
        id
    }

    pub(crate) fn add_name(&mut self, label: &Label<'_>) -> NameId {
        if let Some(id) = self.name(label) {
            return id;
        }
        let id = self.names.len() as NameId;
        self.names.push(NameInfo {
            category: label.name.category.to_owned(),
            text: label.name.text.to_owned(),
            number: number(label),
        });
        self.name_of
            .entry(label.name.text.into())
            .or_default()
            .push(id);
        id
    }

    /// The tables of what was read from a file.
    pub(crate) fn with_tables(mut self) -> Registry {
        self.row_of = self.rows.iter().copied().zip(0..).collect();
        for (name, id) in self.names.iter().zip(0..) {
            let same = self.name_of.entry(name.text.as_str().into());
            same.or_default().push(id);
        }
        self
    }
}

/// The number of the thread or interrupt that a label names: canvases without notes get no others.
fn number(label: &Label<'_>) -> Option<u64> {
    match label.notes {
        [only] if matches!(only.name.text, "tid" | "irq") => match only.note {
            Note::Unsigned(number) => Some(number),
            _ => None,
        },
        _ => None,
    }
}
