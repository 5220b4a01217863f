//! Cells of a table: what is printed, and what rows are ordered by.

use kymo_analysis::Durations;

use crate::summary::thousands;

use super::duration;

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub text: String,
    /// What the text says as a number; `None` for a name, and for what is unknown.
    pub rank: Option<f64>,
}

impl Cell {
    /// A name or another text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            rank: None,
        }
    }

    /// A text that says this number.
    pub fn ranked(text: String, rank: f64) -> Cell {
        Cell {
            text,
            rank: Some(rank),
        }
    }

    /// A number.
    pub fn count(count: u64) -> Cell {
        Cell::ranked(thousands(count), count as f64)
    }

    /// A duration in nanoseconds.
    pub fn duration(nanos: u64) -> Cell {
        Cell::ranked(duration(nanos), nanos as f64)
    }

    /// A duration in nanoseconds; empty for zero, so that the other cells stand out.
    pub fn time_spent(nanos: u64) -> Cell {
        match nanos {
            0 => Cell::ranked(String::new(), 0.0),
            _ => Cell::duration(nanos),
        }
    }

    /// A share in percent, with this many digits behind the point.
    pub fn percent(percent: f64, digits: usize) -> Cell {
        Cell::ranked(format!("{percent:.digits$}%"), percent)
    }

    /// A part of a whole, in percent.
    pub fn share(part: u64, whole: u64) -> Cell {
        match whole {
            0 => Cell::unknown(),
            _ => Cell::percent(part as f64 * 100.0 / whole as f64, 1),
        }
    }

    /// How many there are in a second.
    pub fn rate(per_second: Option<f64>) -> Cell {
        per_second.map_or_else(Cell::unknown, |rate| {
            Cell::ranked(format!("{rate:.1}"), rate)
        })
    }

    /// What is not known.
    pub fn unknown() -> Cell {
        Cell::text("-")
    }

    /// The cell of a value, or that of an unknown one.
    pub fn maybe<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or_else(Cell::unknown, cell)
    }

    /// Median, 90th and 99th percentile, and maximum.
    pub fn spread(durations: &Durations) -> [Cell; 4] {
        let of = durations;
        [of.p50_ns, of.p90_ns, of.p99_ns, of.max_ns].map(|nanos| Cell::maybe(nanos, Cell::duration))
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        matches!(&*self.text, "" | "-")
    }
}
