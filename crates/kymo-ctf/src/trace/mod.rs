//! Trace directories.

pub(crate) mod events;
pub(crate) mod follow;
mod lanes;
pub(crate) mod map;
mod merge;
pub(crate) mod reader;
pub(crate) mod tally;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::decode::plan::Plans;
use crate::error::Error;
use crate::metadata::Metadata;
use crate::stream::Stream;
use crate::stream::reader::StreamReader;
use crate::stream::source::Slice;
use crate::trace::events::Merge;
use crate::trace::map::Mapped;
use crate::trace::reader::Reader;

/// A trace: a directory with a `metadata` file and stream files, or a tree of such directories.
///
/// Every file beside `metadata` is a stream, except those whose names begin with a dot. Of its
/// subdirectories only LTTng's `index` is used, if its files are valid. An empty stream file is a
/// stream without packets. A directory without `metadata` is searched for traces in its
/// subdirectories, as LTTng creates one for each user and domain.
#[derive(Debug)]
pub struct Trace {
    root: PathBuf,
    metadata: Arc<Metadata>,
    parts: Vec<Part>,
    streams: Vec<PathBuf>,
}

/// One of the traces in a tree.
#[derive(Debug)]
pub struct Part {
    /// Its directory.
    pub directory: PathBuf,
    /// Its metadata.
    pub metadata: Arc<Metadata>,
    streams: Vec<StreamFile>,
}

#[derive(Debug)]
struct StreamFile {
    path: PathBuf,
    name: String,
    walked: Arc<OnceLock<Option<Arc<[u64]>>>>,
}

/// The items of a whole trace in time order.
pub type Events = Merge<File>;

/// Limit on the depth of the search, so that cyclic links end.
const MAX_DEPTH: u32 = 16;

impl Trace {
    /// Reads the metadata of the trace in `directory` and finds its stream files.
    ///
    /// # Errors
    /// [`Error::Io`] if a directory or metadata file cannot be read, [`Error::Metadata`] if
    /// metadata is invalid or unsupported.
    pub fn open(directory: &Path) -> Result<Trace, Error> {
        let mut found = Vec::new();
        if directory.join("metadata").exists()
            || !find_parts(directory, &mut found, 0)?
            || found.is_empty()
        {
            found = vec![directory.to_owned()];
        }
        found.sort();
        let mut parts = Vec::new();
        for part in &found {
            parts.push(open_part(directory, part)?);
        }
        let first: Option<&Part> = parts.first();
        let missing = || Error::Io {
            path: directory.join("metadata"),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let metadata = first
            .map(|part| Arc::clone(&part.metadata))
            .ok_or_else(missing)?;
        let streams = parts
            .iter()
            .flat_map(|part| &part.streams)
            .map(|file| file.path.clone())
            .collect();
        Ok(Trace {
            root: directory.to_owned(),
            metadata,
            parts,
            streams,
        })
    }

    /// Finds stream files that were added since: they come behind the others, so that these keep
    /// their indices. The metadata stays as it was.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        for part in &mut self.parts {
            for file in &mut part.streams {
                // Found in what there was.
                file.walked = Arc::default();
            }
            for file in stream_files(&self.root, &part.directory)? {
                if !part.streams.iter().any(|known| known.path == file.path) {
                    part.streams.push(file);
                }
            }
        }
        let files = self.parts.iter().flat_map(|part| &part.streams);
        self.streams = files.map(|file| file.path.clone()).collect();
        Ok(())
    }

    /// The trace's metadata; for several traces, that of the first.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// Whether all traces have exactly the same metadata text.
    pub fn is_one(&self) -> bool {
        let text = |part: &Part| fs::read(part.directory.join("metadata")).ok();
        match self.parts.split_first() {
            Some((first, others)) if !others.is_empty() => {
                let wanted = text(first);
                others.iter().all(|other| text(other) == wanted)
            }
            _ => true,
        }
    }

    /// The traces, ordered by directory: one, unless the directory is a tree of several.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The stream files by name, which is also the order of events of the same time.
    pub fn stream_files(&self) -> &[PathBuf] {
        &self.streams
    }

    /// The stream names that items have, in the same order: file names relative to the opened
    /// directory.
    pub fn stream_names(&self) -> impl Iterator<Item = &str> {
        self.files().map(|(_, file)| file.name.as_str())
    }

    fn files(&self) -> impl Iterator<Item = (&Arc<Metadata>, &StreamFile)> {
        self.parts
            .iter()
            .flat_map(|part| part.streams.iter().map(|file| (&part.metadata, file)))
    }

    /// The stream files with their plans, which are compiled once for each trace.
    fn planned_files(&self) -> impl Iterator<Item = (Arc<Plans>, &StreamFile)> {
        self.parts.iter().flat_map(|part| {
            let plans = Plans::of(&part.metadata);
            part.streams
                .iter()
                .map(move |file| (Arc::clone(&plans), file))
        })
    }

    /// The traces' directories, relative to the opened one.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Path, &Arc<Metadata>)> {
        self.parts
            .iter()
            .map(|part| (self.relative(&part.directory), &part.metadata))
    }

    /// The stream files relative to the opened directory, with their lengths, in reading order.
    pub(crate) fn relative_files(&self) -> impl Iterator<Item = (&Arc<Metadata>, &Path, u64)> {
        self.files().map(|(metadata, file)| {
            let length = fs::metadata(&file.path).map_or(0, |file| file.len());
            (metadata, self.relative(&file.path), length)
        })
    }

    fn relative<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// All events and losses of all streams, in time order. Files are opened here and read as the
    /// iterator advances.
    ///
    /// Errors are items: a damaged stream yields one and continues with its next packet, if there
    /// is one.
    pub fn events(&self) -> Events {
        self.events_strictly(false)
    }

    /// All events and losses of all streams, in time order. If `strict`, every
    /// [problem](crate::Problem) is an error that ends its stream.
    pub fn events_strictly(&self, strict: bool) -> Events {
        Merge::new(
            self.planned_files()
                .map(|(plans, StreamFile { path, name, .. })| {
                    let file = File::open(path).map_err(|source| Error::Io {
                        path: path.clone(),
                        source,
                    })?;
                    let length = file.metadata().map_or(0, |file| file.len());
                    let index = fs::read(index_of(path)).unwrap_or_default();
                    Ok(StreamReader::planned(plans, name, file)
                        .strict(strict)
                        .index(&index, length))
                }),
        )
    }

    /// The bytes of all stream files as they are now, without a copy of most: the files are mapped
    /// into memory, but for the last 260 KiB of each.
    ///
    /// A trace that Kymo still records may be mapped: its recorder changes nothing further from a
    /// file's end. What it records later is not read. No program may rewrite or truncate what is
    /// mapped; tracers do not. Where one might, read by [`events`](Self::events).
    pub fn map(&self) -> TraceMap {
        let (mut streams, mut failed) = (Vec::new(), Vec::new());
        for (plans, file) in self.planned_files() {
            let (bytes, error) = match Mapped::open(&file.path) {
                Ok(bytes) => (Some(bytes), None),
                Err(error) => (None, Some(error)),
            };
            failed.extend(error);
            let length = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            let index = fs::read(index_of(&file.path))
                .ok()
                .and_then(|index| crate::stream::index::packets(&index, length));
            let index = index.unwrap_or_else(|| Arc::from([]));
            streams.push(MappedStream {
                plans,
                name: file.name.clone(),
                bytes,
                index,
                walked: Arc::clone(&file.walked),
            });
        }
        TraceMap { streams, failed }
    }
}

/// Path of the index file that LTTng writes for a stream file.
pub(crate) fn index_of(stream: &Path) -> PathBuf {
    let mut name = stream.file_name().unwrap_or_default().to_owned();
    name.push(".idx");
    stream.with_file_name("index").join(name)
}

/// Whether this is a directory; adds the traces in and below it to `found`.
fn find_parts(directory: &Path, found: &mut Vec<PathBuf>, depth: u32) -> Result<bool, Error> {
    let fail = |source| Error::Io {
        path: directory.to_owned(),
        source,
    };
    if !directory.is_dir() || depth > MAX_DEPTH {
        return Ok(false);
    }
    if directory.join("metadata").is_file() {
        found.push(directory.to_owned());
        return Ok(true);
    }
    for entry in fs::read_dir(directory).map_err(fail)? {
        find_parts(&entry.map_err(fail)?.path(), found, depth + 1)?;
    }
    Ok(true)
}

fn open_part(root: &Path, directory: &Path) -> Result<Part, Error> {
    let path = directory.join("metadata");
    let bytes = fs::read(&path).map_err(|source| Error::Io { path, source })?;
    Ok(Part {
        directory: directory.to_owned(),
        metadata: Arc::new(Metadata::from_bytes(&bytes)?),
        streams: stream_files(root, directory)?,
    })
}

/// The stream files in a directory, by name.
fn stream_files(root: &Path, directory: &Path) -> Result<Vec<StreamFile>, Error> {
    let fail = |source| Error::Io {
        path: directory.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b".") || name == b"metadata" {
            continue;
        }
        // A file that cannot be opened, such as a link to nothing, fails when the streams are
        // opened: the others can still be read.
        if fs::metadata(&path).map_or(true, |file| file.is_file()) {
            paths.push(path);
        }
    }
    paths.sort();
    let streams = paths.into_iter().map(|path| {
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        StreamFile {
            path,
            name,
            walked: Arc::default(),
        }
    });
    Ok(streams.collect())
}

/// A trace mapped into memory.
#[derive(Debug)]
pub struct TraceMap {
    streams: Vec<MappedStream>,
    failed: Vec<Error>,
}

#[derive(Debug)]
struct MappedStream {
    plans: Arc<Plans>,
    name: String,
    /// `None` if it could not be mapped.
    bytes: Option<Mapped>,
    index: Arc<[u64]>,
    walked: Arc<OnceLock<Option<Arc<[u64]>>>>,
}

impl TraceMap {
    /// Errors of the files that could not be mapped.
    pub fn failed(&self) -> &[Error] {
        &self.failed
    }

    /// Errors of the files that could not be mapped, consuming the map.
    pub fn into_failed(self) -> Vec<Error> {
        self.failed
    }

    /// The metadata, name and bytes of each stream.
    pub fn streams(&self) -> impl Iterator<Item = (&Arc<Metadata>, &str, &[u8])> {
        self.streams.iter().map(|stream| {
            (
                &stream.plans.metadata,
                stream.name.as_str(),
                stream.bytes.as_deref().unwrap_or(&[]),
            )
        })
    }

    /// Reads all streams in time order.
    pub fn read(&self) -> Reader<'_> {
        Reader::of(self.unread())
    }

    /// Time of the last event, in nanoseconds from the clock's origin; `None` if no event has a
    /// time. If packets have full 64-bit times, only the last packets are read.
    pub fn end_nanos(&self) -> Option<i128> {
        self.unread().filter_map(Stream::last_event_nanos).max()
    }

    /// Releases the memory of the stream at `place`, which was read to its end.
    pub(crate) fn read_through(&self, place: usize) {
        if let Some(bytes) = self.streams.get(place).and_then(|of| of.bytes.as_ref()) {
            bytes.read_through();
        }
    }

    /// The streams, before their first packets.
    pub(crate) fn unread(&self) -> impl Iterator<Item = Stream<Slice<'_>>> {
        self.streams.iter().map(|of| {
            let mut stream = Stream::new(
                Arc::clone(&of.plans),
                &of.name,
                Slice::new(of.bytes.as_deref().unwrap_or(&[])),
            );
            stream.index = Arc::clone(&of.index);
            stream.walked = Arc::clone(&of.walked);
            stream
        })
    }
}
