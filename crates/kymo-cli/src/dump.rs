//! `kymo dump`: a trace as text or JSON, and how much of what is in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use kymo_ctf::{Base, Event, FieldClass, Fields, Item, Loss, LossKind, StructClass, Trace, Value};

/// What a trace had, whatever of it was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Event records.
    pub events: u64,
    /// Event records that the trace says were lost.
    pub lost_events: u64,
    /// Packets that the trace says were lost.
    pub lost_packets: u64,
}

impl Outcome {
    fn add(&mut self, item: &Item) {
        match item {
            Item::Event(_) => self.events += 1,
            Item::Loss(loss) => {
                let lost = match loss.kind {
                    LossKind::Events => &mut self.lost_events,
                    LossKind::Packets => &mut self.lost_packets,
                };
                *lost = lost.saturating_add(loss.count);
            }
            _ => {}
        }
    }
}

/// Prints the trace in `trace_dir` to `out`: one line an event or loss, in the order of time; as JSON, one object a line.
///
/// Times are seconds since the earliest stream began; in JSON, nanoseconds from the clock's origin, and the clock's own ticks.
/// A reader of `out` that goes away early (`| head`) is not an error.
///
/// # Errors
/// [`kymo_ctf::Error`] (to be found by `downcast_ref`) if the trace cannot be opened, or if a stream is damaged: then everything
/// that can be read was printed, a line in its place says where the stream ends, and the first such error is returned.
/// [`io::Error`] if `out` cannot be written.
pub fn run(trace_dir: &Path, json: bool, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let trace = Trace::open(trace_dir)?;
    let items = trace.events();
    let mut printer = Printer { begin: items.begin_nanos().unwrap_or(0), stream_width: stream_width(&trace), line: String::new() };
    let mut outcome = Outcome::default();
    let mut damage = None;
    for item in items {
        printer.line.clear();
        if let Ok(item) = &item {
            outcome.add(item);
        }
        if json {
            printer.json(&item);
        } else {
            printer.text(&item);
            escape_controls(&mut printer.line);
        }
        printer.line.push('\n');
        if !deliver(out, printer.line.as_bytes())? {
            return Ok(outcome);
        }
        if let Err(error) = item {
            damage.get_or_insert(error);
        }
    }
    flush(out)?;
    match damage {
        Some(error) => Err(error.into()),
        None => Ok(outcome),
    }
}

/// Prints how many events of each name each CPU has, and what each stream has and lost.
///
/// # Errors
/// As for [`run`]; what could be read is counted and printed first.
pub fn count(trace_dir: &Path, json: bool, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let (counts, damage) = Counts::of(trace_dir)?;
    let text = if json { counts.to_json() } else { counts.to_table() };
    if deliver(out, text.as_bytes())? {
        flush(out)?;
    }
    match damage {
        Some(error) => Err(error.into()),
        None => Ok(counts.total),
    }
}

/// Writes; `false` if nobody reads any more.
pub fn deliver(out: &mut impl Write, bytes: &[u8]) -> anyhow::Result<bool> {
    match out.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write the output"),
    }
}

/// The same for what is left in the buffer.
pub fn flush(out: &mut impl Write) -> anyhow::Result<()> {
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write the output"),
        _ => Ok(()),
    }
}

/// Names come from the trace, and the trace of a broken kernel must not steer the terminal.
pub fn escape_controls(line: &mut String) {
    if line.contains(char::is_control) {
        let escaped = line.chars().map(|c| match c.is_control() {
            true => c.escape_default().to_string(),
            false => c.to_string(),
        });
        *line = escaped.collect();
    }
}

fn stream_width(trace: &Trace) -> usize {
    let names = trace.stream_files().iter().filter_map(|path| path.file_name());
    names.map(|name| name.to_string_lossy().chars().count()).max().unwrap_or(0).min(32)
}

/// How many events there are, by name, CPU and stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events by name and CPU; `None` is a stream that says no CPU.
    pub events: BTreeMap<String, BTreeMap<Option<u64>, u64>>,
    /// What each stream has and lost.
    pub streams: BTreeMap<String, Outcome>,
    /// All together.
    pub total: Outcome,
}

impl Counts {
    /// Counts the trace in `trace_dir`, and gives the first stream's damage if there is any.
    ///
    /// # Errors
    /// If the trace cannot be opened at all.
    pub fn of(trace_dir: &Path) -> Result<(Counts, Option<kymo_ctf::Error>), kymo_ctf::Error> {
        let trace = Trace::open(trace_dir)?;
        let mut counts = Counts::default();
        for path in trace.stream_files() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            counts.streams.insert(name.into_owned(), Outcome::default());
        }
        let mut damage = None;
        for item in trace.events() {
            match item {
                Ok(item) => counts.add(&item),
                Err(error) => {
                    damage.get_or_insert(error);
                }
            }
        }
        Ok((counts, damage))
    }

    /// Counts one more item.
    pub fn add(&mut self, item: &Item) {
        self.total.add(item);
        match self.streams.get_mut(&**item.stream()) {
            Some(stream) => stream.add(item),
            None => self.streams.entry(item.stream().to_string()).or_default().add(item),
        }
        if let Item::Event(event) = item {
            let cpus = match self.events.get_mut(event.name()) {
                Some(cpus) => cpus,
                None => self.events.entry(event.name().to_owned()).or_default(),
            };
            *cpus.entry(event.cpu()).or_default() += 1;
        }
    }

    /// Two tables: events by CPU, streams with their losses. Ends with a newline.
    pub fn to_table(&self) -> String {
        let cpus: std::collections::BTreeSet<Option<u64>> = self.events.values().flat_map(|cpus| cpus.keys().copied()).collect();
        let mut head = vec!["event".to_owned()];
        head.extend(cpus.iter().map(|cpu| cpu_name(*cpu)));
        head.push("total".to_owned());
        let mut rows = vec![head];
        for (name, counts) in &self.events {
            let mut row = vec![name.clone()];
            row.iter_mut().for_each(escape_controls);
            row.extend(cpus.iter().map(|cpu| counts.get(cpu).copied().unwrap_or(0).to_string()));
            row.push(counts.values().sum::<u64>().to_string());
            rows.push(row);
        }
        let mut text = table(&rows);
        text.push('\n');

        let head = ["stream", "events", "lost events", "lost packets"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let total = ("total".to_owned(), self.total);
        let streams = self.streams.iter().map(|(name, of)| (name.clone(), *of));
        for (name, of) in streams.chain([total]) {
            let counts = [of.events, of.lost_events, of.lost_packets];
            let mut row = vec![name];
            row.iter_mut().for_each(escape_controls);
            row.extend(counts.map(|count| count.to_string()));
            rows.push(row);
        }
        text + &table(&rows)
    }

    /// One JSON object and a newline.
    pub fn to_json(&self) -> String {
        let events: Vec<_> = self
            .events
            .iter()
            .flat_map(|(name, cpus)| {
                cpus.iter().map(move |(cpu, count)| serde_json::json!({ "name": name, "cpu": cpu, "count": count }))
            })
            .collect();
        let outcome = |of: &Outcome| {
            serde_json::json!({
                "events": of.events, "lost_events": of.lost_events, "lost_packets": of.lost_packets,
            })
        };
        let streams: serde_json::Map<_, _> = self.streams.iter().map(|(name, of)| (name.clone(), outcome(of))).collect();
        let all = serde_json::json!({
            "type": "count", "events": events, "streams": streams, "total": outcome(&self.total),
        });
        format!("{all}\n")
    }
}

fn cpu_name(cpu: Option<u64>) -> String {
    cpu.map_or_else(|| "cpu?".to_owned(), |cpu| format!("cpu{cpu}"))
}

/// Columns as wide as they need to be: the first to the left, the others to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

struct Printer {
    /// The time that text output counts from, in nanoseconds from the clock's origin.
    begin: i128,
    stream_width: usize,
    line: String,
}

// Writing to a `String` cannot fail; the results of `write!` are dropped in the functions below.
impl Printer {
    fn text(&mut self, item: &Result<Item, kymo_ctf::Error>) {
        match item {
            Ok(Item::Event(event)) => self.text_event(event),
            Ok(Item::Loss(loss)) => self.text_loss(loss),
            Ok(other) => {
                let _ = write!(self.line, "-- {other:?}");
            }
            Err(error) => {
                let _ = write!(self.line, "-- {error}; nothing more is read from there");
            }
        }
    }

    fn text_event(&mut self, event: &Event) {
        let time = self.seconds(event.nanos());
        let cpu = cpu_name(event.cpu());
        let width = self.stream_width;
        let _ = write!(self.line, "{time:>14}  {cpu:<5}  {:<width$}  {}", event.stream(), event.name());
        let contexts = [(&event.stream_context, &event.packet.class.event_context), (&event.context, &event.class.context)];
        for (fields, class) in contexts {
            if !fields.is_empty() {
                self.line.push(' ');
                text_fields(&mut self.line, fields, class.as_deref());
            }
        }
        self.line.push(' ');
        text_fields(&mut self.line, &event.fields, event.class.fields.as_deref());
    }

    fn text_loss(&mut self, loss: &Loss) {
        let (begin, end) = (self.seconds(loss.begin_nanos), self.seconds(loss.end_nanos));
        let what = match (loss.kind, loss.count) {
            (LossKind::Events, 1) => "event",
            (LossKind::Events, _) => "events",
            (LossKind::Packets, 1) => "packet",
            (LossKind::Packets, _) => "packets",
        };
        let _ = write!(self.line, "-- {} {what} lost on {} between {begin} and {end}", loss.count, loss.stream);
    }

    fn seconds(&self, nanos: Option<i128>) -> String {
        let Some(nanos) = nanos else {
            return "?".to_owned();
        };
        let since = nanos - self.begin;
        let sign = if since < 0 { "-" } else { "" };
        let since = since.unsigned_abs();
        format!("{sign}{}.{:09}", since / 1_000_000_000, since % 1_000_000_000)
    }

    fn json(&mut self, item: &Result<Item, kymo_ctf::Error>) {
        let line = &mut self.line;
        match item {
            Ok(Item::Event(event)) => {
                line.push_str(r#"{"type":"event","time_ns":"#);
                json_number(line, event.nanos());
                line.push_str(r#","cycles":"#);
                json_number(line, event.time);
                line.push_str(r#","cpu":"#);
                json_number(line, event.cpu());
                line.push_str(r#","stream":"#);
                json_text(line, event.stream());
                line.push_str(r#","name":"#);
                json_text(line, event.name());
                let contexts = [("stream_context", &event.stream_context), ("context", &event.context)];
                for (name, fields) in contexts {
                    if !fields.is_empty() {
                        let _ = write!(line, r#","{name}":"#);
                        json_fields(line, fields);
                    }
                }
                line.push_str(r#","fields":"#);
                json_fields(line, &event.fields);
                line.push('}');
            }
            Ok(Item::Loss(loss)) => {
                let kind = match loss.kind {
                    LossKind::Events => "events",
                    LossKind::Packets => "packets",
                };
                let _ = write!(line, r#"{{"type":"loss","kind":"{kind}","count":{},"stream":"#, loss.count);
                json_text(line, &loss.stream);
                line.push_str(r#","cpu":"#);
                json_number(line, loss.cpu);
                for (name, nanos, cycles) in [("begin", loss.begin_nanos, loss.begin), ("end", loss.end_nanos, loss.end)] {
                    let _ = write!(line, r#","{name}_ns":"#);
                    json_number(line, nanos);
                    let _ = write!(line, r#","{name}_cycles":"#);
                    json_number(line, cycles);
                }
                line.push('}');
            }
            Ok(other) => {
                line.push_str(r#"{"type":"unknown","text":"#);
                json_text(line, &format!("{other:?}"));
                line.push('}');
            }
            Err(error) => {
                line.push_str(r#"{"type":"error","message":"#);
                json_text(line, &error.to_string());
                line.push('}');
            }
        }
    }
}

/// `class` says in which base integers are best shown; without it they are decimal.
fn text_fields(line: &mut String, fields: &Fields, class: Option<&StructClass>) {
    let mut separator = "{";
    for (index, (name, value)) in fields.iter().enumerate() {
        if is_told_by_another(name, value, fields) {
            continue;
        }
        let member = class.and_then(|class| class.members.get(index));
        let _ = write!(line, "{separator} {name} = ");
        text_value(line, value, member.map(|member| &member.class));
        separator = ",";
    }
    line.push_str(if separator == "{" { "{ }" } else { " }" });
}

/// Whether a field is the length of another one that shows it: tracers write `_name_length` in front of the sequence `name`. Kymo also
/// writes `_name_cut`, which says something only where it is not 0.
fn is_told_by_another(name: &str, value: &Value, fields: &Fields) -> bool {
    let text = name.strip_prefix('_').and_then(|name| name.strip_suffix("_cut")).and_then(|name| fields.get(name));
    if matches!(text, Some(Value::Str(_))) && value.as_u64() == Some(0) {
        return true;
    }
    let sequence = name.strip_prefix('_').and_then(|name| name.strip_suffix("_length"));
    let length = match sequence.and_then(|name| fields.get(name)) {
        Some(Value::Str(text)) => text.len(),
        Some(Value::Array(values)) => values.len(),
        _ => return false,
    };
    value.as_u64() == Some(length as u64)
}

fn text_value(line: &mut String, value: &Value, class: Option<&FieldClass>) {
    let _ = match value {
        Value::UInt(value) => match class.and_then(FieldClass::as_integer).map(|class| class.base) {
            Some(Base::Hexadecimal) => write!(line, "{value:#x}"),
            Some(Base::Octal) => write!(line, "{value:#o}"),
            Some(Base::Binary) => write!(line, "{value:#b}"),
            _ => write!(line, "{value}"),
        },
        Value::Int(value) => write!(line, "{value}"),
        Value::Float(value) => write!(line, "{value}"),
        Value::Str(text) => write!(line, "{text:?}"),
        Value::Enum { value, labels } if labels.is_empty() => write!(line, "{value}"),
        Value::Enum { value, labels } => write!(line, "{} ({value})", labels.join("|")),
        Value::Struct(fields) => {
            let class = match class {
                Some(FieldClass::Struct(class)) => Some(class),
                _ => None,
            };
            text_fields(line, fields, class);
            Ok(())
        }
        Value::Variant { option, value } => {
            let class = match class {
                Some(FieldClass::Variant(class)) => class.options.iter().find(|have| have.name == *option),
                _ => None,
            };
            let _ = write!(line, "{option}: ");
            text_value(line, value, class.map(|option| &option.class));
            Ok(())
        }
        Value::Array(values) => {
            let element = match class {
                Some(FieldClass::Array(class)) => Some(&*class.element),
                _ => None,
            };
            line.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    line.push_str(", ");
                }
                text_value(line, value, element);
            }
            line.push(']');
            Ok(())
        }
        other => write!(line, "{other:?}"),
    };
}

fn json_number(line: &mut String, number: Option<impl std::fmt::Display>) {
    let _ = match number {
        Some(number) => write!(line, "{number}"),
        None => write!(line, "null"),
    };
}

fn json_text(line: &mut String, text: &str) {
    let _ = write!(line, "{}", serde_json::Value::from(text));
}

/// An object with the fields in declared order.
fn json_fields(line: &mut String, fields: &Fields) {
    line.push('{');
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        json_text(line, name);
        line.push(':');
        json_value(line, value);
    }
    line.push('}');
}

fn json_value(line: &mut String, value: &Value) {
    match value {
        Value::UInt(value) => json_number(line, Some(value)),
        Value::Int(value) => json_number(line, Some(value)),
        // JSON has no infinities and no NaN; `null` stands for both.
        Value::Float(value) => {
            let _ = write!(line, "{}", serde_json::Value::from(*value));
        }
        Value::Str(text) => json_text(line, text),
        Value::Enum { value, labels } => {
            let _ = write!(line, r#"{{"value":{value},"labels":["#);
            for (index, label) in labels.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                json_text(line, label);
            }
            line.push_str("]}");
        }
        Value::Struct(fields) => json_fields(line, fields),
        Value::Variant { option, value } => {
            line.push('{');
            json_text(line, option);
            line.push(':');
            json_value(line, value);
            line.push('}');
        }
        Value::Array(values) => {
            line.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                json_value(line, value);
            }
            line.push(']');
        }
        other => json_text(line, &format!("{other:?}")),
    }
}
