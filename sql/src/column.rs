//! Columns under construction: cells become Arrow arrays.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Float64Builder, Int32Array, Int64Builder, StringArray,
    StringBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use datafusion::arrow::datatypes::{DataType, Int32Type, TimeUnit};
use datafusion::arrow::error::ArrowError;
use kymo_ctf::{EventClass, FieldClass, IntegerClass, StreamClass};
use kymo_rows::{Cells, Column, ColumnType, is_length};
use serde::{Deserialize, Serialize};

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Holds {
    /// Integers of 64 bits with a sign. They can be subtracted.
    Signed,
    /// Integers up to 2^64 - 1: numbers of threads and locks, and fields of 64 bits.
    Unsigned,
    /// Floating-point numbers of 64 bits.
    Float,
    /// Texts.
    Text,
    /// Times in nanoseconds from the clock's origin.
    Time,
    /// Texts of which there are few, such as names of events.
    Word,
}

impl Holds {
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Holds::Signed => DataType::Int64,
            Holds::Unsigned => DataType::UInt64,
            Holds::Float => DataType::Float64,
            Holds::Text => DataType::Utf8,
            Holds::Time => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Holds::Word => word_type(),
        }
    }

    /// What can hold the values of both.
    pub(crate) fn both(self, other: Holds) -> Holds {
        match self == other {
            true => self,
            false => Holds::Text,
        }
    }
}

/// The type of columns of words.
pub(crate) fn word_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The fields of an event class as columns, in the order in which [`kymo_rows::Row`] gives their
/// cells. Integers of less than 64 bits have a sign, so that differences may be negative.
pub(crate) fn fields(stream: &StreamClass, class: &EventClass) -> Vec<(String, Holds)> {
    let parts = [
        stream.event_context.as_deref(),
        class.context.as_deref(),
        class.fields.as_deref(),
    ];
    let members = parts.into_iter().flatten().flat_map(|part| {
        let shown = |member: &&kymo_ctf::Member| !is_length(&member.name, &part.members);
        part.members.iter().filter(shown)
    });
    // The first columns are those that all events have.
    let first = kymo_rows::columns(stream, class).len() - members.clone().count();
    let columns = kymo_rows::columns(stream, class).into_iter().skip(first);
    columns
        .zip(members)
        .map(|(column, member)| {
            let holds = match &member.class {
                FieldClass::Integer(IntegerClass { size: 0..=63, .. }) => Holds::Signed,
                _ => of(&column),
            };
            (column.name, holds)
        })
        .collect()
}

/// The column of a table whose columns [`kymo_rows`] defines.
fn of(column: &Column) -> Holds {
    match column.holds {
        ColumnType::Unsigned => Holds::Unsigned,
        ColumnType::Signed => Holds::Signed,
        ColumnType::Float => Holds::Float,
        ColumnType::Text => Holds::Text,
    }
}

/// As [`of`], of a table of spans: what is not a number of something has a sign.
pub(crate) fn of_span(column: &Column) -> Holds {
    match (of(column), column.name.as_str()) {
        (Holds::Unsigned, "duration_ns" | "cpu" | "failed" | "soft") => Holds::Signed,
        (holds, _) => holds,
    }
}

/// Bytes of text with which a batch ends.
const ENOUGH: usize = 1 << 22;
/// The longest text in bytes: with it, a batch's texts still have offsets of 31 bits.
const LONGEST: usize = 1 << 30;

/// The values of a column in the current batch.
#[derive(Debug)]
pub(crate) enum Builder {
    Unsigned(UInt64Builder),
    Signed(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    Time(TimestampNanosecondBuilder),
    /// Indices into the words, which all batches share.
    Word(Vec<i32>, Arc<StringArray>),
    /// Nobody asked for the column.
    Skipped,
}

impl Builder {
    /// A column of this type, which is not of words.
    pub(crate) fn new(holds: Holds) -> Builder {
        match holds {
            Holds::Unsigned => Builder::Unsigned(UInt64Builder::new()),
            Holds::Signed => Builder::Signed(Int64Builder::new()),
            Holds::Float => Builder::Float(Float64Builder::new()),
            Holds::Time => Builder::Time(TimestampNanosecondBuilder::new()),
            Holds::Text | Holds::Word => Builder::Text(StringBuilder::new()),
        }
    }

    /// The array of the batch; `None` for a skipped column.
    pub(crate) fn finish(&mut self) -> Result<Option<ArrayRef>, ArrowError> {
        Ok(Some(match self {
            Builder::Unsigned(from) => Arc::new(from.finish()),
            Builder::Signed(from) => Arc::new(from.finish()),
            Builder::Float(from) => Arc::new(from.finish()),
            Builder::Text(from) => Arc::new(from.finish()),
            Builder::Time(from) => Arc::new(from.finish()),
            Builder::Word(keys, words) => {
                let keys = Int32Array::from(std::mem::take(keys));
                let words = Arc::clone(words) as ArrayRef;
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys, words)?)
            }
            Builder::Skipped => return Ok(None),
        }))
    }

    /// A value of another type than the column's is a text in columns of texts, and else missing,
    /// as is one that the column cannot hold.
    #[inline]
    pub(crate) fn unsigned(&mut self, value: u64) {
        match self {
            Builder::Unsigned(to) => to.append_value(value),
            Builder::Signed(to) => to.append_option(i64::try_from(value).ok()),
            Builder::Text(to) => to.append_value(value.to_string()),
            _ => self.missing(),
        }
    }

    #[inline]
    pub(crate) fn signed(&mut self, value: i64) {
        match self {
            Builder::Signed(to) => to.append_value(value),
            Builder::Time(to) => to.append_value(value),
            Builder::Unsigned(to) => to.append_option(u64::try_from(value).ok()),
            Builder::Text(to) => to.append_value(value.to_string()),
            _ => self.missing(),
        }
    }

    pub(crate) fn float(&mut self, value: f64) {
        match self {
            Builder::Float(to) => to.append_value(value),
            Builder::Text(to) => to.append_value(value.to_string()),
            _ => self.missing(),
        }
    }

    #[inline]
    pub(crate) fn text(&mut self, value: &str) {
        match self {
            Builder::Text(to) if value.len() <= LONGEST => to.append_value(value),
            _ => self.missing(),
        }
    }

    /// Whether it has so much text that the batch should end.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Builder::Text(of) => of.values_slice().len() >= ENOUGH,
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn word(&mut self, key: i32) {
        if let Builder::Word(keys, _) = self {
            keys.push(key);
        }
    }

    pub(crate) fn missing(&mut self) {
        match self {
            Builder::Unsigned(to) => to.append_null(),
            Builder::Signed(to) => to.append_null(),
            Builder::Float(to) => to.append_null(),
            Builder::Text(to) => to.append_null(),
            Builder::Time(to) => to.append_null(),
            Builder::Word(..) | Builder::Skipped => {}
        }
    }
}

/// The cells of a row, in the order of the columns.
pub(crate) struct NextCells<'b>(pub(crate) std::slice::IterMut<'b, Builder>);

/// A value for the next column, if there is one.
impl Cells for NextCells<'_> {
    fn unsigned(&mut self, value: u64) {
        if let Some(to) = self.0.next() {
            to.unsigned(value);
        }
    }
    fn signed(&mut self, value: i64) {
        if let Some(to) = self.0.next() {
            to.signed(value);
        }
    }
    fn float(&mut self, value: f64) {
        if let Some(to) = self.0.next() {
            to.float(value);
        }
    }
    fn text(&mut self, value: &str) {
        if let Some(to) = self.0.next() {
            to.text(value);
        }
    }
    fn missing(&mut self) {
        if let Some(to) = self.0.next() {
            to.missing();
        }
    }
}

/// The cells of an event class, each for the column at its place, if anybody asked for it.
pub(crate) struct PlacedCells<'b> {
    pub(crate) columns: &'b mut [Builder],
    pub(crate) places: std::slice::Iter<'b, Option<usize>>,
}

impl PlacedCells<'_> {
    #[inline]
    fn next(&mut self) -> Option<&mut Builder> {
        let place = (*self.places.next()?)?;
        self.columns.get_mut(place)
    }
}

impl Cells for PlacedCells<'_> {
    #[inline]
    fn unsigned(&mut self, value: u64) {
        if let Some(to) = self.next() {
            to.unsigned(value);
        }
    }
    #[inline]
    fn signed(&mut self, value: i64) {
        if let Some(to) = self.next() {
            to.signed(value);
        }
    }
    fn float(&mut self, value: f64) {
        if let Some(to) = self.next() {
            to.float(value);
        }
    }
    #[inline]
    fn text(&mut self, value: &str) {
        if let Some(to) = self.next() {
            to.text(value);
        }
    }
    fn missing(&mut self) {
        if let Some(to) = self.next() {
            to.missing();
        }
    }
}

/// The cells of an event as a JSON object, with the names of its columns.
pub(crate) struct JsonCells<'b> {
    to: &'b mut Vec<u8>,
    names: std::slice::Iter<'b, String>,
    is_first: bool,
}

impl<'b> JsonCells<'b> {
    pub(crate) fn begin(to: &'b mut Vec<u8>, names: &'b [String]) -> JsonCells<'b> {
        to.clear();
        to.push(b'{');
        JsonCells {
            to,
            names: names.iter(),
            is_first: true,
        }
    }

    pub(crate) fn end(self) {
        self.to.push(b'}');
    }

    fn name(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.to.push(b',');
        }
        let name = self.names.next().map_or("", String::as_str);
        kymo_text::json_string(self.to, name);
        self.to.push(b':');
    }
}

impl Cells for JsonCells<'_> {
    fn unsigned(&mut self, value: u64) {
        self.name();
        kymo_text::decimal(self.to, value);
    }
    fn signed(&mut self, value: i64) {
        self.name();
        kymo_text::signed(self.to, value);
    }
    fn float(&mut self, value: f64) {
        self.name();
        match value.is_finite() {
            true => kymo_text::display(self.to, value),
            // JSON has no other numbers.
            false => kymo_text::json_string(self.to, &value.to_string()),
        }
    }
    fn text(&mut self, value: &str) {
        self.name();
        kymo_text::json_string(self.to, value);
    }
    fn missing(&mut self) {
        self.name();
        self.to.extend_from_slice(b"null");
    }
}
