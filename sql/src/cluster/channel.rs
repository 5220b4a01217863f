//! Connections to workers, whose errors have the worker's name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::HeaderMap;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tonic::transport::Endpoint;
use url::Url;

use super::mark;
use crate::Error;

/// How long a worker may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long it may take to say which version it has.
const GREETING: Duration = Duration::from_secs(5);
/// A worker is asked so often whether it is there: a machine that loses its power closes nothing.
pub(super) const ASK: Duration = Duration::from_secs(5);
/// How long it may take to say so.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// How far a query has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Parts of the query that were sent to workers.
    pub(super) tasks: AtomicU64,
    /// Rows that came from workers.
    pub(super) rows: AtomicU64,
}

/// Connections to workers, one for each. Clones share them.
///
/// They live on threads of their own: those of the engine may compute for long before they look
/// up, and the other side would take this for silence.
#[derive(Clone)]
pub(super) struct Connections {
    threads: Handle,
    open: Arc<Mutex<HashMap<Url, BoxCloneSyncChannel>>>,
    /// Where a client learns of a lost worker before the query does.
    lost: Option<UnboundedSender<Error>>,
    progress: Arc<Progress>,
}

impl Connections {
    /// No connections yet; they will live on these threads.
    pub(super) fn new(threads: Handle) -> Connections {
        Connections {
            threads,
            open: Arc::default(),
            lost: None,
            progress: Arc::default(),
        }
    }

    /// Those of one attempt of a query.
    pub(super) fn of_query(
        threads: Handle,
        lost: UnboundedSender<Error>,
        progress: Arc<Progress>,
    ) -> Connections {
        Connections {
            lost: Some(lost),
            progress,
            ..Connections::new(threads)
        }
    }

    /// The connection to a worker, which is opened if it is new.
    async fn to(&self, worker: &Url) -> Result<BoxCloneSyncChannel> {
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open().get(worker).cloned() {
            return Ok(known);
        }
        let failed = |error| mark::unreachable(worker, &mark::reason(&error));
        let endpoint = Endpoint::from_shared(worker.to_string()).map_err(failed)?;
        let endpoint = endpoint
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ASK)
            .keep_alive_timeout(SILENCE)
            .keep_alive_while_idle(true);
        let connected = self
            .threads
            .spawn(async move { endpoint.connect().await })
            .await;
        let connected = connected.map_err(|error| mark::unreachable(worker, &error.to_string()))?;
        let channel = BoxCloneSyncChannel::new(connected.map_err(failed)?);
        Ok(open().entry(worker.clone()).or_insert(channel).clone())
    }

    /// What version a worker says that it has.
    pub(super) async fn version(&self, worker: &Url) -> Result<String> {
        let mut channel = self.get_worker_client_for_url(worker).await?;
        let answer = channel.get_worker_info(GetWorkerInfoRequest {});
        match tokio::time::timeout(GREETING, answer).await {
            Ok(answer) => Ok(answer?.version),
            Err(_) => Err(mark::unreachable(worker, "it does not answer")),
        }
    }
}

#[async_trait::async_trait]
impl ChannelResolver for Connections {
    async fn get_worker_client_for_url(&self, worker: &Url) -> Result<Box<dyn WorkerChannel>> {
        Ok(Box::new(Named {
            inner: create_worker_client(self.to(worker).await?),
            worker: worker.clone(),
            connections: self.clone(),
        }))
    }
}

/// A connection whose errors have the name of the worker.
struct Named {
    inner: Box<dyn WorkerChannel>,
    worker: Url,
    connections: Connections,
}

#[async_trait::async_trait]
impl WorkerChannel for Named {
    /// Sends a part of a query. The stream that comes back lasts as long as the query: where it
    /// breaks, the worker is lost, whether or not anybody waits for rows of it.
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        plan: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let (worker, lost) = (self.worker.clone(), self.connections.lost.clone());
        let broken = move |error| {
            let error = mark::named(&worker, error);
            if let (Some(lost), Some(error @ Error::Lost { .. })) = (&lost, mark::read(&error)) {
                // (A query that has ended does not listen.)
                let _ = lost.send(error);
            }
            error
        };
        let inner = &mut self.inner;
        let stream = inner.coordinator_channel(headers, plan, messages, metrics, context);
        let stream = stream.await.map_err(&broken)?;
        self.connections.progress.tasks.fetch_add(1, Relaxed);
        Ok(stream.map(move |one| one.map_err(&broken)).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let streams = self.inner.execute_task(headers, request, metrics, context);
        let streams = streams
            .await
            .map_err(|error| mark::named(&self.worker, error))?;
        let streams = streams.into_iter().map(|stream| {
            let (worker, progress) = (self.worker.clone(), Arc::clone(&self.connections.progress));
            let stream = stream.map(move |batch| match batch {
                Ok(batch) => {
                    let rows = u64::try_from(batch.num_rows()).unwrap_or_default();
                    progress.rows.fetch_add(rows, Relaxed);
                    Ok(batch)
                }
                Err(error) => Err(mark::named(&worker, error)),
            });
            stream.boxed()
        });
        Ok(streams.collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let answer = self.inner.get_worker_info(request).await;
        answer.map_err(|error| mark::named(&self.worker, error))
    }
}
