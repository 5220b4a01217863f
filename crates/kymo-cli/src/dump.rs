//! `kymo dump`: a trace as text or JSON, and how much of what is in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context as _;
use kymo_ctf::{Base, Consequence, Event, FieldClass, Fields, Item, Loss, LossKind, StructClass, Tally, Trace, Value};

use crate::progress::Progress;
use crate::select::{Select, Verdict};

/// What was printed or counted of a trace.
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

/// Prints what is selected of the trace to `out`: one line an event or loss, in the order of time; as JSON, one object a line.
///
/// Times are seconds since the earliest stream began; in JSON, nanoseconds from the clock's origin, and the clock's own ticks.
/// A reader of `out` that goes away early (`| head`) is not an error.
///
/// # Errors
/// [`kymo_ctf::Error`] (to be found by `downcast_ref`) if a stream is damaged: then everything that can be read was printed, a line
/// in its place says where the stream ends, and the first such error is returned. [`Usage`](crate::exit::Usage) if the trace has
/// nothing of a CPU or thread that was asked for. [`io::Error`] if `out` cannot be written.
pub fn run(trace: &Trace, json: bool, select: &mut Select, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let items = trace.events_strictly(select.strict);
    let mut printer = Printer { begin: items.begin_nanos().unwrap_or(0), stream_width: stream_width(trace), line: String::new() };
    let mut outcome = Outcome::default();
    let mut damage = None;
    for item in items {
        if let Ok(item) = &item {
            match select.judge(item) {
                Verdict::Take => outcome.add(item),
                Verdict::Leave => continue,
                Verdict::End => break,
            }
        }
        printer.line.clear();
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
            if select.strict {
                break;
            }
        }
    }
    flush(out)?;
    verdict(damage, select)?;
    Ok(outcome)
}

/// Damage first: what is missing may be behind it.
fn verdict(damage: Option<kymo_ctf::Error>, select: &Select) -> anyhow::Result<()> {
    if let Some(damage) = damage {
        return Err(damage.into());
    }
    select.missing().map_or(Ok(()), |missing| Err(missing.into()))
}

/// Prints how many of the selected events of each name each CPU has, and what each stream has of them and lost.
///
/// # Errors
/// As for [`run`]; what could be read is counted and printed first, unless the trace has nothing of what was asked for.
pub fn count(trace: &Trace, json: bool, select: &mut Select, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let (counts, damage) = Counts::of(trace, select);
    if damage.is_none() {
        verdict(None, select)?;
    }
    let text = if json { counts.to_json() } else { counts.to_table() };
    if deliver(out, text.as_bytes())? {
        flush(out)?;
    }
    verdict(damage, select)?;
    Ok(counts.total)
}

const NO_OUTPUT: &str = "cannot write the output (make room where it goes)";

/// Writes; `false` if nobody reads any more.
pub fn deliver(out: &mut impl Write, bytes: &[u8]) -> anyhow::Result<bool> {
    match out.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context(NO_OUTPUT),
    }
}

/// The same for what is left in the buffer.
pub fn flush(out: &mut impl Write) -> anyhow::Result<()> {
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context(NO_OUTPUT),
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
    trace.stream_names().map(|name| name.chars().count()).max().unwrap_or(0).min(32)
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
    /// Counts what is selected of the trace, and gives the first stream's damage if there is any.
    pub fn of(trace: &Trace, select: &mut Select) -> (Counts, Option<kymo_ctf::Error>) {
        if !select.is_partial {
            return Counts::tally(trace, select.jobs, select.strict);
        }
        let mut counts = Counts::default();
        for name in trace.stream_names() {
            counts.streams.insert(name.to_owned(), Outcome::default());
        }
        let mut progress = Progress::new(trace);
        let mut damage = None;
        for item in trace.events_strictly(select.strict) {
            match item {
                Ok(item) => {
                    progress.pass(&item);
                    match select.judge(&item) {
                        Verdict::Take => counts.add(&item),
                        Verdict::Leave => {}
                        Verdict::End => break,
                    }
                }
                Err(error) => {
                    damage.get_or_insert(error);
                }
            }
        }
        progress.done();
        (counts, damage)
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

    /// Counts a whole trace without decoding its fields, in as many threads as `jobs` says.
    pub fn tally(trace: &Trace, jobs: usize, strict: bool) -> (Counts, Option<kymo_ctf::Error>) {
        let map = trace.map();
        let progress = Progress::new(trace);
        let tally = Tally::watched(&map, jobs, strict, &|bytes| progress.advance(bytes));
        progress.done();
        let mut counts = Counts::default();
        for stream in tally.streams {
            let outcome = Outcome { events: stream.events, lost_events: stream.lost_events, lost_packets: stream.lost_packets };
            counts.total.events += outcome.events;
            counts.total.lost_events = counts.total.lost_events.saturating_add(outcome.lost_events);
            counts.total.lost_packets = counts.total.lost_packets.saturating_add(outcome.lost_packets);
            counts.streams.insert(stream.name, outcome);
        }
        for ((name, cpu), count) in tally.events {
            *counts.events.entry(name.to_string()).or_default().entry(cpu).or_default() += count;
        }
        let damage = tally.problems.into_iter().find(|problem| problem.consequence != Consequence::Clamped);
        let damage = map.into_failed().into_iter().next().or(damage.map(kymo_ctf::Error::from));
        (counts, damage)
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

/// An event's fields, as `kymo dump` prints them.
pub fn fields_text(event: &Event) -> String {
    let mut line = String::new();
    text_fields(&mut line, &event.fields, event.class.fields.as_deref());
    line
}

/// The same as a JSON object.
pub fn fields_json(event: &Event) -> String {
    let mut line = String::new();
    json_fields(&mut line, &event.fields);
    line
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
            Ok(Item::Problem(problem)) => {
                let _ = write!(self.line, "-- {problem}");
            }
            Ok(other) => {
                let _ = write!(self.line, "-- {other:?}");
            }
            Err(error) => {
                let _ = match error {
                    kymo_ctf::Error::Stream { resumes: Some(offset), .. } => {
                        write!(self.line, "-- {error}; reading goes on at byte {offset}")
                    }
                    _ => write!(self.line, "-- {error}; nothing more is read from there"),
                };
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
            Ok(Item::Problem(problem)) => {
                line.push_str(r#"{"type":"problem","message":"#);
                json_text(line, &problem.to_string());
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
    let class = match class {
        Some(FieldClass::Optional(class)) => Some(&*class.class),
        class => class,
    };
    let base = match class {
        Some(FieldClass::VarInt(class)) => Some(class.base),
        Some(FieldClass::BitArray(_)) => Some(Base::Hexadecimal),
        class => class.and_then(FieldClass::as_integer).map(|class| class.base),
    };
    let _ = match value {
        Value::UInt(value) => match base {
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
        Value::Bool(value) => write!(line, "{value}"),
        Value::BitMap { bits, flags } if flags.is_empty() => write!(line, "{bits:#x}"),
        Value::BitMap { bits, flags } => write!(line, "{} ({bits:#x})", flags.join("|")),
        Value::Bytes(bytes) => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write!(line, "<{}>", bytes.join(" "))
        }
        Value::None => write!(line, "none"),
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
            if !option.is_empty() {
                let _ = write!(line, "{option}: ");
            }
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

/// A number and what its values or bits are called.
fn json_labels(line: &mut String, value: impl std::fmt::Display, labels: &[Arc<str>]) {
    let _ = write!(line, r#"{{"value":{value},"labels":["#);
    for (index, label) in labels.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        json_text(line, label);
    }
    line.push_str("]}");
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
        Value::Enum { value, labels } => json_labels(line, value, labels),
        Value::BitMap { bits, flags } => json_labels(line, bits, flags),
        Value::Bool(value) => {
            let _ = write!(line, "{value}");
        }
        Value::Bytes(bytes) => {
            let _ = write!(line, "{}", serde_json::Value::from(bytes.as_slice()));
        }
        Value::None => line.push_str("null"),
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
