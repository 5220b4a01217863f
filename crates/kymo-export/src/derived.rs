//! Tables of what events mean together: spans of time, by kind.

use std::path::{Path, PathBuf};

use kymo_ctf::ItemRef;
use kymo_machine::{Machine, Named, Span, SpanKind, ThreadId, Waker};

use crate::Error;
use crate::folder::Table;
use crate::part::PartFile;
use kymo_rows::{Cells, Column, ColumnType, Row};

use ColumnType::{Signed, Text, Unsigned};

type NamedColumn = (&'static str, ColumnType);

/// The tables, and the columns that each has behind [`COMMON`].
const TABLES: [(SpanKind, &str, &[NamedColumn]); 7] = [
    (SpanKind::OnCpu, "slices", &THREAD),
    (SpanKind::OffCpu, "off_cpu", &THREAD),
    (SpanKind::WakeLatency, "wakeups", &WOKEN),
    (SpanKind::SystemCall, "syscalls", &CALLED),
    (SpanKind::Interrupt, "interrupts", &OBJECT),
    (SpanKind::LockWait, "lock_waits", &WAITED),
    (SpanKind::LockHold, "lock_holds", &HELD),
];

/// The columns of every table.
const COMMON: [NamedColumn; 4] = [
    ("begin_ns", Signed),
    ("end_ns", Signed),
    ("duration_ns", Unsigned),
    ("cpu", Unsigned),
];
const THREAD: [NamedColumn; 4] = [
    ("tid", Unsigned),
    ("thread", Text),
    ("pid", Unsigned),
    ("process", Text),
];
const OBJECT: [NamedColumn; 2] = [("number", Unsigned), ("name", Text)];
const WOKEN: [NamedColumn; 6] = join(&THREAD, &[("waker", Text), ("waker_tid", Unsigned)]);
const HELD: [NamedColumn; 6] = join(&THREAD, &OBJECT);
const CALLED: [NamedColumn; 7] = join(&HELD, &[("failed", Unsigned)]);
const WAITED: [NamedColumn; 8] = join(&HELD, &[("owner_tid", Unsigned), ("owner", Text)]);

/// One list of columns behind another.
const fn join<const N: usize>(first: &[NamedColumn], second: &[NamedColumn]) -> [NamedColumn; N] {
    let mut all = [("", Text); N];
    let mut at = 0;
    while at < N {
        all[at] = match at < first.len() {
            true => first[at],
            false => second[at - first.len()],
        };
        at += 1;
    }
    all
}

/// The tables of spans, and the machine whose changes end them.
pub(crate) struct Derived<T> {
    folder: PathBuf,
    machine: Machine,
    /// In the order of [`TABLES`]; each is created at its first span.
    tables: [Option<(PartFile, T)>; TABLES.len()],
}

impl<T: Table> Derived<T> {
    pub(crate) fn new(folder: &Path) -> Derived<T> {
        Derived {
            folder: folder.to_owned(),
            machine: Machine::new(),
            tables: [const { None }; TABLES.len()],
        }
    }

    pub(crate) fn add(&mut self, item: &ItemRef<'_>) -> Result<(), Error> {
        self.machine.add(item);
        for change in self.machine.changes() {
            let Some(span) = Span::of(change, &self.machine) else {
                continue;
            };
            let tables = TABLES.iter().zip(&mut self.tables);
            for ((_, name, more), place) in tables.filter(|((kind, ..), _)| *kind == span.kind) {
                let (file, table) = match place {
                    Some(table) => table,
                    None => place.insert(create(&self.folder, name, more)?),
                };
                let row = table.row(|cells| write(&span, &self.machine, cells));
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

fn create<T: Table>(
    folder: &Path,
    name: &str,
    more: &[NamedColumn],
) -> Result<(PartFile, T), Error> {
    let columns = COMMON.iter().chain(more);
    let columns = columns.map(|&(name, holds)| Column {
        name: name.to_owned(),
        holds,
    });
    let file = PartFile::new(&folder.join(T::derived(name)));
    let table = T::create(file.written(), columns.collect(), Row::empty());
    let table = table.map_err(Error::write(file.path()))?;
    Ok((file, table))
}

/// The cells of a span.
fn write(span: &Span, machine: &Machine, to: &mut dyn Cells) {
    to.signed(span.begin_ns);
    to.signed(span.end_ns);
    to.unsigned(span.nanos());
    to.unsigned(span.cpu);
    match span.kind {
        SpanKind::OnCpu | SpanKind::OffCpu => thread(span.thread, machine, to),
        SpanKind::Interrupt => object(span, machine, to),
        SpanKind::WakeLatency => {
            thread(span.thread, machine, to);
            let (word, waker) = match span.waker {
                Some(Waker::Thread(waker)) => (Some("thread"), Some(waker)),
                Some(Waker::Interrupt) => (Some("interrupt"), None),
                _ => (None, None),
            };
            text(word, to);
            number(waker.and_then(|waker| Some(machine.thread(waker)?.tid)), to);
        }
        SpanKind::SystemCall => {
            thread(span.thread, machine, to);
            object(span, machine, to);
            number(span.failed.map(u64::from), to);
        }
        SpanKind::LockHold => {
            thread(span.thread, machine, to);
            object(span, machine, to);
        }
        SpanKind::LockWait => {
            thread(span.thread, machine, to);
            object(span, machine, to);
            let owner = span.owner.and_then(|owner| machine.thread(owner));
            number(owner.map(|owner| owner.tid), to);
            text(owner.and_then(|owner| owner.name.as_deref()), to);
        }
    }
}

/// Number and name of a thread, and of its process.
fn thread(of: Option<ThreadId>, machine: &Machine, to: &mut dyn Cells) {
    let thread = of.and_then(|thread| machine.thread(thread));
    number(thread.map(|thread| thread.tid), to);
    text(thread.and_then(|thread| thread.name.as_deref()), to);
    let pid = thread.and_then(|thread| thread.pid);
    number(pid, to);
    let process = pid.and_then(|pid| machine.process(pid));
    text(process.map(|name| &**name), to);
}

/// Number and name of a lock, a system call, or an interrupt line.
fn object(span: &Span, machine: &Machine, to: &mut dyn Cells) {
    number(span.object, to);
    let name = span.of.and_then(|of: Named| machine.name(of));
    text(name.or(span.call.as_deref()), to);
}

fn number(value: Option<u64>, to: &mut dyn Cells) {
    match value {
        Some(value) => to.unsigned(value),
        None => to.missing(),
    }
}

fn text(value: Option<&str>, to: &mut dyn Cells) {
    match value {
        Some(value) => to.text(value),
        None => to.missing(),
    }
}
