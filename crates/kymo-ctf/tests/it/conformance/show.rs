//! Prints the results of this crate's API in the format of the cases. Only this file and `count.rs`
//! use the API.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kymo_ctf::{
    Error, Event, FieldClass, Fields, Item, ItemRef, Loss, LossKind, Merge, Metadata, Problem,
    Reader, Role, Roles, StreamReader, StructClass, Value, WideKind,
};

/// Why a metadata text is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) position: Option<(u32, u32)>,
    pub(crate) message: String,
}

/// Stands for a panic in place of a result.
pub(crate) const PANICKED: &str = "PANICKED";

/// Runs `work`, and turns a panic into an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| PANICKED.to_owned())
}

pub(crate) fn parse(metadata: &[u8]) -> Result<Arc<Metadata>, Refusal> {
    let parsed = guarded(|| Metadata::from_bytes(metadata)).map_err(|message| Refusal {
        position: None,
        message,
    })?;
    parsed.map(Arc::new).map_err(|error| match error {
        Error::Metadata(error) => Refusal {
            position: Some((error.position.line, error.position.column)),
            message: error.message,
        },
        other => Refusal {
            position: None,
            message: other.to_string(),
        },
    })
}

/// All items and errors of the streams, merged, one per line.
pub(crate) fn decode(metadata: &Arc<Metadata>, streams: &[(String, Vec<u8>)]) -> Vec<String> {
    let lines = guarded(|| {
        let readers = streams
            .iter()
            .map(|(name, bytes)| Ok(StreamReader::new(Arc::clone(metadata), name, &bytes[..])));
        Merge::new(readers).map(|item| item_line(&item)).collect()
    });
    lines.unwrap_or_else(|panic| vec![panic])
}

/// All items and errors, read by the borrowing reader.
pub(crate) fn decode_borrowed(
    metadata: &Arc<Metadata>,
    streams: &[(String, Vec<u8>)],
) -> Vec<String> {
    let lines = guarded(|| {
        let mut reader = Reader::new(
            streams
                .iter()
                .map(|(name, bytes)| (metadata, name.as_str(), &bytes[..])),
        );
        let mut lines = Vec::new();
        while let Some(item) = reader.next() {
            lines.push(match item {
                ItemRef::Event(event) => {
                    let packet = event.packet().map(Arc::new).unwrap();
                    event_line(&event.to_event(packet))
                }
                ItemRef::Loss(loss) => loss_line(loss),
                ItemRef::Problem(problem) => problem_line(problem),
                other => format!("{other:?}"),
            });
        }
        lines
    });
    lines.unwrap_or_else(|panic| vec![panic])
}

fn problem_line(problem: &Problem) -> String {
    format!(
        "error: packet {}, byte {}: {}",
        problem.packet, problem.offset, problem.reason
    )
}

fn item_line(item: &Result<Item, Error>) -> String {
    match item {
        Ok(Item::Event(event)) => event_line(event),
        Ok(Item::Loss(loss)) => loss_line(loss),
        Ok(Item::Problem(problem)) => problem_line(problem),
        Ok(other) => format!("{other:?}"),
        Err(Error::Stream {
            packet,
            offset,
            reason,
            ..
        }) => format!("error: packet {packet}, byte {offset}: {reason}"),
        Err(other) => format!("error: {other}"),
    }
}

/// Members of the packet context that describe the packet, not its events.
const OF_THE_PACKET: [&str; 6] = [
    "timestamp_begin",
    "timestamp_end",
    "content_size",
    "packet_size",
    "packet_seq_num",
    "events_discarded",
];

/// Whether a member of the packet context describes its events.
fn is_of_the_event(name: &str, class: Option<&FieldClass>) -> bool {
    let roles = class.map_or(Roles::NONE, FieldClass::roles);
    let has_role = !roles.is_empty() && !roles.has(Role::CpuId);
    !has_role && !OF_THE_PACKET.contains(&name)
}

/// An event as printed by babeltrace2 with --clock-cycles --no-delta, without leading zeros and
/// trailing spaces.
fn event_line(event: &Event) -> String {
    let time = event
        .time
        .map_or(String::new(), |time| format!("[{time}] "));
    let packet = show_fields(
        &event.packet.context,
        event.packet.class.packet_context.as_deref(),
        is_of_the_event,
    );
    let all = |_: &str, _: Option<&FieldClass>| true;
    let common = show_fields(
        &event.stream_context,
        event.packet.class.event_context.as_deref(),
        all,
    );
    let own = show_fields(&event.context, event.class.context.as_deref(), all);
    let contexts: String = [packet, common, own]
        .iter()
        .filter(|part| *part != "{ }")
        .map(|part| format!("{part}, "))
        .collect();
    let fields = event
        .class
        .fields
        .as_deref()
        .map_or(String::new(), |class| {
            show_fields(&event.fields, Some(class), all)
        });
    let line = format!("{time}{}: {contexts}{fields}", event.name());
    line.trim_end_matches([' ', ',']).to_owned()
}

fn loss_line(loss: &Loss) -> String {
    let what = match loss.kind {
        LossKind::Events => "events",
        LossKind::Packets => "packets",
    };
    let time =
        |ticks: Option<kymo_ctf::Ticks>| ticks.map_or("?".to_owned(), |ticks| ticks.to_string());
    format!(
        "lost: {} {what} [{}, {}]",
        loss.count,
        time(loss.begin),
        time(loss.end)
    )
}

fn show_fields(
    fields: &Fields,
    class: Option<&StructClass>,
    is_shown: impl Fn(&str, Option<&FieldClass>) -> bool,
) -> String {
    let class = |index: usize| {
        class
            .and_then(|class| class.members.get(index))
            .map(|member| &member.class)
    };
    let fields = fields
        .iter()
        .enumerate()
        .filter(|(i, (name, _))| is_shown(name, class(*i)));
    let fields: Vec<String> = fields
        .map(|(i, (name, value))| format!("{name} = {}", show(value, class(i))))
        .collect();
    if fields.is_empty() {
        "{ }".to_owned()
    } else {
        format!("{{ {} }}", fields.join(", "))
    }
}

fn labels(labels: &[Arc<str>], container: &str) -> String {
    let labels: Vec<String> = labels.iter().map(|label| format!("\"{label}\"")).collect();
    let labels = if labels.is_empty() {
        "<unknown>".to_owned()
    } else {
        labels.join(", ")
    };
    format!("( {labels} : container = {container} )")
}

fn is_bit_array(class: Option<&FieldClass>) -> bool {
    match class {
        Some(FieldClass::Wide(class)) => matches!(class.kind, WideKind::BitArray),
        class => matches!(class, Some(FieldClass::BitArray(_))),
    }
}

/// Prints a value; `class` is its class, if known, which distinguishes bit arrays from integers.
fn show(value: &Value, class: Option<&FieldClass>) -> String {
    match value {
        Value::UInt(value) if is_bit_array(class) => format!("{value:#x}"),
        Value::Wide(value) if is_bit_array(class) => format!("{value:#x}"),
        Value::Wide(value) => value.to_string(),
        Value::WideEnum { value, labels: of } => labels(of, &value.to_string()),
        Value::WideBitMap { bits, flags } => labels(flags, &format!("{bits:#x}")),
        Value::UInt(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Enum { value, labels: of } => labels(of, &value.to_string()),
        Value::BitMap { bits, flags } => labels(flags, &format!("{bits:#x}")),
        Value::Float(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Str(text) => format!("\"{text}\""),
        Value::Bytes(bytes) => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("<{}>", bytes.join(" "))
        }
        Value::None => "none".to_owned(),
        Value::Array(values) if values.is_empty() => "[ ]".to_owned(),
        Value::Array(values) => {
            let element = match class {
                Some(FieldClass::Array(class)) => Some(&*class.element),
                _ => None,
            };
            let values = values.iter().enumerate();
            let values: Vec<String> = values
                .map(|(i, value)| format!("[{i}] = {}", show(value, element)))
                .collect();
            format!("[ {} ]", values.join(", "))
        }
        Value::Struct(fields) => match class {
            Some(FieldClass::Struct(class)) => show_fields(fields, Some(class), |_, _| true),
            _ => show_fields(fields, None, |_, _| true),
        },
        Value::Variant { value, .. } => format!("{{ {} }}", show(value, None)),
        other => format!("{other:?}"),
    }
}
