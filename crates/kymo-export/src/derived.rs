//! Tables of what events mean together: spans of time, by kind.

use std::path::{Path, PathBuf};

use kymo_ctf::ItemRef;
use kymo_machine::{Machine, Span};

use crate::Error;
use crate::folder::Table;
use crate::part::PartFile;
use kymo_rows::{Row, SPAN_TABLES, SpanTable};

/// The tables of spans, and the machine whose changes end them.
pub(crate) struct Derived<T> {
    folder: PathBuf,
    machine: Machine,
    /// In the order of [`SPAN_TABLES`]; each is created at its first span.
    tables: [Option<(PartFile, T)>; SPAN_TABLES.len()],
}

impl<T: Table> Derived<T> {
    pub(crate) fn new(folder: &Path) -> Derived<T> {
        Derived {
            folder: folder.to_owned(),
            machine: Machine::new(),
            tables: [const { None }; SPAN_TABLES.len()],
        }
    }

    pub(crate) fn add(&mut self, item: &ItemRef<'_>) -> Result<(), Error> {
        self.machine.add(item);
        for change in self.machine.changes() {
            let Some(span) = Span::of(change, &self.machine) else {
                continue;
            };
            let tables = SPAN_TABLES.iter().zip(&mut self.tables);
            for (of, place) in tables.filter(|(of, _)| of.kind == span.kind) {
                let (file, table) = match place {
                    Some(table) => table,
                    None => place.insert(create(&self.folder, of)?),
                };
                let row = table.row(|cells| of.write(&span, &self.machine, cells));
                row.map_err(|error| Error::write(file.path())(error))?;
            }
        }
        Ok(())
    }

    /// Ends the tables; gives their files.
    pub(crate) fn finish(self) -> Result<Vec<PartFile>, Error> {
        let finished = self.tables.into_iter().flatten().map(|(file, table)| {
            table.finish().map_err(Error::write(file.path()))?;
            Ok(file)
        });
        finished.collect()
    }

    pub(crate) fn discard(&self) {
        let tables = self.tables.iter().flatten();
        tables.for_each(|(file, _)| file.discard());
    }
}

fn create<T: Table>(folder: &Path, of: &SpanTable) -> Result<(PartFile, T), Error> {
    let file = PartFile::new(&folder.join(T::derived(of.name)));
    let table = T::create(file.written(), of.columns(), Row::empty());
    let table = table.map_err(Error::write(file.path()))?;
    Ok((file, table))
}
