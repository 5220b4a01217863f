//! The arrows of one slice: who woke its thread, or gave it the lock, and whom it woke.

use std::collections::HashMap;

use kymo_index::Index;
use kymo_timeline::TrackId;
use serde::Serialize;

use super::find::home;
use super::{Refused, Seen, json, number, refused, time};

/// Most arrows of an answer.
const MOST: usize = 500;

#[derive(Serialize)]
struct ShownArrows<'a> {
    arrows: Vec<ShownArrow<'a>>,
    /// Whether these are all.
    is_whole: bool,
}

#[derive(Serialize)]
struct ShownArrow<'a> {
    name: &'a str,
    from_ns: i64,
    from_track: TrackId,
    to_ns: i64,
    to_track: TrackId,
}

impl Seen {
    /// The arrows that begin or end in a stretch of time at the thread of a row, or at the row's
    /// track if that is of no thread.
    pub(super) fn arrows(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let index = &*self.index;
        let time = time(index, query)?;
        let row = usize::try_from(number(query, "row")?).ok();
        let row = row.and_then(|row| index.registry().rows().get(row));
        let row = row.ok_or_else(|| refused("there is no such row"))?;
        let tracks = beside(index, row.track);
        let arrows = index.arrows(self.map(), &tracks, time);
        let arrows = arrows.map_err(|error| (500, error.to_string()))?;
        let begin = index.span().start;
        let since = |at: u64| at as i64 - begin as i64;
        let shown = arrows.arrows.iter().take(MOST).map(|arrow| ShownArrow {
            name: &arrow.name,
            from_ns: since(arrow.from.at),
            from_track: arrow.from.track,
            to_ns: since(arrow.to.at),
            to_track: arrow.to.track,
        });
        json(&ShownArrows {
            arrows: shown.collect(),
            is_whole: arrows.is_whole && arrows.arrows.len() <= MOST,
        })
    }
}

/// The tracks of a thread, of which this is one.
fn beside(index: &Index, track: TrackId) -> Vec<TrackId> {
    let home = home(index, track);
    let tracks = index.registry().tracks();
    let inner = tracks.filter(|(_, track)| track.parent == Some(home));
    std::iter::once(home)
        .chain(inner.map(|(id, _)| id))
        .collect()
}
