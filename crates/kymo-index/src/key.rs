//! Of which trace an index is.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use kymo_ctf::{Trace, TraceMap};
use xxhash_rust::xxh3::Xxh3;

use crate::error::Error;

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 16;
/// Blocks of a stream that are read.
const BLOCKS: usize = 64;

/// The identity of a trace's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u128);

impl Key {
    /// Of no trace.
    pub(crate) const NONE: Key = Key(0);

    /// The key of a trace: a hash (XXH3 of 128 bits) of its metadata and, for each stream, of its
    /// name, its length, and 64 blocks of 64 KiB that are spread over it, the first and the last
    /// among them. A longer stream that was changed in between, at the same length, has the same
    /// key.
    ///
    /// # Errors
    /// [`Error::Read`] if a metadata file cannot be read.
    pub fn of(trace: &Trace, map: &TraceMap) -> Result<Key, Error> {
        let mut hash = Xxh3::new();
        for part in trace.parts() {
            let path = part.directory.join("metadata");
            let read = fs::read(&path).map_err(|error| Error::Read { path, error });
            hash.update(&read?);
        }
        for (_, name, bytes) in map.streams() {
            hash.update(name.as_bytes());
            hash.update(&(bytes.len() as u64).to_le_bytes());
            let step = bytes.len().saturating_sub(BLOCK) / (BLOCKS - 1);
            let parts = (0..BLOCKS).map(|block| bytes.get(block * step..).unwrap_or_default());
            if step < BLOCK {
                hash.update(bytes);
            } else {
                parts.for_each(|part| hash.update(part.get(..BLOCK).unwrap_or(part)));
            }
        }
        Ok(Key(hash.digest128()))
    }

    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Where the index of this trace is kept in a folder.
    pub fn path_in(self, folder: &Path) -> PathBuf {
        folder.join(format!("{self}.kymo-index"))
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
