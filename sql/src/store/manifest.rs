//! What the files of a trace's folder are.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checksums;
use super::{Holds, MANIFEST, VERSION, unreadable};
use crate::Error;

/// The manifest of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of the layout.
    pub(crate) version: u32,
    /// What tells the trace from others: [`kymo_index::Key`].
    pub(crate) key: String,
    pub(crate) date: String,
    pub(crate) host: String,
    pub(crate) boot: String,
    pub(crate) build: Option<String>,
    /// When it was written, in nanoseconds from 1970.
    pub(crate) written: u64,
    /// Whether something of the trace could not be read.
    pub(crate) is_damaged: bool,
    /// Whether tables of the trace were left out.
    pub(crate) is_partial: bool,
    /// What was missing beside the trace, such as a kernel's file.
    pub(crate) notes: Vec<String>,
    /// The tables of the trace, also those without rows.
    pub(crate) tables: Vec<Stored>,
    /// CRC-32 of the others.
    pub(crate) crc32: u32,
}

/// A table of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) schema: String,
    pub(crate) name: String,
    /// The columns in the file, in their order.
    pub(crate) columns: Vec<(String, Holds)>,
    /// `None` for a table without rows.
    pub(crate) file: Option<StoredFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    /// Its name in the folder.
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// CRC-32 of the file with its checksums.
    pub(crate) checksums: u32,
}

/// What is read of a manifest of any version.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Manifest {
    /// The manifest of a folder, if it has one.
    pub(crate) fn read(folder: &Path) -> Result<Option<Manifest>, Error> {
        let path = folder.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&path)(error)),
        };
        let said = serde_json::from_slice(&text).ok();
        if let Some(Version { version }) = said.filter(|of: &Version| of.version != VERSION) {
            return Err(Error::Store(format!(
                "{} has version {version}, and this program knows version {VERSION}; add its \
                 trace again, or remove its folder",
                path.display()
            )));
        }
        let manifest = serde_json::from_slice(&text).ok();
        let is_whole = |of: &Manifest| of.crc32().is_ok_and(|crc32| crc32 == of.crc32);
        match manifest.filter(is_whole) {
            Some(manifest) => Ok(Some(manifest)),
            None => Err(Error::Store(format!(
                "{} is damaged; add its trace again with the same labels, or remove its folder",
                path.display()
            ))),
        }
    }

    /// CRC-32 of all but this number itself.
    fn crc32(&self) -> io::Result<u32> {
        let others = Manifest {
            crc32: 0,
            ..self.clone()
        };
        Ok(crc32fast::hash(&serde_json::to_vec(&others)?))
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &StoredFile> {
        self.tables.iter().filter_map(|of| of.file.as_ref())
    }

    /// Whether the folder has all files, at their lengths, and their checksums.
    pub(crate) fn has_files(&self, folder: &Path) -> bool {
        self.files().all(|file| {
            let there = fs::metadata(folder.join(&file.name));
            there.is_ok_and(|there| there.len() == file.bytes)
                && checksums::are_there(&folder.join(&file.name), file.checksums)
        })
    }

    /// Writes it to the disk, after which the folder is complete.
    pub(crate) fn write(&mut self, folder: &Path) -> io::Result<()> {
        self.crc32 = self.crc32()?;
        let mut file = File::create(folder.join(MANIFEST))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        File::open(folder)?.sync_all()
    }
}
