//! A worker: runs parts of queries over the files of stores, for every client that reaches it.

use std::convert::Infallible;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DistributedExt as _, Worker as Engine, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext,
};
use futures::future::BoxFuture;
use http::Request;
use tokio::runtime::{Builder, Handle};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::channel::{ASK, Connections, SILENCE};
use super::{mark, version};
use crate::session::{environment, threads};
use crate::{Error, Limits, function, store};

/// A worker, which is bound to its address and does not run yet.
///
/// A program that runs a worker, or asks one, must end when any of its threads panics, such as by
/// a panic hook that calls [`std::process::exit`]. The rows of a thread that panics are missing,
/// and the engine ends the stream of the others as if it were complete: an answer could lack rows
/// and be no error. `kymo-query` installs such a hook. This crate does not, for a hook is the
/// whole program's.
#[derive(Debug)]
pub struct Worker {
    listener: TcpListener,
    files: Files,
    limits: Limits,
    version: String,
}

/// What a worker may read.
#[derive(Clone, Debug)]
struct Files {
    /// The directory below which all files lie, if it is limited.
    root: Option<PathBuf>,
    is_logged: bool,
}

impl Worker {
    /// Binds a worker to an address, at which port 0 is any free one. There is no authentication:
    /// every client that reaches the address can read the Parquet files that the worker can, or
    /// those below `root`.
    ///
    /// The program must end when one of its threads panics, as [`Worker`] says.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the address cannot be bound, and [`Error::Store`] if `root` is not
    /// there.
    pub fn bind(at: SocketAddr, root: Option<&Path>, limits: Limits) -> Result<Worker, Error> {
        let root = root.map(|root| {
            let found = root.canonicalize();
            found.map_err(|error| Error::Store(format!("cannot read {}: {error}", root.display())))
        });
        let root = root.transpose()?;
        let listener = TcpListener::bind(at)
            .map_err(|error| Error::Cluster(format!("cannot listen at {at}: {error}")))?;
        Ok(Worker {
            listener,
            files: Files {
                root,
                is_logged: false,
            },
            limits,
            version: version(),
        })
    }

    /// Says on the standard error which parts of queries it runs.
    pub fn log(&mut self) {
        self.files.is_logged = true;
    }

    /// Its address, as a client names it.
    fn address(&self) -> Result<String, Error> {
        let at = self.listener.local_addr().map_err(failed)?;
        Ok(format!("http://{at}"))
    }

    /// Runs parts of queries until SIGTERM or ^C, after it has given its address to `ready`. What
    /// runs then is lost, and its client says so.
    ///
    /// The program must end when one of its threads panics, as [`Worker`] says.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the system refuses threads or connections.
    pub fn run(self, ready: impl FnOnce(&str)) -> Result<(), Error> {
        let engine = threads(self.limits)?;
        let environment = environment(self.limits)?;
        // Answers while the engine computes.
        let here = Builder::new_current_thread().enable_all().build();
        let here = here.map_err(failed)?;
        let computes = engine.handle().clone();
        let ended = here.block_on(async {
            let ended = ended()?;
            ready(&self.address()?);
            tokio::select! {
                served = self.serve(environment, computes) => served,
                () = ended => Ok(()),
            }
        });
        engine.shutdown_background();
        ended
    }

    async fn serve(self, environment: Arc<RuntimeEnv>, computes: Handle) -> Result<(), Error> {
        self.listener.set_nonblocking(true).map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed)?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let (connections, files) = (Connections::new(Handle::current()), self.files);
        let session = move |of: WorkerQueryContext| {
            let (connections, files) = (connections.clone(), files.clone());
            async move {
                let builder = of.builder.with_distributed_channel_resolver(connections);
                let builder = builder.with_distributed_worker_plan_rewrite_handler(
                    move |event: WorkerPlanRewriteEvent<'_>| files.check(event.plan),
                );
                let mut state = builder.build();
                function::add(&mut state)?;
                Ok(state)
            }
        };
        let engine = Engine::from_session_builder(session)
            .with_runtime_env(environment)
            .with_version(self.version);
        let service = engine.into_worker_server();
        let server = Server::builder()
            .http2_keepalive_interval(Some(ASK))
            .http2_keepalive_timeout(Some(SILENCE))
            .add_service(Computes {
                inner: service.max_decoding_message_size(LONGEST_REQUEST),
                on: computes,
            });
        server.serve_with_incoming(incoming).await.map_err(failed)
    }
}

/// Most bytes of a request: a plan, or what another worker sends.
const LONGEST_REQUEST: usize = 64 << 20;

/// The request by which a client asks for the version.
const GREETING: &str = "/GetWorkerInfo";

/// A service whose requests run on the threads of the engine, and not on the one that answers.
#[derive(Clone)]
struct Computes<S> {
    inner: S,
    on: Handle,
}

impl<S: NamedService> NamedService for Computes<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Computes<S>
where
    S: Service<Request<Body>, Error = Infallible>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<S::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // A greeting computes nothing, and a busy worker is there, too.
        if request.uri().path().ends_with(GREETING) {
            return Box::pin(self.inner.call(request));
        }
        let answer = self.on.spawn(self.inner.call(request));
        Box::pin(async move {
            match answer.await {
                Ok(answer) => answer,
                // The worker ends.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Cluster(format!("the worker cannot serve: {error}"))
}

/// Returns when somebody ends the worker, from now on.
fn ended() -> Result<impl Future<Output = ()>, Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    })
}

impl Files {
    /// Checks that a part of a query only reads, and only files that are as its client has seen
    /// them: a worker may see another file system.
    fn check(&self, plan: Arc<dyn ExecutionPlan>) -> Result<WorkerPlanRewriteEventResponse> {
        let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        plan.apply(|part| {
            if part.name().ends_with("SinkExec") {
                return Err(mark::refused("a worker writes no files".to_owned()));
            }
            let source = part.downcast_ref::<DataSourceExec>();
            let scan = source.and_then(|of| of.data_source().downcast_ref::<FileScanConfig>());
            for file in scan.iter().flat_map(|scan| &scan.file_groups) {
                for file in file.files() {
                    files.fetch_add(1, Relaxed);
                    bytes.fetch_add(file.effective_size(), Relaxed);
                }
            }
            if let Some(scan) = scan {
                self.check_scan(scan).map_err(mark::refused)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if self.is_logged {
            let (files, bytes) = (files.into_inner(), bytes.into_inner());
            eprintln!("kymo: runs a part of a query, {bytes} bytes of {files} files");
        }
        Ok(WorkerPlanRewriteEventResponse::new(plan))
    }

    fn check_scan(&self, scan: &FileScanConfig) -> Result<(), String> {
        let is_parquet = scan.file_source().downcast_ref::<ParquetSource>().is_some();
        if scan.object_store_url != store::url() || !is_parquet {
            return Err("a worker reads only Parquet files of stores".to_owned());
        }
        for file in scan.file_groups.iter().flat_map(|group| group.files()) {
            let meta = &file.object_meta;
            let path = store::path(&meta.location);
            let path = path.map_err(|error| error.to_string())?;
            self.check_file(&path, meta.size)?;
        }
        Ok(())
    }

    /// Checks the root first: of what lies outside, a client learns nothing.
    fn check_file(&self, path: &Path, wanted: u64) -> Result<(), String> {
        let shown = path.display();
        let unreadable = |error| {
            format!("{shown} cannot be read: {error}; workers must see the store at the same path")
        };
        let found = path.canonicalize();
        if let Some(root) = &self.root {
            let is_inside = match &found {
                Ok(found) => found.starts_with(root),
                // What is not there is inside if its name is.
                Err(_) => is_below(path, root),
            };
            if !is_inside {
                return Err(format!("{shown} lies outside --root {}", root.display()));
            }
        }
        let bytes = fs::metadata(found.map_err(unreadable)?)
            .map_err(unreadable)?
            .len();
        match bytes == wanted {
            true => Ok(()),
            false => Err(format!(
                "{shown} has {bytes} bytes, and {wanted} where the query was asked"
            )),
        }
    }
}

/// Whether a path is below a directory by its name alone.
fn is_below(path: &Path, root: &Path) -> bool {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    path.starts_with(root) && !goes_up
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::SessionContext;

    use super::super::Cluster;
    use super::*;

    fn files(root: Option<PathBuf>) -> Files {
        Files {
            root,
            is_logged: false,
        }
    }

    #[test]
    fn files_are_those_that_the_client_has_seen() {
        let folder = std::env::temp_dir().join(format!("kymo-sql-worker-{}", std::process::id()));
        fs::create_dir_all(folder.join("in")).unwrap();
        let folder = folder.canonicalize().unwrap();
        let file = folder.join("a.parquet");
        fs::write(&file, "four").unwrap();
        let said = |root: Option<&str>, path: &Path, bytes| {
            let files = files(root.map(|root| folder.join(root)));
            files.check_file(path, bytes).err().unwrap_or_default()
        };
        assert_eq!(said(None, &file, 4), "");
        assert_eq!(said(Some(""), &file, 4), "");
        assert!(said(None, &file, 5).contains("a.parquet has 4 bytes, and 5 where"));
        assert!(said(None, &folder.join("b"), 5).contains("the store at the same path"));
        assert!(said(Some("in"), &file, 4).contains("outside --root"));
        let around = folder.join("in/../a.parquet");
        assert!(said(Some("in"), &around, 4).contains("outside --root"));
        // A client learns nothing of a file outside: neither its length nor whether it exists.
        assert!(said(Some("in"), &file, 5).contains("outside --root"));
        assert!(said(Some("in"), &folder.join("b"), 5).contains("outside --root"));
        assert!(said(Some("in"), &folder.join("in/../b"), 5).contains("outside --root"));
        assert!(said(Some("in"), &folder.join("in/b"), 5).contains("cannot be read"));
        std::os::unix::fs::symlink(&file, folder.join("in/link")).unwrap();
        assert!(said(Some("in"), &folder.join("in/link"), 4).contains("outside --root"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_worker_only_reads_and_only_parquet_files() {
        let folder = std::env::temp_dir().join(format!("kymo-sql-plans-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        fs::write(folder.join("a.csv"), "n\n1\n").unwrap();
        let location = folder.display();
        let runtime = threads(Limits::default()).unwrap();
        let said = |setup: &str, sql: &str| {
            let context = SessionContext::new();
            let plan = runtime.block_on(async {
                if !setup.is_empty() {
                    context.sql(setup).await.unwrap().collect().await.unwrap();
                }
                let frame = context.sql(sql).await.unwrap();
                frame.create_physical_plan().await.unwrap()
            });
            let error = files(None).check(plan).map(drop).err();
            error.map(|error| error.to_string()).unwrap_or_default()
        };
        let copy = format!("copy (select 1 as n) to '{location}/b.parquet'");
        assert!(said("", &copy).contains("a worker writes no files"));
        let make = |what: &str, file: &str| {
            format!("create external table t stored as {what} location '{location}/{file}'")
        };
        let csv = make("csv", "a.csv");
        assert!(
            said(&csv, "select n from t").contains("a worker reads only Parquet files of stores")
        );
        let context = SessionContext::new();
        let made = runtime.block_on(async { context.sql(&copy).await.unwrap().collect().await });
        made.unwrap();
        let parquet = make("parquet", "b.parquet");
        assert!(said(&parquet, "select n from t").contains("only Parquet files of stores"));
        assert_eq!(said("", "select 1"), "");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn workers_of_another_version_are_refused() {
        let limits = Limits::default();
        let mut worker = Worker::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None, limits).unwrap();
        worker.version = "kymo-query 9.9.9, stores 7".to_owned();
        let cluster = Cluster::new([worker.address().unwrap()]).unwrap();
        let runtime = threads(limits).unwrap();
        let environment = environment(limits).unwrap();
        runtime.spawn(worker.serve(environment, runtime.handle().clone()));
        let connections = Connections::new(runtime.handle().clone());
        let said = runtime.block_on(cluster.greet(cluster.workers.clone(), connections));
        let said = said.unwrap_err().to_string();
        assert!(said.contains("runs kymo-query 9.9.9, stores 7"), "{said}");
        assert!(said.contains(&version()), "{said}");
        runtime.shutdown_background();
    }
}
