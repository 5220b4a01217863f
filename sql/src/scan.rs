//! What all tables share: batches of rows that a thread makes while the engine works on the last
//! ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use tokio::sync::mpsc::Sender;

use crate::Traces;
use crate::column::{Builder, Holds};

/// Most rows of a batch.
const ROWS: usize = 1 << 13;
/// Batches of a partition that are made in advance.
const AHEAD: usize = 2;
/// Items between two looks at whether anybody still wants rows.
const PATIENCE: u32 = 1 << 12;

/// A part of a table, whose rows one thread makes.
pub(crate) trait Part: std::fmt::Debug + Send + Sync + 'static {
    /// The traces that it reads.
    fn traces(&self) -> &Traces;
    /// Gives all rows. Ends early if [`Rows`] says so.
    fn run(&self, rows: &mut Rows) -> Result<()>;
}

/// A schema of these columns; any value may be missing.
pub(crate) fn schema<'c>(columns: impl Iterator<Item = (&'c str, Holds)>) -> SchemaRef {
    let fields = columns.map(|(name, holds)| Field::new(name, holds.data_type(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The plan that reads these parts, each as a partition.
pub(crate) fn plan<P: Part>(
    schema: SchemaRef,
    parts: Vec<P>,
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if parts.is_empty() {
        return Ok(Arc::new(EmptyExec::new(schema)));
    }
    let streams = parts.into_iter().map(|part| {
        let (part, schema) = (Arc::new(part), Arc::clone(&schema));
        Arc::new(Stream {
            part,
            schema,
            limit,
        }) as Arc<dyn PartitionStream>
    });
    let streams = streams.collect();
    let plan = StreamingTableExec::try_new(schema, streams, None, [], false, limit)?;
    Ok(Arc::new(plan))
}

#[derive(Debug)]
struct Stream<P> {
    part: Arc<P>,
    schema: SchemaRef,
    limit: Option<usize>,
}

impl<P: Part> PartitionStream for Stream<P> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), AHEAD);
        let (part, to) = (Arc::clone(&self.part), builder.tx());
        let (schema, limit) = (Arc::clone(&self.schema), self.limit);
        builder.spawn_blocking(move || {
            let mut rows = Rows {
                schema,
                columns: Vec::new(),
                count: 0,
                left: limit.unwrap_or(usize::MAX),
                looks: 0,
                read: Arc::clone(&part.traces().read),
                to,
            };
            part.run(&mut rows)?;
            rows.send().map(drop)
        });
        builder.build()
    }
}

/// Rows on their way to the engine.
pub(crate) struct Rows {
    schema: SchemaRef,
    /// The columns, with skipped ones between.
    pub(crate) columns: Vec<Builder>,
    count: usize,
    left: usize,
    looks: u32,
    /// Items that all parts have read.
    read: Arc<AtomicU64>,
    to: Sender<Result<RecordBatch>>,
}

impl Rows {
    /// Ends a row. `false` if nobody wants more.
    #[inline]
    pub(crate) fn end_row(&mut self) -> Result<bool> {
        self.count += 1;
        self.left = self.left.saturating_sub(1);
        match self.count >= ROWS || self.columns.iter().any(Builder::is_full) {
            true => self.send(),
            false => Ok(self.left > 0),
        }
    }

    /// To be called at each item. `false` if nobody wants more.
    #[inline]
    pub(crate) fn is_wanted(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        !self.looks.is_multiple_of(PATIENCE) || self.has_patience()
    }

    #[cold]
    fn has_patience(&self) -> bool {
        self.read.fetch_add(PATIENCE.into(), Relaxed);
        !self.to.is_closed()
    }

    #[cold]
    fn send(&mut self) -> Result<bool> {
        if self.count == 0 {
            return Ok(!self.to.is_closed());
        }
        let mut arrays = Vec::with_capacity(self.schema.fields().len());
        for column in &mut self.columns {
            arrays.extend(column.finish()?);
        }
        if arrays.len() != self.schema.fields().len() {
            return exec_err!("a table has other columns than it says");
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        self.count = 0;
        Ok(self.to.blocking_send(Ok(batch)).is_ok() && self.left > 0)
    }
}

/// A column of words that all rows share.
pub(crate) fn words<'w>(words: impl IntoIterator<Item = &'w str>) -> Builder {
    let words = StringArray::from(words.into_iter().collect::<Vec<_>>());
    Builder::Word(Vec::new(), Arc::new(words))
}

/// The plan's columns at these places, in this order.
pub(crate) fn reorder(
    plan: Arc<dyn ExecutionPlan>,
    places: impl Iterator<Item = usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let columns = places.map(|place| {
        let name = schema.field(place).name().clone();
        let column = Arc::new(Column::new(&name, place)) as Arc<dyn PhysicalExpr>;
        (column, name)
    });
    let columns: Vec<_> = columns.collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}
