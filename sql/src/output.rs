//! Answers as text or files.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::cast;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::json::writer::WriterBuilder;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, Encoding, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::schema::types::ColumnPath;

use crate::{Answer, Error};

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Columns under each other, cut to the terminal's width if it is one.
    Table,
    /// Comma-separated values with a head, after RFC 4180. What is null is empty.
    Csv,
    /// A JSON object for each row, one a line.
    Json,
    /// A Parquet file.
    Parquet,
}

/// Rows that a table measures before its first line: later ones get these widths.
const MEASURED: usize = 1_000;
/// Least width of a column that is cut, in letters.
const NARROWEST: usize = 8;
const STANDARD: &str = "the standard output";

type Out = BufWriter<Box<dyn Write + Send>>;

enum Writer {
    Table(Table),
    Csv(Box<csv::Writer<Out>>),
    Json(LineDelimitedWriter<Out>),
    Parquet(Option<ArrowWriter<File>>),
}

/// Writes an answer as it comes.
#[allow(missing_debug_implementations)] // Writers.
pub struct Output {
    writer: Writer,
    /// The schema that is written, without dictionaries.
    schema: SchemaRef,
    /// The file that gets its name at the end, and the name it has until then.
    file: Option<(PathBuf, PathBuf)>,
    path: PathBuf,
}

impl Output {
    /// An output in this format, to a file or the standard output. A file gets its name when it is
    /// complete.
    ///
    /// # Errors
    /// [`Error::Write`] if the file cannot be created, [`Error::Query`] for Parquet without one.
    pub fn new(format: Format, path: Option<&Path>) -> Result<Output, Error> {
        let file = path.map(|path| {
            let mut part = path.as_os_str().to_owned();
            part.push(".part");
            (path.to_owned(), PathBuf::from(part))
        });
        let path = path.map_or_else(|| PathBuf::from(STANDARD), Path::to_owned);
        let created = match &file {
            Some((_, part)) => Some(File::create(part).map_err(Error::write(&path))?),
            None => None,
        };
        let writer = if format == Format::Parquet {
            let Some(file) = &created else {
                let sentence = "a Parquet answer needs a file; give --out FILE";
                return Err(Error::Query(sentence.to_owned()));
            };
            let _ = file;
            Writer::Parquet(None)
        } else {
            let is_terminal = created.is_none() && io::stdout().is_terminal();
            let out: Box<dyn Write + Send> = match created {
                Some(file) => Box::new(file),
                None => Box::new(io::stdout()),
            };
            let out = BufWriter::new(out);
            match format {
                Format::Csv => {
                    let csv = csv::WriterBuilder::new().with_header(true);
                    Writer::Csv(Box::new(csv.build(out)))
                }
                Format::Json => {
                    let json = WriterBuilder::new().with_explicit_nulls(true);
                    Writer::Json(json.build(out))
                }
                _ => Writer::Table(Table::new(out, is_terminal.then(width).flatten())),
            }
        };
        Ok(Output {
            writer,
            schema: Arc::new(Schema::empty()),
            file,
            path,
        })
    }

    /// Writes a piece of an answer.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn take(&mut self, answer: Answer) -> Result<(), Error> {
        let done = match answer {
            Answer::Columns(schema) => self.columns(&schema),
            Answer::Rows(batch) => self.rows(&batch),
        };
        done.map_err(|error| Error::write(&self.path)(error))
    }

    fn columns(&mut self, schema: &SchemaRef) -> io::Result<()> {
        let fields = schema.fields().iter().map(|field| {
            let holds = match field.data_type() {
                DataType::Dictionary(_, values) => values,
                other => other,
            };
            Field::new(field.name(), holds.clone(), true)
        });
        self.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let empty = RecordBatch::new_empty(Arc::clone(&self.schema));
        match &mut self.writer {
            Writer::Table(to) => to.columns(&self.schema),
            // The head, even if no row follows.
            Writer::Csv(to) => to.write(&empty).map_err(failed)?,
            Writer::Json(_) => {}
            Writer::Parquet(to) => {
                let part = self.file.as_ref().map(|(_, part)| part.as_path());
                let file = File::create(part.unwrap_or(&self.path))?;
                let schema = Arc::clone(&self.schema);
                let writer = ArrowWriter::try_new(file, schema, Some(properties(&self.schema)));
                *to = Some(writer.map_err(io::Error::other)?);
            }
        }
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let arrays = batch.columns().iter().zip(self.schema.fields());
        let arrays = arrays.map(|(array, field)| cast(array, field.data_type()));
        let arrays = arrays.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        if arrays.is_empty() {
            return Ok(());
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(failed)?;
        match &mut self.writer {
            Writer::Table(to) => to.rows(&batch),
            Writer::Csv(to) => to.write(&batch).map_err(failed),
            Writer::Json(to) => to.write(&batch).map_err(failed),
            Writer::Parquet(to) => match to {
                Some(to) => to.write(&batch).map_err(io::Error::other),
                None => Ok(()),
            },
        }
    }

    /// Ends the answer; a file gets its name.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(mut self) -> Result<(), Error> {
        let done = match &mut self.writer {
            Writer::Table(to) => to.finish(),
            Writer::Csv(_) => Ok(()),
            Writer::Json(to) => to.finish().map_err(failed),
            Writer::Parquet(to) => match to.take() {
                Some(to) => to.close().map(drop).map_err(io::Error::other),
                None => Ok(()),
            },
        };
        let nothing = Writer::Parquet(None);
        let flushed = match std::mem::replace(&mut self.writer, nothing) {
            Writer::Csv(to) => to.into_inner().flush(),
            Writer::Json(to) => to.into_inner().flush(),
            Writer::Table(mut to) => to.out.flush(),
            Writer::Parquet(_) => Ok(()),
        };
        let named = |()| match &self.file {
            Some((path, part)) => fs::rename(part, path),
            None => Ok(()),
        };
        let done = done.and(flushed).and_then(named);
        if done.is_ok() {
            self.file = None;
        }
        done.map_err(|error| Error::write(&self.path)(error))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // What was not finished leaves no file that looks whole.
        if let Some((_, part)) = &self.file {
            let _ = fs::remove_file(part);
        }
    }
}

/// Rows of a row group.
const GROUP: usize = 1 << 17;

/// Times and counters differ a little from row to row: deltas are small, while a dictionary would
/// be larger than the values. Texts repeat, and get one.
fn properties(schema: &Schema) -> WriterProperties {
    let mut all = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP));
    for field in schema.fields() {
        if matches!(
            field.data_type(),
            DataType::Int64 | DataType::UInt64 | DataType::Timestamp(..)
        ) {
            let path = ColumnPath::from(field.name().as_str());
            all = all
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    all.build()
}

fn failed(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        ArrowError::CsvError(ref text) if text.contains("Broken pipe") => {
            io::ErrorKind::BrokenPipe.into()
        }
        other => io::Error::other(other),
    }
}

fn width() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// Columns under each other.
struct Table {
    out: Out,
    /// Letters of a line.
    width: Option<usize>,
    heads: Vec<String>,
    is_number: Vec<bool>,
    /// The first rows, until the widths are known.
    first: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
    count: u64,
}

impl Table {
    fn new(out: Out, width: Option<usize>) -> Table {
        Table {
            out,
            width,
            heads: Vec::new(),
            is_number: Vec::new(),
            first: Vec::new(),
            widths: None,
            count: 0,
        }
    }

    fn columns(&mut self, schema: &Schema) {
        let fields = schema.fields().iter();
        self.heads = fields.clone().map(|field| shown(field.name())).collect();
        self.is_number = fields.map(|field| field.data_type().is_numeric()).collect();
    }

    fn rows(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let options = FormatOptions::default()
            .with_null("")
            .with_display_error(true);
        let columns = batch.columns().iter();
        let columns = columns.map(|array| ArrayFormatter::try_new(array, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|column| shown(&column.value(row).to_string()));
            let cells: Vec<String> = cells.collect();
            self.count += 1;
            match self.widths {
                Some(_) => self.line(&cells)?,
                None => self.first.push(cells),
            }
            if self.first.len() >= MEASURED {
                self.head()?;
            }
        }
        Ok(())
    }

    /// Measures the first rows, and writes them below their heads.
    fn head(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.first);
        let mut widths: Vec<usize> = self.heads.iter().map(|head| letters(head)).collect();
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = letters(cell).max(*width);
            }
        }
        if let Some(most) = self.width {
            fit(&mut widths, most);
        }
        self.widths = Some(widths);
        let heads = self.heads.clone();
        self.line(&heads)?;
        rows.iter().try_for_each(|row| self.line(row))
    }

    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let widths = self.widths.as_deref().unwrap_or_default();
        let mut line = String::new();
        for ((cell, width), is_number) in cells.iter().zip(widths).zip(&self.is_number) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let cell = match self.width {
                Some(_) => cut(cell, *width),
                None => cell.clone(),
            };
            let space = " ".repeat(width.saturating_sub(letters(&cell)));
            match is_number {
                true => line.extend([space.as_str(), &cell]),
                false => line.extend([cell.as_str(), &space]),
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.widths.is_none() {
            self.head()?;
        }
        self.out.flush()
    }
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

/// The text without what controls a terminal.
fn shown(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    });
    letters.collect()
}

/// The text in at most this many letters.
fn cut(text: &str, width: usize) -> String {
    match letters(text) > width {
        true => text
            .chars()
            .take(width.saturating_sub(1))
            .chain(['\u{2026}'])
            .collect(),
        false => text.to_owned(),
    }
}

/// Narrows the widest columns until a line has at most `most` letters, or all are narrow.
fn fit(widths: &mut [usize], most: usize) {
    let gaps = 2 * widths.len().saturating_sub(1);
    let most = most.saturating_sub(gaps);
    while widths.iter().sum::<usize>() > most {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_are_narrowed_first() {
        let mut widths = [30, 5, 20];
        fit(&mut widths, 40);
        assert_eq!(widths, [16, 5, 15]);
        fit(&mut widths, 10);
        assert_eq!(widths, [8, 5, 8]);
    }

    #[test]
    fn cells_are_cut_and_do_not_control_the_terminal() {
        assert_eq!(cut("abcdef", 4), "abc\u{2026}");
        assert_eq!(cut("abcd", 4), "abcd");
        assert_eq!(shown("a\u{1b}[2J\n"), "a\\u{1b}[2J\\n");
    }
}
