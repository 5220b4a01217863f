//! The page as one file, with what it shows.

use std::io::Write;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use kymo_index::{Content, Index, RowId, Run, Values};
use serde::Serialize;

use super::flame::{Flame, NO_CODE};
use super::worst::Reported;
use super::{COLUMNS, Seen, Shown};
use crate::{Error, page};

/// Most entries of a file, which take about 5 MB.
const MOST: usize = 1 << 18;
/// The shortest stretch of time that is taken apart further, in nanoseconds.
const SHORTEST: u64 = 1_000;

/// The page as one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What it contains.
    pub html: Vec<u8>,
    /// Number of events in its stretch of time.
    pub events: u64,
    /// Whether it has each slice by itself. If not, there are too many, and short ones in succession
    /// are one with their number.
    pub is_exact: bool,
}

/// What the file says before its entries.
#[derive(Serialize)]
struct Head<'v> {
    trace: Shown<'v>,
    report: Reported,
    flame: Option<Flame>,
    /// Why there is no flame graph, if there is none.
    no_flame: Option<String>,
    is_exact: bool,
    rows: Vec<Stored>,
}

/// A row's kind, and the number of its entries.
#[derive(Serialize)]
struct Stored {
    kind: &'static str,
    length: usize,
}

impl Seen {
    /// The page with what it shows of a stretch of time: one file that needs neither this program
    /// nor a network. `from` and `to` are in nanoseconds from the clock's origin; `None` is
    /// the first or the last event.
    ///
    /// # Errors
    /// [`Error::Index`] if the index cannot be read, [`Error::Nothing`] if there is no event in
    /// this time, and [`Error::Code`] if a file of code cannot be used.
    pub(crate) fn file(&self, from: Option<i128>, to: Option<i128>) -> Result<File, Error> {
        let index = &*self.index;
        let span = index.span();
        let place = |nanos: i128| u64::try_from((nanos - index.origin()).max(0)).ok();
        let begin = from.and_then(place).unwrap_or(0).max(span.start);
        let end = to.and_then(place).unwrap_or(u64::MAX);
        let time = begin..end.min(span.end.saturating_sub(1));
        if time.start > time.end {
            return Err(Error::Nothing);
        }
        let begin = index.origin() + i128::from(time.start);
        let report = self.analysed(self.all_of(&time));
        if report.events == 0 {
            return Err(Error::Nothing);
        }
        let events = report.events;
        let (flame, no_flame) = self.flame_or_why(&time)?;
        let (rows, is_exact) = self.entries(index, &time)?;
        let head = Head {
            trace: self.shown_of(index, &time, events),
            report: Reported::of(report, begin),
            flame,
            no_flame,
            is_exact,
            rows: rows.iter().map(stored).collect(),
        };
        let packed = pack(&head, &rows, time.start).map_err(Error::Pack)?;
        Ok(File {
            html: page(&packed).into_bytes(),
            events,
            is_exact,
        })
    }

    /// The flame graph of a stretch of time, or why there is none.
    fn flame_or_why(&self, time: &Range<u64>) -> Result<(Option<Flame>, Option<String>), Error> {
        match self.flame_of(|| Ok(self.all_of(time)), None, None) {
            Ok(flame) => Ok((Some(flame), None)),
            Err((NO_CODE, sentence)) => Err(Error::Code(sentence)),
            Err((_, sentence)) => Ok((None, Some(sentence))),
        }
    }

    /// What all rows have from the begin to the end of a stretch of time, both included, and
    /// whether that is each slice by itself.
    fn entries(&self, index: &Index, time: &Range<u64>) -> Result<(Vec<Content>, bool), Error> {
        // Windows do not include their end.
        let time = &(time.start..time.end.saturating_add(1));
        let number = RowId::try_from(index.registry().rows().len()).unwrap_or(RowId::MAX);
        let rows: Vec<RowId> = (0..number).collect();
        let mut all: Vec<Content> = Vec::new();
        // Stretches that are not yet taken, the next one last.
        let mut open = vec![time.clone()];
        while let Some(part) = open.pop() {
            let length = part.end.saturating_sub(part.start);
            let columns = u32::try_from(length).unwrap_or(u32::MAX);
            let window = index.window(self.map(), &rows, part.clone(), columns)?;
            if !window.is_exact && length > SHORTEST {
                let middle = part.start + length / 2;
                open.extend([middle..part.end, part.start..middle]);
                continue;
            }
            if all.is_empty() {
                all = window.rows;
            } else {
                let rows = all.iter_mut().zip(&window.rows);
                rows.for_each(|(row, next)| append(row, next, part.start));
            }
            if !window.is_exact || count(&all) > MOST {
                return Ok((self.coarse(index, &rows, time)?, false));
            }
        }
        Ok((all, true))
    }

    /// What rows have at the finest zoom at which it is not too much.
    fn coarse(
        &self,
        index: &Index,
        rows: &[RowId],
        time: &Range<u64>,
    ) -> Result<Vec<Content>, Error> {
        let mut columns = COLUMNS;
        loop {
            let window = index.window(self.map(), rows, time.clone(), columns)?;
            if count(&window.rows) <= MOST || columns == 1 {
                return Ok(window.rows);
            }
            columns /= 2;
        }
    }
}

/// Appends what a row has from a border on to what it has before. What reaches over the border is
/// in both.
fn append(row: &mut Content, next: &Content, border: u64) {
    match (row, next) {
        (Content::Runs(all), Content::Runs(next)) => {
            for run in next {
                match all.last_mut() {
                    _ if run.begin >= border => all.push(*run),
                    // The slice over the border, of which neither may have all.
                    Some(last) if last.is_cut_behind => {
                        *last = Run {
                            is_cut_before: last.is_cut_before,
                            is_cut_behind: run.is_cut_behind,
                            ..Run::slice(last.begin, run.end, last.name)
                        };
                    }
                    _ => {}
                }
            }
        }
        (Content::Values(all), Content::Values(next)) => {
            // Those without a count are what the counter had before.
            let new = |value: &&Values| value.begin >= border && value.count > 0;
            all.extend(next.iter().filter(new));
        }
        // A row without entries so far does not tell its kind.
        (row, next) if length_of(row) == 0 => *row = next.clone(),
        _ => {}
    }
}

/// Entries of all rows.
fn count(rows: &[Content]) -> usize {
    rows.iter().map(length_of).sum()
}

fn length_of(row: &Content) -> usize {
    match row {
        Content::Runs(runs) => runs.len(),
        Content::Values(values) => values.len(),
    }
}

fn stored(row: &Content) -> Stored {
    let kind = match row {
        Content::Runs(_) => "runs",
        Content::Values(_) => "values",
    };
    let length = length_of(row);
    Stored { kind, length }
}

/// What `page/file.js` reads. Times count from `begin`.
fn pack(head: &Head<'_>, rows: &[Content], begin: u64) -> std::io::Result<Vec<u8>> {
    let text = serde_json::to_vec(head)?;
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let length = u32::try_from(text.len()).map_err(std::io::Error::other)?;
    out.write_all(&u64::from(length).to_le_bytes())?;
    out.write_all(&text)?;
    out.write_all(&[b' '; 7][..text.len().next_multiple_of(8) - text.len()])?;
    let mut put = |numbers: &[f64]| {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        out.write_all(&bytes.collect::<Vec<u8>>())
    };
    let since = |at: u64| at as f64 - begin as f64;
    for row in rows {
        match row {
            Content::Runs(runs) => {
                for run in runs {
                    let is_cut = run.is_cut_before || run.is_cut_behind;
                    put(&[
                        since(run.begin),
                        since(run.end),
                        f64::from(run.name),
                        run.count as f64,
                        run.busy as f64,
                        run.longest as f64,
                        f64::from(u8::from(is_cut)),
                    ])?;
                }
            }
            Content::Values(values) => {
                for Values {
                    begin,
                    end,
                    min,
                    max,
                    last,
                    ..
                } in values
                {
                    let numbers = [*min, *max, *last].map(|number| number as f64);
                    put(&[since(*begin), since(*end)])?;
                    put(&numbers)?;
                }
            }
        }
    }
    out.finish()
}

/// The page with this in it. Nothing in it is asked for elsewhere, which its policy also
/// forbids; its modules are addresses of data, because files cannot import files.
fn page(packed: &[u8]) -> String {
    const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
                          script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:\">";
    let modules = page::SCRIPTS.iter().map(|(name, text)| {
        let text = if *name == "server.js" {
            page::FILE
        } else {
            text
        };
        // A module that is data has no place from which others could be found.
        let text = text.replace("from \"./", "from \"kymo/");
        let data = format!("data:text/javascript;base64,{}", STANDARD.encode(text));
        (format!("kymo/{name}"), serde_json::Value::from(data))
    });
    let modules: serde_json::Map<String, serde_json::Value> = modules.collect();
    let map = serde_json::json!({ "imports": modules });
    let style = format!("<style>\n{}</style>", page::STYLE);
    let script = format!("{POLICY}\n<script type=\"importmap\">{map}</script>");
    let html = page::HTML
        .replace("<link rel=\"stylesheet\" href=\"style.css\">", &style)
        .replace("<script type=\"module\" src=\"main.js\"></script>", &script);
    let trace = STANDARD.encode(packed);
    let end = format!(
        "<script id=\"trace\" type=\"application/octet-stream\">{trace}</script>\n\
         <script type=\"module\">import \"kymo/main.js\";</script>\n</html>"
    );
    html.replace("</html>", &end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kymo::vocabulary::{Irq, IrqEnter, IrqExit, SwitchReason, ThreadState};
    use kymo_ctf::Trace;
    use kymo_index::Options;
    use kymo_made::perf::{Perf, Sampled, USER};
    use kymo_made::{Made, US};
    use kymo_profile::{Chains, Profile, Unwind};
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::super::{NoSymbols, Symbols};
    use super::*;
    use crate::View;

    /// Threads that take turns of different lengths, and interrupts, down to one of 0 ns.
    fn seen(made: &mut Made, chunk_events: u64) -> Seen {
        opened(made.finish(), chunk_events, Box::new(NoSymbols))
    }

    fn opened(trace: &Path, chunk_events: u64, symbols: Box<dyn Symbols>) -> Seen {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let trace = Trace::open(trace).unwrap();
        let map = trace.map();
        let view = View::new("made");
        view.open_with(trace, map, symbols);
        let name = format!("kymo-view-file-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        view.read(&path, Options { chunk_events }).unwrap();
        std::fs::remove_file(path).unwrap();
        view.seen().unwrap()
    }

    /// A file that is put together from many windows has what one window of all has.
    #[test]
    fn slices_over_borders_are_one() {
        let mut made = Made::new("view-file");
        let mut now = 1_000 * US;
        for turn in 0..400_u64 {
            let (prev, next) = if turn % 2 == 0 { (5, 6) } else { (6, 5) };
            let how = (prev, ThreadState::Runnable, SwitchReason::Expired);
            made.switch(0, now, how, (next, 0));
            // One thread runs for a third of the time at once.
            let length = if turn == 200 {
                9_000 * US
            } else {
                (turn * 37 % 83 + 1) * US
            };
            for part in 1..4 {
                let at = now + length * part / 5;
                made.event(0, at, IrqEnter { irq: Irq(7) });
                made.event(0, at + turn % 3, IrqExit { irq: Irq(7) });
            }
            now += length;
        }
        made.event(0, now, IrqEnter { irq: Irq(7) });
        let mut entries = [16, 1 << 16].map(|chunk_events| {
            let seen = seen(&mut made, chunk_events);
            let index = &*seen.index;
            let span = index.span();
            let last = span.end - 1;
            // The last event is a part of it.
            let (rows, _) = seen.entries(index, &(last..last)).unwrap();
            let begins = |row: &Content| match row {
                Content::Runs(runs) => runs.iter().any(|run| run.begin == last),
                Content::Values(_) => false,
            };
            assert!(rows.iter().any(begins));
            assert!(chunk_events > 16 || !window(&seen, &span).is_exact);
            let parts = [span.start..last, span.start + last / 7..last - last / 5];
            parts.map(|time| {
                let (rows, is_exact) = seen.entries(index, &time).unwrap();
                assert!(is_exact);
                let rows = rows.into_iter().map(|row| inside(row, time.start));
                rows.collect::<Vec<_>>()
            })
        });
        let [few, whole] = &mut entries;
        for (few, whole) in few.iter().zip(whole.iter()) {
            assert!(count(whole) > 1_000);
            for (row, (few, whole)) in few.iter().zip(whole).enumerate() {
                assert_eq!(few, whole, "row {row}");
            }
        }
    }

    /// Two samples of one event of perf, one of the other.
    fn sampled(name: &str, events: [&str; 2]) -> Perf {
        let mut made = Perf::new(name);
        let events = events.map(|event| made.sampled(event));
        for (event, time, ip) in [(0, 1, 0x1000), (0, 2, 0x1000), (1, 3, 0x2000)] {
            let chain = &[USER, ip];
            let of = Sampled {
                tid: 42,
                pid: 42,
                ip,
                period: 5,
                chain,
            };
            made.sample(events[event], time, of);
        }
        made
    }

    /// Whose files cannot be used.
    #[derive(Debug)]
    struct Broken;

    impl Symbols for Broken {
        fn unwind(&self) -> Option<Box<Unwind<'_>>> {
            None
        }
        fn symbolize(&self, _: &Trace, _: Chains) -> Result<(Profile, Vec<String>), String> {
            Err("That is no code.".to_owned())
        }
        fn account(&self, _: &Profile) -> String {
            String::new()
        }
    }

    /// A file without a flame graph says why. Samples of other events are left out, and counted. A
    /// file is not made if there would be one, but for a file of code that cannot be used.
    #[test]
    fn a_file_says_why_it_has_no_flame_graph() {
        let of = |made: &Perf, symbols: Box<dyn Symbols>| {
            let seen = opened(made.finish(), 1 << 16, symbols);
            seen.flame_or_why(&seen.index.span())
        };
        let made = sampled("view-kinds", ["cycles", "page-faults"]);
        let (flame, why) = of(&made, Box::new(NoSymbols)).unwrap();
        let left = "Shown is cycles; samples of other events are left out: page-faults (1).";
        assert_eq!(flame.unwrap().account[1], left);
        assert_eq!(why, None);
        let failed = of(&made, Box::new(Broken)).map(|_| ()).unwrap_err();
        assert_eq!(failed.to_string(), "That is no code.");
        let made = sampled("view-mixed", ["instructions", "page-faults"]);
        let (flame, why) = of(&made, Box::new(NoSymbols)).unwrap();
        let why = why.unwrap();
        assert!(
            flame.is_none() && why.contains("count different things"),
            "{why}"
        );
    }

    fn window(seen: &Seen, time: &Range<u64>) -> kymo_index::Window {
        let window = seen.index.window(seen.map(), &[0], time.clone(), 1_000);
        window.unwrap()
    }

    /// A row without what reaches out of the stretch of time, which is cut where chunks end.
    fn inside(row: Content, from: u64) -> Content {
        match row {
            Content::Runs(runs) => {
                let whole = runs
                    .into_iter()
                    .filter(|run| !run.is_cut_before && !run.is_cut_behind);
                Content::Runs(whole.collect())
            }
            Content::Values(values) => {
                let inside = values.into_iter().filter(|value| value.begin >= from);
                Content::Values(inside.collect())
            }
        }
    }
}
