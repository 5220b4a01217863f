//! Who held a thread up during a stretch of its time, as `kymo why` says.

use std::collections::HashMap;

use kymo_analysis::{CriticalPath, History, Stretch, Stretches};
use kymo_index::Index;
use kymo_timeline::{THREADS, TrackId, TrackKind};
use serde::Serialize;

use super::find::home;
use super::{Refused, Seen, first, json, number, refused, time};

/// Most segments of an answer.
const MOST: usize = 1_000;

#[derive(Serialize)]
struct ShownPath {
    /// The longest segments, in time order.
    segments: Vec<ShownSegment>,
    /// Who was responsible, for how long together, in how many segments; the longest first.
    by_who: Vec<(String, u64, u64)>,
    /// Whether these are all segments, and reach the stretch's begin.
    is_whole: bool,
    /// Number of losses during the stretch.
    losses: u64,
}

#[derive(Serialize)]
struct ShownSegment {
    /// In nanoseconds since the first event.
    from_ns: i64,
    to_ns: i64,
    /// The track of the followed thread.
    track: Option<TrackId>,
    /// Subject and predicate, and why that counts.
    who: String,
    says: String,
    because: String,
    cpu: Option<u64>,
}

impl Seen {
    /// The critical path of a thread, of which this is a row, in a stretch of time. The trace is
    /// read twice.
    pub(super) fn why(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let index = &*self.index;
        let time = time(index, query)?;
        let row = usize::try_from(number(query, "row")?).ok();
        let row = row.and_then(|row| index.registry().rows().get(row));
        let row = row.ok_or_else(|| refused("there is no such row"))?;
        let tid = thread(index, row.track).ok_or_else(|| refused("this is no row of a thread"))?;
        let nanos = |at: u64| i64::try_from(index.origin() + i128::from(at));
        let (Ok(from), Ok(to)) = (nanos(time.start), nanos(time.end)) else {
            return Err(refused("its times are too far from the clock's origin"));
        };
        let path = self.path(tid, from, to)?;
        let since = |at: i64| i64::try_from(i128::from(at) - first(index)).unwrap_or(i64::MAX);
        json(&shown(&path, &threads(index), since))
    }

    /// Follows the thread of this number.
    fn path(&self, tid: u64, from: i64, to: i64) -> Result<CriticalPath, Refused> {
        let mut stretches = Stretches::new(Some(from));
        let mut reader = self.map().read();
        while let Some(item) = reader.next() {
            stretches.add(&item);
        }
        stretches.finish();
        // Of several with this number, the one that has a stretch there.
        let there = stretches.best(|other| other == tid).map(|best| best.thread);
        let machine = stretches.machine();
        let thread = there.ok_or_else(|| refused("the trace says nothing of what this thread did"));
        let mut history = History::of(Stretch::given(thread?, from, to));
        let mut reader = self.map().read();
        while let Some(item) = reader.next() {
            if !history.add(&item) {
                break;
            }
        }
        Ok(history.path(machine))
    }
}

/// The number of the thread of which this is a track.
fn thread(index: &Index, track: TrackId) -> Option<u64> {
    let registry = index.registry();
    let home = registry.track(home(index, track))?;
    match home.kind {
        TrackKind::Thread { tid, .. } => Some(tid),
        TrackKind::Lane => {
            let group = registry.track(home.parent?)?;
            (group.kind == TrackKind::Group && group.name == THREADS).then_some(home.rank)
        }
        _ => None,
    }
}

/// The tracks of threads by their numbers.
fn threads(index: &Index) -> HashMap<u64, TrackId> {
    let tracks = index.registry().tracks().map(|(id, _)| id);
    let homes = tracks.filter(|id| home(index, *id) == *id);
    homes
        .filter_map(|id| Some((thread(index, id)?, id)))
        .collect()
}

fn shown(
    path: &CriticalPath,
    tracks: &HashMap<u64, TrackId>,
    since: impl Fn(i64) -> i64,
) -> ShownPath {
    let mut longest: Vec<_> = path.segments.iter().collect();
    longest.sort_by_key(|segment| std::cmp::Reverse(segment.ns));
    longest.truncate(MOST);
    longest.sort_by_key(|segment| segment.begin_ns);
    let segments = longest.iter().map(|segment| ShownSegment {
        from_ns: since(segment.begin_ns),
        to_ns: since(segment.end_ns),
        track: segment
            .thread
            .as_ref()
            .and_then(|thread| tracks.get(&thread.tid).copied()),
        who: segment.who.to_string(),
        says: segment.says(),
        because: segment
            .because
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        cpu: segment.cpu,
    });
    let by_who = path.by_who.iter();
    ShownPath {
        segments: segments.collect(),
        by_who: by_who
            .map(|of| (of.who.to_string(), of.ns, of.segments))
            .collect(),
        is_whole: path.segments.len() <= MOST && path.kept_from_ns.is_none(),
        losses: path.losses,
    }
}
