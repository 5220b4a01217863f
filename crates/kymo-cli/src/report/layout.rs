//! The layout of a table: widths of columns, cut names, and parts one below the other where the
//! table is wider than the terminal.

use super::cell::Cell;
use super::table::{Column, Kind, Table};

/// Fewest letters of a name that says what a row is about.
const KEY: usize = 20;
/// Fewest letters of another name or text.
const NAME: usize = 14;
/// Spaces between columns.
const GAP: usize = 2;

/// A table, and how it is laid out.
pub struct Layout<'t> {
    table: &'t Table,
    width: usize,
    has_colors: bool,
    /// Of each column, the width that everything has, and the least.
    natural: Vec<usize>,
    least: Vec<usize>,
    /// Of each column, the row whose number stands out.
    worst: Vec<Option<usize>>,
}

fn length(text: &str) -> usize {
    text.chars().count()
}

impl<'t> Layout<'t> {
    /// The layout for a terminal with this many columns.
    pub fn new(table: &'t Table, width: usize, has_colors: bool) -> Layout<'t> {
        let mut layout = Layout {
            table,
            width,
            has_colors,
            natural: Vec::new(),
            least: Vec::new(),
            worst: Vec::new(),
        };
        for (place, column) in table.columns.iter().enumerate() {
            let cells = || table.rows.iter().filter_map(|row| row.get(place));
            let widest = cells().map(|cell| length(&cell.text)).max().unwrap_or(0);
            let natural = widest.max(length(&column.head));
            let least = match column.kind {
                Kind::Number => natural,
                Kind::Name | Kind::Text if place < table.keys => KEY,
                Kind::Name | Kind::Text => NAME,
                Kind::Items => cells()
                    .map(|cell| longest_item(&cell.text))
                    .max()
                    .unwrap_or(0),
            };
            layout.natural.push(natural);
            layout
                .least
                .push(least.max(length(&column.head)).min(natural));
            layout.worst.push(worst(column, cells()));
        }
        layout
    }

    /// The table, with an empty line before each part of it.
    pub fn print(&self) -> String {
        let mut text = String::new();
        for (number, part) in self.parts().iter().enumerate() {
            let title = match number {
                0 => self.table.title.clone(),
                _ => {
                    // What follows a comma, a colon or a semicolon is about the whole table.
                    let title = self
                        .table
                        .title
                        .split([':', ';'])
                        .next()
                        .unwrap_or_default();
                    format!("{title} (continued)")
                }
            };
            text.push('\n');
            for line in wrap(&title, self.width) {
                text.push_str(&bold(&line, self.has_colors));
                text.push('\n');
            }
            text.push('\n');
            self.print_part(part, &mut text);
        }
        text
    }

    /// The columns of each part. The keys are in every one.
    fn parts(&self) -> Vec<Vec<usize>> {
        let columns = &self.table.columns;
        let keys: Vec<usize> = (0..self.table.keys.min(columns.len())).collect();
        let sum = |places: &[usize]| -> usize {
            let widths = places.iter().filter_map(|place| self.least.get(*place));
            widths.map(|width| width + GAP).sum()
        };
        let base = sum(&keys);
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        for (place, column) in columns.iter().enumerate().skip(keys.len()) {
            match blocks.last_mut() {
                Some(block) if column.is_joined => block.push(place),
                _ => blocks.push(vec![place]),
            }
        }
        // The last column has no gap behind it.
        let room = self.width + GAP;
        let blocks = blocks
            .into_iter()
            .flat_map(|block| match base + sum(&block) > room {
                true => block.into_iter().map(|place| vec![place]).collect(),
                false => vec![block],
            });
        let mut parts = Vec::new();
        let (mut part, mut used) = (keys.clone(), base);
        for block in blocks {
            let needs = sum(&block);
            if used + needs > room && part.len() > keys.len() {
                parts.push(std::mem::replace(&mut part, keys.clone()));
                used = base;
            }
            used += needs;
            part.extend(block);
        }
        parts.push(part);
        parts
    }

    /// Widths of a part's columns: each gets its share of the room that the least widths leave.
    fn widths(&self, part: &[usize]) -> Vec<usize> {
        let of = |widths: &[usize], place: &usize| widths.get(*place).copied().unwrap_or(0);
        let mut widths: Vec<usize> = part.iter().map(|place| of(&self.least, place)).collect();
        let gaps = GAP * part.len().saturating_sub(1);
        let mut used = widths.iter().sum::<usize>() + gaps;
        // A list that is wider than the terminal is cut by the line.
        if let (Some(last), Some(place)) = (widths.last_mut(), part.last())
            && used > self.width
            && self.table.columns.get(*place).map(|column| column.kind) != Some(Kind::Number)
        {
            let less = (used - self.width).min(last.saturating_sub(NAME));
            *last -= less;
            used -= less;
        }
        let mut slack = self.width.saturating_sub(used);
        let mut wanting: Vec<(usize, usize)> = part
            .iter()
            .enumerate()
            .map(|(at, place)| {
                (
                    of(&self.natural, place).saturating_sub(of(&self.least, place)),
                    at,
                )
            })
            .filter(|(wants, _)| *wants > 0)
            .collect();
        wanting.sort_unstable();
        let mut left = wanting.len();
        for (wants, at) in wanting {
            let gets = wants.min(slack / left);
            if let Some(width) = widths.get_mut(at) {
                *width += gets;
            }
            slack -= gets;
            left -= 1;
        }
        widths
    }

    fn print_part(&self, part: &[usize], text: &mut String) {
        let widths = self.widths(part);
        let columns = part
            .iter()
            .filter_map(|place| self.table.columns.get(*place));
        let columns: Vec<&Column> = columns.collect();
        let heads = columns.iter().map(|column| vec![column.head.clone()]);
        for line in lines(&columns, &widths, &heads.collect::<Vec<_>>(), &[]) {
            text.push_str(&bold(&line, self.has_colors));
            text.push('\n');
        }
        for (number, row) in self.table.rows.iter().enumerate() {
            let cells = part.iter().zip(&columns).zip(&widths);
            let cells = cells.map(|((place, column), width)| {
                let text = row.get(*place).map_or("", |cell| &*cell.text);
                fitted(text, column.kind, *width)
            });
            let worst = part.iter().map(|place| {
                self.has_colors && self.worst.get(*place).copied().flatten() == Some(number)
            });
            let (cells, worst) = (cells.collect::<Vec<_>>(), worst.collect::<Vec<_>>());
            for line in lines(&columns, &widths, &cells, &worst) {
                text.push_str(&line);
                text.push('\n');
            }
        }
    }
}

/// The row with the largest number of a column, if it stands out.
fn worst<'c>(column: &Column, cells: impl Iterator<Item = &'c Cell>) -> Option<usize> {
    let ranks: Vec<Option<f64>> = cells.map(|cell| cell.rank).collect();
    let known = ranks.iter().enumerate();
    let known = known.filter_map(|(row, rank)| Some((row, (*rank)?)));
    let largest = known.max_by(|(_, a), (_, b)| a.total_cmp(b));
    largest
        .filter(|_| column.has_worst && ranks.len() > 1)
        .map(|(row, _)| row)
}

/// The lines of a row, from those of each cell. Numbers are to the right.
fn lines(
    columns: &[&Column],
    widths: &[usize],
    cells: &[Vec<String>],
    worst: &[bool],
) -> Vec<String> {
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in 0..height {
        let mut line = String::new();
        for (place, (column, width)) in columns.iter().zip(widths).enumerate() {
            let text = cells.get(place).and_then(|lines| lines.get(row));
            let text = text.map_or("", String::as_str);
            let blank = " ".repeat(width.saturating_sub(length(text)));
            if place > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let is_worst = worst.get(place) == Some(&true) && !text.is_empty();
            let shown = if is_worst {
                warm(text)
            } else {
                text.to_owned()
            };
            let (before, after) = match column.kind {
                Kind::Number => (&*blank, ""),
                _ => ("", &*blank),
            };
            line.extend([before, &shown, after]);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// A cell's text in this many columns, as one line or more.
fn fitted(text: &str, kind: Kind, width: usize) -> Vec<String> {
    match kind {
        Kind::Number => vec![text.to_owned()],
        Kind::Name => vec![cut_middle(text, width)],
        Kind::Text => vec![cut_end(text, width)],
        Kind::Items if length(text) <= width => vec![text.to_owned()],
        Kind::Items => wrap_items(text, width),
    }
}

/// The longest item of a list, which has commas between them, or word of a sentence.
fn longest_item(text: &str) -> usize {
    let item = |item: &str| length(item.trim_end());
    let items = text.split_inclusive(", ").map(item).max().unwrap_or(0);
    match items > 2 * NAME {
        true => text.split(' ').map(length).max().unwrap_or(0).max(2 * NAME),
        false => items,
    }
}

fn cut_end(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// The text without a piece of its middle. A number in parentheses at its end stays.
fn cut_middle(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let number = match text.ends_with(')') {
        true => text.rfind(" (").and_then(|at| text.get(at..)).map(length),
        false => None,
    };
    let tail = number.filter(|tail| *tail + 4 <= room).unwrap_or(room / 3);
    let begin: String = text.chars().take(room - tail).collect();
    let end: String = text.chars().skip(length(text) - tail).collect();
    format!("{begin}…{end}")
}

/// Lines of a list or sentence, broken behind commas if that is possible.
fn wrap_items(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for item in text.split_inclusive(", ") {
        if length(&line) + length(item.trim_end()) > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        line.push_str(item);
        if length(line.trim_end()) > width {
            let mut pieces = wrap(&line, width);
            line = pieces.pop().unwrap_or_default() + " ";
            lines.extend(pieces);
        }
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// The words of a text. A number and the unit behind it are one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_unit = |word: &str| {
        let word = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
        matches!(word, "ns" | "us" | "ms" | "s" | "%")
    };
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = text.find(' ');
        if let Some(at) = end
            && let Some(next) = text.get(at + 1..)
            && is_unit(next.split(' ').next().unwrap_or_default())
        {
            end = next.find(' ').map(|more| at + 1 + more);
        }
        let (word, more) = match end.and_then(|at| text.split_at_checked(at)) {
            Some((word, more)) => (word, more.get(1..)),
            None => (text, None),
        };
        rest = more;
        Some(word)
    })
}

/// Lines of a text, broken between words; a word that is longer than a line is cut.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words(text) {
        if !line.is_empty() && length(&line) + 1 + length(word) > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        while length(&line) > width {
            let rest: String = line.chars().skip(width).collect();
            let full: String = line.chars().take(width).collect();
            lines.push(full);
            line = rest;
        }
    }
    lines.push(line);
    lines
}

fn styled(text: &str, code: &str, has_colors: bool) -> String {
    match has_colors && !text.is_empty() {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// A heading.
fn bold(text: &str, has_colors: bool) -> String {
    styled(text, "1", has_colors)
}

/// A remark.
pub fn dim(text: &str, has_colors: bool) -> String {
    styled(text, "2", has_colors)
}

/// The largest number of a column.
fn warm(text: &str) -> String {
    styled(text, "33", true)
}

/// What is wrong with a trace.
pub fn alarm(text: &str, has_colors: bool) -> String {
    styled(text, "31", has_colors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_middle_and_keep_their_numbers() {
        for (text, width, cut) in [
            (
                "kworker/u16:3-events_unbound (1234)",
                20,
                "kworker/u16:… (1234)",
            ),
            ("short (1)", 20, "short (1)"),
            ("abcdefghijklmnopqrstuvwxyz", 10, "abcdef…xyz"),
            ("ab (12345678901234567890)", 12, "ab (1234…90)"),
        ] {
            let shown = cut_middle(text, width);
            assert!(length(&shown) <= width, "{shown}");
            assert_eq!(shown, cut);
        }
        assert_eq!(cut_end("abcdefghij", 5), "abcd…");
    }

    #[test]
    fn lists_go_on_in_the_next_line_and_lose_nothing() {
        let text = "blocked 1,234,567, expired 12, yielded 832, waits 3";
        let lines = wrap_items(text, 20);
        assert!(lines.iter().all(|line| length(line) <= 20), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        let lines = wrap("a word_that_is_longer_than_a_line b", 10);
        assert!(lines.iter().all(|line| length(line) <= 10), "{lines:?}");
        let lines = wrap("p50 3.000 ms, p90 4 ns", 9);
        assert_eq!(lines, ["p50", "3.000 ms,", "p90 4 ns"]);
    }
}
