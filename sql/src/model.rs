//! Tables of what events mean together, from the model of the traced machine: spans of time,
//! states, losses, threads and what else there is; and the traces themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use kymo_ctf::{ItemRef, LossKind};
use kymo_machine::{Change, Doing, Machine, Span, ThreadId};
use kymo_rows::{Cells, SPAN_TABLES, SpanTable, thread_cells};

use crate::column::{Builder, Holds, NextCells, of_span};
use crate::scan::{self, Part, Rows};
use crate::table::{Asked, Table};
use crate::traces::{Opened, Traces};
use crate::{counters, samples};

/// What the rows of a table are.
#[derive(Debug, Clone)]
enum Of {
    Spans(SpanTable),
    States,
    Counters,
    Samples,
    Losses,
    Threads,
    Processes,
    Cpus,
    Traces,
}

const STATES: [(&str, Holds); 13] = [
    ("time", Holds::Time),
    ("begin_ns", Holds::Signed),
    ("end_ns", Holds::Signed),
    ("duration_ns", Holds::Signed),
    ("cpu", Holds::Signed),
    ("tid", Holds::Unsigned),
    ("thread", Holds::Text),
    ("pid", Holds::Unsigned),
    ("process", Holds::Text),
    ("idle", Holds::Signed),
    ("state", Holds::Text),
    ("lock", Holds::Unsigned),
    ("lock_name", Holds::Text),
];
const LOSSES: [(&str, Holds); 6] = [
    ("stream", Holds::Text),
    ("cpu", Holds::Signed),
    ("kind", Holds::Text),
    ("count", Holds::Unsigned),
    ("begin_ns", Holds::Signed),
    ("end_ns", Holds::Signed),
];
const THREADS: [(&str, Holds); 8] = [
    ("tid", Holds::Unsigned),
    ("thread", Holds::Text),
    ("pid", Holds::Unsigned),
    ("process", Holds::Text),
    ("cpu", Holds::Signed),
    ("idle", Holds::Signed),
    ("created_ns", Holds::Signed),
    ("ended_ns", Holds::Signed),
];
const PROCESSES: [(&str, Holds); 4] = [
    ("pid", Holds::Unsigned),
    ("process", Holds::Text),
    ("program", Holds::Text),
    ("threads", Holds::Signed),
];
const CPUS: [(&str, Holds); 4] = [
    ("cpu", Holds::Signed),
    ("events", Holds::Signed),
    ("begin_ns", Holds::Signed),
    ("end_ns", Holds::Signed),
];
const TRACES: [(&str, Holds); 4] = [
    ("streams", Holds::Signed),
    ("bytes", Holds::Signed),
    ("begin_ns", Holds::Signed),
    ("end_ns", Holds::Signed),
];

/// A table of one pass over each trace.
#[derive(Debug)]
pub(crate) struct ModelTable {
    traces: Traces,
    of: Of,
    columns: Vec<(String, Holds)>,
    schema: SchemaRef,
}

impl ModelTable {
    fn new(traces: &Traces, of: Of, more: Vec<(String, Holds)>) -> ModelTable {
        let mut columns = vec![("trace".to_owned(), Holds::Word)];
        columns.extend(more);
        let named = columns.iter().map(|(name, holds)| (name.as_str(), *holds));
        ModelTable {
            traces: traces.clone(),
            of,
            schema: scan::schema(named),
            columns,
        }
    }

    /// Its columns, in their order.
    pub(crate) fn columns(&self) -> &[(String, Holds)] {
        &self.columns
    }

    /// All tables, with their names.
    pub(crate) fn all(traces: &Traces) -> Vec<(&'static str, ModelTable)> {
        let named = |columns: &[(&str, Holds)]| {
            let columns = columns.iter();
            columns
                .map(|(name, holds)| ((*name).to_owned(), *holds))
                .collect::<Vec<_>>()
        };
        let spans = SPAN_TABLES.iter().map(|table| {
            let mut columns = named(&[("time", Holds::Time)]);
            for column in table.columns() {
                let holds = of_span(&column);
                columns.push((column.name, holds));
            }
            (
                table.name,
                ModelTable::new(traces, Of::Spans(*table), columns),
            )
        });
        let others = [
            ("thread_states", Of::States, named(&STATES)),
            ("counters", Of::Counters, named(&counters::COLUMNS)),
            ("samples", Of::Samples, named(&samples::COLUMNS)),
            ("losses", Of::Losses, named(&LOSSES)),
            ("threads", Of::Threads, named(&THREADS)),
            ("processes", Of::Processes, named(&PROCESSES)),
            ("cpus", Of::Cpus, named(&CPUS)),
            ("traces", Of::Traces, named(&TRACES)),
        ];
        let others = others.map(|(name, of, columns)| (name, ModelTable::new(traces, of, columns)));
        spans.chain(others).collect()
    }
}

impl Table for ModelTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn traces(&self) -> &Traces {
        &self.traces
    }

    fn checks(&self, name: &str) -> bool {
        name == "trace"
    }

    fn plan(&self, asked: Asked) -> Result<Arc<dyn ExecutionPlan>> {
        // Cells are given in the order of the table: the engine puts them into that of the query.
        let mut chosen = asked.columns.clone();
        chosen.sort_unstable();
        chosen.dedup();
        let schema = Arc::new(self.schema.project(&chosen)?);
        let columns = self.columns.iter().enumerate();
        let columns = columns.map(|(place, (_, holds))| chosen.contains(&place).then_some(*holds));
        let columns: Arc<[Option<Holds>]> = columns.collect();
        let parts = asked.traces.into_iter().map(|trace| ModelPart {
            traces: self.traces.clone(),
            trace,
            of: self.of.clone(),
            columns: Arc::clone(&columns),
        });
        let plan = scan::plan(schema, parts.collect(), asked.limit)?;
        if asked.columns == chosen {
            return Ok(plan);
        }
        let places = asked
            .columns
            .iter()
            .filter_map(|asked| chosen.iter().position(|one| one == asked));
        scan::reorder(plan, places)
    }
}

/// The rows of one trace.
#[derive(Debug)]
struct ModelPart {
    traces: Traces,
    trace: usize,
    of: Of,
    /// What the columns hold that are asked for.
    columns: Arc<[Option<Holds>]>,
}

impl Part for ModelPart {
    fn traces(&self) -> &Traces {
        &self.traces
    }

    fn run(&self, rows: &mut Rows) -> Result<()> {
        let Some(trace) = self.traces.all.get(self.trace) else {
            return Ok(());
        };
        let columns = self.columns.iter().enumerate();
        let columns = columns.map(|(place, holds)| match (place, holds) {
            (_, None) => Builder::Skipped,
            (0, Some(_)) => scan::words([trace.name.as_str()]),
            (_, Some(holds)) => Builder::new(*holds),
        });
        rows.columns = columns.collect();
        match &self.of {
            Of::Traces => one_trace(trace, rows),
            Of::States => self.states(trace, rows),
            Of::Counters => counters::write(&self.traces, trace, rows),
            Of::Samples => {
                let has = self.columns.iter().map(Option::is_some);
                samples::write(&self.traces, trace, has, rows)
            }
            Of::Losses => self.losses(trace, rows),
            Of::Threads => self.threads(trace, rows),
            Of::Processes => self.processes(trace, rows),
            Of::Cpus => self.cpus(trace, rows),
            Of::Spans(table) => self.spans(trace, table, rows),
        }
    }
}

/// Fills a row behind the trace's name. `false` if no more rows are wanted.
pub(crate) fn row(rows: &mut Rows, fill: impl FnOnce(&mut NextCells<'_>)) -> Result<bool> {
    let mut cells = rows.columns.iter_mut();
    if let Some(trace) = cells.next() {
        trace.word(0);
    }
    fill(&mut NextCells(cells));
    rows.end_row()
}

fn nanos(value: Option<i128>) -> Option<i64> {
    value.and_then(|nanos| i64::try_from(nanos).ok())
}

fn one_trace(trace: &Opened, rows: &mut Rows) -> Result<()> {
    let (mut streams, mut bytes) = (0, 0);
    for (_, _, stream) in trace.map.streams() {
        streams += 1;
        bytes += stream.len() as u64;
    }
    let more = row(rows, |to| {
        to.unsigned(streams);
        to.unsigned(bytes);
        to.maybe_signed(nanos(trace.map.read().begin_nanos()));
        to.maybe_signed(nanos(trace.map.end_nanos()));
    });
    more.map(drop)
}

impl ModelPart {
    fn losses(&self, trace: &Opened, rows: &mut Rows) -> Result<()> {
        let mut reader = trace.map.read();
        while let Some(item) = reader.next()
            && rows.is_wanted()
        {
            self.traces.look(trace, &item);
            let ItemRef::Loss(loss) = item else {
                continue;
            };
            let more = row(rows, |to| {
                to.text(&loss.stream);
                to.maybe_unsigned(loss.cpu);
                to.text(match loss.kind {
                    LossKind::Events => "events",
                    LossKind::Packets => "packets",
                });
                to.unsigned(loss.count);
                to.maybe_signed(nanos(loss.begin_nanos));
                to.maybe_signed(nanos(loss.end_nanos));
            });
            if !more? {
                break;
            }
        }
        Ok(())
    }

    /// The model at the trace's end.
    fn machine(&self, trace: &Opened, rows: &mut Rows) -> Machine {
        let (mut reader, mut machine) = (trace.map.read(), Machine::new());
        while let Some(item) = reader.next()
            && rows.is_wanted()
        {
            self.traces.look(trace, &item);
            machine.add(&item);
        }
        machine
    }

    fn threads(&self, trace: &Opened, rows: &mut Rows) -> Result<()> {
        let machine = self.machine(trace, rows);
        for thread in machine.threads() {
            let more = row(rows, |to| {
                to.unsigned(thread.tid);
                to.maybe_text(thread.name.as_deref());
                to.maybe_unsigned(thread.pid);
                let process = thread.pid.and_then(|pid| machine.process(pid));
                to.maybe_text(process.map(|name| &**name));
                to.maybe_unsigned(thread.cpu);
                to.unsigned(thread.is_idle().into());
                to.maybe_signed(thread.created);
                to.maybe_signed(thread.ended);
            });
            if !more? {
                break;
            }
        }
        Ok(())
    }

    fn processes(&self, trace: &Opened, rows: &mut Rows) -> Result<()> {
        let machine = self.machine(trace, rows);
        let named = machine.processes().map(|(pid, _)| pid);
        let of_threads = machine.threads().iter().filter_map(|thread| thread.pid);
        let all: BTreeSet<u64> = named.chain(of_threads).collect();
        for pid in all {
            let threads = machine.threads().iter();
            let threads = threads.filter(|thread| thread.pid == Some(pid)).count();
            let more = row(rows, |to| {
                to.unsigned(pid);
                to.maybe_text(machine.process(pid).map(|name| &**name));
                to.maybe_text(machine.program(pid).map(|path| &**path));
                to.unsigned(threads as u64);
            });
            if !more? {
                break;
            }
        }
        Ok(())
    }

    fn cpus(&self, trace: &Opened, rows: &mut Rows) -> Result<()> {
        let (mut reader, mut cpus) = (trace.map.read(), BTreeMap::new());
        while let Some(item) = reader.next()
            && rows.is_wanted()
        {
            self.traces.look(trace, &item);
            let ItemRef::Event(event) = &item else {
                continue;
            };
            if let Some(cpu) = event.cpu() {
                let at = nanos(event.nanos());
                let (events, begin, end) = cpus.entry(cpu).or_insert((0, at, at));
                *events += 1;
                *begin = (*begin).or(at);
                *end = at.or(*end);
            }
        }
        for (cpu, (events, begin, end)) in cpus {
            let more = row(rows, |to| {
                to.unsigned(cpu);
                to.unsigned(events);
                to.maybe_signed(begin);
                to.maybe_signed(end);
            });
            if !more? {
                break;
            }
        }
        Ok(())
    }

    /// The states of threads with both ends, and those that last until the end of the trace.
    fn states(&self, trace: &Opened, rows: &mut Rows) -> Result<()> {
        let (mut reader, mut machine) = (trace.map.read(), Machine::new());
        while let Some(item) = reader.next()
            && rows.is_wanted()
        {
            self.traces.look(trace, &item);
            machine.add(&item);
            if !state_rows(&machine, rows)? {
                return Ok(());
            }
        }
        machine.finish(machine.now());
        state_rows(&machine, rows).map(drop)
    }

    fn spans(&self, trace: &Opened, table: &SpanTable, rows: &mut Rows) -> Result<()> {
        let (mut reader, mut machine) = (trace.map.read(), Machine::new());
        while let Some(item) = reader.next()
            && rows.is_wanted()
        {
            self.traces.look(trace, &item);
            machine.add(&item);
            let spans = machine
                .changes()
                .iter()
                .filter_map(|of| Span::of(of, &machine));
            for span in spans.filter(|span| span.kind == table.kind) {
                let more = row(rows, |to| {
                    to.signed(span.begin_ns);
                    table.write(&span, &machine, to);
                });
                if !more? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The states that the model's last changes ended. `false` if no more rows are wanted.
fn state_rows(machine: &Machine, rows: &mut Rows) -> Result<bool> {
    for change in machine.changes() {
        let Change::Doing {
            thread,
            was,
            since,
            until,
            ..
        } = *change
        else {
            continue;
        };
        if !matches!(was, Doing::Unknown | Doing::Ended)
            && until > since
            && !row(rows, |to| state(machine, thread, was, (since, until), to))?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn state(
    machine: &Machine,
    thread: ThreadId,
    was: Doing,
    (since, until): (i64, i64),
    to: &mut NextCells<'_>,
) {
    to.signed(since);
    to.signed(since);
    to.signed(until);
    to.unsigned(until.abs_diff(since));
    match was {
        Doing::Running(cpu) => to.unsigned(cpu),
        _ => to.missing(),
    }
    thread_cells(Some(thread), machine, to);
    let is_idle = machine
        .thread(thread)
        .is_some_and(|thread| thread.is_idle());
    to.unsigned(is_idle.into());
    to.text(was.label());
    let lock = match was {
        Doing::Blocked(lock) => lock,
        _ => None,
    };
    to.maybe_unsigned(lock);
    let name = lock.and_then(|lock| machine.lock_called(lock));
    to.maybe_text(name.map(|name| &**name));
}
