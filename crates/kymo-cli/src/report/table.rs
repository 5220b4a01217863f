//! Tables that fit the terminal: which rows and columns they show, and in which order.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::dump::escape_controls;
use crate::summary::thousands;

use super::cell::Cell;
use super::layout::{self, Layout};

/// What a column holds: this says how it is aligned, and how it is made narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers, to the right. They are never cut.
    Number,
    /// Names, cut in the middle; a number in parentheses at the end stays.
    Name,
    /// Texts, cut at the end.
    Text,
    /// Several items or words, which go on in the next line.
    Items,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    pub head: String,
    pub kind: Kind,
    /// Whether it stays beside the column before it where a table is split.
    pub is_joined: bool,
    /// Whether its largest number stands out.
    pub has_worst: bool,
}

impl Column {
    fn new(kind: Kind, head: impl Into<String>) -> Column {
        Column {
            head: head.into(),
            kind,
            is_joined: false,
            has_worst: false,
        }
    }

    /// A column of numbers.
    pub fn number(head: impl Into<String>) -> Column {
        Column::new(Kind::Number, head)
    }

    /// A column of names.
    pub fn name(head: impl Into<String>) -> Column {
        Column::new(Kind::Name, head)
    }

    /// A column of texts.
    pub fn text(head: impl Into<String>) -> Column {
        Column::new(Kind::Text, head)
    }

    /// A column of lists or sentences.
    pub fn items(head: impl Into<String>) -> Column {
        Column::new(Kind::Items, head)
    }

    /// Stays beside the column before it.
    pub fn joined(self) -> Column {
        Column {
            is_joined: true,
            ..self
        }
    }

    /// Its largest number stands out.
    pub fn worst(self) -> Column {
        Column {
            has_worst: true,
            ..self
        }
    }

    /// Columns of durations with median, 90th and 99th percentile, and maximum.
    pub fn spread() -> [Column; 4] {
        let [p50, p90, p99] = ["p50", "p90", "p99"].map(Column::number);
        let max = Column::number("max").joined().worst();
        [p50, p90.joined(), p99.joined(), max]
    }

    /// The columns of a list in the order of `head`s, all of numbers.
    pub fn numbers<const N: usize>(heads: [&str; N]) -> [Column; N] {
        heads.map(Column::number)
    }
}

/// A table. The cells of a row are in the order of the columns.
#[derive(Clone, Debug)]
pub struct Table {
    pub title: String,
    /// Number of columns at the beginning that say what a row is about.
    pub keys: usize,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table whose first column says what a row is about.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Table {
        Table {
            title: title.into(),
            keys: 1,
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// A table with these rows.
    pub fn with(mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        self.rows.extend(rows);
        self
    }

    /// A table whose first columns, this many, say what a row is about.
    pub fn keyed_by(self, keys: usize) -> Table {
        Table { keys, ..self }
    }
}

/// How tables are printed.
#[derive(Debug)]
pub struct Look {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether there are colours.
    pub has_colors: bool,
    /// Most rows of a table; `None` for all.
    pub top: Option<usize>,
    /// The heading of the column by which rows are ordered.
    pub sort: Option<String>,
    /// Headings of the tables so far, and whether one is that of `sort`.
    pub seen: RefCell<(BTreeSet<String>, bool)>,
}

/// A heading as it may be written on the command line.
pub fn plain(head: &str) -> String {
    head.trim().to_lowercase().replace([' ', '_'], "-")
}

impl Look {
    /// The table as lines, with an empty line before it; nothing if it has no rows. It shows as many
    /// rows as are wanted, in the wanted order.
    pub fn print(&self, mut table: Table) -> String {
        self.order(&mut table);
        let all = table.rows.len();
        table.rows.truncate(self.top.unwrap_or(all));
        let more = all - table.rows.len();
        let mut text = self.print_whole(table);
        if more > 0 {
            let left_out = format!("and {} more; --top 0 prints all", thousands(more as u64));
            text.push_str(&layout::dim(&left_out, self.has_colors));
            text.push('\n');
        }
        text
    }

    /// The table as lines, with all its rows as they are.
    pub fn print_whole(&self, mut table: Table) -> String {
        if table.rows.is_empty() {
            return String::new();
        }
        for cell in table.rows.iter_mut().flatten() {
            escape_controls(&mut cell.text);
        }
        for column in &mut table.columns {
            escape_controls(&mut column.head);
        }
        escape_controls(&mut table.title);
        remove_empty_columns(&mut table);
        Layout::new(&table, self.width, self.has_colors).print()
    }

    /// Orders the rows by the chosen column: the largest numbers first, or names by letter.
    fn order(&self, table: &mut Table) {
        let mut seen = self.seen.borrow_mut();
        let heads = table.columns.iter().map(|column| plain(&column.head));
        let heads: Vec<String> = heads.collect();
        let place = self.sort.as_ref().and_then(|sort| {
            let mut heads = heads.iter();
            heads.position(|head| *head == plain(sort))
        });
        seen.0
            .extend(heads.into_iter().filter(|head| !head.is_empty()));
        let Some(place) = place else {
            return;
        };
        seen.1 = true;
        table
            .rows
            .sort_by(|a, b| match (a.get(place), b.get(place)) {
                (Some(a), Some(b)) => order(a, b),
                _ => Ordering::Equal,
            });
    }
}

fn order(a: &Cell, b: &Cell) -> Ordering {
    match (a.rank, b.rank) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => (a.is_empty(), &a.text).cmp(&(b.is_empty(), &b.text)),
    }
}

/// Removes the columns that say nothing in any row, except the keys.
fn remove_empty_columns(table: &mut Table) {
    for place in (table.keys..table.columns.len()).rev() {
        let mut cells = table.rows.iter().filter_map(|row| row.get(place));
        if cells.all(Cell::is_empty) {
            table.columns.remove(place);
            for row in &mut table.rows {
                if place < row.len() {
                    row.remove(place);
                }
            }
        }
    }
}
