//! The columns of a kind of event.

use std::collections::HashSet;

use kymo_ctf::{Event, EventClass, FieldClass, Fields, StreamClass, StructClass};

use crate::value::Note;

/// What a column holds. Any value may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Unsigned,
    Signed,
    Float,
    Text,
}

/// Where a column's value is.
#[derive(Clone, Debug)]
enum Source {
    Time,
    Cycles,
    Cpu,
    Stream,
    StreamContext(String),
    Context(String),
    Field(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    #[cfg_attr(
        not(feature = "parquet"),
        allow(dead_code, reason = "CSV has no types")
    )]
    pub(crate) holds: ColumnType,
    source: Source,
}

impl Column {
    /// The event's value, if it has one.
    pub(crate) fn value<'a>(&self, event: &'a Event) -> Option<Note<'a>> {
        let of = |fields: &'a Fields, name: &str| fields.get(name).map(Note::of);
        match &self.source {
            Source::Time => i64::try_from(event.nanos()?).ok().map(Note::Signed),
            Source::Cycles => event.time.map(|ticks| Note::Unsigned(ticks.0)),
            Source::Cpu => event.cpu().map(Note::Unsigned),
            Source::Stream => Some(Note::Text((&**event.stream()).into())),
            Source::StreamContext(name) => of(&event.stream_context, name),
            Source::Context(name) => of(&event.context, name),
            Source::Field(name) => of(&event.fields, name),
        }
    }
}

/// Time, CPU and stream, the contexts' fields as `context.NAME`, the event's own by their names. A
/// name that is taken gets a number.
pub(crate) fn columns(stream: &StreamClass, class: &EventClass) -> Vec<Column> {
    use ColumnType::{Signed, Text, Unsigned};
    let first = [
        ("time_ns", Signed, Source::Time),
        ("cycles", Unsigned, Source::Cycles),
        ("cpu", Unsigned, Source::Cpu),
        ("stream", Text, Source::Stream),
    ];
    let mut columns: Vec<Column> = first
        .into_iter()
        .map(|(name, holds, source)| Column {
            name: name.to_owned(),
            holds,
            source,
        })
        .collect();
    let mut taken: HashSet<String> = columns.iter().map(|column| column.name.clone()).collect();
    type From = fn(String) -> Source;
    let parts: [(Option<&StructClass>, &str, From); 3] = [
        (
            stream.event_context.as_deref(),
            "context.",
            Source::StreamContext,
        ),
        (class.context.as_deref(), "context.", Source::Context),
        (class.fields.as_deref(), "", Source::Field),
    ];
    for (fields, prefix, from) in parts {
        let members = fields.map_or(&[][..], |fields| &fields.members);
        for member in members {
            if is_length(&member.name, members.iter().map(|member| &*member.name)) {
                continue;
            }
            let plain = format!("{prefix}{}", member.name);
            let numbered = (2..).map(|number| format!("{plain}_{number}"));
            let Some(name) = std::iter::once(plain.clone())
                .chain(numbered)
                .find(|name| !taken.contains(name))
            else {
                continue;
            };
            taken.insert(name.clone());
            columns.push(Column {
                name,
                holds: holds(&member.class),
                source: from(member.name.to_string()),
            });
        }
    }
    columns
}

/// Whether a field is only the length of another one.
fn is_length<'a>(name: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
    let of = name
        .strip_prefix('_')
        .and_then(|name| name.strip_suffix("_length"));
    of.is_some_and(|of| names.any(|name| name == of))
}

fn holds(class: &FieldClass) -> ColumnType {
    match class {
        FieldClass::Integer(class) if class.signed => ColumnType::Signed,
        FieldClass::Integer(_) => ColumnType::Unsigned,
        FieldClass::Float(_) => ColumnType::Float,
        // Enumerations by their labels; what has parts as JSON.
        _ => ColumnType::Text,
    }
}
