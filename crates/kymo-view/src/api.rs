//! What the page asks for.
//!
//! Times are in nanoseconds since the trace's first event: JavaScript's numbers hold them exactly up
//! to 2^53, which is 104 days.

mod arrows;
mod chosen;
mod events;
mod file;
mod find;
mod flame;
mod why;
mod worst;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use kymo_analysis::{Analysis, Diff, Report};
use kymo_ctf::TraceMap;
use kymo_index::{Content, Index, RowId, RowKind, Run};
use kymo_timeline::TrackKind;
use serde::Serialize;

use self::chosen::Chosen;
pub use self::file::File;
pub(crate) use self::flame::NoSymbols;
pub use self::flame::Symbols;
use self::worst::Reported;
use crate::http::Answer;
use crate::view::Source;

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";
/// Most columns that a window may have.
const COLUMNS: u32 = 1 << 14;
/// Words of an entry of a window.
const WORDS: usize = 5;
/// Into how many steps a column is divided in what is sent.
const STEPS: u64 = 16;
/// Behind what a window shows: large enough to be outside, and no larger than a word.
const OUTSIDE: u64 = 1 << 28;

/// What there is of a trace at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) title: Arc<str>,
    pub(crate) source: Arc<Source>,
    pub(crate) index: Arc<Index>,
}

/// The tracks, rows and names of a trace, once for all.
#[derive(Serialize)]
struct Shown<'v> {
    title: &'v str,
    events: u64,
    /// From the first event to the last one.
    span_ns: u64,
    /// How far the index reaches, from the first event on.
    read_ns: u64,
    /// Whether there is no more to read.
    is_whole: bool,
    /// Whether it is still recorded.
    is_recorded: bool,
    /// Time of the first event in nanoseconds from the clock's origin. As a text: it may be beyond
    /// 2^53.
    begin_ns: String,
    /// Time of the first event in nanoseconds from the trace's beginning, from which `kymo report`
    /// counts.
    since_begin_ns: i64,
    /// What of the trace could not be read, a sentence each.
    damage: Vec<String>,
    tracks: Vec<ShownTrack<'v>>,
    rows: Vec<ShownRow>,
    names: Vec<(&'v str, &'v str, Option<u64>)>,
}

#[derive(Serialize)]
struct ShownTrack<'v> {
    id: u64,
    parent: Option<u64>,
    kind: &'static str,
    name: &'v str,
    rank: u64,
    pid: Option<u64>,
    tid: Option<u64>,
}

#[derive(Serialize)]
struct ShownRow {
    track: u64,
    kind: &'static str,
    depth: u32,
}

/// What a row has at a point in time.
#[derive(Serialize)]
struct Found<'v> {
    row: RowId,
    begin_ns: i64,
    end_ns: i64,
    count: u64,
    busy_ns: u64,
    longest_ns: u64,
    category: &'v str,
    name: &'v str,
    number: Option<u64>,
    is_cut: bool,
    /// Names and values of the fields of its events.
    notes: Vec<(String, String)>,
}

/// A request that cannot be answered: its status and why.
type Refused = (u16, String);

impl Seen {
    fn map(&self) -> &TraceMap {
        &self.source.map
    }

    /// Length of the whole trace, of which an index has a part, in nanoseconds.
    fn length(&self) -> u64 {
        let span = self.index.span();
        let read = span.end.saturating_sub(span.start).saturating_sub(1);
        if self.index.is_whole() || self.source.is_recorded() {
            return read;
        }
        let begin = first(&self.index);
        let end = self.source.end_nanos();
        let whole = end.and_then(|end| u64::try_from(end - begin).ok());
        whole.unwrap_or(0).max(read)
    }

    /// What the page asks for.
    pub(crate) fn answer(&self, what: &str, query: &[(String, String)]) -> Answer {
        let query: HashMap<&str, &str> = query.iter().map(|(n, v)| (&**n, &**v)).collect();
        let answer = match what {
            "trace" => self.shown().map(|json| Answer::new(JSON, json)),
            "window" => self.window(&query).map(|bytes| Answer::new(BYTES, bytes)),
            "at" => self.at(&query).map(|json| Answer::new(JSON, json)),
            "arrows" => self.arrows(&query).map(|json| Answer::new(JSON, json)),
            "diff" => self.diff(&query).map(|json| Answer::new(JSON, json)),
            "events" => self.events(&query).map(|json| Answer::new(JSON, json)),
            "flame" => self.flame(&query).map(|json| Answer::new(JSON, json)),
            "find" => self.find(&query).map(|json| Answer::new(JSON, json)),
            "why" => self.why(&query).map(|json| Answer::new(JSON, json)),
            "report" => self.report(&query).map(|json| Answer::new(JSON, json)),
            _ => Err((404, "There is nothing of this name.".to_owned())),
        };
        answer.unwrap_or_else(|(status, why)| Answer::refused(status, &why))
    }

    /// The trace's beginning, from which times of texts count, in nanoseconds from the clock's
    /// origin. `first` is its first event's time.
    fn begin(&self, first: i128) -> i128 {
        self.source.begin_nanos().unwrap_or(first)
    }

    fn shown(&self) -> Result<String, Refused> {
        let index = &*self.index;
        let span = index.span();
        json(&Shown {
            span_ns: self.length(),
            read_ns: span.end.saturating_sub(span.start),
            is_whole: index.is_whole(),
            ..self.shown_of(index, &span, index.events())
        })
    }

    /// A stretch of time, which has so many events, as if it were all.
    fn shown_of<'v>(&'v self, index: &'v Index, time: &Range<u64>, events: u64) -> Shown<'v> {
        let registry = index.registry();
        let begin = index.origin() + i128::from(time.start);
        let length = time.end.saturating_sub(time.start);
        let tracks = registry.tracks().map(|(id, track)| {
            let (kind, pid, tid) = match track.kind {
                TrackKind::Group => ("group", None, None),
                TrackKind::Lane | TrackKind::OneOfSeveral => ("lane", None, None),
                TrackKind::Process { pid } => ("process", Some(pid), None),
                TrackKind::Thread { pid, tid } => ("thread", Some(pid), Some(tid)),
                TrackKind::Counter => ("counter", None, None),
            };
            ShownTrack {
                id,
                parent: track.parent,
                kind,
                name: &track.name,
                rank: track.rank,
                pid,
                tid,
            }
        });
        let rows = registry.rows().iter().map(|row| {
            let (kind, depth) = match row.kind {
                RowKind::Slices(depth) => ("slices", depth),
                RowKind::Points => ("points", 0),
                RowKind::Values => ("values", 0),
            };
            let track = row.track;
            ShownRow { track, kind, depth }
        });
        let names = registry.names().iter();
        Shown {
            title: &self.title,
            events,
            span_ns: length,
            read_ns: length,
            is_whole: true,
            is_recorded: self.source.is_recorded(),
            begin_ns: begin.to_string(),
            since_begin_ns: i64::try_from(begin - self.begin(begin)).unwrap_or(0),
            damage: index.damage(self.map()),
            tracks: tracks.collect(),
            rows: rows.collect(),
            names: names
                .map(|name| (&*name.category, &*name.text, name.number))
                .collect(),
        }
    }

    /// Rows in a stretch of time, for drawing. Words of 32 bits, little-endian: whether the window
    /// is exact, and then for each row as it was asked for, the number of its entries, and the
    /// entries. One of slices has five words: begin and end in 1/16 of a column from the window's
    /// begin, name, number of slices, and the part of the time that they last in 1/65536. One of
    /// values has five words too: begin, end, and the least, the greatest and the last value as
    /// floating-point numbers.
    fn window(&self, query: &HashMap<&str, &str>) -> Result<Vec<u8>, Refused> {
        let index = &*self.index;
        let time = time(index, query)?;
        let columns = number(query, "columns")?.clamp(1, COLUMNS.into()) as u32;
        let rows = rows(query.get("rows").copied().unwrap_or_default())
            .ok_or_else(|| refused("rows is a list of numbers, such as 0-4,7"))?;
        let window = index.window(self.map(), &rows, time.clone(), columns);
        let window = window.map_err(|error| (500, error.to_string()))?;
        let place = Scale::new(&time, columns);
        let entries = window.rows.iter().map(|row| match row {
            Content::Runs(runs) => runs.len(),
            Content::Values(values) => values.len(),
        });
        let words = 1 + window.rows.len() + WORDS * entries.sum::<usize>();
        let mut bytes = Vec::with_capacity(size_of::<u32>() * words);
        let mut add = |word: u32| bytes.extend_from_slice(&word.to_le_bytes());
        add(u32::from(window.is_exact));
        for row in &window.rows {
            match row {
                Content::Runs(runs) => {
                    add(runs.len() as u32);
                    for run in runs {
                        add(place.of(run.begin));
                        add(place.of(run.end));
                        add(run.name);
                        add(u32::try_from(run.count).unwrap_or(u32::MAX));
                        add(part(run));
                    }
                }
                Content::Values(values) => {
                    add(values.len() as u32);
                    for value in values {
                        add(place.of(value.begin));
                        add(place.of(value.end));
                        for number in [value.min, value.max, value.last] {
                            add((number as f32).to_bits());
                        }
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// What a row has at a point in time, in a window with so many columns.
    fn at(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let index = &*self.index;
        let time = time(index, query)?;
        let columns = number(query, "columns")?.clamp(1, COLUMNS.into()) as u32;
        let row = RowId::try_from(number(query, "row")?);
        let row = row.map_err(|_| refused("there is no such row"))?;
        let begin = index.span().start;
        let at = begin.saturating_add(number(query, "at")?);
        let window = index.window(self.map(), &[row], time, columns);
        let window = window.map_err(|error| (500, error.to_string()))?;
        let Some(Content::Runs(runs)) = window.rows.first() else {
            return Ok("null".to_owned());
        };
        let distance = |run: &&Run| run.begin.saturating_sub(at).max(at.saturating_sub(run.end));
        let Some(run) = runs.iter().min_by_key(distance) else {
            return Ok("null".to_owned());
        };
        self.found(index, row, run)
    }

    /// What a run of a row is.
    fn found(&self, index: &Index, row: RowId, run: &Run) -> Result<String, Refused> {
        let begin = index.span().start;
        let name = index.registry().names().get(run.name as usize);
        let since = |at: u64| at as i64 - begin as i64;
        let notes = match run.count == 1 && !run.is_cut_before {
            true => index.notes(self.map(), row, run.begin),
            false => Ok(Vec::new()),
        };
        json(&Found {
            row,
            begin_ns: since(run.begin),
            end_ns: since(run.end),
            count: run.count,
            busy_ns: run.busy,
            longest_ns: run.longest,
            category: name.map_or("", |name| &name.category),
            name: name.map_or("", |name| &name.text),
            number: name.and_then(|name| name.number),
            is_cut: run.is_cut_before || run.is_cut_behind,
            notes: notes.map_err(|error| (500, error.to_string()))?,
        })
    }

    /// The report of a stretch of time, as `kymo report --json --from .. --to .. --where ..` prints
    /// it, and its worst cases.
    fn report(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let index = &*self.index;
        let chosen = self.chosen(&time(index, query)?, query)?;
        json(&Reported::of(self.analysed(chosen), first(index)))
    }

    /// Two stretches of time compared, as `kymo diff --json` compares two traces.
    fn diff(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let index = &*self.index;
        let get = |name: &str| query.get(name).copied().unwrap_or_default();
        let other = HashMap::from([("from", get("other_from")), ("to", get("other_to"))]);
        let (before, after) = (time(index, query)?, time(index, &other)?);
        let before = self.chosen(&before, query)?;
        let after = self.chosen(&after, query)?;
        let [before, after] = [before, after].map(|chosen| self.analysed(chosen));
        json(&Diff::of(&before, &after))
    }

    /// The report of what is chosen.
    fn analysed(&self, mut chosen: Chosen) -> Report {
        let mut analysis = Analysis::of_part(&self.source.metadata, chosen.part());
        for error in self.map().failed() {
            analysis.damaged(error);
        }
        chosen.read(self.map(), |item, is_chosen| match is_chosen {
            true => analysis.add(item),
            false => analysis.pass_over(item),
        });
        analysis.finish()
    }
}

/// Time of the first event, in nanoseconds from the clock's origin.
fn first(index: &Index) -> i128 {
    index.origin() + i128::from(index.span().start)
}

/// The stretch of time that a request names, in nanoseconds of the timeline.
fn time(index: &Index, query: &HashMap<&str, &str>) -> Result<Range<u64>, Refused> {
    let begin = index.span().start;
    let from = begin.saturating_add(number(query, "from")?);
    let to = begin.saturating_add(number(query, "to")?);
    match from <= to {
        true => Ok(from..to),
        false => Err(refused("from is behind to")),
    }
}

/// Where times are in a window, in steps of a column.
struct Scale {
    begin: u64,
    /// Length of the window, and how many steps it has.
    length: u64,
    steps: u64,
}

impl Scale {
    fn new(time: &Range<u64>, columns: u32) -> Scale {
        Scale {
            begin: time.start,
            length: time.end.saturating_sub(time.start).max(1),
            steps: u64::from(columns) * STEPS,
        }
    }

    fn of(&self, at: u64) -> u32 {
        let since = at.saturating_sub(self.begin);
        let step = match since.checked_mul(self.steps) {
            Some(steps) => steps / self.length,
            // Long times need more than 64 bits.
            None => {
                let steps = u128::from(since) * u128::from(self.steps);
                u64::try_from(steps / u128::from(self.length)).unwrap_or(u64::MAX)
            }
        };
        step.min(OUTSIDE) as u32
    }
}

/// The part of a run's time in which there are slices, in 1/65536.
fn part(run: &Run) -> u32 {
    // Most are one slice.
    if run.busy == run.end.saturating_sub(run.begin) {
        return 1 << 16;
    }
    let length = u128::from(run.end.saturating_sub(run.begin));
    let part = (u128::from(run.busy) << 16).checked_div(length);
    part.map_or(1 << 16, |part| part.min(1 << 16) as u32)
}

fn json<T: Serialize>(value: &T) -> Result<String, Refused> {
    serde_json::to_string(value).map_err(|error| (500, error.to_string()))
}

fn refused(why: &str) -> Refused {
    (400, format!("The request cannot be answered: {why}."))
}

fn number(query: &HashMap<&str, &str>, name: &str) -> Result<u64, Refused> {
    let value = query.get(name).and_then(|value| value.parse().ok());
    value.ok_or_else(|| refused(&format!("{name} is a number from 0 on")))
}

/// The rows of a list such as `0-4,7`. `None` if it is none, or has too many.
fn rows(list: &str) -> Option<Vec<RowId>> {
    const MOST: usize = 1 << 16;
    let mut all = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse::<RowId>().ok()?..=last.parse().ok()?;
        let room = MOST.saturating_sub(all.len());
        all.extend(range.clone().take(room));
        if range.count() > room {
            return None;
        }
    }
    Some(all)
}
