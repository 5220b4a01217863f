//! Counts as text of at most 100 columns.

use std::fmt::Write as _;

use kymo_perf::{EventTotal, Total};

use super::output::{error, is_clock, per_second, ratios};
use super::watch::Counts;
use crate::summary::thousands;

/// Widest name that shares a line with its counts.
const NAME: usize = 32;

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
    for (group, total) in counts.groups.iter().zip(&counts.totals) {
        for (event, name) in total.events.iter().zip(&group.names) {
            let _ = writeln!(
                text,
                "{time:>9}  {}  {:>15}  {:>15}  {:>8}  {:>10}",
                padded(&shown(event, name), width, 11),
                thousands(event.raw),
                scaled(total, event),
                share(total),
                rate(counts, total, event),
            );
        }
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
    for (at, (group, total)) in counts.groups.iter().zip(&counts.totals).enumerate() {
        // Events that are alone in their group need no line between them.
        if at > 0 && group.names.len().max(events_before) > 1 {
            text.push('\n');
        }
        events_before = group.names.len();
        for (number, (event, name)) in total.events.iter().zip(&group.names).enumerate() {
            let error = match (is_any_scaled, error(counts, at, number)) {
                (true, Some(error)) => format!("{:>7}", format!("{:.1}%", error * 100.0)),
                (true, None) => " ".repeat(7),
                (false, _) => String::new(),
            };
            let _ = writeln!(
                text,
                "{}  {:>15}  {:>15}{error}  {:>8}  {:>10}",
                padded(&shown(event, name), width, 0),
                thousands(event.raw),
                scaled(total, event),
                share(total),
                rate(counts, total, event),
            );
        }
    }
    text.push('\n');
    for ratio in ratios(counts) {
        let _ = match ratio.is_share {
            true => writeln!(
                text,
                "{:.2} % {} of {}",
                ratio.value * 100.0,
                ratio.event,
                ratio.by
            ),
            false => writeln!(text, "{:.3} {} per {}", ratio.value, ratio.event, ratio.by),
        };
    }
    let _ = writeln!(text, "{:.6} s elapsed", counts.elapsed.as_secs_f64());
    text
}

fn name_width(counts: &Counts<'_>) -> usize {
    let events = counts.groups.iter().zip(&counts.totals);
    let names = events.flat_map(|(group, total)| total.events.iter().zip(&group.names));
    let widths = names.map(|(event, name)| shown(event, name).chars().count());
    let short = widths.filter(|width| *width <= NAME);
    short.max().unwrap_or(0).max("event".len())
}

/// A name in its column; a long one has a line of its own.
fn padded(name: &str, width: usize, indent: usize) -> String {
    match name.chars().count() <= width {
        true => format!("{name:width$}"),
        false => format!("{name}\n{:indent$}{:width$}", "", ""),
    }
}

fn shown(event: &EventTotal, name: &str) -> String {
    match is_clock(&event.event) {
        true => format!("{name} (ns)"),
        false => name.to_owned(),
    }
}

fn scaled(total: &Total, event: &EventTotal) -> String {
    total
        .scaled(event)
        .map_or_else(|| "never ran".to_owned(), thousands)
}

fn share(total: &Total) -> String {
    match total.share() {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => "-".to_owned(),
    }
}

fn rate(counts: &Counts<'_>, total: &Total, event: &EventTotal) -> String {
    let rate = total
        .scaled(event)
        .and_then(|scaled| per_second(scaled, counts));
    match rate {
        None => "-".to_owned(),
        Some(rate) if is_clock(&event.event) => format!("{:.3} CPUs", rate / 1e9),
        Some(rate) => with_prefix(rate),
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
    use super::*;

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
