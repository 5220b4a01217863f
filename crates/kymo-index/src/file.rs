//! The file: blocks, one behind another, and a table of them at the end.
//!
//! Every block has its kind, its length and a checksum. A file without a whole table was not
//! finished, and is made anew. `docs/src/index-format.md` has the layout.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::code::Coded;
use crate::error::Error;
use crate::key::Key;
use crate::registry::Registry;

/// The first bytes.
const MAGIC: [u8; 8] = *b"kymo-idx";
/// Changes with everything that is written differently, the state in checkpoints included.
const VERSION: u32 = 5;
/// Of the table's place, at the end.
const TAIL: u64 = 16;

/// Most bytes of a block that was compressed.
const MOST_UNPACKED: u64 = 1 << 30;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    offset: u64,
    length: u64,
    checksum: u64,
}

/// What lies between two checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Where it begins, in nanoseconds of the timeline.
    pub(crate) begin: u64,
    /// Number of events in it.
    pub(crate) events: u64,
    /// The state at its beginning.
    pub(crate) checkpoint: Place,
}

/// What the file has, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// The timeline's origin, in nanoseconds from the clock's.
    pub(crate) origin: i128,
    /// Where the timeline ends.
    pub(crate) end: u64,
    pub(crate) chunks: Vec<Chunk>,
    /// Parts of the pyramid by level. One of a level stands for as many chunks as
    /// [`chunks_in`](crate::build::chunks_in) says, the last one for the rest.
    pub(crate) levels: Vec<Vec<Place>>,
    pub(crate) registry: Registry,
    /// What of the trace could not be read, a sentence each.
    pub(crate) damage: Vec<String>,
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    offset: u64,
}

impl Writer {
    pub(crate) fn create(path: &Path, key: &Key) -> Result<Writer, Error> {
        let failed = |error| Error::Write {
            path: path.to_owned(),
            error,
        };
        let file = File::create(path).map_err(failed)?;
        let mut writer = Writer {
            path: path.to_owned(),
            file: BufWriter::with_capacity(1 << 18, file),
            offset: 0,
        };
        let head = [&MAGIC[..], &VERSION.to_le_bytes(), &key.bytes()].concat();
        writer.write(&head)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.offset += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|error| Error::Write {
            path: self.path.clone(),
            error,
        })
    }

    /// Appends a block.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> Result<Place, Error> {
        let place = Place {
            offset: self.offset,
            length: bytes.len() as u64,
            checksum: xxh3_64(bytes),
        };
        self.write(bytes)?;
        Ok(place)
    }

    /// Appends a block, compressed.
    pub(crate) fn packed(&mut self, bytes: &[u8]) -> Result<Place, Error> {
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
        let packed = packed.write_all(bytes).and_then(|()| packed.finish());
        let packed = packed.map_err(|error| Error::Keep(error.to_string()))?;
        self.block(&packed)
    }

    /// Makes the blocks so far readable.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|error| Error::Write {
            path: self.path.clone(),
            error,
        })
    }

    /// Ends the file with its table.
    pub(crate) fn finish(mut self, table: &Table) -> Result<(), Error> {
        let bytes = to_bytes(table)?;
        let place = self.block(&bytes)?;
        self.write(&place.offset.to_le_bytes())?;
        self.write(&place.checksum.to_le_bytes())?;
        self.flush()
    }
}

/// A file whose blocks are read.
#[derive(Debug)]
pub(crate) struct Blocks {
    path: PathBuf,
    file: Mutex<File>,
}

impl Blocks {
    /// A file of which not all is written yet.
    pub(crate) fn of(path: &Path) -> Result<Blocks, Error> {
        let file = File::open(path).map_err(|error| Error::Read {
            path: path.to_owned(),
            error,
        })?;
        Ok(Blocks {
            path: path.to_owned(),
            file: Mutex::new(file),
        })
    }

    /// A finished file, and its table. `None` if there is none, or it is of another trace or
    /// version, or was not finished.
    pub(crate) fn open(path: &Path, key: &Key) -> Result<Option<(Blocks, Table)>, Error> {
        if !path.exists() {
            return Ok(None);
        }
        let blocks = Blocks::of(path)?;
        let head = [&MAGIC[..], &VERSION.to_le_bytes(), &key.bytes()].concat();
        let Some(length) = blocks.length()? else {
            return Ok(None);
        };
        let Some(end) = length.checked_sub(TAIL) else {
            return Ok(None);
        };
        if blocks.at(0, head.len().min(end as usize))? != head {
            return Ok(None);
        }
        let tail = blocks.at(end, TAIL as usize)?;
        let (offset, checksum) = tail.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let (offset, checksum) = (number(offset), number(checksum));
        let Some(length) = end.checked_sub(offset) else {
            return Ok(None);
        };
        let bytes = blocks.at(offset, length as usize)?;
        if xxh3_64(&bytes) != checksum {
            return Ok(None);
        }
        let table: Option<Table> = postcard::from_bytes(&bytes).ok();
        Ok(table.map(|mut table| {
            table.registry = std::mem::take(&mut table.registry).with_tables();
            (blocks, table)
        }))
    }

    fn length(&self) -> Result<Option<u64>, Error> {
        let file = self.file.lock();
        let Ok(file) = file else { return Ok(None) };
        let metadata = file.metadata().map_err(|error| self.failed(error))?;
        Ok(Some(metadata.len()))
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Read {
            path: self.path.clone(),
            error,
        }
    }

    fn at(&self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let Ok(mut file) = self.file.lock() else {
            return Err(self.damaged("another thread failed while it read it"));
        };
        let mut bytes = Vec::with_capacity(length.min(1 << 24));
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| {
            let mut part = Read::by_ref(&mut *file).take(length as u64);
            part.read_to_end(&mut bytes)
        });
        read.map_err(|error| self.failed(error))?;
        Ok(bytes)
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            what,
        }
    }

    /// The bytes of a block.
    pub(crate) fn block(&self, place: &Place) -> Result<Vec<u8>, Error> {
        let bytes = self.at(place.offset, place.length as usize)?;
        match xxh3_64(&bytes) == place.checksum {
            true => Ok(bytes),
            false => Err(self.damaged("a block has another checksum")),
        }
    }

    /// The bytes of a compressed block.
    pub(crate) fn packed(&self, place: &Place) -> Result<Vec<u8>, Error> {
        let packed = self.block(place)?;
        let mut bytes = Vec::new();
        let mut from = DeflateDecoder::new(packed.as_slice()).take(MOST_UNPACKED);
        match from.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(_) => Err(self.damaged("a block cannot be decompressed")),
        }
    }

    /// The part of the timeline in a block.
    pub(crate) fn part(&self, place: &Place) -> Result<Coded, Error> {
        Coded::new(self.block(place)?).ok_or_else(|| self.no_part())
    }

    /// The error that the bytes of a part are none.
    pub(crate) fn no_part(&self) -> Error {
        self.damaged("a block is no part of a timeline")
    }
}

/// The bytes of a value.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    postcard::to_stdvec(value).map_err(|error| Error::Keep(error.to_string()))
}
