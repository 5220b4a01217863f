//! The tables of a store: Parquet files, and the labels of their folders as columns.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::{Column, cast};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use super::{Entry, Label, Notes, checksums};
use crate::column::{Holds, word_type};
use crate::filter::{Filters, pushed_down};
use crate::table::{EVENT, Listed, SCHEMA, free_name};
use crate::{Error, Traces};

/// Where the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Label(Label),
    /// In the files, at this place.
    File(usize),
    /// The nanoseconds in the files at this place, as a timestamp.
    TimeOf(usize),
}

/// A file of a table.
#[derive(Clone, Debug)]
struct TableFile {
    /// The place of its folder among the entries.
    entry: usize,
    path: PathBuf,
    bytes: u64,
    /// CRC-32 of the file with its checksums.
    checksums: u32,
}

/// A table of a store.
#[derive(Debug)]
struct StoreTable {
    entries: Arc<[Entry]>,
    notes: Notes,
    name: String,
    /// Which folders have it, with rows or without.
    has: Vec<bool>,
    files: Vec<TableFile>,
    schema: SchemaRef,
    /// In the order of the schema.
    from: Vec<Source>,
    /// The columns of the files.
    file_schema: SchemaRef,
}

/// A table, while the folders are looked through.
#[derive(Default)]
struct Found {
    /// The columns of the tables of traces, with what can hold the values of all.
    columns: Vec<(String, DataType)>,
    files: Vec<TableFile>,
    /// The places of the folders that have it, with rows or without.
    stored: Vec<usize>,
}

impl Found {
    fn add(&mut self, name: &str, holds: Holds) {
        let data_type = in_file(holds);
        match self.columns.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = joined(known, &data_type),
            None => self.columns.push((name.to_owned(), data_type)),
        }
    }
}

/// All tables of these folders. Those that every trace has are there even without folders.
pub(super) fn all(entries: &Arc<[Entry]>, notes: &Notes) -> Vec<Listed> {
    let mut found: BTreeMap<(&'static str, String), Found> = BTreeMap::new();
    for table in crate::table::of_traces(&Traces::none()) {
        let of = found.entry((table.schema, table.name)).or_default();
        for (name, holds) in &table.columns {
            of.add(name, *holds);
        }
    }
    for (entry, of) in entries.iter().enumerate() {
        for stored in &of.manifest.tables {
            let schema = match stored.schema == SCHEMA {
                true => SCHEMA,
                false => EVENT,
            };
            let table = found.entry((schema, stored.name.clone())).or_default();
            for (name, holds) in &stored.columns {
                table.add(name, *holds);
            }
            table.stored.push(entry);
            table.files.extend(stored.file.iter().map(|file| TableFile {
                entry,
                path: of.folder.join(&file.name),
                bytes: file.bytes,
                checksums: file.checksums,
            }));
        }
    }
    let listed = found.into_iter().map(|((schema, name), found)| Listed {
        schema,
        name: name.clone(),
        columns: Vec::new(),
        is_of_event: false,
        is_in_order: false,
        provider: Arc::new(StoreTable::new(entries, notes, name, found)),
    });
    listed.collect()
}

/// What can hold the values of both: integers with and without a sign become decimal numbers, and
/// what has nothing in common texts.
fn joined(one: &DataType, other: &DataType) -> DataType {
    let is_whole = |of: &DataType| {
        matches!(
            of,
            DataType::Int64 | DataType::UInt64 | DataType::Decimal128(20, 0)
        )
    };
    match one == other {
        true => one.clone(),
        false if is_whole(one) && is_whole(other) => DataType::Decimal128(20, 0),
        false => DataType::Utf8,
    }
}

/// Whether the files have a column. The others follow from it and the folder.
pub(super) fn is_in_file(name: &str) -> bool {
    !["trace", "time"].contains(&name)
}

/// The type of a column in the files: words are texts there.
fn in_file(holds: Holds) -> DataType {
    match holds {
        Holds::Word => DataType::Utf8,
        other => other.data_type(),
    }
}

impl StoreTable {
    fn new(entries: &Arc<[Entry]>, notes: &Notes, name: String, found: Found) -> StoreTable {
        let kept = found.columns.iter().filter(|(name, _)| is_in_file(name));
        let in_files = kept.map(|(name, holds)| Field::new(name, holds.clone(), true));
        let in_files: Vec<Field> = in_files.collect();
        let place = |name: &str| in_files.iter().position(|field| field.name() == name);
        let time = TIMES.iter().find_map(|name| place(name));
        let mut columns: Vec<(Field, Source)> = Vec::new();
        let labels = Label::ALL.map(Label::name);
        for (name, holds) in &found.columns {
            let of = |name: &str, holds: &DataType, source| {
                (Field::new(name, holds.clone(), true), source)
            };
            let column = match (name.as_str(), place(name)) {
                ("trace", _) => Some(of(name, &word_type(), Source::Label(Label::Trace))),
                ("time", _) => {
                    time.map(|time| of(name, &Holds::Time.data_type(), Source::TimeOf(time)))
                }
                // A field of an event, which is no label.
                (_, Some(place)) if labels.contains(&name.as_str()) => {
                    let own = free_name(name, |name| {
                        labels.contains(&name) || found.columns.iter().any(|(own, _)| own == name)
                    });
                    Some(of(&own, holds, Source::File(place)))
                }
                (_, place) => place.map(|place| of(name, holds, Source::File(place))),
            };
            columns.extend(column);
        }
        for label in Label::ALL
            .into_iter()
            .filter(|label| *label != Label::Trace)
        {
            let field = Field::new(label.name(), word_type(), true);
            columns.push((field, Source::Label(label)));
        }
        let (fields, from): (Vec<Field>, Vec<Source>) = columns.into_iter().unzip();
        let mut has = vec![false; entries.len()];
        for place in found.stored {
            if let Some(has) = has.get_mut(place) {
                *has = true;
            }
        }
        StoreTable {
            entries: Arc::clone(entries),
            notes: notes.clone(),
            name,
            has,
            files: found.files,
            schema: Arc::new(Schema::new(fields)),
            from,
            file_schema: Arc::new(Schema::new(in_files)),
        }
    }

    /// Whether a column is a label.
    fn is_label(&self, name: &str) -> bool {
        let place = self.schema.index_of(name).ok();
        let from = place.and_then(|place| self.from.get(place));
        matches!(from, Some(Source::Label(_)))
    }

    /// Whether the labels of each folder fulfil the conditions.
    fn passing(&self, filters: &Filters) -> Result<Vec<bool>> {
        let mut passes = vec![true; self.entries.len()];
        let asked = Label::ALL.into_iter().filter(|of| filters.has(of.name()));
        for label in asked.filter(|_| !self.entries.is_empty()) {
            let values = self.entries.iter();
            let values = values.map(|entry| word(label.of(&entry.manifest)));
            let values: ArrayRef = ScalarValue::iter_to_array(values)?;
            let of_label = filters.passes(label.name(), &values)?;
            for (all, one) in passes.iter_mut().zip(of_label) {
                *all &= one;
            }
        }
        Ok(passes)
    }

    /// Notes what the chosen folders lack.
    fn look(&self, passes: &[bool]) {
        let chosen = self.entries.iter().zip(passes).zip(&self.has);
        let chosen = chosen.filter(|((_, passes), _)| **passes);
        let (mut all, mut absent, mut unnamed) = (0, 0, BTreeSet::new());
        for ((entry, _), has) in chosen {
            all += 1;
            absent += usize::from(!has && entry.manifest.is_partial);
            if *has && self.name == SAMPLES {
                unnamed.extend(&entry.manifest.notes);
            }
        }
        if absent > 0 {
            self.notes.add(format!(
                "{absent} of {all} traces were added without the table {}; the answer is of the \
                 others.",
                self.name
            ));
        }
        for note in unnamed {
            self.notes.add(note.clone());
        }
    }

    /// The plan that reads these columns of files and labels.
    fn read(
        &self,
        files: Vec<PartitionedFile>,
        columns: &[Source],
        partitions: usize,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let labels = Label::ALL.map(|label| {
            // (No column of a file has the name of the label.)
            let name = format!("label:{}", label.name());
            Arc::new(Field::new(name, word_type(), true)) as FieldRef
        });
        let table = TableSchema::builder(Arc::clone(&self.file_schema));
        let table = table.with_table_partition_cols(labels.to_vec()).build();
        let all = Arc::clone(table.table_schema());
        let source = ParquetSource::new(table);
        let place = |from: &Source| match *from {
            Source::File(place) | Source::TimeOf(place) => place,
            Source::Label(label) => {
                let of = Label::ALL.iter().position(|other| *other == label);
                self.file_schema.fields().len() + of.unwrap_or_default()
            }
        };
        let mut read: Vec<usize> = columns.iter().map(place).collect();
        read.sort_unstable();
        read.dedup();
        let groups = FileGroup::new(files).split_files(partitions);
        let config = FileScanConfigBuilder::new(checksums::url(), Arc::new(source))
            .with_file_groups(groups)
            .with_limit(limit)
            .with_projection_indices(Some(read.clone()))?
            .build();
        let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config);
        let shown = columns.iter().map(|from| {
            let at = read.iter().position(|one| *one == place(from));
            let name = all.field(place(from)).name();
            let column = Arc::new(Column::new(name, at.unwrap_or_default()));
            match from {
                Source::TimeOf(_) => cast(column, &plan.schema(), Holds::Time.data_type()),
                _ => Ok(column as Arc<dyn PhysicalExpr>),
            }
        });
        let shown = shown.collect::<Result<Vec<_>>>()?;
        let names = columns.iter().map(|from| {
            let place = self.from.iter().position(|other| other == from);
            self.schema.field(place.unwrap_or_default()).name().clone()
        });
        let shown: Vec<_> = shown.into_iter().zip(names).collect();
        Ok(Arc::new(ProjectionExec::try_new(shown, plan)?))
    }
}

/// The table whose functions have names if their files were there.
const SAMPLES: &str = "samples";

/// The columns whose nanoseconds a table's `time` repeats: a file has one of them, and its rows are
/// sorted by it.
pub(super) const TIMES: [&str; 2] = ["ns", "begin_ns"];

/// A word, as columns of words have it.
fn word(text: Option<String>) -> ScalarValue {
    let value = Box::new(ScalarValue::Utf8(text));
    ScalarValue::Dictionary(Box::new(DataType::Int32), value)
}

/// The file as its manifest says, if it is there.
fn checked(file: &TableFile) -> Result<PathBuf> {
    let failed = |what: String| {
        let sentence = format!("{} {what}; add its trace again", file.path.display());
        DataFusionError::External(Box::new(Error::Store(sentence)))
    };
    let there =
        fs::metadata(&file.path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    if there.len() != file.bytes {
        let sentence = format!(
            "has {} bytes, and its manifest says {}",
            there.len(),
            file.bytes
        );
        return Err(failed(sentence));
    }
    Path::canonicalize(&file.path).map_err(|error| failed(format!("cannot be read: {error}")))
}

#[async_trait::async_trait]
impl TableProvider for StoreTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Conditions on labels choose folders. The others the engine checks, beginning with the
    /// statistics in the files, which tell what need not be read.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let of_labels = pushed_down(filters, &|name| self.is_label(name));
        let each = of_labels.into_iter().map(|how| match how {
            TableProviderFilterPushDown::Unsupported => TableProviderFilterPushDown::Inexact,
            exact => exact,
        });
        Ok(each.collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let labels = Filters::new(session, filters, &|name| self.is_label(name))?;
        let all: Vec<usize> = (0..self.from.len()).collect();
        let asked = projection.unwrap_or(&all);
        let passes = self.passing(&labels)?;
        self.look(&passes);
        let chosen = self.files.iter();
        let chosen = chosen.filter(|file| passes.get(file.entry) == Some(&true));
        let chosen: Vec<&TableFile> = chosen.collect();
        if chosen.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(
                self.schema.project(asked)?,
            ))));
        }
        let columns = asked.iter().filter_map(|place| self.from.get(*place));
        let columns: Vec<Source> = columns.copied().collect();
        let files = chosen.into_iter().map(|file| {
            let path = checked(file)?;
            let manifest = self.entries.get(file.entry).map(|entry| &entry.manifest);
            let labels = Label::ALL.map(|label| word(manifest.and_then(|of| label.of(of))));
            let location = checksums::location(&path, file.checksums).map_err(|error| {
                let sentence = format!("{}: {error}", file.path.display());
                DataFusionError::External(Box::new(Error::Store(sentence)))
            })?;
            let of = PartitionedFile::new(String::new(), file.bytes);
            let mut of = of.with_partition_values(labels.to_vec());
            of.object_meta.location = location;
            Ok(of)
        });
        let files = files.collect::<Result<Vec<_>>>()?;
        let partitions = session.config().target_partitions();
        self.read(files, &columns, partitions, limit)
    }
}
