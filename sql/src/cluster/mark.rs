//! Which worker an error is about: marks in the text of errors, which survive all hops.

use datafusion::common::DataFusionError;
use tonic::{Code, Status};
use url::Url;

use crate::Error;
use crate::error::{FILE, of_file};

/// What has happened to the worker whose name follows.
const LOST: &str = "<kymo worker lost ";
/// The worker whose name follows has found the error.
const AT: &str = "<kymo worker ";
/// It stands in no address, in which it would be escaped.
const END: char = '>';
/// A worker, or the way to it, refuses a message.
const MESSAGE: &str = "<kymo message>";
/// A worker is asked for rows of a part that it does not have, and did not get while it waited:
/// the engine's words. It was started again after it had got that part.
const NO_PLAN: &str = "Worker::execute_task timed-out while waiting for the plan";

/// The error with the name of the worker that it came from, if it has none yet.
pub(super) fn named(worker: &Url, error: DataFusionError) -> DataFusionError {
    let text = error.to_string();
    if text.contains(LOST) || text.contains(AT) {
        return error;
    }
    match lost(&error) {
        Some(why) => DataFusionError::Execution(format!("{LOST}{worker}{END}{why}")),
        None => match status(&error) {
            Some(status) => {
                let why = status.message();
                DataFusionError::Execution(format!("{AT}{worker}{END}{MESSAGE}{why}"))
            }
            None => error.context(format!("{AT}{worker}{END}")),
        },
    }
}

/// What the transport says, if it has failed. An error of the query has another form on the wire.
fn status(error: &DataFusionError) -> Option<&Status> {
    match error.find_root() {
        DataFusionError::External(of) => of.downcast_ref(),
        _ => None,
    }
}

/// Why no answer came, if the worker or the way to it is the reason.
fn lost(error: &DataFusionError) -> Option<String> {
    if let DataFusionError::Execution(what) = error.find_root()
        && what.starts_with(NO_PLAN)
    {
        return Some("it has no plan; was it started again?".to_owned());
    }
    let status = status(error)?;
    let is_lost = matches!(
        status.code(),
        Code::Unavailable
            | Code::Unknown
            | Code::Internal
            | Code::Cancelled
            | Code::Aborted
            | Code::DeadlineExceeded
    );
    is_lost.then(|| reason(status))
}

/// The innermost cause of a failed transport, which says most.
pub(super) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    match error.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => error.to_string(),
    }
}

/// The error of a worker that did not accept a connection.
pub(super) fn unreachable(worker: &Url, why: &str) -> DataFusionError {
    DataFusionError::Execution(format!("{LOST}{worker}{END}{why}"))
}

/// The error of a worker that refuses to read a file.
pub(super) fn refused(why: String) -> DataFusionError {
    DataFusionError::Execution(format!("{FILE}{why}"))
}

/// The error that a user reads, if a worker is the reason for it or has found it.
pub(crate) fn read(error: &DataFusionError) -> Option<Error> {
    let text = error.strip_backtrace();
    if let Some((worker, why)) = after(&text, LOST) {
        let why = why.lines().next().unwrap_or_default().to_owned();
        return Some(Error::Lost { worker, why });
    }
    let (worker, _) = after(&text, AT)?;
    if let Some(why) = of_file(&text) {
        return Some(Error::Store(format!("worker {worker}: {why}")));
    }
    if let Some((_, why)) = text.split_once(MESSAGE) {
        let why = why.lines().next().unwrap_or_default();
        return Some(Error::Cluster(format!("worker {worker}: {why}")));
    }
    Some(match Error::of_engine(error) {
        Error::Memory => Error::Cluster(format!(
            "the query needs more memory than worker {worker} may use; start it with a larger \
             --memory"
        )),
        Error::Engine(what) => Error::Engine(format!("worker {worker}: {what}")),
        Error::Store(what) => Error::Store(format!("worker {worker}: {what}")),
        other => other,
    })
}

/// The name behind a mark, and the text after it.
fn after<'t>(text: &'t str, mark: &str) -> Option<(String, &'t str)> {
    let (_, rest) = text.split_once(mark)?;
    let (name, rest) = rest.split_once(END)?;
    Some((name.trim_end_matches('/').to_owned(), rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn worker(port: u16) -> Url {
        Url::parse(&format!("http://127.0.0.1:{port}")).unwrap()
    }

    #[test]
    fn the_first_worker_that_saw_an_error_names_it() {
        let status = Status::unavailable("connection reset");
        let error = named(&worker(1), DataFusionError::External(Box::new(status)));
        // The worker at port 2 had asked that at port 1.
        let error = named(&worker(2), error.context("a stage"));
        let Some(Error::Lost { worker, why }) = read(&error) else {
            unreachable!("{error}");
        };
        assert_eq!(worker, "http://127.0.0.1:1");
        assert_eq!(why, "connection reset");
    }

    #[test]
    fn a_worker_may_have_an_address_of_ipv6() {
        let worker = Url::parse("http://[::1]:17050").unwrap();
        let found = read(&unreachable(&worker, "refused")).unwrap();
        assert!(
            matches!(&found, Error::Lost { worker, .. } if worker == "http://[::1]:17050"),
            "{found:?}"
        );
    }

    #[test]
    fn a_worker_without_the_plan_is_lost() {
        let ended = "Worker::execute_task timed-out while waiting for the plan to be set by the \
                     coordinator. (elapsed)";
        let error = named(&worker(1), DataFusionError::Execution(ended.to_owned()));
        let found = read(&named(&worker(2), error)).unwrap();
        assert!(
            matches!(&found, Error::Lost { worker, .. } if worker == "http://127.0.0.1:1"),
            "{found:?}"
        );
    }

    #[test]
    fn a_refused_message_is_no_wrong_query() {
        let status = Status::out_of_range("the message is too large");
        let error = named(&worker(1), DataFusionError::External(Box::new(status)));
        let found = read(&named(&worker(2), error)).unwrap();
        assert!(matches!(found, Error::Cluster(_)), "{found:?}");
        let said = found.to_string();
        assert_eq!(said, "worker http://127.0.0.1:1: the message is too large");
    }

    #[test]
    fn errors_of_queries_are_no_lost_workers() {
        let wrong = DataFusionError::Execution("ns('5 parsecs')".to_owned());
        let found = read(&named(&worker(1), wrong)).unwrap();
        assert!(matches!(found, Error::Query(_)), "{found:?}");
        let memory = DataFusionError::ResourcesExhausted("sort".to_owned());
        let found = read(&named(&worker(1), memory)).unwrap().to_string();
        assert!(
            found.contains("worker http://127.0.0.1:1 may use"),
            "{found}"
        );
        let file = refused("/store/a.parquet is not there".to_owned());
        let found = read(&named(&worker(1), file)).unwrap().to_string();
        assert_eq!(
            found,
            "worker http://127.0.0.1:1: /store/a.parquet is not there"
        );
        assert!(read(&DataFusionError::Plan("wrong".to_owned())).is_none());
    }
}
