//! Tables of events: `events` has all of them, and each name has a table of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use kymo_ctf::{EventClass, EventRef, ItemRef, Metadata, Reader, StreamClass};
use kymo_machine::Machine;
use kymo_rows::Row;

use crate::column::{Builder, Holds, JsonCells, PlacedCells, fields};
use crate::filter::{Filters, Range};
use crate::scan::{self, Part, Rows};
use crate::table::{Asked, Table, free_name, word_array};
use crate::traces::Traces;

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Trace,
    Stream,
    Time,
    Nanos,
    Cpu,
    Name,
    Tid,
    /// All fields as JSON.
    Fields,
    /// A field of the event.
    Field,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    what: What,
    holds: Holds,
}

fn column(name: &str, what: What, holds: Holds) -> Column {
    Column {
        name: name.to_owned(),
        what,
        holds,
    }
}

/// A table of events.
#[derive(Debug)]
pub(crate) struct EventTable {
    traces: Traces,
    /// The only name that its events have.
    of: Option<Arc<str>>,
    columns: Arc<[Column]>,
    schema: SchemaRef,
}

impl EventTable {
    fn new(traces: &Traces, of: Option<Arc<str>>, columns: Vec<Column>) -> EventTable {
        let named = columns.iter().map(|of| (of.name.as_str(), of.holds));
        EventTable {
            traces: traces.clone(),
            of,
            schema: scan::schema(named),
            columns: columns.into(),
        }
    }

    /// Its columns, in their order.
    pub(crate) fn columns(&self) -> Vec<(String, Holds)> {
        let columns = self.columns.iter();
        columns
            .map(|column| (column.name.clone(), column.holds))
            .collect()
    }

    /// The table of all events.
    pub(crate) fn of_all(traces: &Traces) -> EventTable {
        let columns = vec![
            column("trace", What::Trace, Holds::Word),
            column("stream", What::Stream, Holds::Word),
            column("time", What::Time, Holds::Time),
            column("ns", What::Nanos, Holds::Signed),
            column("cpu", What::Cpu, Holds::Signed),
            column("name", What::Name, Holds::Word),
            column("tid", What::Tid, Holds::Unsigned),
            column("fields", What::Fields, Holds::Text),
        ];
        EventTable::new(traces, None, columns)
    }

    /// The tables of events of one name, by name. Classes of the same name share a table; a field
    /// that has different types in them is a text.
    pub(crate) fn of_each(traces: &Traces) -> BTreeMap<Arc<str>, EventTable> {
        let mut found: BTreeMap<Arc<str>, Vec<(String, Holds)>> = BTreeMap::new();
        let mut seen: Vec<&Arc<Metadata>> = Vec::new();
        for (metadata, ..) in traces.all.iter().flat_map(|trace| trace.map.streams()) {
            if seen.iter().any(|known| Arc::ptr_eq(known, metadata)) {
                continue;
            }
            seen.push(metadata);
            for (stream, class) in classes(metadata) {
                let columns = found.entry(Arc::clone(&class.name)).or_default();
                for (name, holds) in fields(stream, class) {
                    match columns.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => *known = known.both(holds),
                        None => columns.push((name, holds)),
                    }
                }
            }
        }
        let tables = found.into_iter().map(|(name, fields)| {
            let mut columns = vec![
                column("trace", What::Trace, Holds::Word),
                column("stream", What::Stream, Holds::Word),
                column("time", What::Time, Holds::Time),
                column("ns", What::Nanos, Holds::Signed),
                column("cpu", What::Cpu, Holds::Signed),
            ];
            for (field, holds) in fields {
                columns.push(column(&free(&field, &columns), What::Field, holds));
            }
            let table = EventTable::new(traces, Some(Arc::clone(&name)), columns);
            (name, table)
        });
        tables.collect()
    }
}

/// The name, with a number if a column has it already.
fn free(name: &str, columns: &[Column]) -> String {
    free_name(name, |name| {
        columns.iter().any(|column| column.name == name)
    })
}

fn classes(metadata: &Metadata) -> impl Iterator<Item = (&StreamClass, &Arc<EventClass>)> {
    let streams = metadata.streams();
    streams.flat_map(|stream| stream.events.values().map(move |class| (&**stream, class)))
}

impl Table for EventTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn traces(&self) -> &Traces {
        &self.traces
    }

    fn checks(&self, name: &str) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.name == name && column.what != What::Field)
    }

    fn plan(&self, asked: Asked) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = &asked.filters;
        let schema = Arc::new(self.schema.project(&asked.columns)?);
        let columns = asked.columns.iter();
        let columns = columns.filter_map(|place| self.columns.get(*place).cloned());
        let columns: Arc<[Column]> = columns.collect();
        // The thread that ran follows from the switches in all streams.
        let is_merged = columns.iter().any(|column| column.what == What::Tid);
        let mut parts = Vec::new();
        for trace in asked.traces {
            let Some(opened) = self
                .traces
                .all
                .get(trace)
                .filter(|_| !filters.range.is_empty)
            else {
                continue;
            };
            let streams = opened.map.streams().map(|(_, name, _)| name);
            let streams = filters.passes("stream", &word_array(streams)?)?;
            let part = |stream| EventPart {
                traces: self.traces.clone(),
                trace,
                stream,
                streams: streams.clone(),
                of: self.of.clone(),
                all: Arc::clone(&self.columns),
                columns: Arc::clone(&columns),
                filters: filters.clone(),
            };
            if is_merged {
                parts.push(part(None));
                continue;
            }
            for (place, (metadata, ..)) in opened.map.streams().enumerate() {
                let is_of = |of: &Arc<str>| classes(metadata).any(|(_, class)| class.name == *of);
                if streams.get(place) == Some(&true) && self.of.as_ref().is_none_or(is_of) {
                    parts.push(part(Some(place)));
                }
            }
        }
        scan::plan(schema, parts, asked.limit)
    }
}

/// The rows of one stream, or of a whole trace in time order.
#[derive(Debug)]
struct EventPart {
    traces: Traces,
    trace: usize,
    stream: Option<usize>,
    /// For each stream of the trace, whether the query's conditions admit it.
    streams: Vec<bool>,
    of: Option<Arc<str>>,
    /// The table's columns.
    all: Arc<[Column]>,
    /// Those that are asked for.
    columns: Arc<[Column]>,
    filters: Filters,
}

/// An event class as rows.
struct Class {
    /// Whether its events are wanted.
    is_wanted: bool,
    row: Row,
    /// The columns of its cells, if they are asked for.
    places: Vec<Option<usize>>,
    /// The names of its cells.
    names: Vec<String>,
    /// Index of its name among the words.
    word: i32,
}

/// The classes of a trace, by their index.
type Classes = Vec<Option<Class>>;

impl EventPart {
    fn classes(&self, metadata: &Metadata, words: &mut Vec<Arc<str>>) -> Result<Classes> {
        let mut found: Classes = Vec::new();
        found.resize_with(metadata.event_class_count(), || None);
        let names = classes(metadata).map(|(_, class)| &*class.name);
        let wanted = self.filters.passes("name", &word_array(names)?)?;
        for ((stream, class), passes) in classes(metadata).zip(wanted) {
            let fields = fields(stream, class);
            let mut taken: Vec<Column> = Vec::new();
            // As the table names them.
            let own = self.all.iter().filter(|column| column.what != What::Field);
            taken.extend(own.cloned());
            let places = fields.iter().map(|(name, holds)| {
                let name = free(name, &taken);
                taken.push(column(&name, What::Field, *holds));
                let mut columns = self.columns.iter();
                columns.position(|column| column.what == What::Field && column.name == name)
            });
            let places = places.collect();
            let known = words.iter().position(|word| *word == class.name);
            let word = known.unwrap_or_else(|| {
                words.push(Arc::clone(&class.name));
                words.len() - 1
            });
            if let Some(place) = found.get_mut(class.index()) {
                *place = Some(Class {
                    is_wanted: passes && self.of.as_ref().is_none_or(|of| *of == class.name),
                    row: Row::new(stream, class, |_| true),
                    places,
                    names: fields.into_iter().map(|(name, _)| name).collect(),
                    word: word as i32,
                });
            }
        }
        Ok(found)
    }
}

impl Part for EventPart {
    fn traces(&self) -> &Traces {
        &self.traces
    }

    fn run(&self, rows: &mut Rows) -> Result<()> {
        let Some(trace) = self.traces.all.get(self.trace) else {
            return Ok(());
        };
        let chosen = trace.map.streams().enumerate();
        let chosen = chosen.filter(|(place, _)| self.stream.is_none_or(|stream| stream == *place));
        let chosen: Vec<_> = chosen.collect();
        // Streams of one metadata share its classes.
        let mut words: Vec<Arc<str>> = Vec::new();
        let mut known: Vec<(&Arc<Metadata>, Arc<Classes>)> = Vec::new();
        let mut of_stream = Vec::new();
        for (place, (metadata, ..)) in &chosen {
            let shared = known.iter().find(|(of, _)| Arc::ptr_eq(of, metadata));
            let classes = match shared {
                Some((_, classes)) => Arc::clone(classes),
                None => {
                    let classes = Arc::new(self.classes(metadata, &mut words)?);
                    known.push((metadata, Arc::clone(&classes)));
                    classes
                }
            };
            let is_wanted = self.streams.get(*place) == Some(&true);
            of_stream.push((*place, is_wanted, classes));
        }
        let streams = chosen.iter().map(|(_, (_, name, _))| *name);
        rows.columns = self
            .columns
            .iter()
            .map(|column| match column.what {
                What::Trace => scan::words([trace.name.as_str()]),
                What::Stream => scan::words(streams.clone()),
                What::Name => scan::words(words.iter().map(|word| &**word)),
                _ => Builder::new(column.holds),
            })
            .collect();
        let range = self.filters.range;
        let is_merged = self.columns.iter().any(|column| column.what == What::Tid);
        let mut maker = Maker {
            part: self,
            of_stream,
            machine: is_merged.then(Machine::new),
            cpus: HashMap::new(),
            json: Vec::new(),
            text: Vec::new(),
            has_fields: self.columns.iter().any(|column| column.what == What::Field),
        };
        let mut read = |reader: Reader<'_>| maker.run(reader, range, rows);
        match self.stream {
            Some(_) => {
                let streams = chosen.iter().map(|(_, stream)| *stream);
                let (from, to) = (range.from.map(i128::from), range.to.map(i128::from));
                read(Reader::new(streams).between(from, to))
            }
            // What ran follows from what was recorded before the range, too.
            None => read(trace.map.read()),
        }
    }
}

/// Makes the rows of a part.
struct Maker<'p> {
    part: &'p EventPart,
    /// The index of each stream in its trace, whether it is wanted, and its classes.
    of_stream: Vec<(usize, bool, Arc<Classes>)>,
    machine: Option<Machine>,
    /// Whether the conditions hold for these CPUs.
    cpus: HashMap<Option<i64>, bool>,
    json: Vec<u8>,
    text: Vec<u8>,
    has_fields: bool,
}

impl Maker<'_> {
    fn run(&mut self, mut reader: Reader<'_>, range: Range, rows: &mut Rows) -> Result<()> {
        let Some(trace) = self.part.traces.all.get(self.part.trace) else {
            return Ok(());
        };
        while let Some(item) = reader.next() {
            if !rows.is_wanted() {
                break;
            }
            let tid = self.follow(&item);
            let ItemRef::Event(event) = &item else {
                self.part.traces.look(trace, &item);
                continue;
            };
            let nanos = event.nanos().and_then(|nanos| i64::try_from(nanos).ok());
            if range.holds(nanos) && !self.event(event, nanos, tid, rows)? {
                break;
            }
        }
        Ok(())
    }

    /// Adds the item to the machine, if there is one, and tells the thread in which it happened: a
    /// switch is the last event of the thread that leaves the CPU.
    fn follow(&mut self, item: &ItemRef<'_>) -> Option<u64> {
        let machine = self.machine.as_mut()?;
        let ItemRef::Event(event) = item else {
            machine.add(item);
            return None;
        };
        let ran = event.cpu().and_then(|cpu| machine.running(cpu));
        let ran = ran.and_then(|ran| Some(machine.thread(ran)?.tid));
        machine.add(item);
        machine.context(event).0.or(ran)
    }

    /// Adds the event's row, if it is wanted. `false` if no more rows are.
    #[inline]
    fn event(
        &mut self,
        event: &EventRef<'_>,
        nanos: Option<i64>,
        tid: Option<u64>,
        rows: &mut Rows,
    ) -> Result<bool> {
        let place = event.stream_index();
        let Some((_, true, classes)) = self.of_stream.get(place) else {
            return Ok(true);
        };
        let class = classes.get(event.class().index()).and_then(Option::as_ref);
        let Some(class) = class.filter(|class| class.is_wanted) else {
            return Ok(true);
        };
        let cpu = event.cpu().and_then(|cpu| i64::try_from(cpu).ok());
        if self.part.filters.has("cpu") {
            let passes = match self.cpus.get(&cpu) {
                Some(passes) => *passes,
                None => {
                    let value: ArrayRef = Arc::new(Int64Array::from(vec![cpu]));
                    let passes = self.part.filters.passes("cpu", &value)? == [true];
                    self.cpus.insert(cpu, passes);
                    passes
                }
            };
            if !passes {
                return Ok(true);
            }
        }
        for (column, to) in self.part.columns.iter().zip(&mut rows.columns) {
            match column.what {
                What::Trace => to.word(0),
                What::Stream => to.word(place as i32),
                What::Name => to.word(class.word),
                What::Time | What::Nanos => match nanos {
                    Some(nanos) => to.signed(nanos),
                    None => to.missing(),
                },
                What::Cpu => match cpu {
                    Some(cpu) => to.signed(cpu),
                    None => to.missing(),
                },
                What::Tid => match tid {
                    Some(tid) => to.unsigned(tid),
                    None => to.missing(),
                },
                What::Fields => {
                    let mut cells = JsonCells::begin(&mut self.text, &class.names);
                    class.row.write(event, &mut self.json, &mut cells);
                    cells.end();
                    to.text(&String::from_utf8_lossy(&self.text));
                }
                What::Field => {}
            }
        }
        if self.has_fields {
            let mut cells = PlacedCells {
                columns: &mut rows.columns,
                places: class.places.iter(),
            };
            class.row.write(event, &mut self.json, &mut cells);
            // Fields that only other classes of the name have.
            if class.places.iter().flatten().count() < self.fields() {
                for (place, column) in self.part.columns.iter().enumerate() {
                    let is_absent = !class.places.contains(&Some(place));
                    if column.what == What::Field
                        && is_absent
                        && let Some(to) = rows.columns.get_mut(place)
                    {
                        to.missing();
                    }
                }
            }
        }
        rows.end_row()
    }

    fn fields(&self) -> usize {
        let columns = self.part.columns.iter();
        columns.filter(|column| column.what == What::Field).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_names_get_numbers() {
        let taken = [
            column("a", What::Field, Holds::Text),
            column("a_2", What::Field, Holds::Text),
        ];
        assert_eq!(free("b", &taken), "b");
        assert_eq!(free("a", &taken), "a_3");
    }
}
