//! A session: the tables of some traces, and the engine that answers queries over them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider,
};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};

use crate::events::EventTable;
use crate::model::ModelTable;
use crate::{Error, Traces, function};

/// What a query may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory of sorts, groups and joins, in bytes: above it they spill to disk, or fail.
    pub memory: usize,
    /// Number of threads.
    pub threads: usize,
}

impl Default for Limits {
    /// One GiB, and as many threads as there are CPUs.
    fn default() -> Limits {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Limits {
            memory: 1 << 30,
            threads,
        }
    }
}

/// The longest query, in bytes. The engine's memory on its stack grows with the depth of the
/// expressions.
const LONGEST: usize = 16 << 10;
/// Stack of a thread that plans and runs queries, in bytes.
const STACK: usize = 256 << 20;

/// The tables of some traces.
#[allow(missing_debug_implementations)] // The engine's context has none that says anything.
pub struct Session {
    context: SessionContext,
    runtime: tokio::runtime::Runtime,
}

/// The rows of an answer, in batches.
pub type Batches = SendableRecordBatchStream;

const CATALOG: &str = "kymo";
/// The schema of all tables whose names are free.
const SCHEMA: &str = "trace";
/// The schema of tables of events, which has those that are named as another table, too.
const EVENT: &str = "event";

impl Session {
    /// The tables of these traces.
    ///
    /// # Errors
    /// [`Error::Engine`] if the machine refuses threads.
    pub fn new(traces: &Traces, limits: Limits) -> Result<Session, Error> {
        let threads = limits.threads.max(1);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_stack_size(STACK)
            .build()
            .map_err(|error| Error::Engine(format!("cannot start threads: {error}")))?;
        let mut config = SessionConfig::new()
            .with_target_partitions(threads)
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false);
        config
            .options_mut()
            .optimizer
            .enable_round_robin_repartition = false;
        let most = NonZeroUsize::MIN;
        let pool = TrackConsumersPool::new(FairSpillPool::new(limits.memory), most);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(config, environment);
        function::add(&context);

        let (all, events) = (MemorySchemaProvider::new(), MemorySchemaProvider::new());
        for (name, table) in ModelTable::all(traces) {
            all.register_table(name.to_owned(), Arc::new(table))?;
        }
        all.register_table("events".to_owned(), Arc::new(EventTable::of_all(traces)))?;
        for (name, table) in EventTable::of_each(traces) {
            let to = match all.table_exist(&name) {
                true => &events,
                false => &all,
            };
            to.register_table(name.to_string(), Arc::new(table))?;
        }
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(SCHEMA, Arc::new(all))?;
        catalog.register_schema(EVENT, Arc::new(events))?;
        context.register_catalog(CATALOG, Arc::new(catalog));
        Ok(Session { context, runtime })
    }

    /// Asks a query with these values of its `$name` parameters, and gives the batches of its
    /// answer to `take` as they come, after a first one without rows, which has the columns.
    ///
    /// # Errors
    /// [`Error::Query`] if the query is wrong or asks for more than reading, [`Error::Memory`] if
    /// it needs more memory than it may have, and what `take` gives.
    pub fn ask(
        &self,
        sql: &str,
        parameters: &[(String, String)],
        take: &mut (dyn FnMut(Answer) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        if sql.len() > LONGEST {
            let sentence = format!("the query has {} bytes, and may have {LONGEST}", sql.len());
            return Err(Error::Query(sentence));
        }
        let work = self.answer(sql, parameters, take);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let thread = thread.spawn_scoped(scope, || self.runtime.block_on(work));
            let thread =
                thread.map_err(|error| Error::Engine(format!("cannot start a thread: {error}")))?;
            let failed = |_| Error::Engine("the engine failed on this query".to_owned());
            thread.join().map_err(failed)?
        })
    }

    async fn answer(
        &self,
        sql: &str,
        parameters: &[(String, String)],
        take: &mut (dyn FnMut(Answer) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        use futures::StreamExt as _;

        let only_read = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let mut frame = self.context.sql_with_options(sql, only_read).await?;
        if !parameters.is_empty() {
            let values = parameters.iter().map(|(name, value)| {
                let value = ScalarValue::Utf8(Some(value.clone()));
                (name.clone(), value.into())
            });
            frame = frame.with_param_values(ParamValues::Map(values.collect()))?;
        }
        let mut batches: Batches = frame.execute_stream().await?;
        take(Answer::Columns(batches.schema()))?;
        while let Some(batch) = batches.next().await {
            take(Answer::Rows(batch?))?;
        }
        Ok(())
    }
}

/// A piece of an answer.
#[derive(Debug)]
pub enum Answer {
    /// The columns, first and once.
    Columns(datafusion::arrow::datatypes::SchemaRef),
    /// Rows.
    Rows(datafusion::arrow::array::RecordBatch),
}
