//! A trace directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::merge::Merge;
use crate::metadata::Metadata;
use crate::stream::StreamReader;

/// A trace: a directory of one `metadata` file and stream files.
///
/// Every file beside `metadata` is a stream, except those whose names begin with a dot; sub-directories (such as LTTng's `index`) are
/// not looked into. An empty stream file is a stream without packets.
#[derive(Debug)]
pub struct Trace {
    metadata: Arc<Metadata>,
    streams: Vec<PathBuf>,
}

/// The items of a whole trace in the order of time.
pub type Events = Merge<File>;

impl Trace {
    /// Reads the metadata of the trace in `directory` and finds its stream files.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory or its metadata cannot be read, [`Error::Metadata`] if the metadata cannot be used.
    pub fn open(directory: &Path) -> Result<Trace, Error> {
        let path = directory.join("metadata");
        let bytes = fs::read(&path).map_err(|source| Error::Io { path, source })?;
        let metadata = Arc::new(Metadata::from_bytes(&bytes)?);

        let fail = |source| Error::Io { path: directory.to_owned(), source };
        let mut streams = Vec::new();
        for entry in fs::read_dir(directory).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            if name.starts_with(b".") || name == b"metadata" {
                continue;
            }
            let file = fs::metadata(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
            if file.is_file() {
                streams.push(path);
            }
        }
        streams.sort();
        Ok(Trace { metadata, streams })
    }

    /// What the trace says about itself.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// The stream files, in the order that decides between events of the same time: by name.
    pub fn stream_files(&self) -> &[PathBuf] {
        &self.streams
    }

    /// All events and losses of all streams, in the order of time. Files are opened here and read as the iterator goes.
    ///
    /// Errors are items: a stream that cannot be read further gives one and ends, and the others go on.
    pub fn events(&self) -> Events {
        Merge::new(self.streams.iter().map(|path| {
            let file = File::open(path).map_err(|source| Error::Io { path: path.clone(), source })?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Ok(StreamReader::new(Arc::clone(&self.metadata), &name, file))
        }))
    }
}
