//! Fields of events that were kept when their trace was read on, as text and as JSON.

use std::fmt::{Display, Write as _};

use kymo_ctf::{Base, Event, FieldClass, Fields, StructClass, Value};
use serde_json::Value as Json;

/// An event's fields, as `kymo dump` prints them.
pub fn fields_text(event: &Event) -> String {
    let mut text = String::new();
    structure(&mut text, &event.fields, event.class.fields.as_deref());
    text
}

/// An event's fields, as `kymo dump --json` prints them.
pub fn fields_json(event: &Event) -> String {
    let mut text = String::new();
    object(&mut text, &event.fields);
    text
}

/// `class` says in which base integers are best shown; without it they are decimal.
fn structure(to: &mut String, fields: &Fields, class: Option<&StructClass>) {
    let mut separator = "{";
    for (index, (name, field)) in fields.iter().enumerate() {
        if only_says_length(name, field, fields) {
            continue;
        }
        let member = class.and_then(|class| class.members.get(index));
        let _ = write!(to, "{separator} {name} = ");
        value(to, field, member.map(|member| &member.class));
        separator = ",";
    }
    to.push_str(if separator == "{" { "{ }" } else { " }" });
}

/// Whether a field is only the length of another one, or says that a text was not cut.
fn only_says_length(name: &str, value: &Value, fields: &Fields) -> bool {
    let (Some(name), Some(value)) = (name.strip_prefix('_'), value.as_u64()) else {
        return false;
    };
    let of = |suffix| name.strip_suffix(suffix).and_then(|name| fields.get(name));
    match (of("_length"), of("_cut")) {
        (Some(Value::Str(text)), _) => text.len() as u64 == value,
        (Some(Value::Array(values)), _) => values.len() as u64 == value,
        (_, Some(Value::Str(_))) => value == 0,
        _ => false,
    }
}

fn value(to: &mut String, value: &Value, class: Option<&FieldClass>) {
    let class = match class {
        Some(FieldClass::Optional(class)) => Some(&*class.class),
        class => class,
    };
    let _ = match (value, base(class)) {
        (Value::UInt(value), Base::Hexadecimal) => write!(to, "{value:#x}"),
        (Value::UInt(value), Base::Octal) => write!(to, "{value:#o}"),
        (Value::UInt(value), Base::Binary) => write!(to, "{value:#b}"),
        (Value::UInt(value), Base::Decimal) => write!(to, "{value}"),
        (Value::Int(value), _) => write!(to, "{value}"),
        (Value::Float(value), _) => write!(to, "{value}"),
        (Value::Bool(value), _) => write!(to, "{value}"),
        (Value::Str(text), _) => write!(to, "{text:?}"),
        (Value::None, _) => write!(to, "none"),
        (Value::Wide(value), base) => write!(to, "{}", value.in_base(base)),
        (Value::Enum { value, labels }, _) => labelled(to, labels, value),
        (Value::WideEnum { value, labels }, _) => labelled(to, labels, value),
        (Value::BitMap { bits, flags }, _) => labelled(to, flags, format_args!("{bits:#x}")),
        (Value::WideBitMap { bits, flags }, _) => labelled(to, flags, format_args!("{bits:#x}")),
        (Value::Bytes(bytes), _) => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write!(to, "<{}>", bytes.join(" "))
        }
        (Value::Struct(fields), _) => {
            let class = match class {
                Some(FieldClass::Struct(class)) => Some(class),
                _ => None,
            };
            return structure(to, fields, class);
        }
        (Value::Variant { option, value }, _) => {
            let class = match class {
                Some(FieldClass::Variant(class)) => {
                    class.options.iter().find(|have| have.name == *option)
                }
                _ => None,
            };
            if !option.is_empty() {
                let _ = write!(to, "{option}: ");
            }
            return self::value(to, value, class.map(|option| &option.class));
        }
        (Value::Array(values), _) => {
            let element = match class {
                Some(FieldClass::Array(class)) => Some(&*class.element),
                _ => None,
            };
            to.push('[');
            for (index, value) in values.iter().enumerate() {
                to.push_str(if index == 0 { "" } else { ", " });
                self::value(to, value, element);
            }
            to.push(']');
            return;
        }
        (other, _) => write!(to, "{other:?}"),
    };
}

fn labelled(to: &mut String, labels: &[impl AsRef<str>], number: impl Display) -> std::fmt::Result {
    for (index, label) in labels.iter().enumerate() {
        to.push_str(if index == 0 { "" } else { "|" });
        to.push_str(label.as_ref());
    }
    match labels {
        [] => write!(to, "{number}"),
        _ => write!(to, " ({number})"),
    }
}

fn base(class: Option<&FieldClass>) -> Base {
    match class {
        Some(FieldClass::VarInt(class)) => class.base,
        Some(FieldClass::Wide(class)) => class.base,
        Some(FieldClass::BitArray(_)) => Base::Hexadecimal,
        class => class
            .and_then(FieldClass::as_integer)
            .map_or(Base::Decimal, |class| class.base),
    }
}

fn object(to: &mut String, fields: &Fields) {
    to.push('{');
    for (index, (name, value)) in fields.iter().enumerate() {
        to.push_str(if index == 0 { "" } else { "," });
        let _ = write!(to, "{}:", Json::from(name));
        json(to, value);
    }
    to.push('}');
}

/// What reads JSON keeps 64 bits at most of a number, and of text everything.
fn json(to: &mut String, value: &Value) {
    let _ = match value {
        Value::UInt(value) => write!(to, "{value}"),
        Value::Int(value) => write!(to, "{value}"),
        Value::Float(value) => write!(to, "{}", Json::from(*value)),
        Value::Bool(value) => write!(to, "{value}"),
        Value::Str(text) => write!(to, "{}", Json::from(text.as_str())),
        Value::None => write!(to, "null"),
        Value::Bytes(bytes) => write!(to, "{}", Json::from(bytes.as_slice())),
        Value::Wide(value) => write!(to, "\"{value}\""),
        Value::Enum { value, labels } if (i64::MIN.into()..=u64::MAX.into()).contains(value) => {
            named(to, value, labels)
        }
        Value::Enum { value, labels } => named(to, format_args!("\"{value}\""), labels),
        Value::BitMap { bits, flags } => named(to, bits, flags),
        Value::WideEnum { value, labels } => named(to, format_args!("\"{value}\""), labels),
        Value::WideBitMap { bits, flags } => named(to, format_args!("\"{bits}\""), flags),
        Value::Array(values) => {
            to.push('[');
            for (index, value) in values.iter().enumerate() {
                to.push_str(if index == 0 { "" } else { "," });
                json(to, value);
            }
            write!(to, "]")
        }
        Value::Struct(fields) => {
            object(to, fields);
            Ok(())
        }
        Value::Variant { option, value } => {
            let _ = write!(to, "{{{}:", Json::from(&**option));
            json(to, value);
            write!(to, "}}")
        }
        other => write!(to, "{}", Json::from(format!("{other:?}"))),
    };
}

fn named(to: &mut String, number: impl Display, labels: &[impl AsRef<str>]) -> std::fmt::Result {
    let labels: Vec<&str> = labels.iter().map(AsRef::as_ref).collect();
    write!(
        to,
        "{{\"value\":{number},\"labels\":{}}}",
        Json::from(labels)
    )
}
