//! Derived tables: the rows are spans of time, of which a kind has a table.

use kymo_machine::{Machine, Named, Span, SpanKind, ThreadId, Waker};

use crate::{Cells, Column, ColumnType};

use ColumnType::{Signed, Text, Unsigned};

type NamedColumn = (&'static str, ColumnType);

/// The table of a kind of span: a row for each, at its end.
#[derive(Clone, Copy, Debug)]
pub struct SpanTable {
    /// Its name, such as `syscalls`.
    pub name: &'static str,
    /// The spans that are its rows.
    pub kind: SpanKind,
    /// The columns behind [`COMMON`].
    more: &'static [NamedColumn],
}

/// The tables of all kinds of spans.
pub const SPAN_TABLES: [SpanTable; 7] = [
    table(SpanKind::OnCpu, "slices", &THREAD),
    table(SpanKind::OffCpu, "off_cpu", &THREAD),
    table(SpanKind::WakeLatency, "wakeups", &WOKEN),
    table(SpanKind::SystemCall, "syscalls", &CALLED),
    table(SpanKind::Interrupt, "interrupts", &HANDLED),
    table(SpanKind::LockWait, "lock_waits", &WAITED),
    table(SpanKind::LockHold, "lock_holds", &HELD),
];

const fn table(kind: SpanKind, name: &'static str, more: &'static [NamedColumn]) -> SpanTable {
    SpanTable { name, kind, more }
}

impl SpanTable {
    /// Its columns: begin, end and duration in nanoseconds, the CPU on which the span ended, then
    /// the thread, and what the span is about.
    pub fn columns(&self) -> Vec<Column> {
        let columns = COMMON.iter().chain(self.more);
        let columns = columns.map(|&(name, holds)| Column {
            name: name.to_owned(),
            holds,
        });
        columns.collect()
    }

    /// Gives the cells of a span of this table's kind, which the machine's last change ended.
    pub fn write(&self, span: &Span, machine: &Machine, to: &mut dyn Cells) {
        write(span, machine, to);
    }
}

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
/// Soft interrupts of Linux have numbers of their own.
const HANDLED: [NamedColumn; 3] = join(&OBJECT, &[("soft", Unsigned)]);
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

/// The cells of a span.
fn write(span: &Span, machine: &Machine, to: &mut dyn Cells) {
    to.signed(span.begin_ns);
    to.signed(span.end_ns);
    to.unsigned(span.nanos());
    to.unsigned(span.cpu);
    match span.kind {
        SpanKind::OnCpu | SpanKind::OffCpu => thread_cells(span.thread, machine, to),
        SpanKind::Interrupt => {
            object(span, machine, to);
            let soft = match span.of {
                Some(Named::Irq(line)) => Some(line.is_soft().into()),
                _ => None,
            };
            to.maybe_unsigned(soft);
        }
        SpanKind::WakeLatency => {
            thread_cells(span.thread, machine, to);
            let (word, waker) = match span.waker {
                Some(Waker::Thread(waker)) => (Some("thread"), Some(waker)),
                Some(Waker::Interrupt) => (Some("interrupt"), None),
                _ => (None, None),
            };
            to.maybe_text(word);
            to.maybe_unsigned(waker.and_then(|waker| Some(machine.thread(waker)?.tid)));
        }
        SpanKind::SystemCall => {
            thread_cells(span.thread, machine, to);
            object(span, machine, to);
            to.maybe_unsigned(span.failed.map(u64::from));
        }
        SpanKind::LockHold => {
            thread_cells(span.thread, machine, to);
            object(span, machine, to);
        }
        SpanKind::LockWait => {
            thread_cells(span.thread, machine, to);
            object(span, machine, to);
            let owner = span.owner.and_then(|owner| machine.thread(owner));
            to.maybe_unsigned(owner.map(|owner| owner.tid));
            to.maybe_text(owner.and_then(|owner| owner.name.as_deref()));
        }
    }
}

/// Gives number and name of a thread, and of its process: `tid`, `thread`, `pid` and `process`.
pub fn thread_cells(of: Option<ThreadId>, machine: &Machine, to: &mut dyn Cells) {
    let thread = of.and_then(|thread| machine.thread(thread));
    to.maybe_unsigned(thread.map(|thread| thread.tid));
    to.maybe_text(thread.and_then(|thread| thread.name.as_deref()));
    let pid = thread.and_then(|thread| thread.pid);
    to.maybe_unsigned(pid);
    let process = pid.and_then(|pid| machine.process(pid));
    to.maybe_text(process.map(|name| &**name));
}

/// Number and name of a lock, a system call, or an interrupt line.
fn object(span: &Span, machine: &Machine, to: &mut dyn Cells) {
    to.maybe_unsigned(span.object);
    let name = span.of.and_then(|of: Named| machine.name(of));
    to.maybe_text(name.or(span.call.as_deref()));
}
