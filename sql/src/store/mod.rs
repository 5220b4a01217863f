//! Stores: the tables of many traces as Parquet files, so that a fleet is asked with the words for
//! one trace.
//!
//! A store is a directory with the file `kymo-store` and a folder for each trace,
//! `date=DATE/host=HOST/boot=BOOT`, as Hive names partitions. A folder has a Parquet file for each
//! table that has rows, with the columns of the table of a trace but `trace` and `time`, which
//! follow from the others; and `manifest.json`, which says what the files are. Beside each Parquet
//! file are its [checksums].
//!
//! Files are written in a folder that is no partition, the manifest last, and the folder gets its
//! name when all of it is on the disk: what has no manifest is no part of the store.

mod add;
mod checksums;
mod manifest;
mod table;

pub use add::{Added, Labels, Which};
#[cfg(feature = "cluster")]
pub(crate) use checksums::path;
pub(crate) use checksums::{Checked, url};

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::column::Holds;
use crate::table::Listed;
use manifest::Manifest;

/// The file that makes a directory a store. It has the version of the layout.
const MARK: &str = "kymo-store";
const MANIFEST: &str = "manifest.json";
/// The version of the layout and of the manifests.
pub(crate) const VERSION: u32 = 2;

/// A store that is open for queries: its manifests were read.
#[derive(Clone, Debug)]
pub struct Store {
    entries: Arc<[Entry]>,
    notes: Notes,
}

/// What queries have found missing, one sentence each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<BTreeSet<String>>>);

impl Notes {
    fn add(&self, sentence: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.insert(sentence);
    }
}

/// The folder of a trace.
#[derive(Debug)]
pub(crate) struct Entry {
    folder: PathBuf,
    manifest: Manifest,
}

/// Columns that tell the traces of a store apart. Each has one value in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    /// The host and the boot.
    Trace,
    Date,
    Host,
    Boot,
    Build,
}

impl Label {
    pub(crate) const ALL: [Label; 5] = [
        Label::Trace,
        Label::Date,
        Label::Host,
        Label::Boot,
        Label::Build,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Label::Trace => "trace",
            Label::Date => "date",
            Label::Host => "host",
            Label::Boot => "boot",
            Label::Build => "build",
        }
    }

    /// Its value in a folder; only `build` may be missing.
    fn of(self, manifest: &Manifest) -> Option<String> {
        match self {
            Label::Trace => Some(format!("{}/{}", manifest.host, manifest.boot)),
            Label::Date => Some(manifest.date.clone()),
            Label::Host => Some(manifest.host.clone()),
            Label::Boot => Some(manifest.boot.clone()),
            Label::Build => manifest.build.clone(),
        }
    }
}

impl Store {
    /// Whether a directory is a store.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        path.as_ref().join(MARK).is_file()
    }

    /// Opens the store in a directory.
    ///
    /// # Errors
    /// [`Error::Store`] if it is no store, or has another version, or a manifest cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, Error> {
        let path = path.as_ref();
        check_version(path)?;
        let (mut entries, all) = latest(entries(path)?);
        entries.sort_by(|one, other| one.folder.cmp(&other.folder));
        let notes = Notes::default();
        if let Some(more) = all.checked_sub(entries.len()).filter(|more| *more > 0) {
            notes.add(format!(
                "{more} of {all} folders of the store hold a trace that another one holds, too; \
                 the one that was written last is asked."
            ));
        }
        let damaged = entries.iter().filter(|entry| entry.manifest.is_damaged);
        let damaged = damaged.count();
        if damaged > 0 {
            notes.add(format!(
                "{damaged} of {} traces were damaged when they were added; the answer is of what \
                 could be read.",
                entries.len()
            ));
        }
        Ok(Store {
            entries: entries.into(),
            notes,
        })
    }

    /// What queries so far have found missing in the store, one sentence each, in order.
    pub fn notes(&self) -> Vec<String> {
        let notes = &self.notes.0;
        let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().cloned().collect()
    }

    /// Number of traces in it.
    pub fn traces(&self) -> usize {
        self.entries.len()
    }

    /// The builds in it, in order.
    pub fn builds(&self) -> BTreeSet<&str> {
        let builds = self.entries.iter();
        builds
            .filter_map(|entry| entry.manifest.build.as_deref())
            .collect()
    }

    pub(crate) fn tables(&self) -> Vec<Listed> {
        table::all(&self.entries, &self.notes)
    }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Error + use<'_> {
    move |error| Error::Store(format!("cannot read {}: {error}", path.display()))
}

fn check_version(path: &Path) -> Result<(), Error> {
    let mark = path.join(MARK);
    let text = match fs::read_to_string(&mark) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let sentence = format!(
                "{} is no store; kymo query --into makes one",
                path.display()
            );
            return Err(Error::Store(sentence));
        }
        Err(error) => return Err(unreadable(&mark)(error)),
    };
    match text.trim().parse() {
        Ok(VERSION) => Ok(()),
        _ => Err(Error::Store(format!(
            "{} says version {:?}, and this program knows version {VERSION}; make a new store",
            mark.display(),
            text.trim()
        ))),
    }
}

/// The folders with manifests.
fn entries(path: &Path) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for folder in folders(path).map_err(unreadable(path))? {
        if let Some(manifest) = Manifest::read(&folder)? {
            entries.push(Entry { folder, manifest });
        }
    }
    Ok(entries)
}

/// Keeps one folder for each trace and each boot of a host: the one that was written last. Also
/// gives the number of all folders. A writer that was ended before it removed what it replaced
/// leaves several, and so do stores that were copied into each other.
fn latest(mut entries: Vec<Entry>) -> (Vec<Entry>, usize) {
    let all = entries.len();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.manifest.written));
    let (mut keys, mut traces) = (BTreeSet::new(), BTreeSet::new());
    entries.retain(|entry| {
        let is_new = keys.insert(entry.manifest.key.clone());
        traces.insert(Label::Trace.of(&entry.manifest)) && is_new
    });
    (entries, all)
}

/// The folders of traces, complete or not. Those whose names begin with a dot are no partitions.
fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut level = vec![path.to_owned()];
    for label in [Label::Date, Label::Host, Label::Boot] {
        let mut next = Vec::new();
        for folder in level {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name
                    .to_str()
                    .and_then(|name| name.strip_prefix(label.name()));
                if name.is_some_and(|rest| rest.starts_with('=')) {
                    next.push(entry.path());
                }
            }
        }
        level = next;
    }
    Ok(level)
}
