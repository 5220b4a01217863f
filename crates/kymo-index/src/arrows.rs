//! Arrows: from a wake-up to the thread that becomes runnable, and from a lock's release to the
//! wait that it ends.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use kymo_ctf::TraceMap;
use kymo_timeline::{Canvas, Flow, Label, Track, TrackId};

use crate::error::Error;
use crate::index::Index;

/// Most chunks of which all is read: of longer stretches of time, the first and the last.
const MOST: usize = 16;

/// An end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrowEnd {
    /// In nanoseconds of the timeline.
    pub at: u64,
    /// Its track.
    pub track: TrackId,
}

/// An arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// What happens where it begins; empty if that has no name of its own.
    pub name: String,
    /// Where it begins.
    pub from: ArrowEnd,
    /// Where it ends.
    pub to: ArrowEnd,
}

/// The arrows of a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Arrows {
    /// In the order of their ends.
    pub arrows: Vec<Arrow>,
    /// Whether these are all: of a long stretch, only its ends are read.
    pub is_whole: bool,
}

/// A canvas that keeps arrows.
#[derive(Debug, Default)]
struct Flows {
    begun: HashMap<u64, (String, ArrowEnd)>,
    ended: Vec<(u64, ArrowEnd)>,
}

impl Flows {
    fn take(&mut self, at: u64, track: TrackId, label: &Label<'_>) {
        match label.flow {
            Flow::None => {}
            Flow::Begins(flow) => {
                let name = label.name.text.to_owned();
                self.begun.insert(flow, (name, ArrowEnd { at, track }));
            }
            Flow::Ends(flow) => self.ended.push((flow, ArrowEnd { at, track })),
        }
    }
}

impl Canvas for Flows {
    const HAS_NOTES: bool = false;

    fn track(&mut self, _: &Track<'_>) -> io::Result<()> {
        Ok(())
    }

    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.take(at, track, label);
        Ok(())
    }

    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.take(at, track, label);
        Ok(())
    }

    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.take(at, track, label);
        Ok(())
    }

    fn counter(&mut self, _: u64, _: TrackId, _: i64) -> io::Result<()> {
        Ok(())
    }
}

impl Index {
    /// The arrows that begin or end on one of these tracks in a stretch of time, both ends
    /// included.
    /// Chunks of the trace are read again for it.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Damaged`] if the file cannot be read.
    pub fn arrows(
        &self,
        map: &TraceMap,
        tracks: &[TrackId],
        time: Range<u64>,
    ) -> Result<Arrows, Error> {
        let chunks = self.chunks_of(&(time.start..time.end.saturating_add(1)));
        let is_whole = chunks.len() <= MOST;
        let mut wanted: Vec<usize> = chunks.clone().collect();
        if !is_whole {
            wanted = chunks
                .clone()
                .take(1)
                .chain(chunks.clone().last())
                .collect();
        }
        let mut flows = Flows::default();
        for number in &wanted {
            self.draw_flows(map, *number, &mut flows)?;
        }
        // A lock may be released in the chunk before the one in which the wait ends.
        let is_open = |(flow, _): &(u64, ArrowEnd)| !flows.begun.contains_key(flow);
        if flows.ended.iter().any(is_open)
            && let Some(before) = chunks.start.checked_sub(1)
        {
            let mut earlier = Flows::default();
            self.draw_flows(map, before, &mut earlier)?;
            for (flow, begun) in earlier.begun {
                flows.begun.entry(flow).or_insert(begun);
            }
        }
        let is_here = |end: &ArrowEnd| {
            tracks.contains(&end.track) && (time.start..=time.end).contains(&end.at)
        };
        let Flows { mut begun, ended } = flows;
        let arrows = ended.into_iter().filter_map(|(flow, to)| {
            let (name, from) = begun.remove(&flow)?;
            (is_here(&from) || is_here(&to)).then_some(Arrow { name, from, to })
        });
        Ok(Arrows {
            arrows: arrows.collect(),
            is_whole,
        })
    }

    fn draw_flows(&self, map: &TraceMap, number: usize, to: &mut Flows) -> Result<(), Error> {
        let Some(timeline) = self.at_checkpoint(number)? else {
            return Ok(());
        };
        let mut timeline = timeline.on(|_| std::mem::take(to));
        self.play(map, number, &mut timeline)?;
        *to = std::mem::take(timeline.canvas_mut());
        Ok(())
    }
}
