//! The plugin's figures compared with the trace, as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use kymo_ctf::{FieldClass, StructClass, Trace};
use serde_json::{Value, json};

use super::sites::{Kind, Site, short, trace_name};
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

/// One event in the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Compared {
    name: String,
    calls: u64,
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

/// Minimum, median, p90, p99 and maximum, as one cell.
fn spread(per_call: &Value, quantity: &str) -> String {
    let of = &per_call[quantity];
    let cells = ["min", "median", "p90", "p99", "max"].map(|key| {
        of[key]
            .as_u64()
            .map_or_else(|| "-".to_owned(), |value| value.to_string())
    });
    cells.join(" ")
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
            *by_event.entry(trace_name(&site.name)).or_default() += calls(&figure["per_call"]);
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
                calls,
                recorded: recorded(name),
                bytes: bytes.get(name).copied(),
            })
            .collect();
        if let (true, true, Some(counts)) = (whole, has_events, counts) {
            // Events in the trace for which there is no site.
            let others = counts
                .events
                .keys()
                .filter(|name| !by_event.contains_key(*name));
            events.extend(others.map(|name| Compared {
                name: name.clone(),
                calls: 0,
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

    /// The first difference between plugin and trace, as a sentence. Lost events have no names, so
    /// with losses only the totals can be compared.
    pub fn disagreement(&self) -> Option<String> {
        let recorded: u64 = self
            .events
            .iter()
            .map(|event| event.recorded)
            .sum::<Option<u64>>()?;
        let calls: u64 = self.events.iter().map(|event| event.calls).sum();
        if self.lost > 0 {
            let differs = self.whole && calls != recorded + self.lost;
            return differs.then(|| {
                format!(
                    "the plugin counted {calls} calls, but the trace has {recorded} events and {} \
                     lost.",
                    self.lost
                )
            });
        }
        let differs = self
            .events
            .iter()
            .find(|event| event.recorded != Some(event.calls))?;
        let recorded = differs.recorded.unwrap_or_default();
        Some(format!(
            "the plugin counted {} calls of {}, but the trace has {recorded}: DWARF does not \
             attribute this code correctly.",
            differs.calls, differs.name
        ))
    }

    /// Cost per site, and calls compared with the trace, as two tables.
    pub fn to_text(&self) -> String {
        let mut rows = vec![
            ["", "calls", "instructions", "loads", "stores"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let mut notes = String::new();
        for (site, figure) in self.sites.iter().zip(&self.figures) {
            let (name, per_call) = (label(site), &figure["per_call"]);
            let row = |name: String, calls: u64, per_call: &Value| {
                let mut row = vec![name, calls.to_string()];
                row.extend(QUANTITIES.map(|quantity| spread(per_call, quantity)));
                row
            };
            rows.push(row(name.clone(), calls(per_call), per_call));
            let unmarked = figure["unmarked"]["calls"].as_u64().unwrap_or_default();
            if unmarked > 0 {
                rows.push(row(
                    "  switched off".to_owned(),
                    unmarked,
                    &figure["unmarked"]["per_call"],
                ));
            }
            for (key, what) in [
                ("outside_calls", "instructions belong to no call"),
                ("unfinished", "calls did not end"),
            ] {
                let count = figure[key].as_u64().unwrap_or_default();
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
                event.calls.to_string(),
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
            "agrees": self.disagreement().is_none(),
        });
        format!("{all}\n")
    }
}

fn site_json(site: &Site, figure: &Value) -> Value {
    let kind = match site.kind {
        Kind::Event => "event",
        Kind::SlowPath => "slow path",
        Kind::Function => "function",
        Kind::Range => "range",
    };
    let mut out = figure.clone();
    if let Value::Object(out) = &mut out {
        out.insert("name".to_owned(), json!(site.name));
        out.insert("kind".to_owned(), json!(kind));
        out.insert("inlined_in".to_owned(), json!(site.inlined_in));
        if site.kind == Kind::Event {
            out.insert("event".to_owned(), json!(trace_name(&site.name)));
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
        (None, _) => name.to_owned(),
    }
}
