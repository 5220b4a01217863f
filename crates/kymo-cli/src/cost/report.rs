//! The plugin's figures compared with the trace, as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use kymo_ctf::{FieldClass, StructClass, Trace};
use serde_json::{Value, json};

use super::sites::{Kind, Site, short};
use crate::dump::{Counts, table};

const QUANTITIES: [&str; 3] = ["instructions", "loads", "stores"];

/// Size of each event's record in the ring, in bytes, by the event's name in the trace: header and
/// payload, in whole words. Leaves out events whose records vary in size.
pub fn bytes(trace: &Path) -> Result<BTreeMap<String, u64>, kymo_ctf::Error> {
    let trace = Trace::open(trace)?;
    let events = trace
        .metadata()
        .streams()
        .flat_map(|stream| stream.events.values());
    let sizes = events.filter_map(|event| {
        // Ids below 30 fit into a header of one word.
        let header = if event.id < 30 { 4 } else { 8 };
        let payload = event
            .fields
            .as_ref()
            .map_or(Some(0), |fields| size(fields))?;
        Some((event.name.to_string(), header + payload.div_ceil(32) * 4))
    });
    Ok(sizes.collect())
}

/// The size in bits; `None` if it varies between records.
fn size(class: &StructClass) -> Option<u64> {
    class.members.iter().try_fold(0_u64, |bits, member| {
        let bits = bits.next_multiple_of(u64::from(member.class.alignment().max(1)));
        Some(bits + field_size(&member.class)?)
    })
}

fn field_size(class: &FieldClass) -> Option<u64> {
    match class {
        FieldClass::Integer(class) => Some(class.size.into()),
        FieldClass::Enum(class) => Some(class.integer.size.into()),
        FieldClass::Float(class) => Some(class.size.into()),
        FieldClass::Struct(class) => size(class),
        FieldClass::Array(class) => Some(class.fixed_length()? * field_size(&class.element)?),
        _ => None,
    }
}

/// Events that the library records by their numbers: no tracepoint of theirs has a name in DWARF.
const BY_NUMBER: [&str; 3] = ["kymo_counter", "kymo_gauge", "kymo_histogram"];

/// Events that the library for kernels in C records itself besides: no function of its header does.
const BY_LIBRARY: [&str; 8] = [
    "counted_event",
    "event_count",
    "event_stack",
    "group_count",
    "kymo_clock_back",
    "kymo_session_end",
    "sample",
    "sampling",
];

/// One event in the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Compared {
    name: String,
    /// Calls that the plugin counted; `None` for an event that is recorded [`BY_NUMBER`].
    calls: Option<u64>,
    recorded: Option<u64>,
    bytes: Option<u64>,
}

/// The figures to print.
pub struct Report<'a> {
    sites: &'a [Site],
    /// The plugin's object for each site.
    figures: Vec<Value>,
    events: Vec<Compared>,
    lost: u64,
    /// Whether `events` covers every event of the kernel: not where it has no site of one.
    whole: bool,
}

/// Number of calls in a histogram of the plugin's report.
fn calls(per_call: &Value) -> u64 {
    let pairs = per_call["instructions"]["histogram"].as_array();
    pairs
        .into_iter()
        .flatten()
        .filter_map(|pair| pair[1].as_u64())
        .sum()
}

/// Calls by the value of one quantity.
type Histogram = BTreeMap<u64, u64>;

/// Adds the plugin's histogram of a quantity to `sum`.
fn add(sum: &mut Histogram, per_call: &Value, quantity: &str) {
    let pairs = per_call[quantity]["histogram"].as_array();
    for pair in pairs.into_iter().flatten() {
        if let (Some(value), Some(calls)) = (pair[0].as_u64(), pair[1].as_u64()) {
            *sum.entry(value).or_default() += calls;
        }
    }
}

/// The smallest value that at least `part` of 100 of the calls do not exceed, as the plugin has it.
fn percentile(histogram: &Histogram, part: u64) -> Option<u64> {
    let calls: u64 = histogram.values().sum();
    let rank = (u128::from(calls) * u128::from(part)).div_ceil(100);
    let mut below = 0;
    histogram.iter().find_map(|(&value, &count)| {
        below += u128::from(count);
        (below >= rank).then_some(value)
    })
}

/// Minimum, median, p90, p99 and maximum, as one cell.
fn spread(histogram: &Histogram) -> String {
    let ends = [
        histogram.keys().next().copied(),
        histogram.keys().next_back().copied(),
    ];
    let parts = [50, 90, 99].map(|part| percentile(histogram, part));
    let cells = [ends[0], parts[0], parts[1], parts[2], ends[1]]
        .map(|value| value.map_or_else(|| "-".to_owned(), |value| value.to_string()));
    cells.join(" ")
}

/// The figures of a row: those of one site, or of all copies of a generic function.
#[derive(Default)]
struct Row {
    /// The label, without generic arguments.
    label: String,
    copies: usize,
    per_call: [Histogram; 3],
    /// Calls that found the event switched off.
    unmarked: [Histogram; 3],
    outside: u64,
    unfinished: u64,
}

impl Row {
    fn add(&mut self, figure: &Value) {
        self.copies += 1;
        let unmarked = &figure["unmarked"]["per_call"];
        for (sums, per_call) in [
            (&mut self.per_call, &figure["per_call"]),
            (&mut self.unmarked, unmarked),
        ] {
            for (sum, quantity) in sums.iter_mut().zip(QUANTITIES) {
                add(sum, per_call, quantity);
            }
        }
        let count = |key: &str| figure[key].as_u64().unwrap_or_default();
        self.outside += count("outside_calls");
        self.unfinished += count("unfinished");
    }
}

/// A row's cells.
fn cells(name: String, histograms: &[Histogram; 3]) -> Vec<String> {
    let calls: u64 = histograms[0].values().sum();
    let mut row = vec![name, calls.to_string()];
    row.extend(histograms.iter().map(spread));
    row
}

/// A path without generic arguments: `Tracer::name` of `Tracer<P>::name`. An `<impl ..>` stays.
fn without_arguments(path: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut last) = (0, ' ');
    for letter in path.chars() {
        match letter {
            '<' if depth > 0 || last.is_alphanumeric() || last == '_' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if depth > 0 && last != '-' => depth -= 1,
            _ if depth > 0 => {}
            _ => out.push(letter),
        }
        last = letter;
    }
    out
}

impl<'a> Report<'a> {
    /// Combines the plugin's report with the trace's counts. `whole`: all events were asked for.
    pub fn new(
        sites: &'a [Site],
        plugin: &str,
        counts: Option<&Counts>,
        bytes: &BTreeMap<String, u64>,
        whole: bool,
    ) -> Result<Report<'a>, String> {
        let report: Value = serde_json::from_str(plugin).map_err(|error| error.to_string())?;
        let figures = report["functions"].as_array().cloned().unwrap_or_default();
        if figures.len() != sites.len() {
            return Err(format!(
                "expected {} functions, found {}",
                sites.len(),
                figures.len()
            ));
        }
        let mut by_event: BTreeMap<String, u64> = BTreeMap::new();
        for (site, figure) in sites
            .iter()
            .zip(&figures)
            .filter(|(site, _)| site.kind == Kind::Event)
        {
            *by_event.entry(site.trace_name()).or_default() += calls(&figure["per_call"]);
        }
        let has_events = !by_event.is_empty();
        let recorded = |name: &str| {
            let counts = counts.filter(|_| has_events)?;
            Some(
                counts
                    .events
                    .get(name)
                    .map_or(0, |cpus| cpus.values().sum()),
            )
        };
        let mut events: Vec<Compared> = by_event
            .iter()
            .map(|(name, &calls)| Compared {
                name: name.clone(),
                calls: Some(calls),
                recorded: recorded(name),
                bytes: bytes.get(name).copied(),
            })
            .collect();
        if let (true, true, Some(counts)) = (whole, has_events, counts) {
            let has_library = sites.iter().any(|site| site.kind == Kind::Library);
            let is_uncounted = |name: &str| {
                BY_NUMBER.contains(&name) || (has_library && BY_LIBRARY.contains(&name))
            };
            // Events in the trace for which there is no site.
            let others = counts
                .events
                .keys()
                .filter(|name| !by_event.contains_key(*name));
            events.extend(others.map(|name| Compared {
                name: name.clone(),
                calls: (!is_uncounted(name)).then_some(0),
                recorded: recorded(name),
                bytes: bytes.get(name).copied(),
            }));
        }
        let lost = counts.map_or(0, |counts| counts.total.lost_events);
        Ok(Report {
            sites,
            figures,
            events,
            lost,
            whole: whole && has_events,
        })
    }

    /// What differs between plugin and trace, a sentence each; empty if they agree or there is no
    /// trace. Lost events have no names, so with losses only the totals can be compared.
    pub fn disagreement(&self) -> Vec<String> {
        let compared = self.events.iter().filter_map(|event| {
            let (calls, recorded) = (event.calls?, event.recorded?);
            Some((&event.name, calls, recorded))
        });
        if self.lost > 0 {
            // Some of the lost may be of those that are not counted.
            let is_whole = self.whole && self.events.iter().all(|event| event.calls.is_some());
            let (calls, recorded) = compared.fold((0, 0), |sum, (_, calls, recorded)| {
                (sum.0 + calls, sum.1 + recorded)
            });
            let all = recorded + self.lost;
            let differs = calls < recorded || calls > all || (is_whole && calls != all);
            let sentence = differs.then(|| {
                format!(
                    "the plugin counted {calls} calls, but the trace has {recorded} events and {} \
                     lost.",
                    self.lost
                )
            });
            return sentence.into_iter().collect();
        }
        let differs = compared.filter(|(_, calls, recorded)| calls != recorded);
        differs
            .map(|(name, calls, recorded)| {
                format!(
                    "the plugin counted {calls} calls of {name}, but the trace has {recorded}: \
                     DWARF does not attribute this code correctly."
                )
            })
            .collect()
    }

    /// The rows of the first table: sites that differ only in generic arguments are one.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let mut places = BTreeMap::new();
        for (site, figure) in self.sites.iter().zip(&self.figures) {
            let label = without_arguments(&label(site));
            let next = rows.len();
            let place = *places.entry((site.kind, label.clone())).or_insert(next);
            if place == next {
                rows.push(Row {
                    label,
                    ..Row::default()
                });
            }
            if let Some(row) = rows.get_mut(place) {
                row.add(figure);
            }
        }
        rows
    }

    /// Cost per site, and calls compared with the trace, as two tables.
    pub fn to_text(&self) -> String {
        let mut rows = vec![
            ["", "calls", "instructions", "loads", "stores"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let mut notes = String::new();
        for row in self.rows() {
            let mut name = row.label;
            if row.copies > 1 {
                name = format!("{name} ({} copies)", row.copies);
            }
            rows.push(cells(name.clone(), &row.per_call));
            if !row.unmarked[0].is_empty() {
                rows.push(cells("  switched off".to_owned(), &row.unmarked));
            }
            for (count, what) in [
                (row.outside, "instructions belong to no call"),
                (row.unfinished, "calls did not end"),
            ] {
                if count > 0 {
                    let _ = writeln!(notes, "{name}: {count} {what}");
                }
            }
        }
        let mut text =
            "Per call: minimum, median, 90th and 99th percentile, maximum.\n\n".to_owned();
        text.push_str(&table(&rows));
        if !notes.is_empty() {
            let _ = write!(text, "\n{notes}");
        }
        if self.events.is_empty() {
            return text;
        }
        let mut rows = vec![
            ["event", "calls", "in the trace", "bytes"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let cell = |number: Option<u64>, none: &str| {
            number.map_or_else(|| none.to_owned(), |number| number.to_string())
        };
        for event in &self.events {
            let (recorded, bytes) = (
                cell(event.recorded, "-"),
                cell(
                    event.bytes,
                    if event.recorded.is_some() {
                        "varies"
                    } else {
                        "-"
                    },
                ),
            );
            rows.push(vec![
                event.name.clone(),
                cell(event.calls, "not counted"),
                recorded,
                bytes,
            ]);
        }
        if self.lost > 0 {
            rows.push(vec![
                "lost, of any event".to_owned(),
                String::new(),
                self.lost.to_string(),
                String::new(),
            ]);
        }
        text.push('\n');
        text.push_str(&table(&rows));
        text
    }

    /// One JSON object on a line.
    pub fn to_json(&self, kernel: &Path) -> String {
        let sites: Vec<Value> = self
            .sites
            .iter()
            .zip(&self.figures)
            .map(|(site, figure)| site_json(site, figure))
            .collect();
        let events: Vec<Value> = self
            .events
            .iter()
            .map(|event| json!({ "name": event.name, "calls": event.calls, "recorded": event.recorded, "bytes": event.bytes }))
            .collect();
        let all = json!({
            "type": "cost", "kernel": kernel.to_string_lossy(), "sites": sites, "events": events, "lost": self.lost,
            "agrees": self.disagreement().is_empty(),
        });
        format!("{all}\n")
    }
}

fn site_json(site: &Site, figure: &Value) -> Value {
    let kind = match site.kind {
        Kind::Event => "event",
        Kind::SlowPath => "slow path",
        Kind::Library => "library",
        Kind::Function => "function",
        Kind::Range => "range",
    };
    let mut out = figure.clone();
    if let Value::Object(out) = &mut out {
        out.insert("name".to_owned(), json!(site.name));
        out.insert("kind".to_owned(), json!(kind));
        out.insert("inlined_in".to_owned(), json!(site.inlined_in));
        if site.kind == Kind::Event {
            out.insert("event".to_owned(), json!(site.trace_name()));
            out.insert(
                "recorded_calls".to_owned(),
                json!(calls(&figure["per_call"])),
            );
        }
    }
    out
}

fn label(site: &Site) -> String {
    let name = match site.kind {
        Kind::Event => short(&site.name),
        _ => &site.name,
    };
    match (&site.inlined_in, site.kind) {
        (Some(owner), _) => format!("{name}, inlined in {owner}"),
        (None, Kind::Event) => format!("{name}, a function"),
        (None, Kind::SlowPath) => format!("slow path: {name}"),
        (None, Kind::Library) => format!("the library's {name}"),
        (None, _) => name.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // Pieces of code: often there is one.
mod tests {
    use super::*;

    fn site(kind: Kind, name: &str, inlined_in: Option<&str>) -> Site {
        Site {
            kind,
            name: name.to_owned(),
            inlined_in: inlined_in.map(str::to_owned),
            ranges: vec![16..32],
            entries: vec![16],
            marks: Vec::new(),
            tests: Vec::new(),
            callees: Vec::new(),
        }
    }

    /// The plugin's object of a function whose calls all have as many instructions.
    fn figure(calls: u64, instructions: u64) -> Value {
        let of = |value: u64| json!({ "histogram": [[value, calls]] });
        let per_call = json!({ "instructions": of(instructions), "loads": of(5), "stores": of(4) });
        json!({ "calls": calls, "per_call": per_call, "outside_calls": 0, "unfinished": 1 })
    }

    fn counts(events: &[(&str, u64)]) -> Counts {
        let mut counts = Counts::default();
        for (name, count) in events {
            let cpus = BTreeMap::from([(Some(0), *count)]);
            counts.events.insert((*name).to_owned(), cpus);
        }
        counts
    }

    fn report<'a>(sites: &'a [Site], figures: &[Value], counts: &Counts) -> Report<'a> {
        let plugin = json!({ "functions": figures }).to_string();
        Report::new(sites, &plugin, Some(counts), &BTreeMap::new(), true).unwrap()
    }

    #[test]
    fn copies_of_a_generic_function_are_one_row() {
        let sites = [
            site(
                Kind::Event,
                "k::A",
                Some("name<k::A>, in k::Tracer<P>::name"),
            ),
            site(
                Kind::Event,
                "k::A",
                Some("name<k::B>, in k::Tracer<P>::name"),
            ),
            site(Kind::Event, "k::A", Some("k::<impl k::T<P>>::f")),
            site(Kind::SlowPath, "k::slow<fn() -> u64>", None),
        ];
        let figures = [figure(3, 20), figure(1, 30), figure(2, 21), figure(0, 0)];
        let report = report(&sites, &figures, &counts(&[("a", 6)]));
        let text = report.to_text();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        let row = |label: &str| rows.iter().find(|row| row.first() == Some(&label)).unwrap();
        let all = row("A, inlined in name, in k::Tracer::name (2 copies)");
        assert_eq!(all[1..3], ["4", "20 20 30 30 30"]);
        assert_eq!(row("A, inlined in k::<impl k::T>::f")[1], "2");
        assert_eq!(row("slow path: k::slow")[1], "0");
        assert!(text.contains("(2 copies): 2 calls did not end\n"), "{text}");
        assert_eq!(report.disagreement(), Vec::<String>::new());
        assert_eq!(
            without_arguments("a::<impl b::C<P>>::d<fn() -> e::F<G>>::h"),
            "a::<impl b::C>::d::h"
        );
    }

    #[test]
    fn every_event_that_disagrees_is_named() {
        let sites = [
            site(Kind::Event, "k::A", None),
            site(Kind::Event, "k::B", None),
            site(Kind::Event, "k::C", None),
        ];
        let figures = [figure(25, 20), figure(4, 20), figure(1, 20)];
        let recorded = [("a", 37), ("b", 4), ("d", 2), ("kymo_counter", 9)];
        let report = report(&sites, &figures, &counts(&recorded));
        let sentences = report.disagreement();
        let begins = |begin: &str| sentences.iter().any(|sentence| sentence.starts_with(begin));
        assert_eq!(sentences.len(), 3, "{sentences:?}");
        assert!(begins(
            "the plugin counted 25 calls of a, but the trace has 37"
        ));
        assert!(begins(
            "the plugin counted 1 calls of c, but the trace has 0"
        ));
        assert!(begins(
            "the plugin counted 0 calls of d, but the trace has 2"
        ));
        assert!(report.to_text().contains("kymo_counter  not counted"));
        assert!(report.to_json(Path::new("k")).contains("\"agrees\":false"));
    }
}
