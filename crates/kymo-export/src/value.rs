//! Values of fields as other tools take them.

use std::borrow::Cow;

use kymo_ctf::{Fields, Value, ValueRef};
use serde_json::{Map, Value as Json};

/// A field's value without structure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note<'a> {
    Unsigned(u64),
    /// One that is best shown in hexadecimal.
    Address(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

impl<'a> Note<'a> {
    /// Enumerations by their labels; what has parts as JSON text.
    pub(crate) fn of(value: &'a Value) -> Note<'a> {
        match value {
            Value::UInt(value) => Note::Unsigned(*value),
            Value::Int(value) => Note::Signed(*value),
            Value::Float(value) => Note::Float(*value),
            Value::Str(text) => Note::Text(text.as_str().into()),
            Value::Enum { .. }
            | Value::Wide(_)
            | Value::WideEnum { .. }
            | Value::WideBitMap { .. } => Note::Text(enumeration(value).into()),
            other => Note::Text(json(other).to_string().into()),
        }
    }

    /// The note of a value where it is in the trace.
    pub(crate) fn read<'t>(value: &ValueRef<'t>) -> Note<'t> {
        match value {
            ValueRef::UInt(value) => Note::Unsigned(*value),
            ValueRef::Int(value) => Note::Signed(*value),
            ValueRef::Float(value) => Note::Float(*value),
            ValueRef::Str(text) => Note::Text(text.clone()),
            other => match Note::of(&other.to_value()) {
                Note::Unsigned(value) => Note::Unsigned(value),
                Note::Address(value) => Note::Address(value),
                Note::Signed(value) => Note::Signed(value),
                Note::Float(value) => Note::Float(value),
                Note::Text(text) => Note::Text(Cow::Owned(text.into_owned())),
            },
        }
    }
}

/// The labels of an enumeration's value or of bits, or the number where it has none; so are numbers
/// of more than 64 bits text.
pub(crate) fn enumeration(value: &Value) -> String {
    match value {
        Value::Enum { value, labels } if labels.is_empty() => value.to_string(),
        Value::Wide(value) => value.to_string(),
        Value::WideEnum { value, labels } if labels.is_empty() => value.to_string(),
        Value::WideBitMap { bits, flags } if flags.is_empty() => format!("{bits:#x}"),
        Value::Enum { labels, .. }
        | Value::WideEnum { labels, .. }
        | Value::WideBitMap { flags: labels, .. } => labels.join("|"),
        _ => String::new(),
    }
}

/// Any value as JSON: structures are objects, variants objects with one member. NaN and infinities
/// are `null`.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::UInt(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Str(text) => text.as_str().into(),
        Value::Enum { .. } | Value::Wide(_) | Value::WideEnum { .. } | Value::WideBitMap { .. } => {
            enumeration(value).into()
        }
        Value::Array(values) => values.iter().map(json).collect(),
        Value::Struct(fields) => object(fields),
        Value::Variant { option, value } => {
            Json::Object(Map::from_iter([(option.to_string(), json(value))]))
        }
        other => format!("{other:?}").into(),
    }
}

/// The same for named values.
pub(crate) fn object(fields: &Fields) -> Json {
    Json::Object(
        fields
            .iter()
            .map(|(name, value)| (name.to_owned(), json(value)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn numbers_of_more_than_64_bits_are_text() {
        let number = kymo_ctf::WideInt::from(u128::MAX);
        let text = "340282366920938463463374607431768211455";
        let labels: Vec<Arc<str>> = vec!["a".into(), "b".into()];
        let values = [
            (Value::Wide(number.clone()), text),
            (
                Value::WideEnum {
                    value: number.clone(),
                    labels: Vec::new(),
                },
                text,
            ),
            (
                Value::WideEnum {
                    value: number.clone(),
                    labels: labels.clone(),
                },
                "a|b",
            ),
            (
                Value::WideBitMap {
                    bits: number.clone(),
                    flags: labels,
                },
                "a|b",
            ),
            (
                Value::WideBitMap {
                    bits: number,
                    flags: Vec::new(),
                },
                "0xffffffffffffffffffffffffffffffff",
            ),
        ];
        for (value, text) in values {
            assert_eq!(Note::of(&value), Note::Text(text.into()));
            assert_eq!(json(&value), Json::from(text));
        }
    }
}
