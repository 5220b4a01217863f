//! Comma-separated values, after RFC 4180.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kymo_ctf::EventRef;
use kymo_text::{decimal, signed};

use crate::folder;
use kymo_rows::{Cells, Column, Row};
use kymo_text::display;

/// A line under construction. A missing value is empty, and an empty string is `""`.
pub(crate) struct Line<'b> {
    to: &'b mut Vec<u8>,
    is_first: bool,
}

impl Line<'_> {
    pub(crate) fn new(to: &mut Vec<u8>) -> Line<'_> {
        Line { to, is_first: true }
    }

    pub(crate) fn end(self) {
        self.to.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn comma(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.to.push(b',');
        }
    }
}

impl Cells for Line<'_> {
    #[inline]
    fn unsigned(&mut self, value: u64) {
        self.comma();
        decimal(self.to, value);
    }

    #[inline]
    fn signed(&mut self, value: i64) {
        self.comma();
        signed(self.to, value);
    }

    fn float(&mut self, value: f64) {
        self.comma();
        display(self.to, value);
    }

    #[inline]
    fn text(&mut self, value: &str) {
        self.comma();
        let bytes = value.as_bytes();
        let needs_quotes = |byte| matches!(byte, b',' | b'"' | b'\r' | b'\n');
        if !bytes.is_empty() && !has(bytes, needs_quotes) {
            self.to.extend_from_slice(bytes);
            return;
        }
        self.to.push(b'"');
        if has(bytes, |byte| byte == b'"') {
            self.to
                .extend_from_slice(value.replace('"', "\"\"").as_bytes());
        } else {
            self.to.extend_from_slice(bytes);
        }
        self.to.push(b'"');
    }

    #[inline]
    fn missing(&mut self) {
        self.comma();
    }
}

/// Whether any byte passes the test. Without an early exit, so that the compiler vectorises it.
#[inline]
fn has(bytes: &[u8], is: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(false, |any, byte| any | is(*byte))
}

/// Size of the write buffer, in bytes.
const BLOCK: usize = 1 << 16;

pub(crate) struct Table {
    out: File,
    buffer: Vec<u8>,
    row: Row,
    json: Vec<u8>,
}

impl Table {
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl folder::Table for Table {
    fn path(name: &str, number: usize) -> PathBuf {
        match number {
            0 => format!("{name}.csv"),
            // File names have no other tilde.
            _ => format!("{name}~{number}.csv"),
        }
        .into()
    }

    fn derived(name: &str) -> PathBuf {
        format!("_{name}.csv").into()
    }

    fn create(path: &Path, columns: Vec<Column>, row: Row) -> io::Result<Table> {
        let mut buffer = Vec::new();
        let mut head = Line::new(&mut buffer);
        columns.iter().for_each(|column| head.text(&column.name));
        head.end();
        Ok(Table {
            out: File::create(path)?,
            buffer,
            row,
            json: Vec::new(),
        })
    }

    #[inline]
    fn add(&mut self, event: &EventRef<'_>) -> io::Result<()> {
        let mut line = Line::new(&mut self.buffer);
        folder::first_cells(event, &mut line);
        self.row.write(event, &mut self.json, &mut line);
        line.end();
        match self.buffer.len() {
            BLOCK.. => self.flush(),
            _ => Ok(()),
        }
    }

    fn row(&mut self, fill: impl FnOnce(&mut dyn Cells)) -> io::Result<()> {
        let mut line = Line::new(&mut self.buffer);
        fill(&mut line);
        line.end();
        match self.buffer.len() {
            BLOCK.. => self.flush(),
            _ => Ok(()),
        }
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl FnOnce(&mut Line<'_>)) -> String {
        let mut text = Vec::new();
        let mut line = Line::new(&mut text);
        fill(&mut line);
        line.end();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn cells_are_quoted_where_needed() {
        let line = written(|line| {
            line.unsigned(7);
            line.missing();
            line.signed(-1);
            line.text("a b");
        });
        assert_eq!(line, "7,,-1,a b\r\n");
        let line = written(|line| {
            for text in ["", "a,b", "say \"x\"", "1\n2"] {
                line.text(text);
            }
        });
        assert_eq!(line, "\"\",\"a,b\",\"say \"\"x\"\"\",\"1\n2\"\r\n");
        assert_eq!(written(|line| line.missing()), "\r\n");
    }
}
