//! A directory with one table for each kind of event.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use kymo_ctf::{Event, Item, Loss, LossKind};

use crate::column::{Column, columns};
use crate::csv;
use crate::value::Note;
use crate::{Error, Export};

/// A file of events of one kind.
pub(crate) trait Table: Sized {
    /// Where the file of the events of this name is. `number` tells kinds of one name apart, from
    /// 0.
    fn path(name: &str, number: usize) -> PathBuf;
    fn create(path: &Path, columns: Vec<Column>) -> io::Result<Self>;
    fn add(&mut self, event: &Event) -> io::Result<()>;
    fn finish(self) -> io::Result<()>;
}

/// What the losses are written to. No event's file begins with an underscore.
const LOSSES: &str = "_losses.csv";
const LOSSES_HEAD: [&str; 7] = [
    "stream", "cpu", "kind", "count", "begin_ns", "end_ns", "error",
];

pub(crate) struct Folder<T> {
    path: PathBuf,
    /// By ids of stream class and event.
    tables: HashMap<(u64, u64), (PathBuf, T)>,
    /// How many kinds have each name so far.
    names: HashMap<String, usize>,
    losses: BufWriter<File>,
}

impl<T: Table> Folder<T> {
    pub(crate) fn create(path: &Path) -> Result<Folder<T>, Error> {
        fs::create_dir_all(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Occupied(path.to_owned()),
            _ => Error::write(path)(source),
        })?;
        if fs::read_dir(path)
            .map_err(Error::write(path))?
            .next()
            .is_some()
        {
            return Err(Error::Occupied(path.to_owned()));
        }
        let file = path.join(LOSSES);
        let mut losses = File::create(&file)
            .map(BufWriter::new)
            .map_err(Error::write(&file))?;
        let head = csv::row(LOSSES_HEAD.map(|name| Some(Note::Text(name.into()))));
        losses
            .write_all(head.as_bytes())
            .map_err(Error::write(&file))?;
        Ok(Folder {
            path: path.to_owned(),
            tables: HashMap::new(),
            names: HashMap::new(),
            losses,
        })
    }

    fn event(&mut self, event: &Event) -> Result<(), Error> {
        let key = (event.class.stream_id, event.class.id);
        if !self.tables.contains_key(&key) {
            let number = self.names.entry(event.name().to_owned()).or_default();
            let path = self.path.join(T::path(&file_name(event.name()), *number));
            *number += 1;
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            let table =
                made.and_then(|()| T::create(&path, columns(&event.packet.class, &event.class)));
            self.tables
                .insert(key, (path.clone(), table.map_err(Error::write(&path))?));
        }
        match self.tables.get_mut(&key) {
            Some((path, table)) => table.add(event).map_err(Error::write(path)),
            None => Ok(()),
        }
    }

    fn loss(&mut self, row: [Option<Note<'_>>; 7]) -> Result<(), Error> {
        self.losses
            .write_all(csv::row(row).as_bytes())
            .map_err(Error::write(&self.path.join(LOSSES)))
    }
}

impl<T: Table> Export for Folder<T> {
    fn add(&mut self, item: &Item) -> Result<(), Error> {
        match item {
            Item::Event(event) => self.event(event),
            Item::Loss(Loss {
                stream,
                cpu,
                kind,
                count,
                begin_nanos,
                end_nanos,
                ..
            }) => {
                let kind = match kind {
                    LossKind::Events => "events",
                    LossKind::Packets => "packets",
                };
                let nanos =
                    |nanos: &Option<i128>| nanos.map(|nanos| Note::Text(nanos.to_string().into()));
                self.loss([
                    Some(Note::Text((&**stream).into())),
                    cpu.map(Note::Unsigned),
                    Some(Note::Text(kind.into())),
                    Some(Note::Unsigned(*count)),
                    nanos(begin_nanos),
                    nanos(end_nanos),
                    None,
                ])
            }
            _ => Ok(()),
        }
    }

    fn damaged(&mut self, error: &kymo_ctf::Error) -> Result<(), Error> {
        let stream = match error {
            kymo_ctf::Error::Stream { file, .. } => Some(Note::Text(file.as_str().into())),
            _ => None,
        };
        let damage = Some(Note::Text("damage".into()));
        self.loss([
            stream,
            None,
            damage,
            None,
            None,
            None,
            Some(Note::Text(error.to_string().into())),
        ])
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        self.losses
            .flush()
            .map_err(Error::write(&self.path.join(LOSSES)))?;
        for (path, table) in self.tables.into_values() {
            table.finish().map_err(Error::write(&path))?;
        }
        Ok(())
    }
}

/// The name with everything but letters, digits, `_`, `-` and inner dots as `%XX`, as in addresses;
/// so is an underscore at the beginning.
fn file_name(name: &str) -> String {
    let mut text = String::new();
    for (index, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric()
            || byte == b'-'
            || (index > 0 && (byte == b'_' || byte == b'.'));
        let _ = if plain {
            write!(text, "{}", char::from(byte))
        } else {
            write!(text, "%{byte:02X}")
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn no_name_leaves_the_directory_or_meets_another() {
        assert_eq!(file_name("sched_switch"), "sched_switch");
        assert_eq!(file_name("../a:b"), "%2E.%2Fa%3Ab");
        assert_eq!(file_name("_losses"), "%5Flosses");
        assert_eq!(file_name("a%b"), "a%25b");
    }
}
