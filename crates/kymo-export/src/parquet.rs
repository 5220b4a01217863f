//! Parquet files, by batches of Arrow's arrays.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use arrow_array::builder::{
    ArrayBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kymo_ctf::Event;

use crate::column::{Column, ColumnType};
use crate::folder;
use crate::value::Note;

/// Rows of a batch, and of a row group: what is in memory is at most this, for each kind of event.
const BATCH: usize = 1 << 13;
const GROUP: usize = 1 << 17;

/// A column's values that are not written yet.
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

    /// A value that is not what the column holds is missing.
    fn add(&mut self, value: Option<Note<'_>>) {
        match (self, value) {
            (Builder::Unsigned(to), Some(Note::Unsigned(value) | Note::Address(value))) => {
                to.append_value(value)
            }
            (Builder::Unsigned(to), _) => to.append_null(),
            (Builder::Signed(to), Some(Note::Signed(value))) => to.append_value(value),
            (Builder::Signed(to), _) => to.append_null(),
            (Builder::Float(to), Some(Note::Float(value))) => to.append_value(value),
            (Builder::Float(to), _) => to.append_null(),
            // What is not always the same is text in each case: a number that may be of more than
            // 64 bits, for one.
            (Builder::Text(to), Some(note)) => to.append_value(note.into_text()),
            (Builder::Text(to), None) => to.append_null(),
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

fn data_type(holds: ColumnType) -> DataType {
    match holds {
        ColumnType::Unsigned => DataType::UInt64,
        ColumnType::Signed => DataType::Int64,
        ColumnType::Float => DataType::Float64,
        ColumnType::Text => DataType::Utf8,
    }
}

pub(crate) struct Table {
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    columns: Vec<(Column, Builder)>,
    rows: usize,
}

impl Table {
    fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let arrays = self
            .columns
            .iter_mut()
            .map(|(_, builder)| builder.finish())
            .collect();
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(io::Error::other)
    }
}

impl folder::Table for Table {
    fn path(name: &str, number: usize) -> PathBuf {
        [format!("event={name}"), format!("part-{number}.parquet")]
            .iter()
            .collect()
    }

    fn create(path: &Path, columns: Vec<Column>) -> io::Result<Table> {
        let fields = columns
            .iter()
            .map(|column| Field::new(&column.name, data_type(column.holds), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP))
            .build();
        let writer =
            ArrowWriter::try_new(File::create(path)?, Arc::clone(&schema), Some(properties))
                .map_err(io::Error::other)?;
        let columns = columns
            .into_iter()
            .map(|column| (Builder::new(column.holds), column))
            .map(|(builder, column)| (column, builder));
        Ok(Table {
            writer,
            schema,
            columns: columns.collect(),
            rows: 0,
        })
    }

    fn add(&mut self, event: &Event) -> io::Result<()> {
        for (column, builder) in &mut self.columns {
            builder.add(column.value(event));
        }
        self.rows += 1;
        if self.rows >= BATCH {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.writer.close().map(drop).map_err(io::Error::other)
    }
}
