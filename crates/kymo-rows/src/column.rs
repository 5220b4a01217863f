//! The columns of a kind of event.

use std::collections::HashSet;

use kymo_ctf::{EventClass, FieldClass, Scope, StreamClass};

use crate::cells::{is_length, parts};

/// The type of a column's values. Any value may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Integers from 0 to 2^64 - 1.
    Unsigned,
    /// Integers from -2^63 to 2^63 - 1.
    Signed,
    /// Floating-point numbers of 64 bits.
    Float,
    /// Texts.
    Text,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub holds: ColumnType,
}

/// The columns of an event class: times, CPU and stream, fields of contexts as `context.NAME`, and
/// the event's fields by name. A duplicate name gets a number.
pub fn columns(stream: &StreamClass, class: &EventClass) -> Vec<Column> {
    use ColumnType::{Signed, Text, Unsigned};
    let first = [
        ("time_ns", Signed),
        ("cycles", Unsigned),
        ("cpu", Unsigned),
        ("stream", Text),
    ];
    let mut columns: Vec<Column> = first
        .into_iter()
        .map(|(name, holds)| Column {
            name: name.to_owned(),
            holds,
        })
        .collect();
    let mut taken: HashSet<String> = columns.iter().map(|column| column.name.clone()).collect();
    for (scope, part) in parts(stream, class) {
        let prefix = if scope == Scope::EventFields {
            ""
        } else {
            "context."
        };
        for member in &part.members {
            if is_length(&member.name, &part.members) {
                continue;
            }
            let plain = format!("{prefix}{}", member.name);
            let mut name = plain.clone();
            for number in 2.. {
                if taken.insert(name.clone()) {
                    break;
                }
                name = format!("{plain}_{number}");
            }
            columns.push(Column {
                name,
                holds: holds(&member.class),
            });
        }
    }
    columns
}

fn holds(class: &FieldClass) -> ColumnType {
    match class {
        FieldClass::Integer(class) if class.signed => ColumnType::Signed,
        FieldClass::Integer(_) => ColumnType::Unsigned,
        FieldClass::Float(_) => ColumnType::Float,
        // Enumerations as labels, compound values as JSON.
        _ => ColumnType::Text,
    }
}
