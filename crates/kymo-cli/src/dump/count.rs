//! `kymo dump --count`: how much of what is in a trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use kymo_ctf::{Consequence, ItemRef, Tally, Trace};

use super::{Outcome, cpu_name, deliver, escape_controls, flush, verdict};
use crate::progress::Progress;
use crate::select::{Select, Verdict};

/// Prints how many of the selected events of each name each CPU has, and what each stream has of
/// them and lost.
///
/// # Errors
/// As for [`run`]; what could be read is counted and printed first, unless the trace has nothing of
/// what was asked for.
pub fn count(
    trace: &Trace,
    json: bool,
    select: &mut Select,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let (counts, damage) = Counts::of(trace, select);
    if damage.is_none() {
        verdict(None, select)?;
    }
    let text = if json {
        counts.to_json()
    } else {
        counts.to_table()
    };
    if deliver(out, text.as_bytes())? {
        flush(out)?;
    }
    verdict(damage, select)?;
    Ok(counts.total)
}

/// How many events there are, by name, CPU and stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events by name and CPU; `None` is a stream that says no CPU.
    pub events: BTreeMap<String, BTreeMap<Option<u64>, u64>>,
    /// What each stream has and lost.
    pub streams: BTreeMap<String, Outcome>,
    /// All together.
    pub total: Outcome,
}

impl Counts {
    /// Counts what is selected of the trace, and gives the first stream's damage if there is any.
    pub fn of(trace: &Trace, select: &mut Select) -> (Counts, Option<kymo_ctf::Error>) {
        if !select.is_partial {
            return Counts::tally(trace, select.jobs, select.strict);
        }
        let mut counts = Counts::default();
        for name in trace.stream_names() {
            counts.streams.insert(name.to_owned(), Outcome::default());
        }
        let mut progress = Progress::new(trace);
        let mut damage = None;
        let map = trace.map();
        let mut reader = select.read(&map);
        while let Some(item) = reader.next() {
            progress.pass(&item);
            match select.judge(&item) {
                Verdict::Take => counts.add(&item),
                Verdict::Leave => {}
                Verdict::End => break,
            }
            if let ItemRef::Problem(problem) = item
                && problem.consequence != Consequence::Clamped
            {
                damage.get_or_insert_with(|| problem.clone().into());
            }
        }
        drop(reader);
        select.look_for_missing(&map);
        progress.done();
        (counts, map.into_failed().into_iter().next().or(damage))
    }

    /// Counts one more item.
    pub fn add(&mut self, item: &ItemRef<'_>) {
        self.total.add(item);
        let stream = match item {
            ItemRef::Event(event) => event.stream(),
            ItemRef::Loss(loss) => &loss.stream,
            ItemRef::Problem(problem) => &problem.stream,
            _ => return,
        };
        match self.streams.get_mut(&**stream) {
            Some(stream) => stream.add(item),
            None => self
                .streams
                .entry(stream.to_string())
                .or_default()
                .add(item),
        }
        if let ItemRef::Event(event) = item {
            let cpus = match self.events.get_mut(event.name()) {
                Some(cpus) => cpus,
                None => self.events.entry(event.name().to_owned()).or_default(),
            };
            *cpus.entry(event.cpu()).or_default() += 1;
        }
    }

    /// Counts a whole trace without decoding its fields, in as many threads as `jobs` says.
    pub fn tally(trace: &Trace, jobs: usize, strict: bool) -> (Counts, Option<kymo_ctf::Error>) {
        let map = trace.map();
        let progress = Progress::new(trace);
        let tally = Tally::watched(&map, jobs, strict, &|bytes| progress.advance(bytes));
        progress.done();
        let mut counts = Counts::default();
        for stream in tally.streams {
            let outcome = Outcome {
                events: stream.events,
                lost_events: stream.lost_events,
                lost_packets: stream.lost_packets,
            };
            counts.total.events += outcome.events;
            counts.total.lost_events = counts.total.lost_events.saturating_add(outcome.lost_events);
            counts.total.lost_packets = counts
                .total
                .lost_packets
                .saturating_add(outcome.lost_packets);
            counts.streams.insert(stream.name, outcome);
        }
        for ((name, cpu), count) in tally.events {
            *counts
                .events
                .entry(name.to_string())
                .or_default()
                .entry(cpu)
                .or_default() += count;
        }
        let damage = tally
            .problems
            .into_iter()
            .find(|problem| problem.consequence != Consequence::Clamped);
        let damage = map
            .into_failed()
            .into_iter()
            .next()
            .or(damage.map(kymo_ctf::Error::from));
        (counts, damage)
    }

    /// Two tables: events by CPU, streams with their losses. Ends with a newline.
    pub fn to_table(&self) -> String {
        let cpus: std::collections::BTreeSet<Option<u64>> = self
            .events
            .values()
            .flat_map(|cpus| cpus.keys().copied())
            .collect();
        let mut head = vec!["event".to_owned()];
        head.extend(cpus.iter().map(|cpu| cpu_name(*cpu)));
        head.push("total".to_owned());
        let mut rows = vec![head];
        for (name, counts) in &self.events {
            let mut row = vec![name.clone()];
            row.iter_mut().for_each(escape_controls);
            row.extend(
                cpus.iter()
                    .map(|cpu| counts.get(cpu).copied().unwrap_or(0).to_string()),
            );
            row.push(counts.values().sum::<u64>().to_string());
            rows.push(row);
        }
        let mut text = table(&rows);
        text.push('\n');

        let head = ["stream", "events", "lost events", "lost packets"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let total = ("total".to_owned(), self.total);
        let streams = self.streams.iter().map(|(name, of)| (name.clone(), *of));
        for (name, of) in streams.chain([total]) {
            let counts = [of.events, of.lost_events, of.lost_packets];
            let mut row = vec![name];
            row.iter_mut().for_each(escape_controls);
            row.extend(counts.map(|count| count.to_string()));
            rows.push(row);
        }
        text + &table(&rows)
    }

    /// One JSON object and a newline.
    pub fn to_json(&self) -> String {
        let events: Vec<_> = self
            .events
            .iter()
            .flat_map(|(name, cpus)| {
                cpus.iter().map(move |(cpu, count)| serde_json::json!({ "name": name, "cpu": cpu, "count": count }))
            })
            .collect();
        let outcome = |of: &Outcome| {
            serde_json::json!({
                "events": of.events, "lost_events": of.lost_events, "lost_packets": of.lost_packets,
            })
        };
        let streams: serde_json::Map<_, _> = self
            .streams
            .iter()
            .map(|(name, of)| (name.clone(), outcome(of)))
            .collect();
        let all = serde_json::json!({
            "type": "count", "events": events, "streams": streams, "total": outcome(&self.total),
        });
        format!("{all}\n")
    }
}

/// Columns as wide as they need to be: the first to the left, the others to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}
