//! Adding traces to a store.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, NaiveDate};
use kymo_ctf::{EnvValue, Metadata};
use kymo_index::Key;
use rustix::fs::{CWD, RenameFlags};

use super::checksums;
use super::manifest::{Manifest, Stored, StoredFile};
use super::table::{TIMES, is_in_file};
use super::{Entry, Label, MARK, Store, VERSION, check_version, folders, unreadable};
use crate::table::{self, EVENT, Listed};
use crate::traces::Opened;
use crate::{Answer, Error, Format, Limits, Output, Session, Traces};

/// What a trace does not say of itself. Of a trace that is in the store, a label that is not given
/// stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// The machine; by default the trace's `hostname`, or else `unknown`.
    pub host: Option<String>,
    /// What ran on it; by default the trace's `build_id`, or else null.
    pub build: Option<String>,
    /// The boot; by default the trace's UUID, of which Kymo and LTTng have one for each session, or
    /// else [`kymo_index::Key`].
    pub boot: Option<String>,
    /// The day, as 2026-11-27; by default that on which the trace begins (UTC), if its clock counts
    /// from 1970, or else that on which its metadata was written.
    pub date: Option<String>,
}

/// What of a trace is added.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// The names of the tables; without any, all of them.
    pub tables: Vec<String>,
    /// Write the trace again where it is in the store, and replace another trace of the same boot
    /// of the same host.
    pub replace: bool,
}

/// What became of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in the store now.
    New {
        /// Rows of all tables.
        rows: u64,
        /// Bytes of all files.
        bytes: u64,
    },
    /// The store had it, with these labels and tables.
    Present,
}

/// How folders begin in which files are written.
const NEW: &str = ".new-";
/// The file whose holder alone gives folders their names, and removes them.
const LOCK: &str = ".lock";
/// Times from here on count from 1970: 2000-01-01, in nanoseconds.
const YEAR_2000: i128 = 946_684_800_000_000_000;
/// The longest name of a file, in bytes, without what is behind it.
const LONGEST: usize = 180;

impl Store {
    /// Adds the tables of one trace to the store in a directory, which is made if it is new or
    /// empty. A trace that is in it is written again if labels or tables are given that it does not
    /// have; the tables that it has stay.
    ///
    /// If the program is ended before the call returns, the store has what it had, or all that is
    /// new.
    ///
    /// # Errors
    /// [`Error::Store`] if the directory is something else or has another trace of the boot,
    /// [`Error::Query`] for several traces, a label or a table that cannot be, and those of
    /// [`Session::ask`](crate::Session::ask).
    pub fn add(
        path: impl AsRef<Path>,
        traces: &Traces,
        labels: &Labels,
        which: &Which,
        limits: Limits,
    ) -> Result<Added, Error> {
        let path = path.as_ref();
        let [opened] = &*traces.all else {
            let sentence = "traces are added one by one: each has its own labels";
            return Err(Error::Query(sentence.to_owned()));
        };
        let given = labels.checked()?;
        let tables = table::of_traces(traces);
        let unknown = which.tables.iter();
        let mut unknown = unknown.filter(|name| tables.iter().all(|table| table.name != **name));
        if let Some(name) = unknown.next() {
            let sentence = format!("there is no table {name}; `show tables` lists them");
            return Err(Error::Query(sentence));
        }
        create(path)?;
        let adding = Adding {
            path,
            traces,
            opened,
            given,
            which,
            limits,
        };
        adding.run(tables)
    }
}

/// Makes the directory a store, if it is new or empty.
fn create(path: &Path) -> Result<(), Error> {
    if Store::is_at(path) {
        return check_version(path);
    }
    fs::create_dir_all(path).map_err(Error::write(path))?;
    let mut entries = fs::read_dir(path).map_err(unreadable(path))?;
    let is_other = |name: &str| !name.starts_with(MARK) && !name.starts_with('.');
    let is_used = entries
        .any(|entry| entry.is_ok_and(|entry| is_other(&entry.file_name().to_string_lossy())));
    if is_used && !Store::is_at(path) {
        let sentence = "it has other files, and no file kymo-store; give a new directory";
        return Err(Error::Store(format!(
            "{} is no store: {sentence}",
            path.display()
        )));
    }
    // Of several that do this at once, each writes the same.
    let part = path.join(format!("{MARK}.{}", std::process::id()));
    let written = fs::write(&part, format!("{VERSION}\n"));
    written
        .and_then(|()| fs::rename(&part, path.join(MARK)))
        .map_err(Error::write(&part))
}

/// A trace on its way into a store.
struct Adding<'t> {
    path: &'t Path,
    traces: &'t Traces,
    opened: &'t Opened,
    given: Labels,
    which: &'t Which,
    limits: Limits,
}

impl Adding<'_> {
    fn run(&self, tables: Vec<Listed>) -> Result<Added, Error> {
        let key = Key::of(&self.opened.trace, &self.opened.map);
        let key = key.map_err(|error| Error::Store(format!("{}: {error}", self.opened.name)))?;
        let key = key.to_string();
        // What is damaged or of another version cannot be asked, and is written anew.
        let there = self
            .folders()?
            .into_iter()
            .filter(|of| of.manifest.key == key);
        let there = there.max_by_key(|of| of.manifest.written);
        let known = there.as_ref().map(|of| &of.manifest);
        let mut manifest = self.manifest(&key, known)?;
        let tables = self.chosen(tables, known);
        let has_files = there
            .as_ref()
            .is_some_and(|of| of.manifest.has_files(&of.folder));
        let is_same = known.filter(|_| has_files).is_some_and(|known| {
            let has = |table: &Listed| {
                let mut stored = known.tables.iter();
                stored.any(|of| of.name == table.name && of.schema == table.schema)
            };
            let labels = |of: &Manifest| Label::ALL.map(|label| label.of(of));
            labels(known) == labels(&manifest) && tables.iter().all(has)
        });
        if is_same && !self.which.replace {
            return Ok(Added::Present);
        }
        self.refuse_another(&manifest)?;

        let new = Staged::new(self.path)?;
        let all = tables.len();
        self.write(&tables, &new.folder, &mut manifest)?;
        manifest.is_partial = all < table::of_traces(self.traces).len();
        manifest.is_damaged = !self.traces.damage().is_empty();
        manifest.notes = self.traces.notes();
        self.publish(new, &mut manifest)?;
        let (rows, bytes) = manifest.files().fold((0, 0), |(rows, bytes), file| {
            (rows + file.rows, bytes + file.bytes)
        });
        Ok(Added::New { rows, bytes })
    }

    /// The folders whose manifests can be read.
    fn folders(&self) -> Result<Vec<Entry>, Error> {
        let folders = folders(self.path).map_err(unreadable(self.path))?;
        let read = folders.into_iter().filter_map(|folder| {
            let manifest = Manifest::read(&folder).ok().flatten()?;
            Some(Entry { folder, manifest })
        });
        Ok(read.collect())
    }

    /// The manifest, but for what the files are.
    fn manifest(&self, key: &str, known: Option<&Manifest>) -> Result<Manifest, Error> {
        let (given, metadata) = (&self.given, self.opened.trace.metadata());
        let label = |given: &Option<String>, label: Label, name: &str| {
            let known = known.and_then(|known| label.of(known));
            given
                .clone()
                .or(known)
                .or_else(|| environment(metadata, name))
        };
        let date = given.date.clone();
        let date = date.or_else(|| known.map(|known| known.date.clone()));
        let boot = label(&given.boot, Label::Boot, "").or_else(|| uuid(metadata));
        Ok(Manifest {
            version: VERSION,
            key: key.to_owned(),
            date: date.map_or_else(|| day(self.opened), Ok)?,
            host: label(&given.host, Label::Host, "hostname")
                .unwrap_or_else(|| "unknown".to_owned()),
            boot: boot.unwrap_or_else(|| key.to_owned()),
            build: label(&given.build, Label::Build, "build_id"),
            written: 0,
            is_damaged: false,
            is_partial: false,
            notes: Vec::new(),
            tables: Vec::new(),
            crc32: 0,
        })
    }

    /// The tables that are asked for, and those that the store has.
    fn chosen(&self, all: Vec<Listed>, known: Option<&Manifest>) -> Vec<Listed> {
        let only = &self.which.tables;
        let is_known = |table: &Listed| {
            let stored = known.iter().flat_map(|known| &known.tables);
            let mut stored = stored.filter(|of| of.schema == table.schema);
            stored.any(|of| of.name == table.name)
        };
        let is_chosen =
            |table: &Listed| only.is_empty() || only.contains(&table.name) || is_known(table);
        all.into_iter().filter(is_chosen).collect()
    }

    /// Whether a folder is of the trace, or of the same boot of the same host.
    fn is_replaced(folder: &Manifest, by: &Manifest) -> bool {
        folder.key == by.key || Label::Trace.of(folder) == Label::Trace.of(by)
    }

    /// Refuses to replace what another trace has added for the boot.
    fn refuse_another(&self, manifest: &Manifest) -> Result<(), Error> {
        if self.which.replace {
            return Ok(());
        }
        let folders = self.folders()?;
        let another = folders.iter().find(|of| {
            Adding::is_replaced(&of.manifest, manifest) && of.manifest.key != manifest.key
        });
        match another {
            None => Ok(()),
            Some(another) => Err(Error::Store(format!(
                "{} is of another trace; give --replace if it is the same session, or else --boot \
                 NAME",
                another.folder.display()
            ))),
        }
    }

    fn write(
        &self,
        tables: &[Listed],
        folder: &Path,
        manifest: &mut Manifest,
    ) -> Result<(), Error> {
        let session = Session::new(self.traces, self.limits)?;
        // Most traces declare many events that they do not have.
        let names = "select arrow_cast(name, 'Utf8') from events group by name";
        let events = session.texts(names)?;
        for (number, table) in tables.iter().enumerate() {
            let has_rows = !table.is_of_event || events.contains(&table.name);
            let file = match has_rows {
                true => write(&session, table, folder, number)?,
                false => None,
            };
            manifest.tables.push(Stored {
                schema: table.schema.to_owned(),
                name: table.name.clone(),
                columns: table.columns.clone(),
                file,
            });
        }
        Ok(())
    }

    /// Makes a written folder a part of the store, in place of those of the same trace or boot.
    fn publish(&self, mut new: Staged, manifest: &mut Manifest) -> Result<(), Error> {
        let _lock = lock(self.path)?;
        // Another program may have added one meanwhile.
        self.refuse_another(manifest)?;
        let replaced = self.folders()?.into_iter();
        let replaced = replaced.filter(|of| Adding::is_replaced(&of.manifest, manifest));
        let replaced: Vec<Entry> = replaced.collect();
        // (Clocks may step back.)
        let last = replaced.iter().map(|of| of.manifest.written).max();
        manifest.written = now().max(last.map_or(0, |last| last + 1));
        manifest
            .write(&new.folder)
            .map_err(Error::write(&new.folder))?;

        let labels = [Label::Date, Label::Host, Label::Boot].into_iter();
        let place = labels.fold(self.path.to_owned(), |folder, label| {
            let value = label.of(manifest).unwrap_or_default();
            folder.join(format!("{}={}", label.name(), kymo_text::file_name(&value)))
        });
        let parent = place.parent().unwrap_or(self.path);
        fs::create_dir_all(parent).map_err(Error::write(parent))?;
        let moved = match place.exists() {
            true => exchange(&new.folder, &place),
            false => fs::rename(&new.folder, &place),
        };
        moved.map_err(Error::write(&place))?;
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(Error::write(parent))?;
        // Until they are gone, readers know by `written` which one counts.
        for old in replaced.iter().filter(|of| of.folder != place) {
            fs::remove_dir_all(&old.folder).map_err(Error::write(&old.folder))?;
            // The host's folder and the day's, if they are empty now.
            for parent in old.folder.ancestors().skip(1).take(2) {
                let _ = fs::remove_dir(parent);
            }
        }
        new.remove();
        Ok(())
    }
}

/// Gives a folder the place of another one, at once where the system can, and else with a moment in
/// between in which there is none.
fn exchange(new: &Path, place: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            let mut old = new.as_os_str().to_owned();
            old.push(".old");
            fs::rename(place, &old)?;
            fs::rename(new, place)?;
            fs::remove_dir_all(old)
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits until no other program gives folders of the store their names.
fn lock(path: &Path) -> Result<File, Error> {
    let path = path.join(LOCK);
    let file = File::create(&path).map_err(Error::write(&path))?;
    file.lock().map_err(Error::write(&path))?;
    Ok(file)
}

/// A folder in which files are written. It is this program's as long as it holds the lock of the
/// file beside it.
struct Staged {
    folder: PathBuf,
    file: PathBuf,
    _lock: File,
}

impl Staged {
    /// A new folder. Those of programs that were ended are removed.
    fn new(path: &Path) -> Result<Staged, Error> {
        let _lock = lock(path)?;
        let is_lock = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with(NEW) && name.ends_with(LOCK))
        };
        let entries = fs::read_dir(path).map_err(unreadable(path))?;
        let entries = entries.flatten().map(|entry| entry.path());
        for file in entries.filter(is_lock) {
            let held = File::open(&file).map_err(unreadable(&file))?;
            match held.try_lock() {
                Ok(()) => Staged::of(file, held).remove(),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(Error::write(&file)(error)),
            }
        }
        let name = format!("{NEW}{}-{}{LOCK}", std::process::id(), now());
        let file = path.join(name);
        let held = File::create(&file).map_err(Error::write(&file))?;
        held.lock().map_err(Error::write(&file))?;
        let staged = Staged::of(file, held);
        fs::create_dir(&staged.folder).map_err(Error::write(&staged.folder))?;
        Ok(staged)
    }

    fn of(file: PathBuf, lock: File) -> Staged {
        Staged {
            folder: file.with_extension(""),
            file,
            _lock: lock,
        }
    }

    /// Removes the folder, if it has not become part of the store, and what an exchange has left.
    fn remove(&mut self) {
        // What cannot be removed is no part of the store; the next program tries again.
        let _ = fs::remove_dir_all(&self.folder);
        let mut old = self.folder.as_os_str().to_owned();
        old.push(".old");
        let _ = fs::remove_dir_all(old);
        let _ = fs::remove_file(&self.file);
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Nanoseconds from 1970.
fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Labels {
    /// The labels, if they can be.
    fn checked(&self) -> Result<Labels, Error> {
        let named = [
            ("host", &self.host),
            ("build", &self.build),
            ("boot", &self.boot),
        ];
        for (name, given) in named {
            let is_text = |text: &String| !text.is_empty() && !text.chars().any(char::is_control);
            if !given.iter().all(is_text) {
                let sentence = format!("--{name} takes a text without control characters");
                return Err(Error::Query(sentence));
            }
        }
        let date = self.date.as_ref().map(|given| {
            let day = NaiveDate::parse_from_str(given, "%Y-%m-%d");
            let day = day.map_err(|_| {
                let sentence = format!("--date {given}: give a day such as 2026-11-27");
                Error::Query(sentence)
            })?;
            Ok::<String, Error>(day.to_string())
        });
        Ok(Labels {
            date: date.transpose()?,
            ..self.clone()
        })
    }
}

/// A text in the trace's environment.
fn environment(metadata: &Metadata, name: &str) -> Option<String> {
    let mut found = metadata.env().iter();
    match found.find(|(of, _)| of == name) {
        Some((_, EnvValue::Text(text))) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

fn uuid(metadata: &Metadata) -> Option<String> {
    let uuid = metadata.trace().uuid?;
    Some(uuid.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The day of a trace.
fn day(opened: &Opened) -> Result<String, Error> {
    let begin = opened.map.read().begin_nanos();
    let nanos = match begin.filter(|begin| *begin >= YEAR_2000) {
        Some(begin) => i64::try_from(begin).unwrap_or(i64::MAX),
        None => {
            let parts = opened.trace.parts().first();
            let metadata = parts.map(|part| part.directory.join("metadata"));
            let metadata = metadata.unwrap_or_default();
            let written = fs::metadata(&metadata).and_then(|of| of.modified());
            let written = written.map_err(unreadable(&metadata))?;
            let since = written.duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        }
    };
    Ok(DateTime::from_timestamp_nanos(nanos)
        .date_naive()
        .to_string())
}

/// Writes the rows of a table, which is the trace's of this number; none, no file.
fn write(
    session: &Session,
    table: &Listed,
    folder: &Path,
    number: usize,
) -> Result<Option<StoredFile>, Error> {
    let mut name = kymo_text::file_name(&table.name);
    if name.len() > LONGEST {
        name.truncate(LONGEST);
        name.push_str(&format!("~{number}"));
    }
    // No name of a file begins so.
    let prefix = if table.schema == EVENT { "_event." } else { "" };
    let name = format!("{prefix}{name}.parquet");
    let path = folder.join(&name);
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns = table.columns.iter().map(|(name, _)| name.as_str());
    let left_out = columns.filter(|name| !is_in_file(name)).map(quoted);
    let mut sql = format!(
        "select * exclude ({}) from {}.{}",
        left_out.collect::<Vec<_>>().join(", "),
        table.schema,
        quoted(&table.name)
    );
    let order = TIMES
        .iter()
        .find(|order| table.columns.iter().any(|(name, _)| name == *order));
    if let Some(order) = order.filter(|_| !table.is_in_order) {
        sql.push_str(&format!(" order by {}", quoted(order)));
    }
    let (mut output, mut rows) = (Output::new(Format::Parquet, Some(&path))?, 0);
    session.ask(&sql, &[], &mut |answer| {
        if let Answer::Rows(batch) = &answer {
            rows += batch.num_rows() as u64;
        }
        output.take(answer)
    })?;
    if rows == 0 {
        return Ok(None);
    }
    output.finish()?;
    let synced = File::open(&path).and_then(|file| {
        file.sync_all()?;
        Ok((file.metadata()?.len(), checksums::write(&path)?))
    });
    let (bytes, checksums) = synced.map_err(Error::write(&path))?;
    Ok(Some(StoredFile {
        name,
        rows,
        bytes,
        checksums,
    }))
}
