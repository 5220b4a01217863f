//! Kymo's own text: a line an event.

use std::io::Write as _;

use kymo_ctf::{Base, Event, EventRef, FieldClass, Loss, LossKind, Problem, StructClass, TraceMap};

use super::shape::{Members, Shape, Shown};
use super::{Page, Printer, cpu_name, escape_controls, has_controls};

/// Prints lines of text.
pub struct Text {
    /// The time that is counted from, in nanoseconds from the clock's origin.
    begin: i128,
    stream_width: usize,
}

impl Text {
    pub fn new(map: &TraceMap, begin: Option<i128>) -> Text {
        let width = map.streams().map(|(_, name, _)| name.chars().count()).max();
        Text {
            begin: begin.unwrap_or(0),
            stream_width: width.unwrap_or(0).min(32),
        }
    }

    fn seconds(&self, nanos: Option<i128>) -> String {
        let Some(nanos) = nanos else {
            return "?".to_owned();
        };
        let since = nanos - self.begin;
        let sign = if since < 0 { "-" } else { "" };
        // 64 bits hold 584 years, and are divided faster.
        match u64::try_from(since.unsigned_abs()) {
            Ok(since) => format!(
                "{sign}{}.{:09}",
                since / 1_000_000_000,
                since % 1_000_000_000
            ),
            Err(_) => format!(
                "{sign}{}.{:09}",
                since.unsigned_abs() / 1_000_000_000,
                since.unsigned_abs() % 1_000_000_000
            ),
        }
    }
}

// Writing to a `Vec` cannot fail; the results of `write!` are dropped here.
impl Printer for Text {
    fn event(&mut self, event: &EventRef<'_>, page: &mut Page) {
        let line = &mut page.lines;
        let start = line.len();
        let time = self.seconds(event.nanos());
        let width = self.stream_width;
        let _ = match event.cpu() {
            Some(cpu) => write!(line, "{time:>14}  cpu{cpu:<2}"),
            None => write!(line, "{time:>14}  {:<5}", cpu_name(None)),
        };
        let _ = write!(line, "  {:<width$}  {}", event.stream(), event.name());
        let common = event.stream_context();
        let own = event.context();
        for fields in [&common, &own] {
            if !fields.is_empty() {
                line.push(b' ');
                text_fields(line, fields, Some(fields.class()));
            }
        }
        line.push(b' ');
        let fields = event.fields();
        text_fields(line, &fields, Some(fields.class()));
        finish(line, start);
    }

    fn loss(&mut self, loss: &Loss, page: &mut Page) {
        let (begin, end) = (self.seconds(loss.begin_nanos), self.seconds(loss.end_nanos));
        let start = page.lines.len();
        let _ = write!(
            page.lines,
            "-- {} {} lost on {} between {begin} and {end}",
            loss.count,
            lost(loss),
            loss.stream
        );
        finish(&mut page.lines, start);
    }

    fn problem(&mut self, problem: &Problem, page: &mut Page) {
        let start = page.lines.len();
        let _ = write!(page.lines, "-- {problem}");
        finish(&mut page.lines, start);
    }

    fn error(&mut self, error: &kymo_ctf::Error, page: &mut Page) {
        let start = page.lines.len();
        let _ = write!(page.lines, "-- {}", consequence(error));
        finish(&mut page.lines, start);
    }
}

/// What was lost, in one word.
pub fn lost(loss: &Loss) -> &'static str {
    match (loss.kind, loss.count) {
        (LossKind::Events, 1) => "event",
        (LossKind::Events, _) => "events",
        (LossKind::Packets, 1) => "packet",
        (LossKind::Packets, _) => "packets",
    }
}

/// An error, and what becomes of the stream.
pub fn consequence(error: &kymo_ctf::Error) -> String {
    match error {
        kymo_ctf::Error::Stream {
            resumes: Some(offset),
            ..
        } => format!("{error}; reading goes on at byte {offset}"),
        _ => format!("{error}; nothing more is read from there"),
    }
}

/// Ends the line that began at `start`. Names come from the trace, and must not steer the terminal.
fn finish(lines: &mut Vec<u8>, start: usize) {
    let line = lines.get(start..).unwrap_or(&[]);
    if has_controls(line) {
        let mut line = String::from_utf8_lossy(line).into_owned();
        escape_controls(&mut line);
        lines.truncate(start);
        lines.extend_from_slice(line.as_bytes());
    }
    lines.push(b'\n');
}

/// An event's fields, as `kymo dump` prints them.
pub fn fields_text(event: &Event) -> String {
    let mut line = Vec::new();
    text_fields(&mut line, &event.fields, event.class.fields.as_deref());
    String::from_utf8_lossy(&line).into_owned()
}

/// `class` says in which base integers are best shown; without it they are decimal.
fn text_fields<M: Members>(line: &mut Vec<u8>, fields: &M, class: Option<&StructClass>) {
    let mut separator = "{";
    let mut index = 0;
    fields.each(&mut |name, value| {
        let member = class.and_then(|class| class.members.get(index));
        index += 1;
        if is_told_by_another(name, value, fields) {
            return;
        }
        for part in [separator, " ", name, " = "] {
            line.extend_from_slice(part.as_bytes());
        }
        text_value(line, value, member.map(|member| &member.class));
        separator = ",";
    });
    line.extend_from_slice(if separator == "{" { b"{ }" } else { b" }" });
}

/// Whether a field is the length of another one that shows it: tracers write `_name_length` in
/// front of the sequence `name`. Kymo also writes `_name_cut`, which says something only where it
/// is not 0.
fn is_told_by_another<M: Members>(name: &str, value: &M::Value, fields: &M) -> bool {
    let Some(name) = name.strip_prefix('_') else {
        return false;
    };
    let value = match value.shown() {
        Shown::UInt(value) => value,
        Shown::Int(value) if value >= 0 => value.unsigned_abs(),
        Shown::Enum(value) => match u64::try_from(value) {
            Ok(value) => value,
            Err(_) => return false,
        },
        _ => return false,
    };
    let text = name
        .strip_suffix("_cut")
        .filter(|_| value == 0)
        .and_then(|name| fields.length(name));
    if matches!(text, Some((true, _))) {
        return true;
    }
    let sequence = name
        .strip_suffix("_length")
        .and_then(|name| fields.length(name));
    sequence.is_some_and(|(_, length)| length == value)
}

fn text_value<V: Shape>(line: &mut Vec<u8>, value: &V, class: Option<&FieldClass>) {
    let class = match class {
        Some(FieldClass::Optional(class)) => Some(&*class.class),
        class => class,
    };
    let _ = match value.shown() {
        Shown::UInt(value) => match base(class) {
            Some(Base::Hexadecimal) => write!(line, "{value:#x}"),
            Some(Base::Octal) => write!(line, "{value:#o}"),
            Some(Base::Binary) => write!(line, "{value:#b}"),
            _ => {
                decimal(line, value);
                Ok(())
            }
        },
        Shown::Int(value) => {
            decimal(line, value);
            Ok(())
        }
        Shown::Float(value) => write!(line, "{value}"),
        Shown::Text(text) => write!(line, "{text:?}"),
        Shown::Enum(number) => match labels(line, value) {
            true => write!(line, " ({number})"),
            false => write!(line, "{number}"),
        },
        Shown::BitMap(bits) => match labels(line, value) {
            true => write!(line, " ({bits:#x})"),
            false => write!(line, "{bits:#x}"),
        },
        Shown::Wide(number) => write!(line, "{}", number.in_base(base(class).unwrap_or_default())),
        Shown::WideEnum(number) => match labels(line, value) {
            true => write!(line, " ({number})"),
            false => write!(line, "{number}"),
        },
        Shown::WideBitMap(bits) => match labels(line, value) {
            true => write!(line, " ({bits:#x})"),
            false => write!(line, "{bits:#x}"),
        },
        Shown::Bool(value) => write!(line, "{value}"),
        Shown::Bytes(bytes) => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write!(line, "<{}>", bytes.join(" "))
        }
        Shown::None => write!(line, "none"),
        Shown::Struct => {
            let class = match class {
                Some(FieldClass::Struct(class)) => Some(class),
                _ => None,
            };
            if let Some(members) = value.members() {
                text_fields(line, members, class);
            }
            Ok(())
        }
        Shown::Variant(option) => {
            let class = match class {
                Some(FieldClass::Variant(class)) => {
                    class.options.iter().find(|have| *have.name == *option)
                }
                _ => None,
            };
            if !option.is_empty() {
                let _ = write!(line, "{option}: ");
            }
            value.elements(&mut |value| text_value(line, value, class.map(|option| &option.class)));
            Ok(())
        }
        Shown::Array => {
            let element = match class {
                Some(FieldClass::Array(class)) => Some(&*class.element),
                _ => None,
            };
            let mut separator = "[";
            value.elements(&mut |value| {
                line.extend_from_slice(separator.as_bytes());
                text_value(line, value, element);
                separator = ", ";
            });
            line.extend_from_slice(if separator == "[" { b"[]" } else { b"]" });
            Ok(())
        }
        Shown::Other(text) => write!(line, "{text}"),
    };
}

fn base(class: Option<&FieldClass>) -> Option<Base> {
    match class {
        Some(FieldClass::VarInt(class)) => Some(class.base),
        Some(FieldClass::Wide(class)) => Some(class.base),
        Some(FieldClass::BitArray(_)) => Some(Base::Hexadecimal),
        class => class
            .and_then(FieldClass::as_integer)
            .map(|class| class.base),
    }
}

fn decimal(line: &mut Vec<u8>, number: impl itoa::Integer) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The labels, and whether there is one.
fn labels<V: Shape>(line: &mut Vec<u8>, value: &V) -> bool {
    let mut any = false;
    value.labels(&mut |label| {
        if any {
            line.push(b'|');
        }
        line.extend_from_slice(label.as_bytes());
        any = true;
    });
    any
}
