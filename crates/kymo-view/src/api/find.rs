//! A slice whose times are known.

use std::collections::HashMap;

use kymo_index::{Content, Index, RowId, RowKind, Run};
use kymo_timeline::{TrackId, TrackKind};

use super::{COLUMNS, Refused, Seen, number, refused, time};

impl Seen {
    /// The slice or point that begins and ends at these times, or the one that is next to them: of
    /// a row, or of all rows one of this category, if it has exactly these times. `tid` may say of
    /// which thread.
    pub(super) fn find(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let index = &*self.index;
        let time = time(index, query)?;
        let category = query.get("category").copied();
        let tid = query.get("tid").and_then(|tid| tid.parse().ok());
        let rows = match category {
            Some(_) => rows_of(index, tid),
            None => {
                let row = RowId::try_from(number(query, "row")?);
                vec![row.map_err(|_| refused("there is no such row"))?]
            }
        };
        let at = time.start..time.end.max(time.start.saturating_add(1));
        let window = index.window(self.map(), &rows, at, COLUMNS);
        let window = window.map_err(|error| (500, error.to_string()))?;
        let names = index.registry().names();
        let is_wanted = |run: &Run| {
            let is_exact = (run.begin, run.end) == (time.start, time.end);
            let name = names.get(run.name as usize);
            category.is_none_or(|category| {
                is_exact && name.is_some_and(|name| name.category == category)
            })
        };
        let distance = |(_, run): &(RowId, &Run)| {
            let begin = run.begin.abs_diff(time.start);
            begin.saturating_add(run.end.abs_diff(time.end))
        };
        let all = rows.iter().zip(&window.rows).flat_map(|(row, content)| {
            let runs = match content {
                Content::Runs(runs) => runs.as_slice(),
                Content::Values(_) => &[],
            };
            runs.iter().map(|run| (*row, run))
        });
        match all.filter(|(_, run)| is_wanted(run)).min_by_key(distance) {
            Some((row, run)) => self.found(index, row, run),
            None => Ok("null".to_owned()),
        }
    }
}

/// The rows of slices and points, of one thread or of all.
fn rows_of(index: &Index, tid: Option<u64>) -> Vec<RowId> {
    let registry = index.registry();
    let rows = (0..).zip(registry.rows()).filter(|(_, row)| {
        row.kind != RowKind::Values && tid.is_none_or(|tid| is_of(index, row.track, tid))
    });
    rows.map(|(number, _)| number).collect()
}

/// Whether a track is one of the thread of this number.
fn is_of(index: &Index, track: TrackId, tid: u64) -> bool {
    let registry = index.registry();
    let home = registry.track(home(index, track));
    home.is_some_and(|home| match home.kind {
        TrackKind::Thread { tid: of, .. } => of == tid,
        // Threads without a process are in the order of their numbers.
        _ => home.rank == tid,
    })
}

/// The outermost track around this one that is no group and no process: of a thread's tracks, its
/// own.
pub(super) fn home(index: &Index, track: TrackId) -> TrackId {
    let registry = index.registry();
    let mut home = track;
    while let Some(outer) = registry.track(home).and_then(|track| track.parent)
        && let Some(kind) = registry.track(outer).map(|track| track.kind)
        && !matches!(kind, TrackKind::Group | TrackKind::Process { .. })
    {
        home = outer;
    }
    home
}
