//! Makes an index in one pass over the trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kymo_ctf::{Consequence, ItemRef, Problem, Step, TraceMap};
use kymo_timeline::Timeline;

use crate::code;
use crate::collector::Collector;
use crate::drawn::merged;
use crate::error::Error;
use crate::file::{Blocks, Chunk, Place, Table, Writer, to_bytes};
use crate::index::{Index, Reach};
use crate::kept::Kept;
use crate::key::Key;
use crate::part::Part;
use crate::registry::Registry;

/// For how many chunks a part of a level stands: four at first, then eight times as many, as little
/// can be merged at first, and then four times as many for each level.
pub(crate) fn chunks_in(level: usize) -> usize {
    const FIRST: usize = 4;
    const SECOND: usize = 8 * FIRST;
    match level.checked_sub(1) {
        None => FIRST,
        Some(more) => {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            SECOND.saturating_mul(4_usize.saturating_pow(more))
        }
    }
}

/// An unfinished file to which nothing was written for so long belongs to nobody.
const LEFT: Duration = Duration::from_secs(3_600);

/// The name of the file of an index that grows with its trace, but for its process.
const LIVE: &str = "live.kymo-index";

/// Most sentences about damage that are kept.
const MOST_DAMAGE: usize = 100;

/// How an index is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Events between two checkpoints, at least. What is asked in detail is read again from one: few
    /// make the index larger, many make that slower.
    pub chunk_events: u64,
}

impl Options {
    /// For an index of a trace that is still recorded. What is newer than the last parts of the
    /// pyramid is read from the trace at each look, up to five chunks.
    pub const LIVE: Options = Options {
        chunk_events: 1 << 13,
    };
}

impl Default for Options {
    fn default() -> Options {
        Options {
            chunk_events: 1 << 16,
        }
    }
}

/// The parts of the pyramid, as they are finished.
#[derive(Debug)]
struct Pyramid {
    writer: Writer,
    levels: Vec<Vec<Place>>,
    /// The chunks, and behind them the parts of each level, for which no part of the next level
    /// stands yet.
    waiting: Vec<Vec<Part>>,
    bytes: Vec<u8>,
}

impl Pyramid {
    /// Adds the next chunk. Whether parts stand for all chunks so far.
    fn add_chunk(&mut self, part: Part) -> Result<bool, Error> {
        self.wait(0, part)?;
        Ok(self.waiting.first().is_none_or(Vec::is_empty))
    }

    /// Adds the next part to those that wait for one of this level.
    fn wait(&mut self, level: usize, part: Part) -> Result<(), Error> {
        if self.waiting.len() <= level {
            self.waiting.resize_with(level + 1, Vec::new);
        }
        let Some(waiting) = self.waiting.get_mut(level) else {
            return Ok(());
        };
        waiting.push(part);
        let below = level.checked_sub(1).map_or(1, chunks_in);
        match waiting.len() == chunks_in(level) / below {
            true => self.close(level),
            false => Ok(()),
        }
    }

    /// Adds a part of this level for those that wait.
    fn close(&mut self, level: usize) -> Result<(), Error> {
        let waiting = self.waiting.get_mut(level).map(std::mem::take);
        let Some(part) = waiting.and_then(|parts| merged(&parts)) else {
            return Ok(());
        };
        self.bytes.clear();
        code::write(&part, &mut self.bytes);
        let place = self.writer.block(&self.bytes)?;
        if self.levels.len() <= level {
            self.levels.resize(level + 1, Vec::new());
        }
        if let Some(places) = self.levels.get_mut(level) {
            places.push(place);
        }
        self.wait(level + 1, part)
    }

    /// Parts for the rest of each level, up to the level that has only one.
    fn finish(&mut self) -> Result<(), Error> {
        self.close(0)?;
        let mut level = 1;
        while self
            .levels
            .get(level - 1)
            .is_some_and(|parts| parts.len() > 1)
        {
            self.close(level)?;
            level += 1;
        }
        Ok(())
    }
}

/// What has been read of a trace.
#[derive(Debug)]
pub(crate) struct Builder {
    path: PathBuf,
    options: Options,
    timeline: Timeline<Collector<Registry>>,
    pyramid: Pyramid,
    chunks: Vec<Chunk>,
    damage: Vec<String>,
    /// Number of events with a time, and the time of the last one.
    events: u64,
    last: Option<u64>,
    kept: Arc<Kept>,
}

impl Builder {
    /// Nothing has been read. `begin` is the trace's, in nanoseconds from the clock's origin.
    pub(crate) fn new(
        path: &Path,
        key: &Key,
        options: Options,
        begin: Option<i128>,
    ) -> Result<Builder, Error> {
        Ok(Builder {
            path: path.to_owned(),
            options,
            timeline: Timeline::new(begin, Collector::default()),
            pyramid: Pyramid {
                writer: Writer::create(path, key)?,
                levels: Vec::new(),
                waiting: Vec::new(),
                bytes: Vec::new(),
            },
            chunks: Vec::new(),
            damage: Vec::new(),
            events: 0,
            last: None,
            kept: Arc::default(),
        })
    }

    /// Takes the next item. `look` is called where the pyramid has all that came before it.
    #[inline]
    pub(crate) fn take(
        &mut self,
        item: &ItemRef<'_>,
        look: &mut impl FnMut(&mut Growing<'_>),
    ) -> Result<(), Error> {
        if let ItemRef::Event(event) = item
            && let Some(nanos) = event.nanos()
        {
            let at = self.timeline.time_of(nanos);
            let is_later = self.last.is_none_or(|last| last < at);
            let is_full = self
                .chunks
                .last()
                .is_none_or(|chunk| chunk.events >= self.options.chunk_events);
            if is_later && is_full {
                self.begin_chunk(at, look)?;
            }
            self.events += 1;
            self.last = self.last.max(Some(at));
            if let Some(chunk) = self.chunks.last_mut() {
                chunk.events += 1;
            }
        }
        let room = MOST_DAMAGE.saturating_sub(self.damage.len());
        self.damage.extend(sentence(item).into_iter().take(room));
        self.timeline.add(item).map_err(Error::Draw)
    }

    fn begin_chunk(
        &mut self,
        at: u64,
        look: &mut impl FnMut(&mut Growing<'_>),
    ) -> Result<(), Error> {
        match self.chunks.is_empty() {
            true => self.timeline.canvas_mut().begin_at(at),
            false => {
                let part = self.timeline.canvas_mut().cut(at);
                if self.pyramid.add_chunk(part)? {
                    look(&mut Growing {
                        builder: self,
                        end: at,
                    });
                }
            }
        }
        let checkpoint = to_bytes(&self.timeline)?;
        self.chunks.push(Chunk {
            begin: at,
            events: 0,
            checkpoint: self.pyramid.writer.packed(&checkpoint)?,
        });
        Ok(())
    }

    /// The index of what has been read, up to this time. `is_open`: the last chunk may get more.
    fn index(&mut self, end: u64, is_open: bool) -> Result<Index, Error> {
        self.pyramid.writer.flush()?;
        let table = Table {
            origin: self.timeline.origin().unwrap_or(0),
            end,
            chunks: self.chunks.clone(),
            levels: self.pyramid.levels.clone(),
            registry: self.timeline.canvas().numbers.clone(),
            damage: self.damage.clone(),
        };
        let reach = match is_open {
            true => Reach::Open,
            false => Reach::Closed,
        };
        let blocks = Blocks::of(&self.path)?;
        Ok(Index::new(blocks, table, reach, Arc::clone(&self.kept)))
    }

    /// There is no more: ends the file.
    fn finish(mut self) -> Result<(), Error> {
        let end = self.end();
        let (mut canvas, origin) = self.timeline.finish().map_err(Error::Draw)?;
        let part = canvas.cut(end);
        self.pyramid.add_chunk(part)?;
        self.pyramid.finish()?;
        self.pyramid.writer.finish(&Table {
            origin,
            end,
            chunks: self.chunks,
            levels: self.pyramid.levels,
            registry: canvas.numbers,
            damage: self.damage,
        })
    }

    /// Behind the last event.
    fn end(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(1))
    }
}

/// An index of which a part is made.
#[derive(Debug)]
pub struct Growing<'b> {
    builder: &'b mut Builder,
    end: u64,
}

impl Growing<'_> {
    /// Number of events that have been read.
    pub fn events(&self) -> u64 {
        self.builder.events
    }

    /// The index of what has been read. It stays as it is while more is read, and can be asked from
    /// any thread.
    ///
    /// # Errors
    /// [`Error::Write`] and [`Error::Read`] if the file cannot be written or read.
    pub fn index(&mut self) -> Result<Index, Error> {
        self.builder.index(self.end, false)
    }
}

/// The index of a trace that is still recorded. Its file is removed with it.
#[derive(Debug)]
pub struct Live {
    builder: Builder,
}

impl Live {
    /// An index of nothing, in a new file in this folder. `begin` is the trace's, in nanoseconds
    /// from the clock's origin.
    ///
    /// # Errors
    /// [`Error::Write`] if the file cannot be written.
    pub fn new(folder: &Path, begin: Option<i128>, options: Options) -> Result<Live, Error> {
        let path = folder.join(LIVE);
        sweep(&path);
        let builder = Builder::new(&unfinished(&path), &Key::NONE, options, begin)?;
        Ok(Live { builder })
    }

    /// Adds what has been recorded since; returns the number of events and losses.
    ///
    /// # Errors
    /// [`Error::Write`] if the file cannot be written.
    pub fn add(&mut self, step: &mut Step<'_>) -> Result<u64, Error> {
        step.read(|item| self.builder.take(item, &mut |_| ()))
    }

    /// The index of what was added, which needs the bytes of the last step. It stays as it is while
    /// more is added, and can be asked from any thread as long as this lives. `late`: how many
    /// events it lacks, as they were written too late, which it [says](Index::damage).
    ///
    /// # Errors
    /// [`Error::Write`] and [`Error::Read`] if the file cannot be written or read.
    pub fn index(&mut self, late: u64) -> Result<Index, Error> {
        let sentence =
            || format!("events that were written too late to be shown as they came: {late}");
        self.builder.damage = (late > 0).then(sentence).into_iter().collect();
        self.builder.index(self.builder.end(), true)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // That there is nothing to remove is no error.
        let _ = fs::remove_file(&self.builder.path);
    }
}

/// Makes the index of a trace in a file. `look` is called whenever the pyramid has
/// all that was read.
///
/// The file gets its name when it is finished: one that another process makes meanwhile is
/// overwritten by this one, or this one by that one; both are the same.
///
/// # Errors
/// [`Error::Write`] if the file cannot be written; nothing is left of it then.
pub(crate) fn build(
    map: &TraceMap,
    key: &Key,
    path: &Path,
    options: Options,
    look: impl FnMut(&mut Growing<'_>),
) -> Result<(), Error> {
    sweep(path);
    let unfinished = unfinished(path);
    let made = write(map, key, &unfinished, options, look).and_then(|()| {
        fs::rename(&unfinished, path).map_err(|error| Error::Write {
            path: path.to_owned(),
            error,
        })
    });
    if made.is_err() {
        // What is left of it is of no use; that there is nothing to remove is no second error.
        let _ = fs::remove_file(&unfinished);
    }
    made
}

/// Removes what processes that ended too early have left of this file.
fn sweep(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let name = name.to_string_lossy();
    for entry in entries.flatten() {
        let other = entry.file_name();
        let other = other.to_string_lossy();
        let Some(number) = other.strip_prefix(&*name).and_then(|o| o.strip_prefix('.')) else {
            continue;
        };
        let written = entry.metadata().and_then(|metadata| metadata.modified());
        let age = written.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if number.parse::<u32>().is_ok() && age.is_ok_and(|age| age > LEFT) {
            // Another process may have removed it already.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The name of the file until it is finished.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

fn write(
    map: &TraceMap,
    key: &Key,
    path: &Path,
    options: Options,
    mut look: impl FnMut(&mut Growing<'_>),
) -> Result<(), Error> {
    let mut reader = map.read();
    let mut builder = Builder::new(path, key, options, reader.begin_nanos())?;
    while let Some(item) = reader.next() {
        builder.take(&item, &mut look)?;
    }
    builder.finish()
}

/// Says what could not be read, if the item is about that.
fn sentence(item: &ItemRef<'_>) -> Option<String> {
    match item {
        ItemRef::Problem(problem) if problem.consequence != Consequence::Clamped => {
            Some(said(&Problem::clone(problem).into()))
        }
        _ => None,
    }
}

/// An error of a stream with the advice that every verb of `kymo` gives.
pub(crate) fn said(error: &kymo_ctf::Error) -> String {
    match error.advice() {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    }
}
