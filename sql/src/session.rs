//! A session: the tables of some traces, and the engine that answers queries over them.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider,
};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::Sender;

use crate::store::Checked;
use crate::table::{self, EVENT, Listed, SCHEMA};
use crate::{Error, Question, Store, Traces, depth, function};

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
/// Builds that an error names at most.
const SHOWN: usize = 9;
/// Batches of an answer that are made in advance.
const AHEAD: usize = 2;
/// Stack of a thread that plans and runs queries, in bytes.
const STACK: usize = 256 << 20;

/// The tables of some traces, or of a store.
#[allow(missing_debug_implementations)] // The engine's context has none that says anything.
pub struct Session {
    context: SessionContext,
    /// Waits for answers, interrupts and connections: the threads of the engine may be busy. It
    /// has a thread of its own, so that connections are served between queries, too.
    here: Handle,
    threads: Handle,
    /// What `here` and `threads` are of, until the session ends.
    runtimes: Vec<Runtime>,
    stops_on_interrupt: bool,
    /// What is asked, if it is a store.
    store: Option<Store>,
    /// The workers that are asked, if any are.
    #[cfg(feature = "cluster")]
    cluster: Option<Arc<crate::Cluster>>,
    #[cfg(feature = "cluster")]
    limits: Limits,
}

const CATALOG: &str = "kymo";

impl Session {
    /// The tables of these traces.
    ///
    /// # Errors
    /// [`Error::Engine`] if the machine refuses threads.
    pub fn new(traces: &Traces, limits: Limits) -> Result<Session, Error> {
        Session::over(table::of_traces(traces), limits)
    }

    /// The tables of a store.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_store(store: &Store, limits: Limits) -> Result<Session, Error> {
        let mut session = Session::over(store.tables(), limits)?;
        session.store = Some(store.clone());
        Ok(session)
    }

    fn over(tables: Vec<Listed>, limits: Limits) -> Result<Session, Error> {
        let runtime = threads(limits)?;
        let here = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(no_threads)?;
        let mut config = SessionConfig::new()
            .with_target_partitions(limits.threads.max(1))
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false);
        config
            .options_mut()
            .optimizer
            .enable_round_robin_repartition = false;
        let mut context = SessionContext::new_with_config_rt(config, environment(limits)?);
        function::add(&mut context)?;

        let (all, events) = (MemorySchemaProvider::new(), MemorySchemaProvider::new());
        for table in tables {
            let to = if table.schema == EVENT { &events } else { &all };
            to.register_table(table.name, table.provider)?;
        }
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(SCHEMA, Arc::new(all))?;
        catalog.register_schema(EVENT, Arc::new(events))?;
        context.register_catalog(CATALOG, Arc::new(catalog));
        Ok(Session {
            context,
            here: here.handle().clone(),
            threads: runtime.handle().clone(),
            runtimes: vec![here, runtime],
            stops_on_interrupt: false,
            store: None,
            #[cfg(feature = "cluster")]
            cluster: None,
            #[cfg(feature = "cluster")]
            limits,
        })
    }

    /// Asks these workers from here on. They must see the files of the store at the same paths.
    ///
    /// The program must end when one of its threads panics, as a [`Worker`](crate::Worker) says,
    /// until the session is dropped.
    ///
    /// # Errors
    /// [`Error::Query`] unless this is a session of a store.
    #[cfg(feature = "cluster")]
    pub fn ask_workers(&mut self, cluster: Arc<crate::Cluster>) -> Result<(), Error> {
        if self.store.is_none() {
            let sentence = "workers are asked about a store; kymo query --into makes one";
            return Err(Error::Query(sentence.to_owned()));
        }
        self.cluster = Some(cluster);
        Ok(())
    }

    /// The names of all tables and columns, in order.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask).
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let sql = "select arrow_cast(table_name, 'Utf8') as name \
                   from information_schema.tables where table_catalog = 'kymo' \
                   union select arrow_cast(column_name, 'Utf8') \
                   from information_schema.columns where table_catalog = 'kymo'";
        Ok(self.texts(sql)?.into_iter().collect())
    }

    /// The distinct texts in the first column of an answer.
    pub(crate) fn texts(&self, sql: &str) -> Result<BTreeSet<String>, Error> {
        use datafusion::arrow::array::AsArray as _;
        let mut found = BTreeSet::new();
        let context = self.context.clone();
        self.run(context, sql, &[], std::future::pending(), &mut |answer| {
            if let Answer::Rows(batch) = answer
                && let Some(column) = batch.columns().first()
                && let Some(texts) = column.as_string_opt::<i32>()
            {
                found.extend(texts.iter().flatten().map(str::to_owned));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether a ready question can be asked with these values of its parameters.
    ///
    /// # Errors
    /// [`Error::Query`] if it asks a store and this is none, or for a build that the store lacks.
    pub fn check(&self, question: &Question, values: &[(String, String)]) -> Result<(), Error> {
        let Some(store) = &self.store else {
            return match question.asks_store {
                false => Ok(()),
                true => Err(Error::Query(format!(
                    "@{} asks a store of traces; kymo query --into makes one",
                    question.name
                ))),
            };
        };
        let builds = store.builds();
        let mut parameters = question.parameters.iter().zip(values);
        let wrong =
            parameters.find(|(of, (_, value))| of.is_build() && !builds.contains(value.as_str()));
        let Some((of, _)) = wrong else { return Ok(()) };
        let known: Vec<&str> = builds.into_iter().take(SHOWN).collect();
        Err(Error::Query(format!(
            "{} must be a build of the store, which has {}",
            of.name,
            match known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            }
        )))
    }

    /// From here on an interrupt from the terminal (^C) does not end the program, but the query
    /// that runs, with [`Error::Interrupted`].
    pub fn stop_on_interrupt(&mut self) {
        self.stops_on_interrupt = true;
    }

    /// Asks a query with these values of its `$name` parameters, and gives the batches of its
    /// answer to `take` as they come, after a first one without rows, which has the columns.
    /// Workers change when they come: `take` gets nothing before the whole query has ended well.
    ///
    /// # Errors
    /// [`Error::Query`] if the query is wrong or asks for more than reading, [`Error::Memory`] if
    /// it needs more memory than it may have, [`Error::Interrupted`] if somebody stopped it,
    /// [`Error::Store`] if a file of the store cannot be read,
    /// [`Error::Cluster`] if no worker is left, the deadline is over or the answer has more than
    /// the memory in which it is kept, [`Error::Lost`] for a worker that is none of those asked,
    /// [`Error::Engine`] if the engine or the machine fails, and what `take` gives.
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
        #[cfg(feature = "cluster")]
        if let Some(cluster) = &self.cluster {
            return cluster.ask(self, sql, parameters, take);
        }
        let never = std::future::pending();
        self.run(self.context.clone(), sql, parameters, never, take)
    }

    /// Asks a query of a context, until it has ended or `stop` says why it must.
    pub(crate) fn run(
        &self,
        context: SessionContext,
        sql: &str,
        parameters: &[(String, String)],
        stop: impl Future<Output = Error>,
        take: &mut (dyn FnMut(Answer) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        let (to, mut answers) = tokio::sync::mpsc::channel(AHEAD);
        let query = answer(context, sql.to_owned(), parameters.to_vec(), to);
        // On a thread with a large stack, and not on this one: an operator may compute for long
        // before it looks up, and an interrupt need not wait for that.
        let query = self.threads.spawn(query);
        let mut interrupted = std::pin::pin!(self.interrupted());
        let mut stop = std::pin::pin!(stop);
        let answered = self.here.block_on(async {
            loop {
                let answer = tokio::select! {
                    () = &mut interrupted => return Err(Error::Interrupted),
                    error = &mut stop => return Err(error),
                    answer = answers.recv() => answer,
                };
                match answer {
                    Some(answer) => take(answer)?,
                    None => return Ok(()),
                }
            }
        });
        if answered.is_err() {
            query.abort();
            return answered;
        }
        match self.here.block_on(query) {
            Ok(done) => done,
            Err(_) => Err(Error::Engine("the engine failed on this query".to_owned())),
        }
    }

    /// Returns when somebody presses ^C, if that is to end a query.
    async fn interrupted(&self) {
        match self.stops_on_interrupt {
            true => drop(tokio::signal::ctrl_c().await),
            false => std::future::pending().await,
        }
    }

    /// Gives an answer that was kept to `take`, piece by piece, until somebody presses ^C.
    #[cfg(feature = "cluster")]
    pub(crate) fn hand_over(
        &self,
        answers: Vec<Answer>,
        take: &mut (dyn FnMut(Answer) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        self.here.block_on(async {
            let mut interrupted = std::pin::pin!(self.interrupted());
            for answer in answers {
                tokio::select! {
                    biased;
                    () = &mut interrupted => return Err(Error::Interrupted),
                    () = std::future::ready(()) => take(answer)?,
                }
            }
            Ok(())
        })
    }

    /// Runs something on the threads of the engine, until it has ended or `stop` says why it must.
    #[cfg(feature = "cluster")]
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        run: impl Future<Output = Result<T, Error>> + Send + 'static,
        stop: impl Future<Output = Error>,
    ) -> Result<T, Error> {
        let run = self.threads.spawn(run);
        self.here.block_on(async {
            tokio::select! {
                () = self.interrupted() => Err(Error::Interrupted),
                error = stop => Err(error),
                done = run => match done {
                    Ok(done) => done,
                    Err(error) => Err(Error::Engine(error.to_string())),
                },
            }
        })
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The thread that waits while a query runs, and computes nothing.
    #[cfg(feature = "cluster")]
    pub(crate) fn waiting(&self) -> &Handle {
        &self.here
    }

    /// Memory that a query may use, in bytes.
    #[cfg(feature = "cluster")]
    pub(crate) fn memory(&self) -> usize {
        self.limits.memory
    }
}

/// The threads of the engine.
pub(crate) fn threads(limits: Limits) -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(limits.threads.max(1))
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(no_threads)
}

fn no_threads(error: std::io::Error) -> Error {
    Error::Engine(format!("cannot start threads: {error}"))
}

/// What limits the memory of queries.
pub(crate) fn environment(limits: Limits) -> Result<Arc<RuntimeEnv>, Error> {
    let pool = FairSpillPool::new(limits.memory);
    let pool = TrackConsumersPool::new(pool, NonZeroUsize::MIN);
    let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool));
    let environment = builder.build_arc()?;
    let files = Arc::new(Checked::local());
    environment.register_object_store(crate::store::url().as_ref(), files);
    Ok(environment)
}

impl Drop for Session {
    fn drop(&mut self) {
        // A query that was interrupted may compute on for a while, and a look-up of a worker's
        // name may wait for the network.
        for runtime in self.runtimes.drain(..) {
            runtime.shutdown_background();
        }
    }
}

/// Sends the pieces of an answer, until nobody wants them.
async fn answer(
    context: SessionContext,
    sql: String,
    parameters: Vec<(String, String)>,
    to: Sender<Answer>,
) -> Result<(), Error> {
    use futures::StreamExt as _;

    let only_read = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let state = context.state();
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(&sql, &dialect)?;
    depth::check(&statement)?;
    let plan = state.statement_to_plan(statement).await?;
    only_read.verify_plan(&plan)?;
    let mut frame = context.execute_logical_plan(plan).await?;
    if !parameters.is_empty() {
        let values = parameters.into_iter().map(|(name, value)| {
            let value = ScalarValue::Utf8(Some(value));
            (name, value.into())
        });
        frame = frame.with_param_values(ParamValues::Map(values.collect()))?;
    }
    let mut batches: SendableRecordBatchStream = frame.execute_stream().await?;
    if to.send(Answer::Columns(batches.schema())).await.is_err() {
        return Ok(());
    }
    while let Some(batch) = batches.next().await {
        if to.send(Answer::Rows(batch?)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// A piece of an answer.
#[derive(Debug)]
pub enum Answer {
    /// The columns, first and once.
    Columns(datafusion::arrow::datatypes::SchemaRef),
    /// Rows.
    Rows(datafusion::arrow::array::RecordBatch),
}
