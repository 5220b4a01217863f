//! Counts as text of at most 100 columns.

use std::fmt::Write as _;

use kymo_perf::{EventTotal, NamedGroup, Total};

use super::output::{error, is_clock, per_second, ratios, unit};
use super::targets::parts;
use super::watch::Counts;
use crate::summary::thousands;

/// Widest name that shares a line with its counts.
pub const NAME: usize = 32;

/// The counts of an interval, a line for each event, which begins with the time.
pub fn interval(counts: &Counts<'_>, is_first: bool) -> String {
    let mut text = String::new();
    let width = name_width(counts);
    if is_first {
        let _ = writeln!(
            text,
            "{:>9}  {:width$}  {:>15}  {:>15}  {:>8}  {:>10}",
            "time", "event", "raw", "scaled", "running", "per second"
        );
    }
    let time = format!("{:.3}", counts.time.as_secs_f64());
    for row in counts
        .groups
        .iter()
        .enumerate()
        .flat_map(|(at, _)| rows(counts, at))
    {
        let _ = writeln!(
            text,
            "{time:>9}  {}  {:>15}  {:>15}  {:>8}  {:>10}",
            padded(&row.name, width, 11),
            row.raw,
            row.scaled,
            row.share,
            row.rate,
        );
    }
    text
}

/// The counts of all the time: a line for each event, an empty line between groups, then ratios.
pub fn total(counts: &Counts<'_>, is_behind_intervals: bool) -> String {
    let mut text = String::new();
    if is_behind_intervals {
        text.push('\n');
    }
    let width = name_width(counts);
    let is_any_scaled = counts
        .totals
        .iter()
        .any(|total| total.time_running != total.time_enabled);
    let error_header = if is_any_scaled { "      ±" } else { "" };
    let _ = writeln!(
        text,
        "{:width$}  {:>15}  {:>15}{error_header}  {:>8}  {:>10}",
        "event", "raw", "scaled", "running", "per second"
    );
    let mut events_before = 1;
    for (at, group) in counts.groups.iter().enumerate() {
        let rows = rows(counts, at);
        // Events that are alone in their group need no line between them.
        if at > 0 && rows.len().max(group.names.len()).max(events_before) > 1 {
            text.push('\n');
        }
        events_before = rows.len();
        for row in rows {
            let error = match (is_any_scaled, row.error) {
                (true, Some(error)) => format!("{:>7}", format!("{:.1}%", error * 100.0)),
                (true, None) => " ".repeat(7),
                (false, _) => String::new(),
            };
            let _ = writeln!(
                text,
                "{}  {:>15}  {:>15}{error}  {:>8}  {:>10}",
                padded(&row.name, width, 0),
                row.raw,
                row.scaled,
                row.share,
                row.rate,
            );
        }
    }
    text.push('\n');
    text += &ratio_lines(counts);
    let _ = writeln!(text, "{:.6} s elapsed", counts.elapsed.as_secs_f64());
    text
}

/// A line for each ratio.
pub fn ratio_lines(counts: &Counts<'_>) -> String {
    let mut text = String::new();
    for ratio in ratios(counts) {
        let _ = match ratio.is_share {
            true => writeln!(
                text,
                "{:.2} % {} of {}",
                ratio.value * 100.0,
                ratio.event,
                ratio.by
            ),
            false => {
                let by = ratio.by.replacen("cycles", "cycle", 1);
                writeln!(text, "{:.3} {} per {by}", ratio.value, ratio.event)
            }
        };
    }
    text
}

/// A line of a table: an event, or what a CPU or thread counted of it.
struct Row {
    name: String,
    raw: String,
    scaled: String,
    share: String,
    rate: String,
    error: Option<f64>,
}

/// The lines of a group: each event, and below it each CPU or thread, where these are asked for.
fn rows(counts: &Counts<'_>, at: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let (Some(group), Some(total)) = (counts.groups.get(at), counts.totals.get(at)) else {
        return rows;
    };
    let parts = parts(counts, at);
    for (number, event) in total.events.iter().enumerate() {
        let unit = unit(group, number);
        let row = |name, total: &Total, event: &EventTotal| Row {
            name,
            raw: thousands(event.raw),
            scaled: scaled(total, event, unit),
            share: share(total),
            rate: rate(counts, total, event, unit),
            error: None,
        };
        rows.push(Row {
            error: error(counts, at, number),
            ..row(shown(group, event, number), total, event)
        });
        for (target, part) in &parts {
            let event = part.events.get(number);
            rows.extend(event.map(|event| row(format!("  {}", target.text), part, event)));
        }
    }
    rows
}

fn name_width(counts: &Counts<'_>) -> usize {
    let rows = counts
        .groups
        .iter()
        .enumerate()
        .flat_map(|(at, _)| rows(counts, at));
    width_of(rows.map(|row| row.name))
}

/// The width of a column of names, of which a long one has a line of its own.
pub fn width_of(names: impl Iterator<Item = String>) -> usize {
    let widths = names.map(|name| name.chars().count());
    let short = widths.filter(|width| *width <= NAME);
    short.max().unwrap_or(0).max("event".len())
}

/// A name in its column; a long one has a line of its own.
pub fn padded(name: &str, width: usize, indent: usize) -> String {
    match name.chars().count() <= width {
        true => format!("{name:width$}"),
        false => format!("{name}\n{:indent$}{:width$}", "", ""),
    }
}

/// An event's name and unit.
pub fn shown(group: &NamedGroup, event: &EventTotal, number: usize) -> String {
    let name = group.names.get(number).map_or("", String::as_str);
    match unit(group, number) {
        Some((_, unit)) if !unit.is_empty() => format!("{name} ({unit})"),
        None if is_clock(&event.event) => format!("{name} (ns)"),
        _ => name.to_owned(),
    }
}

/// An event's scaled count, or why it has none. The time of a thread's group passes only while the
/// thread is on a CPU.
fn scaled(total: &Total, event: &EventTotal, unit: Option<(f64, &str)>) -> String {
    match (total.scaled(event), unit) {
        (Some(scaled), Some((scale, _))) => decimal(scaled as f64 * scale),
        (Some(scaled), None) => thousands(scaled),
        (None, _) if total.time_enabled == 0 => "not on a CPU".to_owned(),
        (None, _) => "never ran".to_owned(),
    }
}

/// A number that is no count, with two decimals.
pub fn decimal(number: f64) -> String {
    let text = format!("{number:.2}");
    match text.split_once('.') {
        Some((integer, decimals)) => match integer.parse() {
            Ok(integer) => format!("{}.{decimals}", thousands(integer)),
            Err(_) => text,
        },
        None => text,
    }
}

pub fn share(total: &Total) -> String {
    match total.share() {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => "-".to_owned(),
    }
}

fn rate(
    counts: &Counts<'_>,
    total: &Total,
    event: &EventTotal,
    unit: Option<(f64, &str)>,
) -> String {
    let rate = total
        .scaled(event)
        .and_then(|scaled| per_second(scaled, counts));
    match (rate, unit) {
        (None, _) => "-".to_owned(),
        (Some(rate), Some((scale, _))) => with_prefix(rate * scale),
        (Some(rate), None) if is_clock(&event.event) => format!("{:.3} CPUs", rate / 1e9),
        (Some(rate), None) => with_prefix(rate),
    }
}

/// Four digits at least, and a prefix for the thousands.
fn with_prefix(number: f64) -> String {
    for (size, prefix) in [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")] {
        if number >= size {
            let size = if prefix == " k" { 1e3 } else { size };
            return format!("{:.3}{prefix}", number / size);
        }
    }
    format!("{number:.1}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kymo_perf::{EventNames, NamedGroup, Readings};

    use super::*;

    /// Groups that took turns on a PMU, one of which never ran.
    fn groups() -> Vec<NamedGroup> {
        let names = EventNames::default();
        let list = "{instructions,cycles},{cache-misses,cache-references},branches:u";
        names.groups(list).unwrap()
    }

    fn counts(groups: &[NamedGroup]) -> Counts<'_> {
        let total = |group: &NamedGroup, time_running, counts: &[u64]| {
            let events = group.spec.events().iter().copied();
            let mut total = Total::default();
            total.add(3_000, time_running, events.zip(counts.iter().copied()));
            total
        };
        // The leader's rate varies by 10 %, from reading to reading.
        let mut readings = vec![Readings::default(); groups.len()];
        for turn in 0..100 {
            let instructions = if turn % 2 == 0 { 900 } else { 1_100 };
            readings[0].add(&total(&groups[0], 1_500, &[instructions, 2_000]));
        }
        Counts {
            groups,
            labels: &[],
            totals: vec![
                total(&groups[0], 1_500, &[1_000, 2_000]),
                total(&groups[1], 3_000, &[25, 1_000]),
                total(&groups[2], 0, &[0]),
            ],
            readings: Some(readings),
            elapsed: Duration::from_millis(500),
            time: Duration::from_secs(2),
        }
    }

    #[test]
    fn what_took_turns_is_scaled_with_its_error_and_what_never_ran_says_so() {
        let groups = groups();
        let text = total(&counts(&groups), false);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "event raw scaled ± running per second",
                "instructions 1,000 2,000 1.4% 50.0 % 4000.0",
                "cycles 2,000 4,000 0.0% 50.0 % 8000.0",
                "",
                "cache-misses 25 25 100.0 % 50.0",
                "cache-references 1,000 1,000 100.0 % 2000.0",
                "",
                "branches:u 0 never ran 0.0 % -",
                "",
                "0.500 instructions per cycle",
                "2.50 % cache-misses of cache-references",
                "0.500000 s elapsed",
            ]
        );
        // The columns stay where they are, with an error or without.
        let widths = text.lines().take(6).filter(|line| !line.is_empty());
        let widths: Vec<usize> = widths.map(|line| line.chars().count()).collect();
        assert!(
            widths
                .iter()
                .all(|width| *width == widths[0] && *width <= 100),
            "{text}"
        );
    }

    #[test]
    fn events_of_groups_that_took_turns_have_no_ratio() {
        let names = EventNames::default();
        let groups = names.groups("instructions,cycles").unwrap();
        for (running, ratio) in [(1_500, false), (3_000, true)] {
            let totals = groups.iter().map(|group| {
                let mut total = Total::default();
                total.add(3_000, running, [(group.spec.leader(), 700)].into_iter());
                total
            });
            let counts = Counts {
                groups: &groups,
                labels: &[],
                totals: totals.collect(),
                readings: None,
                elapsed: Duration::from_secs(1),
                time: Duration::from_secs(1),
            };
            let text = total(&counts, false);
            assert_eq!(
                text.contains("1.000 instructions per cycle"),
                ratio,
                "{text}"
            );
        }
    }

    #[test]
    fn rates_are_short() {
        for (number, text) in [
            (0.0, "0.0"),
            (12.34, "12.3"),
            (9999.0, "9999.0"),
            (12_345.0, "12.345 k"),
            (1_234_567.0, "1.235 M"),
            (2.5e9, "2.500 G"),
            (7e13, "70.000 T"),
        ] {
            assert_eq!(with_prefix(number), text);
        }
    }

    #[test]
    fn a_long_name_has_a_line_of_its_own() {
        assert_eq!(padded("abc", 5, 2), "abc  ");
        assert_eq!(padded("abcdef", 5, 2), "abcdef\n       ");
    }
}
