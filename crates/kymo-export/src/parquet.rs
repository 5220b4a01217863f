//! Parquet files, written in batches of Arrow arrays.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use arrow_array::builder::{
    ArrayBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kymo_ctf::EventRef;

use crate::folder;
use kymo_rows::{Cells, Column, ColumnType, Row};

/// Most rows of a batch and of a row group.
const BATCH: usize = 1 << 13;
const GROUP: usize = 1 << 17;
/// Bytes of text with which a batch ends, and bytes of a row group. Memory per kind of event is
/// about a row group.
const BATCH_TEXT: usize = 1 << 24;
const GROUP_BYTES: usize = 1 << 26;
/// The longest text in bytes: with it, a batch's texts still have offsets of 31 bits.
const LONGEST: usize = 1 << 30;

/// A column's values in the current batch.
enum Builder {
    Unsigned(UInt64Builder),
    Signed(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
}

impl Builder {
    fn new(holds: ColumnType) -> Builder {
        match holds {
            ColumnType::Unsigned => Builder::Unsigned(UInt64Builder::new()),
            ColumnType::Signed => Builder::Signed(Int64Builder::new()),
            ColumnType::Float => Builder::Float(Float64Builder::new()),
            ColumnType::Text => Builder::Text(StringBuilder::new()),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Unsigned(from) => ArrayBuilder::finish(from),
            Builder::Signed(from) => ArrayBuilder::finish(from),
            Builder::Float(from) => ArrayBuilder::finish(from),
            Builder::Text(from) => ArrayBuilder::finish(from),
        }
    }
}

/// The next cells of a row. A value of another type than the column's is written as text in columns
/// of text (such as numbers that may exceed 64 bits), and elsewhere as missing.
struct NextCells<'b> {
    columns: std::slice::IterMut<'b, Builder>,
    /// Bytes of text so far.
    bytes: usize,
}

impl<'b> NextCells<'b> {
    fn of(columns: &'b mut [Builder]) -> NextCells<'b> {
        NextCells {
            columns: columns.iter_mut(),
            bytes: 0,
        }
    }
}

impl Cells for NextCells<'_> {
    #[inline]
    fn unsigned(&mut self, value: u64) {
        match self.columns.next() {
            Some(Builder::Unsigned(to)) => to.append_value(value),
            Some(Builder::Text(to)) => to.append_value(value.to_string()),
            other => append_null(other),
        }
    }

    #[inline]
    fn signed(&mut self, value: i64) {
        match self.columns.next() {
            Some(Builder::Signed(to)) => to.append_value(value),
            Some(Builder::Text(to)) => to.append_value(value.to_string()),
            other => append_null(other),
        }
    }

    fn float(&mut self, value: f64) {
        match self.columns.next() {
            Some(Builder::Float(to)) => to.append_value(value),
            Some(Builder::Text(to)) => to.append_value(value.to_string()),
            other => append_null(other),
        }
    }

    #[inline]
    fn text(&mut self, value: &str) {
        match self.columns.next() {
            Some(Builder::Text(to)) if value.len() <= LONGEST => {
                self.bytes += value.len();
                to.append_value(value);
            }
            other => append_null(other),
        }
    }

    fn missing(&mut self) {
        append_null(self.columns.next());
    }
}

fn append_null(to: Option<&mut Builder>) {
    match to {
        Some(Builder::Unsigned(to)) => to.append_null(),
        Some(Builder::Signed(to)) => to.append_null(),
        Some(Builder::Float(to)) => to.append_null(),
        Some(Builder::Text(to)) => to.append_null(),
        None => {}
    }
}

fn data_type(holds: ColumnType) -> DataType {
    match holds {
        ColumnType::Unsigned => DataType::UInt64,
        ColumnType::Signed => DataType::Int64,
        ColumnType::Float => DataType::Float64,
        ColumnType::Text => DataType::Utf8,
    }
}

/// Times and counters differ a little from row to row: deltas are small, while a dictionary would
/// be larger than the values and take most of the time. Strings repeat, so they get dictionaries.
fn properties(columns: &[Column]) -> WriterProperties {
    let all = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_dictionary_enabled(false);
    let each = columns.iter().fold(all, |properties, column| {
        let path = ColumnPath::from(column.name.clone());
        match column.holds {
            ColumnType::Unsigned | ColumnType::Signed => {
                properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            ColumnType::Float => properties,
            ColumnType::Text => properties.set_column_dictionary_enabled(path, true),
        }
    });
    each.build()
}

pub(crate) struct Table {
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    columns: Vec<Builder>,
    row: Row,
    json: Vec<u8>,
    /// Rows, and bytes of text, of the batch.
    rows: usize,
    bytes: usize,
}

impl Table {
    /// Ends a row with so many bytes of text.
    #[inline]
    fn end_row(&mut self, bytes: usize) -> io::Result<()> {
        self.rows += 1;
        self.bytes += bytes;
        match self.rows >= BATCH || self.bytes >= BATCH_TEXT {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        let arrays = self.columns.iter_mut().map(Builder::finish).collect();
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(io::Error::other)?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl folder::Table for Table {
    fn path(name: &str, number: usize) -> PathBuf {
        [format!("event={name}"), format!("part-{number}.parquet")]
            .iter()
            .collect()
    }

    fn derived(name: &str) -> PathBuf {
        format!("_{name}.parquet").into()
    }

    fn create(path: &Path, columns: Vec<Column>, row: Row) -> io::Result<Table> {
        let fields = columns
            .iter()
            .map(|column| Field::new(&column.name, data_type(column.holds), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let (file, properties) = (File::create(path)?, properties(&columns));
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))
            .map_err(io::Error::other)?;
        let columns = columns.iter().map(|column| Builder::new(column.holds));
        Ok(Table {
            writer,
            schema,
            columns: columns.collect(),
            row,
            json: Vec::new(),
            rows: 0,
            bytes: 0,
        })
    }

    #[inline]
    fn add(&mut self, event: &EventRef<'_>) -> io::Result<()> {
        let mut cells = NextCells::of(&mut self.columns);
        folder::first_cells(event, &mut cells);
        self.row.write(event, &mut self.json, &mut cells);
        let bytes = cells.bytes;
        self.end_row(bytes)
    }

    fn row(&mut self, fill: impl FnOnce(&mut dyn Cells)) -> io::Result<()> {
        let mut cells = NextCells::of(&mut self.columns);
        fill(&mut cells);
        let bytes = cells.bytes;
        self.end_row(bytes)
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.writer.close().map(drop).map_err(io::Error::other)
    }
}
