//! Counts as a table or as JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use kymo::count::{EventKind, EventSpec, Hardware, Software};
use kymo_perf::{EventTotal, NamedGroup, Total};
use serde_json::{Value, json};

use super::repeat::Runs;
use super::table;
use super::targets::parts;
use super::watch::{Counts, End};
use crate::dump::{deliver, flush};

/// Which part of the time counts are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of an interval.
    Interval,
    /// Of all the time.
    Total,
}

/// Where counts go.
pub struct Writer {
    out: Box<dyn Write>,
    json: bool,
    intervals: u64,
    is_open: bool,
}

impl Writer {
    /// Writes to a file, where `-` is the standard output. Without a path, the counts of a command
    /// go to the standard error, as the standard output is the command's.
    pub fn create(path: Option<&Path>, json: bool, of_command: bool) -> anyhow::Result<Writer> {
        let out: Box<dyn Write> = match crate::output::file(path) {
            None if path.is_none() && of_command => Box::new(BufWriter::new(io::stderr())),
            Some(path) => Box::new(BufWriter::new(File::create(path).with_context(|| {
                format!(
                    "cannot create {} (choose another file with -o)",
                    path.display()
                )
            })?)),
            None => Box::new(BufWriter::new(io::stdout())),
        };
        Ok(Writer {
            out,
            json,
            intervals: 0,
            is_open: true,
        })
    }

    /// Writes counts. Where nobody reads any more, they are dropped, and counting goes on: the
    /// command is not ended for it.
    pub fn write(&mut self, counts: &Counts<'_>, part: Part, end: &End) -> anyhow::Result<()> {
        let text = match (self.json, part) {
            (true, _) => {
                let object = object(counts, part, end);
                serde_json::to_string(&object).context("cannot write JSON")? + "\n"
            }
            (false, Part::Interval) => table::interval(counts, self.intervals == 0),
            (false, Part::Total) => table::total(counts, self.intervals > 0),
        };
        self.intervals += u64::from(part == Part::Interval);
        self.deliver(&text)
    }

    /// Writes the counts of several runs, as [`write`](Writer::write) does.
    pub fn write_runs(
        &mut self,
        runs: &Runs,
        groups: &[NamedGroup],
        status: Option<u8>,
    ) -> anyhow::Result<()> {
        let text = match self.json {
            true => {
                let object = runs.object(groups, status);
                serde_json::to_string(&object).context("cannot write JSON")? + "\n"
            }
            false => runs.table(groups),
        };
        self.deliver(&text)
    }

    fn deliver(&mut self, text: &str) -> anyhow::Result<()> {
        self.is_open = self.is_open && deliver(&mut self.out, text.as_bytes())?;
        match self.is_open {
            true => flush(&mut self.out),
            false => Ok(()),
        }
    }

    /// Writes what is left.
    pub fn finish(mut self) -> anyhow::Result<()> {
        match self.is_open {
            true => flush(&mut self.out),
            false => Ok(()),
        }
    }
}

/// A number that says more than two counts.
pub struct Ratio<'c> {
    /// What is divided.
    pub event: &'c str,
    /// By what.
    pub by: &'c str,
    /// Whether it is a share, as of misses in accesses.
    pub is_share: bool,
    /// The number.
    pub value: f64,
}

/// Ratios of events that were counted at the same time: those of a group, or of groups that both
/// counted all the time. Of others the parts could be of different work.
pub fn ratios<'c>(counts: &'c Counts<'_>) -> Vec<Ratio<'c>> {
    let all = || counts.groups.iter().zip(&counts.totals);
    let mut ratios = Vec::new();
    for (at, (group, total)) in all().enumerate() {
        for (event, name) in total.events.iter().zip(&group.names) {
            let Some(divisor) = event.event.divisor() else {
                continue;
            };
            let mut others = all().enumerate().filter(|(other, (_, of))| {
                *other == at || (always_counted(total) && always_counted(of))
            });
            let found = others.find_map(|(_, (group, of))| {
                let mut events = of.events.iter().zip(&group.names);
                events.find(|(event, _)| {
                    EventSpec {
                        period: 0,
                        ..event.event
                    } == divisor
                })
            });
            if let Some((by, by_name)) = found.filter(|(by, _)| by.raw > 0) {
                ratios.push(Ratio {
                    event: name,
                    by: by_name,
                    is_share: divisor.kind != EventKind::Hardware(Hardware::Cycles),
                    value: event.raw as f64 / by.raw as f64,
                });
            }
        }
    }
    ratios
}

fn always_counted(total: &Total) -> bool {
    total.time_running > 0 && total.time_running == total.time_enabled
}

/// Whether an event counts nanoseconds.
pub fn is_clock(event: &EventSpec) -> bool {
    let clocks = [Software::CpuClock, Software::TaskClock];
    matches!(event.kind, EventKind::Software(event) if clocks.contains(&event))
}

/// What an event's count of 1 is, and in which unit, if its PMU says so.
pub fn unit(group: &NamedGroup, event: usize) -> Option<(f64, &str)> {
    let pmu = group.pmu(event, 0)?;
    let unit = pmu.unit.as_deref();
    (unit.is_some() || pmu.scale != 1.0).then_some((pmu.scale, unit.unwrap_or_default()))
}

/// The estimated number of events per second of the clock on the wall.
pub fn per_second(scaled: u64, counts: &Counts<'_>) -> Option<f64> {
    let seconds = counts.elapsed.as_secs_f64();
    (seconds > 0.0).then(|| scaled as f64 / seconds)
}

/// Half the width of the interval of an event's scaled count; `None` where nothing is scaled, or
/// too little is known.
pub fn error(counts: &Counts<'_>, group: usize, event: usize) -> Option<f64> {
    let total = counts.totals.get(group)?;
    if total.time_running == total.time_enabled {
        return None;
    }
    counts.readings.as_ref()?.get(group)?.error(event)
}

fn object(counts: &Counts<'_>, part: Part, end: &End) -> Value {
    let groups = counts.totals.iter().enumerate().map(|(at, total)| {
        let mut group = group_object(counts, at, total);
        let errors = (0..total.events.len()).map(|event| error(counts, at, event));
        for (event, error) in group["events"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .zip(errors)
        {
            event["error"] = json!(error);
        }
        if counts.labels.get(at).is_some() {
            let parts = parts(counts, at).into_iter().map(|(label, total)| {
                let (mut part, of) = (group_object(counts, at, &total), label.members());
                if let (Some(part), Value::Object(of)) = (part.as_object_mut(), of) {
                    part.extend(of);
                }
                part
            });
            group["targets"] = parts.collect();
        }
        group
    });
    let ratios = ratios(counts);
    let ratios = ratios.iter().map(|ratio| {
        json!({
            "event": ratio.event,
            "by": ratio.by,
            "value": ratio.value,
        })
    });
    json!({
        "part": match part {
            Part::Interval => "interval",
            Part::Total => "total",
        },
        "time": counts.time.as_secs_f64(),
        "elapsed": counts.elapsed.as_secs_f64(),
        "status": end.status(),
        "groups": groups.collect::<Vec<Value>>(),
        "ratios": ratios.collect::<Vec<Value>>(),
    })
}

/// A group's counts, of all its targets or of one.
fn group_object(counts: &Counts<'_>, at: usize, total: &Total) -> Value {
    let group = counts.groups.get(at);
    let events = total.events.iter().enumerate();
    let events = events.map(|(number, event)| {
        let scaled = total.scaled(event);
        let (scale, unit) = scale_and_unit(group, event, number);
        json!({
            "event": group.and_then(|group| group.names.get(number)),
            "unit": unit,
            "raw": event.raw,
            "scaled": scaled,
            "value": scaled.map(|scaled| scaled as f64 * scale),
            "error": Value::Null,
            "per_second": scaled.and_then(|scaled| per_second(scaled, counts)),
        })
    });
    json!({
        "time_enabled": total.time_enabled,
        "time_running": total.time_running,
        "share": total.share(),
        "events": events.collect::<Vec<Value>>(),
    })
}

/// What a count of 1 is, and in which unit; `None` for events.
pub fn scale_and_unit<'g>(
    group: Option<&'g NamedGroup>,
    event: &EventTotal,
    number: usize,
) -> (f64, Option<&'g str>) {
    match group.and_then(|group| unit(group, number)) {
        Some((scale, unit)) => (scale, Some(unit)),
        None => (1.0, is_clock(&event.event).then_some("ns")),
    }
}
