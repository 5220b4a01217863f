//! Comma-separated values, after RFC 4180.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use kymo_ctf::Event;

use crate::column::Column;
use crate::folder;
use crate::value::Note;

/// Cells of one line, and the line's end. What is missing is empty; text that is empty is `""`.
pub(crate) fn row<'a>(cells: impl IntoIterator<Item = Option<Note<'a>>>) -> String {
    let mut line = String::new();
    for (index, cell) in cells.into_iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        let text: Cow<'_, str> = match cell {
            None => continue,
            Some(note) => note.into_text(),
        };
        if text.is_empty() || text.contains([',', '"', '\r', '\n']) {
            line.push('"');
            line.push_str(&text.replace('"', "\"\""));
            line.push('"');
        } else {
            line.push_str(&text);
        }
    }
    line.push_str("\r\n");
    line
}

pub(crate) struct Table {
    out: BufWriter<File>,
    columns: Vec<Column>,
}

impl folder::Table for Table {
    fn path(name: &str, number: usize) -> PathBuf {
        match number {
            0 => format!("{name}.csv"),
            // No name has a bare tilde.
            _ => format!("{name}~{number}.csv"),
        }
        .into()
    }

    fn create(path: &Path, columns: Vec<Column>) -> io::Result<Table> {
        let mut out = BufWriter::new(File::create(path)?);
        let head = row(columns
            .iter()
            .map(|column| Some(Note::Text(column.name.as_str().into()))));
        out.write_all(head.as_bytes())?;
        Ok(Table { out, columns })
    }

    fn add(&mut self, event: &Event) -> io::Result<()> {
        self.out
            .write_all(row(self.columns.iter().map(|column| column.value(event))).as_bytes())
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::row;
    use crate::value::Note;

    #[test]
    fn cells_are_quoted_where_the_rules_ask_for_it() {
        let text = |text: &'static str| Some(Note::Text(text.into()));
        assert_eq!(
            row([
                Some(Note::Unsigned(7)),
                None,
                Some(Note::Signed(-1)),
                text("a b")
            ]),
            "7,,-1,a b\r\n"
        );
        assert_eq!(
            row([text(""), text("a,b"), text("say \"x\""), text("1\n2")]),
            "\"\",\"a,b\",\"say \"\"x\"\"\",\"1\n2\"\r\n"
        );
    }
}
