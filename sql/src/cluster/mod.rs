//! Queries on several machines: a client plans, and workers, which see the store's files at the
//! same paths, each run a part.
//!
//! There is no scheduler. The client greets the workers, sends them the parts, and keeps the
//! answer until the whole query has ended well, so that an answer is complete or there is none.
//! If a worker is lost, the query is asked again of those that are left; if none is, the client
//! answers alone where it may. A deadline ends all of this.

mod channel;
mod mark;
mod worker;

pub(crate) use mark::read as error_of_worker;
pub use worker::Worker;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{DistributedExt as _, SessionStateBuilderExt as _, WorkerResolver};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use url::Url;

use crate::session::{Answer, Session};
use crate::{Error, store};
use channel::{Connections, Progress};

/// The time after which a query ends without an answer, unless another one is given.
const DEADLINE: Duration = Duration::from_secs(600);

/// A query is asked of no further worker after so many were lost on it.
const MOST_LOST: usize = 2;

/// How long a client waits for the first worker to start.
const START: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(100);

/// What a client and its workers must have in common: the program, the layout of stores, and the
/// engine, whose plans they exchange.
fn version() -> String {
    format!(
        "kymo-query {}, stores {}, DataFusion {}",
        env!("CARGO_PKG_VERSION"),
        store::VERSION,
        datafusion::DATAFUSION_VERSION
    )
}

/// The workers that a [`Session`] asks.
///
/// A program that asks workers must end when one of its threads panics, as a [`Worker`] says, until
/// its last question is answered: tasks that end with the session may panic.
pub struct Cluster {
    workers: Vec<Url>,
    deadline: Duration,
    /// Whether the client may answer alone if no worker is left.
    is_local_allowed: bool,
    tell: Box<dyn Fn(&str) + Send + Sync>,
    progress: Arc<Progress>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = self.workers.iter().map(Url::as_str);
        to.debug_set().entries(workers).finish()
    }
}

impl Cluster {
    /// The workers at these addresses, such as `http://web-1:17050`, or `web-1:17050`.
    ///
    /// # Errors
    /// [`Error::Query`] if there is none, or one is no address.
    pub fn new(addresses: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Cluster, Error> {
        let mut workers = BTreeSet::new();
        for address in addresses {
            let address = address.as_ref().trim();
            let full = match address.contains("://") {
                true => address.to_owned(),
                false => format!("http://{address}"),
            };
            let url = Url::parse(&full).ok();
            let url = url.filter(|url| url.scheme() == "http" && url.has_host());
            let url = url.ok_or_else(|| {
                Error::Query(format!(
                    "--cluster {address} is no address; give one such as http://web-1:17050"
                ))
            })?;
            workers.insert(url);
        }
        match workers.is_empty() {
            true => Err(Error::Query("--cluster names no worker".to_owned())),
            false => Ok(Cluster {
                workers: workers.into_iter().collect(),
                deadline: DEADLINE,
                is_local_allowed: false,
                tell: Box::new(|_| {}),
                progress: Arc::default(),
            }),
        }
    }

    /// Ends a query without an answer after this time; by default, ten minutes.
    pub fn with_deadline(mut self, deadline: Duration) -> Cluster {
        self.deadline = deadline;
        self
    }

    /// Lets the client answer alone if no worker is left.
    pub fn with_local_fallback(mut self) -> Cluster {
        self.is_local_allowed = true;
        self
    }

    /// Gives `tell` a sentence for each worker that is lost or does not answer, while a query goes
    /// on without it.
    pub fn with_notes(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Cluster {
        self.tell = Box::new(tell);
        self
    }

    /// How many parts of queries were sent to workers, and how many rows came from them. These
    /// counts add up over all queries, and over the attempts of a query that was asked again.
    pub fn progress(&self) -> (u64, u64) {
        let Progress { tasks, rows } = &*self.progress;
        (tasks.load(Relaxed), rows.load(Relaxed))
    }

    /// As [`greet`](Self::greet), for a while until one answers: they may have been started just
    /// now.
    async fn greet_first(
        &self,
        workers: Vec<Url>,
        connections: Connections,
    ) -> Result<(Vec<Url>, Vec<Error>), Error> {
        let began = Instant::now();
        loop {
            let found = self.greet(workers.clone(), connections.clone()).await?;
            if !found.0.is_empty() || began.elapsed() >= START {
                return Ok(found);
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Of these workers, those that answer, and why the others do not.
    ///
    /// # Errors
    /// [`Error::Cluster`] if one has another version.
    async fn greet(
        &self,
        workers: Vec<Url>,
        connections: Connections,
    ) -> Result<(Vec<Url>, Vec<Error>), Error> {
        let answers = workers.iter().map(|worker| connections.version(worker));
        let answers = futures::future::join_all(answers).await;
        let (mut there, mut absent) = (Vec::new(), Vec::new());
        for (worker, answer) in workers.into_iter().zip(answers) {
            match answer.map_err(Error::from) {
                Ok(had) if had == version() => there.push(worker),
                Ok(had) => {
                    return Err(Error::Cluster(format!(
                        "worker {} runs {had}, and this is {}; use the same on all machines",
                        name(&worker),
                        version()
                    )));
                }
                Err(error @ Error::Lost { .. }) => absent.push(error),
                Err(error) => {
                    let sentence = format!("{} is no worker: {error}", name(&worker));
                    return Err(Error::Cluster(sentence));
                }
            }
        }
        Ok((there, absent))
    }

    /// Asks a query of the workers. `take` gets nothing until the whole query has ended well.
    ///
    /// # Errors
    /// Those of [`Session::ask`]; [`Error::Cluster`] if no worker is left or the time is over.
    pub(crate) fn ask(
        self: &Arc<Cluster>,
        session: &Session,
        sql: &str,
        parameters: &[(String, String)],
        take: &mut (dyn FnMut(Answer) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        let end = Instant::now().checked_add(self.deadline);
        let mut left = self.workers.clone();
        let mut lost_ones = Vec::new();
        loop {
            let (cluster, all) = (Arc::clone(self), std::mem::take(&mut left));
            let connections = Connections::new(session.waiting().clone());
            let greeted = async move {
                match all == cluster.workers {
                    true => cluster.greet_first(all, connections).await,
                    false => cluster.greet(all, connections).await,
                }
            };
            let (there, absent) = session.wait_for(greeted, self.over(end))?;
            let (context, lost) = match (there.is_empty(), self.is_local_allowed) {
                // They were there when the query began.
                (false, _) if !lost_ones.is_empty() && !absent.is_empty() => {
                    lost_ones.extend(absent);
                    return Err(ends_workers(&lost_ones));
                }
                (false, _) => {
                    for error in &absent {
                        (self.tell)(&format!("{error}; the query goes on without it"));
                    }
                    let (lost, heard) = unbounded_channel();
                    let (waiting, progress) = (session.waiting(), Arc::clone(&self.progress));
                    let connections = Connections::of_query(waiting.clone(), lost, progress);
                    (
                        on_workers(session.context(), &there, connections)?,
                        Some(heard),
                    )
                }
                (true, true) => {
                    for error in &absent {
                        (self.tell)(&error.to_string());
                    }
                    (self.tell)("no worker is left; this machine answers alone");
                    (session.context().clone(), None)
                }
                (true, false) => {
                    lost_ones.extend(absent);
                    return Err(none_left(&lost_ones));
                }
            };
            let stop = self.stop(end, lost);
            let mut kept = Kept::new(session.memory());
            let asked = session.run(context, sql, parameters, stop, &mut |one| kept.add(one));
            match asked {
                Ok(()) => return session.hand_over(kept.answers, take),
                Err(Error::Lost { worker, why }) => {
                    left = there;
                    let count = left.len();
                    left.retain(|one| name(one) != worker);
                    let lost = Error::Lost { worker, why };
                    // A worker that is none of these is one that the query itself speaks of.
                    if left.len() == count {
                        return Err(lost);
                    }
                    let others = match left.is_empty() {
                        true => "",
                        false => "; the query is asked again of the others",
                    };
                    let sentence = format!("{lost}{others}");
                    lost_ones.push(lost);
                    if lost_ones.len() >= MOST_LOST && !left.is_empty() {
                        return Err(ends_workers(&lost_ones));
                    }
                    if left.is_empty() && !self.is_local_allowed {
                        return Err(none_left(&lost_ones));
                    }
                    (self.tell)(&sentence);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The error of the deadline, when it is reached.
    fn over(&self, end: Option<Instant>) -> impl Future<Output = Error> + use<> {
        let seconds = self.deadline.as_secs_f64();
        async move {
            match end {
                Some(end) => tokio::time::sleep_until(end.into()).await,
                // It is further away than the clock can tell.
                None => std::future::pending().await,
            }
            Error::Cluster(format!(
                "the query did not end within {seconds} s; give it more with --deadline"
            ))
        }
    }

    /// What ends an attempt: the deadline, or a worker that is lost.
    fn stop(
        &self,
        end: Option<Instant>,
        lost: Option<UnboundedReceiver<Error>>,
    ) -> impl Future<Output = Error> + use<> {
        let over = self.over(end);
        let lost = async {
            match lost {
                Some(mut lost) => match lost.recv().await {
                    Some(error) => error,
                    None => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        async {
            tokio::select! {
                error = over => error,
                error = lost => error,
            }
        }
    }
}

/// A worker as sentences name it.
fn name(worker: &Url) -> String {
    worker.as_str().trim_end_matches('/').to_owned()
}

fn none_left(lost: &[Error]) -> Error {
    Error::Cluster(format!(
        "no worker is left: {}; --local-fallback answers without workers",
        all(lost)
    ))
}

/// The error of a query on which so many workers were lost that it may have ended them.
fn ends_workers(lost: &[Error]) -> Error {
    Error::Cluster(format!(
        "{}; a query on which two workers are lost is asked of no other: it may be what ends them",
        all(lost)
    ))
}

fn all(errors: &[Error]) -> String {
    let errors: Vec<String> = errors.iter().map(Error::to_string).collect();
    errors.join("; ")
}

/// The session's context, with plans that run on these workers.
fn on_workers(
    local: &SessionContext,
    workers: &[Url],
    connections: Connections,
) -> Result<SessionContext, Error> {
    let mut state = SessionStateBuilder::new_from_existing(local.state());
    let config = state.config().get_or_insert_default();
    let partitions = &mut config.options_mut().execution.target_partitions;
    // A plan of one partition has no place at which it could be shared out.
    *partitions = 2.max(*partitions);
    let builder = state
        .with_distributed_worker_resolver(Known(workers.to_vec()))
        .with_distributed_channel_resolver(connections)
        .with_distributed_planner()
        // Every scan is shared out: what is in a store is not worth asking a cluster for less.
        .with_distributed_file_scan_config_bytes_per_partition(1)?
        // The stream of a worker's messages ends with its metrics, and so lasts as long as the
        // query; without them it ends at once, and tells of no worker that is lost.
        .with_distributed_metrics_collection(true)?;
    Ok(SessionContext::new_with_state(builder.build()))
}

/// Workers that have answered.
struct Known(Vec<Url>);

impl WorkerResolver for Known {
    /// One worker counts as two: the planner leaves a query that has no more than one part to the
    /// client.
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(match self.0.as_slice() {
            [one] => vec![one.clone(), one.clone()],
            all => all.to_vec(),
        })
    }
}

/// An answer that is not given yet.
struct Kept {
    answers: Vec<Answer>,
    /// How many bytes it may have.
    most: usize,
    /// What it has: batches may be slices of the same memory.
    counted: RecordBatchMemoryCounter,
}

impl Kept {
    fn new(memory: usize) -> Kept {
        Kept {
            answers: Vec::new(),
            most: memory,
            counted: RecordBatchMemoryCounter::new(),
        }
    }

    fn add(&mut self, answer: Answer) -> Result<(), Error> {
        if let Answer::Rows(rows) = &answer {
            self.counted.count_batch(rows);
            if self.counted.memory_usage() > self.most {
                let sentence = "the answer has more than --memory, and is kept there until all of \
                                it has come from the workers";
                return Err(Error::Cluster(sentence.to_owned()));
            }
        }
        self.answers.push(answer);
        Ok(())
    }
}
