//! A directory with one table per kind of event.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_ctf::{Consequence, EventRef, ItemRef, Loss, LossKind, Metadata, TraceMap};
use kymo_profile::Profile;

use crate::csv::Line;
use crate::derived::Derived;
use crate::part::PartFile;
use crate::{Error, Export};
use kymo_rows::{Cells, Column, Row, columns};
use kymo_text::file_name;

/// A file with the events of one kind.
pub(crate) trait Table: Sized {
    /// The file for events of this name. `number` distinguishes kinds of the same name, from 0.
    fn path(name: &str, number: usize) -> PathBuf;
    /// The file for rows that are no events. No event's file begins with an underscore.
    fn derived(name: &str) -> PathBuf;
    fn create(path: &Path, columns: Vec<Column>, row: Row) -> io::Result<Self>;
    fn add(&mut self, event: &EventRef<'_>) -> io::Result<()>;
    /// Adds a row that is no event.
    fn row(&mut self, fill: impl FnOnce(&mut dyn Cells)) -> io::Result<()>;
    fn finish(self) -> io::Result<()>;
}

/// The cells that all events have: time, cycles, CPU, stream.
#[inline]
pub(crate) fn first_cells(event: &EventRef<'_>, to: &mut impl Cells) {
    match event.nanos().and_then(|nanos| i64::try_from(nanos).ok()) {
        Some(nanos) => to.signed(nanos),
        None => to.missing(),
    }
    match event.time() {
        Some(ticks) => to.unsigned(ticks.0),
        None => to.missing(),
    }
    match event.cpu() {
        Some(cpu) => to.unsigned(cpu),
        None => to.missing(),
    }
    to.text(event.stream());
}

/// The file for losses. No event's file begins with an underscore.
const LOSSES: &str = "_losses.csv";
const LOSSES_HEAD: [&str; 7] = [
    "stream", "cpu", "kind", "count", "begin_ns", "end_ns", "error",
];

pub(crate) struct Folder<T> {
    path: PathBuf,
    tables: Vec<(PartFile, T)>,
    /// Indices of tables by kind of event. Parts of one trace share tables; other traces may use
    /// the ids for other events.
    places: HashMap<TableKey, usize>,
    streams: Vec<Stream>,
    /// Number of kinds with each name so far.
    names: HashMap<String, usize>,
    losses: BufWriter<File>,
    losses_file: PartFile,
    derived: Derived<T>,
}

/// Ids of stream class and event class, the event's name, the columns' names.
type TableKey = (u64, u64, String, Vec<String>);

struct Stream {
    metadata: Arc<Metadata>,
    /// Indices of tables, by index of the event class.
    tables: Vec<Option<usize>>,
}

impl<T: Table> Folder<T> {
    pub(crate) fn create(path: &Path, map: &TraceMap) -> Result<Folder<T>, Error> {
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
        let losses_file = PartFile::new(&path.join(LOSSES));
        let losses = File::create(losses_file.written())
            .map(BufWriter::new)
            .map_err(Error::write(losses_file.path()))?;
        let streams = map.streams().map(|(metadata, _, _)| Stream {
            metadata: Arc::clone(metadata),
            tables: vec![None; metadata.event_class_count()],
        });
        let mut folder = Folder {
            path: path.to_owned(),
            tables: Vec::new(),
            places: HashMap::new(),
            streams: streams.collect(),
            names: HashMap::new(),
            losses,
            losses_file,
            derived: Derived::new(path),
        };
        folder.loss_row(|line| LOSSES_HEAD.into_iter().for_each(|name| line.text(name)))?;
        Ok(folder)
    }

    #[inline]
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), Error> {
        let known = self
            .streams
            .get(event.stream_index())
            .and_then(|stream| *stream.tables.get(event.class().index())?);
        let place = match known {
            Some(place) => place,
            None => self.place(event)?,
        };
        match self.tables.get_mut(place) {
            Some((file, table)) => table
                .add(event)
                .map_err(|error| Error::write(file.path())(error)),
            None => Ok(()),
        }
    }

    /// Index of the event's table, created at the first event of its kind.
    #[cold]
    fn place(&mut self, event: &EventRef<'_>) -> Result<usize, Error> {
        let class = event.class();
        let Some(stream) = self.streams.get_mut(event.stream_index()) else {
            return Ok(usize::MAX);
        };
        let mut of_class = stream.metadata.streams();
        let Some(stream_class) = of_class.find(|stream| stream.id == class.stream_id) else {
            return Ok(usize::MAX);
        };
        let columns = columns(stream_class, class);
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let key = (class.stream_id, class.id, event.name().to_owned(), names);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => {
                let number = self.names.entry(event.name().to_owned()).or_default();
                let path = self.path.join(T::path(&file_name(event.name()), *number));
                *number += 1;
                let made = path.parent().map_or(Ok(()), fs::create_dir_all);
                let row = Row::new(stream_class, class, |_| true);
                let file = PartFile::new(&path);
                let table = made.and_then(|()| T::create(file.written(), columns, row));
                let table = table.map_err(Error::write(&path))?;
                self.tables.push((file, table));
                self.tables.len() - 1
            }
        };
        self.places.insert(key, place);
        if let Some(cell) = stream.tables.get_mut(class.index()) {
            *cell = Some(place);
        }
        Ok(place)
    }

    fn loss_row(&mut self, fill: impl FnOnce(&mut Line<'_>)) -> Result<(), Error> {
        let mut text = Vec::new();
        let mut line = Line::new(&mut text);
        fill(&mut line);
        line.end();
        self.losses
            .write_all(&text)
            .map_err(Error::write(&self.path.join(LOSSES)))
    }

    fn loss(&mut self, loss: &Loss) -> Result<(), Error> {
        self.loss_row(|line| {
            line.text(&loss.stream);
            match loss.cpu {
                Some(cpu) => line.unsigned(cpu),
                None => line.missing(),
            }
            line.text(match loss.kind {
                LossKind::Events => "events",
                LossKind::Packets => "packets",
            });
            line.unsigned(loss.count);
            for nanos in [loss.begin_nanos, loss.end_nanos] {
                match nanos {
                    Some(nanos) => line.text(&nanos.to_string()),
                    None => line.missing(),
                }
            }
            line.missing();
        })
    }
}

impl<T: Table> Export for Folder<T> {
    #[inline]
    fn add(&mut self, item: &ItemRef<'_>) -> Result<(), Error> {
        self.derived.add(item)?;
        match item {
            ItemRef::Event(event) => self.event(event),
            ItemRef::Loss(loss) => self.loss(loss),
            ItemRef::Problem(problem) if problem.consequence != Consequence::Clamped => {
                self.unreadable(&kymo_ctf::Problem::clone(problem).into())
            }
            _ => Ok(()),
        }
    }

    fn unreadable(&mut self, error: &kymo_ctf::Error) -> Result<(), Error> {
        self.loss_row(|line| {
            match error {
                kymo_ctf::Error::Stream { file, .. } => line.text(file),
                _ => line.missing(),
            }
            line.missing();
            line.text("damage");
            (0..3).for_each(|_| line.missing());
            line.text(&error.to_string());
        })
    }

    fn finish(mut self: Box<Self>, _: Option<&Profile>) -> Result<(), Error> {
        let mut files = vec![self.losses_file];
        let flushed = self.losses.flush();
        flushed.map_err(Error::write(&self.path.join(LOSSES)))?;
        for (file, table) in self.tables {
            table.finish().map_err(Error::write(file.path()))?;
            files.push(file);
        }
        files.extend(self.derived.finish()?);
        files.iter().try_for_each(PartFile::complete)
    }

    fn discard(&self) {
        self.losses_file.discard();
        self.tables.iter().for_each(|(file, _)| file.discard());
        self.derived.discard();
    }
}
