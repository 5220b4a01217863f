//! An index, and what it tells of a stretch of time.

use std::num::NonZero;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use kymo_ctf::{ItemRef, Trace, TraceMap};
use kymo_timeline::{Canvas, Timeline};

use crate::build::{self, Growing, Options, chunks_in};
use crate::code::Coded;
use crate::collector::Collector;
use crate::drawn::Drawn;
use crate::error::Error;
use crate::file::{Blocks, Chunk, Table};
use crate::finder::Finder;
use crate::kept::{Kept, Which};
use crate::key::Key;
use crate::part::{Content, Part, RESOLUTION};
use crate::registry::{Registry, RowId};

/// A window of no more chunks than these is read from the trace.
const MOST_EXACT: usize = 16;
/// Most threads that read chunks for one window.
const THREADS: usize = 4;

/// A timeline from a checkpoint.
pub(crate) type Resumed = Timeline<Collector<Arc<Registry>>>;

/// How much of the trace an index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All.
    Whole,
    /// Up to where a chunk ends.
    Closed,
    /// A part of the last chunk, too.
    Open,
}

/// The index of a trace.
#[derive(Debug)]
pub struct Index {
    blocks: Blocks,
    chunks: Vec<Chunk>,
    levels: Vec<Vec<crate::file::Place>>,
    registry: Arc<Registry>,
    origin: i128,
    end: u64,
    reach: Reach,
    damage: Vec<String>,
    kept: Arc<Kept>,
}

/// What rows have in a stretch of time.
#[derive(Clone, Debug)]
pub struct Window {
    /// The rows, as they were asked for.
    pub rows: Vec<Content>,
    /// Whether nothing is merged that is longer than a column: it was read from the trace. If not,
    /// what is merged is at most as long as `resolution` says.
    pub is_exact: bool,
    /// In nanoseconds.
    pub resolution: u64,
}

impl Index {
    /// The index of a trace in a file, which is made if there is none, or it is not of this trace.
    /// While it is made, `look` gets what there is of it, after each chunk.
    ///
    /// # Errors
    /// [`Error::Write`] and [`Error::Read`] if the file cannot be written or read.
    pub fn open_or_make(
        trace: &Trace,
        map: &TraceMap,
        path: &Path,
        options: Options,
        look: impl FnMut(&mut Growing<'_>),
    ) -> Result<Index, Error> {
        let key = Key::of(trace, map)?;
        if let Some(index) = Index::open(&key, path)? {
            return Ok(index);
        }
        build::build(map, &key, path, options, look)?;
        Index::open(&key, path)?.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: "it was overwritten",
        })
    }

    /// The index in a file. `None` if there is none, it was not finished, or it is of another trace
    /// or version.
    ///
    /// # Errors
    /// [`Error::Read`] if the file is there and cannot be read.
    pub fn open(key: &Key, path: &Path) -> Result<Option<Index>, Error> {
        let opened = Blocks::open(path, key)?;
        Ok(opened.map(|(blocks, table)| Index::new(blocks, table, Reach::Whole, Arc::default())))
    }

    pub(crate) fn new(blocks: Blocks, table: Table, reach: Reach, kept: Arc<Kept>) -> Index {
        Index {
            blocks,
            chunks: table.chunks,
            levels: table.levels,
            registry: Arc::new(table.registry),
            origin: table.origin,
            end: table.end,
            reach,
            damage: table.damage,
            kept,
        }
    }

    /// Tracks, rows and names.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What of the trace could not be read, a sentence each: first the streams that could not be
    /// opened, then up to a hundred places in the others.
    pub fn damage(&self, map: &TraceMap) -> Vec<String> {
        let failed = map.failed().iter().map(build::said);
        failed.chain(self.damage.iter().cloned()).collect()
    }

    /// Number of events with a time.
    pub fn events(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.events).sum()
    }

    /// The timeline's origin, in nanoseconds from the clock's: all times of the index are from there
    /// on.
    pub fn origin(&self) -> i128 {
        self.origin
    }

    /// Whether it has the whole trace. If not, the slices that are open where it ends do so, too.
    pub fn is_whole(&self) -> bool {
        self.reach == Reach::Whole
    }

    /// From the first event to behind the last one, in nanoseconds of the timeline.
    pub fn span(&self) -> Range<u64> {
        self.chunks.first().map_or(0, |chunk| chunk.begin)..self.end
    }

    /// What these rows have between two times, for `columns` columns of pixels: what is shorter than
    /// a column is merged. Slices that reach into the window are whole, but where they are marked as
    /// cut.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Damaged`] if the file cannot be read.
    pub fn window(
        &self,
        map: &TraceMap,
        rows: &[RowId],
        time: Range<u64>,
        columns: u32,
    ) -> Result<Window, Error> {
        let column = (time.end.saturating_sub(time.start) / u64::from(columns.max(1))).max(1);
        let chunks = self.chunks_of(&time);
        let mut window = Window {
            rows: Vec::new(),
            is_exact: chunks.len() <= MOST_EXACT,
            resolution: column,
        };
        let mut parts = Vec::new();
        if window.is_exact {
            parts = self.exact_parts(map, chunks)?;
        } else {
            let level = self.level_of(column);
            let rest = self.parts(level, chunks, &mut parts)?;
            parts.extend(self.exact_parts(map, rest)?);
            let coarse = parts.iter().map(|part| part.resolution()).max();
            window.resolution = column.max(coarse.unwrap_or(0));
        }
        for row in rows {
            let mut drawn = Drawn::new(time.clone(), column);
            for part in &parts {
                drawn.begin_part();
                let decoded = part.row(*row, &mut drawn);
                decoded.ok_or_else(|| self.blocks.no_part())?;
            }
            window.rows.push(drawn.finish());
        }
        Ok(window)
    }

    /// The numbers of the chunks of a stretch of time.
    pub(crate) fn chunks_of(&self, time: &Range<u64>) -> Range<usize> {
        let begin = self
            .chunks
            .partition_point(|chunk| chunk.begin <= time.start);
        let end = self.chunks.partition_point(|chunk| chunk.begin < time.end);
        begin.saturating_sub(1)..end
    }

    /// The highest level whose parts have no longer steps than two columns, on average: finer ones
    /// take several times as long to read, and show little more.
    fn level_of(&self, column: u64) -> usize {
        let span = self.span();
        let span = span.end.saturating_sub(span.start);
        let fits = |level: &usize| {
            let parts = self.chunks.len().max(1).div_ceil(chunks_in(*level));
            span / (parts as u64) / RESOLUTION <= column.saturating_mul(2)
        };
        (0..self.levels.len()).rfind(fits).unwrap_or(0)
    }

    /// The parts of a level that have these chunks. While the index is made, those of lower levels
    /// stand for what the level has no part of yet. Gives the chunks that no part stands for.
    fn parts(
        &self,
        level: usize,
        chunks: Range<usize>,
        to: &mut Vec<Arc<Coded>>,
    ) -> Result<Range<usize>, Error> {
        let mut next = chunks.start;
        for (level, places) in self.levels.iter().enumerate().take(level + 1).rev() {
            let one = chunks_in(level);
            while next < chunks.end
                && let Some(place) = places.get(next / one)
            {
                let which = Which::Part(level, next / one);
                to.push(self.kept.get(which, || self.blocks.part(place))?);
                next = (next / one + 1) * one;
            }
        }
        Ok(next.min(chunks.end)..chunks.end)
    }

    /// Chunks with all slices, as the trace has them.
    fn exact_parts(&self, map: &TraceMap, chunks: Range<usize>) -> Result<Vec<Arc<Coded>>, Error> {
        let missing = chunks
            .clone()
            .filter(|number| !self.kept.has(self.which(*number)));
        let missing: Vec<usize> = missing.collect();
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = threads.min(missing.len()).min(THREADS);
        thread::scope(|scope| {
            for first in 1..threads {
                let own = missing.iter().skip(first).step_by(threads);
                // A chunk that a thread fails to read is read again below, and the error reported.
                let _ = thread::Builder::new().spawn_scoped(scope, move || {
                    for number in own {
                        let _ = self.exact(map, *number);
                    }
                });
            }
            let mut parts = Vec::new();
            for number in missing.iter().step_by(threads.max(1)) {
                self.exact(map, *number)?;
            }
            for number in chunks {
                parts.push(self.exact(map, number)?);
            }
            Ok(parts)
        })
    }

    /// A chunk with all slices, as the trace has them.
    fn exact(&self, map: &TraceMap, number: usize) -> Result<Arc<Coded>, Error> {
        self.kept.get(self.which(number), || {
            let part = self.read(map, number)?;
            Coded::of(&part).ok_or_else(|| self.blocks.no_part())
        })
    }

    fn which(&self, number: usize) -> Which {
        match self.reach == Reach::Open && number + 1 == self.chunks.len() {
            true => Which::Open(self.end),
            false => Which::Chunk(number),
        }
    }

    /// Reads a chunk again from its checkpoint on.
    fn read(&self, map: &TraceMap, number: usize) -> Result<Part, Error> {
        let Some(mut timeline) = self.at_checkpoint(number)? else {
            return Ok(Part::default());
        };
        timeline.canvas_mut().begin_part();
        let next = self.play(map, number, &mut timeline)?;
        match next {
            // A chunk follows, or will.
            Some(next) => Ok(timeline.canvas_mut().cut(next)),
            None => {
                let (mut canvas, _) = timeline.finish().map_err(Error::Draw)?;
                Ok(canvas.cut(self.end))
            }
        }
    }

    /// What is said beside a slice or point of a row that begins at this time: names and values of
    /// the fields of the events with which it begins and, if that is in the same chunk, ends.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Damaged`] if the file cannot be read.
    pub fn notes(
        &self,
        map: &TraceMap,
        row: RowId,
        begin: u64,
    ) -> Result<Vec<(String, String)>, Error> {
        let number = self.chunks_of(&(begin..begin.saturating_add(1))).start;
        let row = self.registry.rows().get(row as usize);
        let (Some(&row), Some(timeline)) = (row, self.at_checkpoint(number)?) else {
            return Ok(Vec::new());
        };
        let mut timeline = timeline.on(|canvas| Finder::new(canvas, row, begin));
        self.play(map, number, &mut timeline)?;
        Ok(std::mem::take(&mut timeline.canvas_mut().notes))
    }

    /// The timeline in front of a chunk; `None` if there is no such chunk.
    pub(crate) fn at_checkpoint(&self, number: usize) -> Result<Option<Resumed>, Error> {
        let Some(chunk) = self.chunks.get(number) else {
            return Ok(None);
        };
        let bytes = self.blocks.packed(&chunk.checkpoint)?;
        let mut timeline: Resumed =
            postcard::from_bytes(&bytes).map_err(|error| Error::Keep(error.to_string()))?;
        timeline.canvas_mut().numbers = Arc::clone(&self.registry);
        Ok(Some(timeline))
    }

    /// Draws a chunk. Gives where it ends, if the trace goes on behind it.
    pub(crate) fn play<C: Canvas>(
        &self,
        map: &TraceMap,
        number: usize,
        timeline: &mut Timeline<C>,
    ) -> Result<Option<u64>, Error> {
        let begin = |number: usize| self.chunks.get(number).map(|chunk| chunk.begin);
        let nanos = |at: u64| self.origin + i128::from(at);
        // The first chunk has everything from the beginning: losses too that come before its events.
        let from = begin(number).filter(|_| number > 0).map(nanos);
        let next = begin(number + 1).or((!self.is_whole()).then_some(self.end));
        let to = next.map(|next| nanos(next) - 1);
        let mut reader = map.read().between(from, to);
        let mut has_begun = number == 0;
        while let Some(item) = reader.next() {
            // What comes before the first event was before the checkpoint already.
            has_begun |= match &item {
                ItemRef::Event(event) => event.nanos().is_some(),
                _ => false,
            };
            if has_begun {
                timeline.add(&item).map_err(Error::Draw)?;
            }
        }
        Ok(next)
    }
}
