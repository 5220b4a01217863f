//! Errors, as one sentence each.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The query, or a parameter of a ready question, is wrong.
    #[error("{0}")]
    Query(String),
    /// A trace cannot be read.
    #[error("{}: {source}", path.display())]
    Trace {
        /// Its directory, as it was given.
        path: PathBuf,
        /// What is wrong with it.
        source: kymo_ctf::Error,
    },
    /// A file with the names of functions cannot be used.
    #[error(transparent)]
    Symbols(#[from] kymo_images::Error),
    /// A file with the names of functions is damaged.
    #[error("{0}")]
    Image(String),
    /// The path is no directory.
    #[error("{} is a file; give the trace directory", .0.display())]
    File(PathBuf),
    /// A store, or a file in it, cannot be used.
    #[error("{0}")]
    Store(String),
    /// The query needs more memory than it may have, and could not spill to disk.
    #[error("the query needs more memory than it may have; give it more with --memory")]
    Memory,
    /// A worker has gone while it ran a part of a query, or does not answer.
    #[error("worker {worker} is lost ({why})")]
    Lost {
        /// Its address.
        worker: String,
        /// What the connection to it says.
        why: String,
    },
    /// The workers cannot answer, or not in time.
    #[error("{0}")]
    Cluster(String),
    /// Somebody stopped the query.
    #[error("interrupted")]
    Interrupted,
    /// The answer cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file, or what stands for the standard output.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The engine failed, or the machine under it.
    #[error("{0}")]
    Engine(String),
}

/// In the text of an error, stands before the sentence about a file. The engine keeps the texts of
/// errors, and not their types.
pub(crate) const FILE: &str = "<kymo file>";

/// The sentence about a file in the text of an error.
pub(crate) fn of_file(text: &str) -> Option<&str> {
    let (_, sentence) = text.split_once(FILE)?;
    sentence.lines().next()
}

impl Error {
    /// `InvalidInput` for a wrong query, `InvalidData` for an unusable trace or store,
    /// `Interrupted`, and `Other` for all else.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Query(_) | Error::File(_) => ErrorKind::InvalidInput,
            Error::Trace { .. } | Error::Symbols(_) | Error::Image(_) | Error::Store(_) => {
                ErrorKind::InvalidData
            }
            Error::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Other,
        }
    }

    /// Whether the reader of the output has gone, which is no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Write { source, .. } if source.kind() == ErrorKind::BrokenPipe)
    }

    /// A file whose bytes are those that were written, and that the engine cannot read.
    fn unreadable(error: &DataFusionError) -> Error {
        let what = sentence(error);
        Error::Store(format!("a file of the store cannot be read: {what}"))
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error + use<'_> {
        move |source| Error::Write {
            path: path.to_owned(),
            source,
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Error {
        #[cfg(feature = "cluster")]
        if let Some(error) = crate::cluster::error_of_worker(&error) {
            return error;
        }
        Error::of_engine(&error)
    }
}

impl Error {
    /// The engine's error, wherever it came from.
    pub(crate) fn of_engine(error: &DataFusionError) -> Error {
        if let Some(sentence) = of_file(&error.strip_backtrace()) {
            return Error::Store(sentence.to_owned());
        }
        let root = error.find_root();
        if let DataFusionError::External(of) = root
            && let Some(error) = of.downcast_ref::<kymo_images::Error>()
        {
            let advice = error.advice().map(|advice| format!("; {advice}"));
            return Error::Image(format!("{error}{}", advice.unwrap_or_default()));
        }
        if let DataFusionError::External(of) = root
            && let Some(Error::Store(sentence)) = of.downcast_ref::<Error>()
        {
            return Error::Store(sentence.clone());
        }
        match root {
            DataFusionError::ParquetError(_) => Error::unreadable(root),
            DataFusionError::ArrowError(of, _) if matches!(**of, ArrowError::ParquetError(_)) => {
                Error::unreadable(root)
            }
            DataFusionError::ResourcesExhausted(_) => Error::Memory,
            DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => {
                Error::Engine(sentence(root))
            }
            // What the engine calls its own mistake is seldom the user's.
            DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => {
                Error::Engine(sentence(root))
            }
            _ => Error::Query(sentence(root)),
        }
    }
}

/// The engine's error, without the words that name its parts.
fn sentence(error: &DataFusionError) -> String {
    let mut text = first_line(&error.strip_backtrace());
    let labels = [
        "Error during planning: ",
        "SQL error: ",
        "Schema error: ",
        "Execution error: ",
        "Arrow error: ",
        "Parquet error: ",
        "Parquet argument error: ",
        "Optimizer rule ",
        "Invalid or Unsupported Configuration: ",
    ];
    while let Some(rest) = labels.iter().find_map(|label| text.strip_prefix(label)) {
        text = rest.to_owned();
    }
    if let Some(syntax) = text.strip_prefix("ParserError(\"") {
        let syntax = syntax.trim_end_matches("\")").replace("\\\"", "\"");
        text = format!("SQL syntax: {syntax}");
    }
    if let Some((_, after)) = text.split_once("table '")
        && let Some((name, _)) = after.split_once("' not found")
    {
        let name = name.rsplit('.').next().unwrap_or(name);
        return format!("there is no table {name}; `show tables` lists them");
    }
    text.trim_end_matches('.').to_owned()
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.trim().to_owned()
}
