//! What the engine asks of a table: which conditions it checks, and a plan that reads it.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, DictionaryArray, StringArray};
use datafusion::arrow::datatypes::{Int32Type, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::column::Holds;
use crate::events::EventTable;
use crate::filter::{Filters, pushed_down};
use crate::model::ModelTable;
use crate::traces::Traces;

/// A table over some traces.
pub(crate) trait Table: Debug + Send + Sync + 'static {
    /// Its columns.
    fn schema(&self) -> &SchemaRef;
    /// The traces that it reads.
    fn traces(&self) -> &Traces;
    /// Whether it checks conditions on this column alone.
    fn checks(&self, column: &str) -> bool;
    /// The plan that reads these columns of these traces.
    fn plan(&self, asked: Asked) -> Result<Arc<dyn ExecutionPlan>>;
}

/// What a query asks of a table.
pub(crate) struct Asked {
    /// The places of the columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) filters: Filters,
    /// The indices of the traces that the conditions admit.
    pub(crate) traces: Vec<usize>,
    /// Most rows that are wanted.
    pub(crate) limit: Option<usize>,
}

/// A table as the engine has it.
#[derive(Debug)]
pub(crate) struct Provider<T>(pub(crate) T);

#[async_trait::async_trait]
impl<T: Table> TableProvider for Provider<T> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(pushed_down(filters, &|name| self.0.checks(name)))
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = Filters::new(session, filters, &|name| self.0.checks(name))?;
        let all = 0..self.0.schema().fields().len();
        let names = self.0.traces().all.iter().map(|trace| trace.name.as_str());
        let passes = filters.passes("trace", &word_array(names)?)?;
        let traces = passes.iter().enumerate().filter(|(_, passes)| **passes);
        self.0.plan(Asked {
            columns: projection.cloned().unwrap_or_else(|| all.collect()),
            traces: traces.map(|(trace, _)| trace).collect(),
            filters,
            limit,
        })
    }
}

/// A table as a session lists it.
pub(crate) struct Listed {
    /// The schema that it is in: [`SCHEMA`], or [`EVENT`] where its name is another table's.
    pub(crate) schema: &'static str,
    pub(crate) name: String,
    /// Its columns; of a store's table none.
    pub(crate) columns: Vec<(String, Holds)>,
    /// Whether it has the events of one name.
    pub(crate) is_of_event: bool,
    /// Whether all its columns together come in the order of time.
    pub(crate) is_in_order: bool,
    pub(crate) provider: Arc<dyn TableProvider>,
}

/// The schema of all tables whose names are free.
pub(crate) const SCHEMA: &str = "trace";
/// The schema of tables of events that are named as another table.
pub(crate) const EVENT: &str = "event";

/// All tables of these traces.
pub(crate) fn of_traces(traces: &Traces) -> Vec<Listed> {
    let models = ModelTable::all(traces)
        .into_iter()
        .map(|(name, table)| Listed {
            schema: SCHEMA,
            name: name.to_owned(),
            columns: table.columns().to_vec(),
            is_of_event: false,
            is_in_order: false,
            provider: Arc::new(Provider(table)),
        });
    let mut all: Vec<Listed> = models.collect();
    let events = EventTable::of_all(traces);
    all.push(Listed {
        schema: SCHEMA,
        name: "events".to_owned(),
        columns: events.columns(),
        is_of_event: false,
        // The thread that ran is known from the switches of all streams.
        is_in_order: true,
        provider: Arc::new(Provider(events)),
    });
    let own = all.len();
    for (name, table) in EventTable::of_each(traces) {
        let is_taken = all.iter().take(own).any(|other| *other.name == *name);
        all.push(Listed {
            schema: if is_taken { EVENT } else { SCHEMA },
            name: name.to_string(),
            columns: table.columns(),
            is_of_event: true,
            is_in_order: false,
            provider: Arc::new(Provider(table)),
        });
    }
    all
}

/// The name, with a number if it is taken.
pub(crate) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|name| !is_taken(name))
        .unwrap_or_default()
}

/// Words for a condition, as columns of words have them.
pub(crate) fn word_array<'w>(words: impl Iterator<Item = &'w str>) -> Result<ArrayRef> {
    let words = Arc::new(StringArray::from(words.collect::<Vec<_>>()));
    let keys = (0..words.len() as i32).collect::<Vec<_>>();
    let array = DictionaryArray::<Int32Type>::try_new(keys.into(), words)?;
    Ok(Arc::new(array))
}
