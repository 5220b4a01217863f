//! JSON: an object a line.

use std::fmt::Display;
use std::io::Write as _;

use kymo_ctf::{Event, EventRef, Loss, LossKind, Problem};

use super::shape::{Members, Shape, Shown};
use super::{Page, Printer};

/// Prints objects.
pub struct Json;

// Writing to a `Vec` cannot fail; the results of `write!` are dropped here.
impl Printer for Json {
    fn event(&mut self, event: &EventRef<'_>, page: &mut Page) {
        let line = &mut page.lines;
        line.extend_from_slice(br#"{"type":"event","time_ns":"#);
        match event.nanos().map(i64::try_from) {
            Some(Ok(nanos)) => integer(line, nanos),
            _ => optional(line, event.nanos()),
        }
        line.extend_from_slice(br#","cycles":"#);
        optional(line, event.time());
        line.extend_from_slice(br#","cpu":"#);
        optional(line, event.cpu());
        line.extend_from_slice(br#","stream":"#);
        text(line, event.stream());
        line.extend_from_slice(br#","name":"#);
        text(line, event.name());
        for (name, fields) in [
            ("stream_context", event.stream_context()),
            ("context", event.context()),
        ] {
            if !fields.is_empty() {
                let _ = write!(line, r#","{name}":"#);
                members(line, &fields);
            }
        }
        line.extend_from_slice(br#","fields":"#);
        members(line, &event.fields());
        line.extend_from_slice(b"}\n");
    }

    fn loss(&mut self, loss: &Loss, page: &mut Page) {
        let line = &mut page.lines;
        let kind = match loss.kind {
            LossKind::Events => "events",
            LossKind::Packets => "packets",
        };
        let _ = write!(
            line,
            r#"{{"type":"loss","kind":"{kind}","count":{},"stream":"#,
            loss.count
        );
        text(line, &loss.stream);
        line.extend_from_slice(br#","cpu":"#);
        optional(line, loss.cpu);
        for (name, nanos, cycles) in [
            ("begin", loss.begin_nanos, loss.begin),
            ("end", loss.end_nanos, loss.end),
        ] {
            let _ = write!(line, r#","{name}_ns":"#);
            optional(line, nanos);
            let _ = write!(line, r#","{name}_cycles":"#);
            optional(line, cycles);
        }
        line.extend_from_slice(b"}\n");
    }

    fn problem(&mut self, problem: &Problem, page: &mut Page) {
        message(&mut page.lines, "problem", &problem.to_string());
    }

    fn error(&mut self, error: &kymo_ctf::Error, page: &mut Page) {
        message(&mut page.lines, "error", &error.to_string());
    }
}

fn message(line: &mut Vec<u8>, kind: &str, message: &str) {
    let _ = write!(line, r#"{{"type":"{kind}","message":"#);
    text(line, message);
    line.extend_from_slice(b"}\n");
}

/// An event's fields as a JSON object.
pub fn fields_json(event: &Event) -> String {
    let mut line = Vec::new();
    members(&mut line, &event.fields);
    String::from_utf8_lossy(&line).into_owned()
}

fn integer(line: &mut Vec<u8>, number: impl itoa::Integer) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn optional(line: &mut Vec<u8>, number: Option<impl Display>) {
    let _ = match number {
        Some(number) => write!(line, "{number}"),
        None => write!(line, "null"),
    };
}

fn text(line: &mut Vec<u8>, text: &str) {
    let _ = serde_json::to_writer(line, text);
}

/// An object with the fields in declared order.
fn members<M: Members>(line: &mut Vec<u8>, fields: &M) {
    line.push(b'{');
    let mut first = true;
    fields.each(&mut |name, value| {
        if !first {
            line.push(b',');
        }
        first = false;
        text(line, name);
        line.push(b':');
        json_value(line, value);
    });
    line.push(b'}');
}

/// A number and what its values or bits are called.
fn labels<V: Shape>(line: &mut Vec<u8>, number: impl Display, value: &V) {
    let _ = write!(line, r#"{{"value":{number},"labels":["#);
    let mut first = true;
    value.labels(&mut |label| {
        if !first {
            line.push(b',');
        }
        first = false;
        text(line, label);
    });
    line.extend_from_slice(b"]}");
}

fn json_value<V: Shape>(line: &mut Vec<u8>, value: &V) {
    match value.shown() {
        Shown::UInt(value) => integer(line, value),
        Shown::Int(value) => integer(line, value),
        // JSON has no infinities and no NaN; `null` stands for both.
        Shown::Float(value) => {
            let _ = write!(line, "{}", serde_json::Value::from(value));
        }
        Shown::Text(value) => text(line, value),
        // What reads JSON keeps 64 bits at most of a number, and of text everything.
        Shown::Wide(number) => {
            let _ = write!(line, r#""{number}""#);
        }
        Shown::WideEnum(number) | Shown::WideBitMap(number) => {
            labels(line, format_args!(r#""{number}""#), value)
        }
        Shown::Enum(number) if !(i64::MIN.into()..=u64::MAX.into()).contains(&number) => {
            labels(line, format_args!(r#""{number}""#), value);
        }
        Shown::Enum(number) => labels(line, number, value),
        Shown::BitMap(bits) => labels(line, bits, value),
        Shown::Bool(value) => {
            let _ = write!(line, "{value}");
        }
        Shown::Bytes(bytes) => {
            let _ = serde_json::to_writer(line, bytes);
        }
        Shown::None => line.extend_from_slice(b"null"),
        Shown::Struct => {
            if let Some(fields) = value.members() {
                members(line, fields);
            }
        }
        Shown::Variant(option) => {
            line.push(b'{');
            text(line, option);
            line.push(b':');
            value.elements(&mut |value| json_value(line, value));
            line.push(b'}');
        }
        Shown::Array => {
            line.push(b'[');
            let mut first = true;
            value.elements(&mut |value| {
                if !first {
                    line.push(b',');
                }
                first = false;
                json_value(line, value);
            });
            line.push(b']');
        }
        Shown::Other(other) => text(line, &other),
    }
}
