//! `kymo diff`: two traces compared, of a system before and after a change.

use std::path::PathBuf;

use anyhow::Context as _;
use kymo_analysis::{Analysis, Compared, Diff, Difference, Pair, Tested};

use crate::dump::{deliver, flush};
use crate::exit::Code;
use crate::input;
use crate::report::cell::Cell;
use crate::report::layout::wrap;
use crate::report::table::{Column, Look, Table};
use crate::report::{duration, pass};
use crate::summary::count;
use crate::terminal::{self, Color};

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo diff before after
  kymo diff before after --top 0 | less
  kymo diff before after --json | jq '.interrupts[] | select(.durations_test.difference == \"more\")'

Rows are matched by name. Durations are compared by the rank test of Mann and Whitney, and numbers of
events by the conditional test of two rates; `noise` is a difference that chance alone makes, at a
level of 5 % for all tests together (Bonferroni), and `few` are fewer values than a test needs. Both
tests take the values as independent, which bursts are not.";

/// Command line of `kymo diff`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace before the change.
    before: PathBuf,
    /// The trace after it.
    after: PathBuf,
    /// Print one JSON object with all tables.
    #[arg(long)]
    json: bool,
    /// Most rows of a table; 0 prints all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// When to write colours.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: Color,
}

/// Compares the traces and prints what differs.
///
/// # Errors
/// If a trace cannot be read; of a damaged one, what can be read is compared.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let mut damage = None;
    let mut reports = Vec::new();
    for path in [&arguments.before, &arguments.after] {
        let trace = input::of_one_clock(path)?;
        let (report, damaged) = pass(&trace, Analysis::new(trace.metadata()), |_, _| ());
        if let (None, Some(error)) = (&damage, damaged) {
            let error = anyhow::Error::from(error).context(path.display().to_string());
            damage = Some(error);
        }
        reports.push(report);
    }
    let [before, after] = &reports[..] else {
        return Ok(Code::Ok);
    };
    let diff = Diff::of(before, after);
    let text = match arguments.json {
        true => serde_json::to_string(&diff).context("cannot write JSON")? + "\n",
        false => arguments.text(&diff),
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    match damage {
        Some(error) => Err(error),
        None => Ok(Code::Ok),
    }
}

impl Arguments {
    fn text(&self, diff: &Diff) -> String {
        let look = Look {
            width: terminal::width(),
            has_colors: self.color.is_on(),
            top: Some(self.top).filter(|top| *top > 0),
            sort: None,
            seen: Default::default(),
        };
        let mut text = String::new();
        for line in head(diff).iter().flat_map(|line| wrap(line, look.width)) {
            text.push_str(&line);
            text.push('\n');
        }
        for (rows, what, counted, timed) in [
            (&diff.threads, "Threads", "switches", "wake-up latency"),
            (&diff.system_calls, "System calls", "calls", "duration"),
            (&diff.interrupts, "Interrupts", "number", "duration"),
            (&diff.lock_waits, "Waits for locks", "number", "duration"),
            (&diff.lock_holds, "Held locks", "number", "duration"),
        ] {
            text.push_str(&look.print(counts(&format!("{what}: {counted}"), rows)));
            text.push_str(&look.print(durations(&format!("{what}: {timed}"), rows)));
        }
        text
    }
}

/// The first lines: how much is compared, and by how many tests.
fn head(diff: &Diff) -> Vec<String> {
    let of = |events: u64, nanos: u64, lost: u64| {
        let lost = match lost {
            0 => "none lost".to_owned(),
            lost => format!("{} or packets lost", count(lost, "event", "events")),
        };
        format!(
            "{} in {}, {lost}",
            count(events, "event", "events"),
            duration(nanos)
        )
    };
    let Pair { before, after } = diff.events;
    let (span, lost) = (diff.span_ns, diff.lost);
    let mut lines = vec![
        format!("Before: {}.", of(before, span.before, lost.before)),
        format!("After:  {}.", of(after, span.after, lost.after)),
    ];
    lines.push(match diff.tests {
        0 => "There are too few values for any test.".to_owned(),
        tests => format!(
            "{}, at 5 % for all together: noise is what chance alone makes, few are fewer than 10 \
             values.",
            count(tests, "test", "tests")
        ),
    });
    lines
}

/// A change in percent of what was before.
fn change(before: f64, after: f64) -> Cell {
    match before > 0.0 {
        true => {
            let percent = (after - before) * 100.0 / before;
            Cell::ranked(format!("{percent:+.1}%"), percent)
        }
        false => Cell::unknown(),
    }
}

fn told(tested: &Tested, less: &str, more: &str) -> Cell {
    Cell::text(match tested.difference {
        Difference::Noise => "noise",
        Difference::Less => less,
        Difference::More => more,
        _ => "few",
    })
}

fn counts(title: &str, rows: &[Compared]) -> Table {
    let columns = [
        Column::name("name"),
        Column::number("before"),
        Column::number("after").joined(),
        Column::number("a second"),
        Column::number("after").joined(),
        Column::number("change").joined(),
        Column::text("test").joined(),
        Column::number("share"),
        Column::number("after").joined(),
    ];
    let rows = rows.iter().map(|row| {
        let Pair { before, after } = row.per_second;
        let share = |part: fn(Pair<f64>) -> f64| {
            Cell::maybe(row.share_percent, |share| Cell::percent(part(share), 2))
        };
        vec![
            Cell::text(&row.name),
            Cell::count(row.count.before),
            Cell::count(row.count.after),
            Cell::rate(before),
            Cell::rate(after),
            change(before.unwrap_or(0.0), after.unwrap_or(0.0)),
            told(&row.counts_test, "fewer", "more"),
            share(|share| share.before),
            share(|share| share.after),
        ]
    });
    Table::new(title, columns).with(rows)
}

fn durations(title: &str, rows: &[Compared]) -> Table {
    let mut columns = vec![
        Column::name("name"),
        Column::number("timed"),
        Column::number("after").joined(),
    ];
    for percentile in ["p50", "p90", "p99", "max"] {
        columns.push(Column::number(percentile));
        columns.push(Column::number("after").joined());
        if percentile == "p50" {
            columns.push(Column::number("change").joined());
            columns.push(Column::text("test").joined());
        }
    }
    let rows = rows
        .iter()
        .filter(|row| row.durations.before.count > 0 || row.durations.after.count > 0);
    let rows = rows.map(|row| {
        let Pair { before, after } = &row.durations;
        let mut cells = vec![
            Cell::text(&row.name),
            Cell::count(before.count),
            Cell::count(after.count),
        ];
        let pairs = Cell::spread(before).into_iter().zip(Cell::spread(after));
        for (place, (before, after)) in pairs.enumerate() {
            let ranks = (before.rank.unwrap_or(0.0), after.rank);
            cells.extend([before, after]);
            if place == 0 {
                cells.push(match ranks {
                    (before, Some(after)) => change(before, after),
                    _ => Cell::unknown(),
                });
                cells.push(told(&row.durations_test, "shorter", "longer"));
            }
        }
        cells
    });
    Table::new(title, columns).with(rows)
}
