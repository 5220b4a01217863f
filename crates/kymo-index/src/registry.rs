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
    /// `sched`, `irq`, `syscall`, `lock`, `span`, `lost`, `sample` or `event`.
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
    /// By the track's number and the place of the kind.
    #[serde(skip)]
    rows_of: Vec<[RowId; PLACES]>,
    /// Those that have no place there.
    #[serde(skip)]
    deep_rows: FxHashMap<RowInfo, RowId>,
    #[serde(skip)]
    name_of: FxHashMap<Box<str>, Vec<NameId>>,
    #[serde(skip)]
    hints: Hints,
}

/// Rows of a track that are found at once: points, values, and slices of small depth.
const PLACES: usize = 10;

/// Which name a label probably has: most are that of the last label with the same number.
#[derive(Clone, Debug, Default)]
struct Hints {
    /// By the name's number, for names from the metadata.
    names: Vec<NameId>,
    /// By the number of the thread or interrupt.
    numbers: FxHashMap<u64, NameId>,
}

impl Hints {
    /// Numbers of names that are noted, at most.
    const MOST: usize = 1 << 16;

    fn get(&self, label: &Label<'_>) -> Option<NameId> {
        match number(label) {
            Some(number) => self.numbers.get(&number).copied(),
            None => self.names.get(label.name.number).copied(),
        }
    }

    fn set(&mut self, label: &Label<'_>, id: NameId) {
        let place = label.name.number;
        if let Some(number) = number(label) {
            self.numbers.insert(number, id);
        } else if place > 0 && place < Hints::MOST {
            if self.names.len() <= place {
                self.names.resize(place + 1, NameId::MAX);
            }
            if let Some(name) = self.names.get_mut(place) {
                *name = id;
            }
        }
    }
}

/// What is only there to be quick does not count.
impl PartialEq for Hints {
    fn eq(&self, _: &Hints) -> bool {
        true
    }
}

impl Eq for Hints {}

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
        let Some((track, place)) = self.place(row) else {
            return self.deep_rows.get(&row).copied();
        };
        let id = *self.rows_of.get(track)?.get(place)?;
        (id != RowId::MAX).then_some(id)
    }

    /// Where a row of a known track stands; `None` for one that is deep inside others.
    fn place(&self, row: RowInfo) -> Option<(usize, usize)> {
        let place = match row.kind {
            RowKind::Points => 0,
            RowKind::Values => 1,
            RowKind::Slices(depth) => (depth as usize).checked_add(2)?,
        };
        let track = usize::try_from(row.track).ok()?;
        (track <= self.tracks.len() && place < PLACES).then_some((track, place))
    }

    /// The number of a label's name, if it was met.
    pub(crate) fn name(&self, label: &Label<'_>) -> Option<NameId> {
        let same = self.name_of.get(label.name.text)?;
        same.iter().copied().find(|id| self.is_name(*id, label))
    }

    /// Whether a label has this name.
    fn is_name(&self, id: NameId, label: &Label<'_>) -> bool {
        self.names.get(id as usize).is_some_and(|known| {
            known.number == number(label)
                && known.category == label.name.category
                && known.text == label.name.text
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
        if let Some(id) = self.row(row) {
            return id;
        }
        let id = self.rows.len() as RowId;
        self.rows.push(row);
        self.note_row(row, id);
        id
    }

    fn note_row(&mut self, row: RowInfo, id: RowId) {
        let Some((track, place)) = self.place(row) else {
            self.deep_rows.insert(row, id);
            return;
        };
        if self.rows_of.len() <= track {
            self.rows_of.resize(track + 1, [RowId::MAX; PLACES]);
        }
        let of = self.rows_of.get_mut(track).and_then(|of| of.get_mut(place));
        if let Some(of) = of {
            *of = id;
        }
    }

    pub(crate) fn add_name(&mut self, label: &Label<'_>) -> NameId {
        let hint = self.hints.get(label);
        if let Some(id) = hint.filter(|id| self.is_name(*id, label)) {
            return id;
        }
        let id = self.name(label).unwrap_or_else(|| self.new_name(label));
        self.hints.set(label, id);
        id
    }

    fn new_name(&mut self, label: &Label<'_>) -> NameId {
        let id = self.names.len() as NameId;
        self.names.push(NameInfo {
            category: label.name.category.to_owned(),
            text: label.name.text.to_owned(),
            number: number(label),
        });
        let same = self.name_of.entry(label.name.text.into());
        same.or_default().push(id);
        id
    }

    /// The tables of what was read from a file.
    pub(crate) fn with_tables(mut self) -> Registry {
        for place in 0..self.rows.len() {
            if let Some(row) = self.rows.get(place).copied() {
                self.note_row(row, place as RowId);
            }
        }
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
