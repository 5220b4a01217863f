//! What printing needs to know of a value, whether it is owned or lies in the trace.

use kymo_ctf::{Fields, StructRef, Value, ValueRef, WideInt};

/// A value.
pub enum Shown<'s> {
    UInt(u64),
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'s str),
    Bytes(&'s [u8]),
    /// Not there.
    None,
    /// It has [labels](Shape::labels).
    Enum(i128),
    /// The same.
    BitMap(u64),
    /// An integer of more than 64 bits.
    Wide(&'s WideInt),
    /// The same with labels.
    WideEnum(&'s WideInt),
    WideBitMap(&'s WideInt),
    /// It has [members](Shape::members).
    Struct,
    /// It has [elements](Shape::elements).
    Array,
    /// An option of this name, which is the one element.
    Variant(&'s str),
    /// What this program does not know yet.
    Other(String),
}

/// A value that can be printed.
pub trait Shape: Sized {
    type Members: Members<Value = Self>;

    fn shown(&self) -> Shown<'_>;

    /// What the value, or its bits, are called.
    fn labels(&self, give: &mut dyn FnMut(&str));

    fn elements(&self, give: &mut dyn FnMut(&Self));

    fn members(&self) -> Option<&Self::Members>;
}

/// A structure's members.
pub trait Members {
    type Value: Shape;

    fn each(&self, give: &mut dyn FnMut(&str, &Self::Value));

    /// Whether the member of this name is text, and its bytes' or elements' number; `None` if it is
    /// neither text nor array.
    fn length(&self, name: &str) -> Option<(bool, u64)>;
}

impl Shape for Value {
    type Members = Fields;

    fn shown(&self) -> Shown<'_> {
        match self {
            Value::UInt(value) => Shown::UInt(*value),
            Value::Int(value) => Shown::Int(*value),
            Value::Float(value) => Shown::Float(*value),
            Value::Bool(value) => Shown::Bool(*value),
            Value::Str(text) => Shown::Text(text),
            Value::Bytes(bytes) => Shown::Bytes(bytes),
            Value::None => Shown::None,
            Value::Enum { value, .. } => Shown::Enum(*value),
            Value::BitMap { bits, .. } => Shown::BitMap(*bits),
            Value::Wide(value) => Shown::Wide(value),
            Value::WideEnum { value, .. } => Shown::WideEnum(value),
            Value::WideBitMap { bits, .. } => Shown::WideBitMap(bits),
            Value::Struct(_) => Shown::Struct,
            Value::Array(_) => Shown::Array,
            Value::Variant { option, .. } => Shown::Variant(option),
            other => Shown::Other(format!("{other:?}")),
        }
    }

    fn labels(&self, give: &mut dyn FnMut(&str)) {
        if let Value::Enum { labels, .. }
        | Value::BitMap { flags: labels, .. }
        | Value::WideEnum { labels, .. }
        | Value::WideBitMap { flags: labels, .. } = self
        {
            labels.iter().for_each(|label| give(label));
        }
    }

    fn elements(&self, give: &mut dyn FnMut(&Self)) {
        match self {
            Value::Array(values) => values.iter().for_each(give),
            Value::Variant { value, .. } => give(value),
            _ => {}
        }
    }

    fn members(&self) -> Option<&Fields> {
        match self {
            Value::Struct(fields) => Some(fields),
            _ => None,
        }
    }
}

impl Members for Fields {
    type Value = Value;

    fn each(&self, give: &mut dyn FnMut(&str, &Value)) {
        self.iter().for_each(|(name, value)| give(name, value));
    }

    fn length(&self, name: &str) -> Option<(bool, u64)> {
        match self.get(name)? {
            Value::Str(text) => Some((true, text.len() as u64)),
            Value::Array(values) => Some((false, values.len() as u64)),
            _ => None,
        }
    }
}

impl<'a> Shape for ValueRef<'a> {
    type Members = StructRef<'a>;

    fn shown(&self) -> Shown<'_> {
        match self {
            ValueRef::UInt(value) => Shown::UInt(*value),
            ValueRef::Int(value) => Shown::Int(*value),
            ValueRef::Float(value) => Shown::Float(*value),
            ValueRef::Bool(value) => Shown::Bool(*value),
            ValueRef::Str(text) => Shown::Text(text),
            ValueRef::Bytes(bytes) => Shown::Bytes(bytes),
            ValueRef::None => Shown::None,
            ValueRef::Enum(value) => Shown::Enum(value.value),
            ValueRef::BitMap(map) => Shown::BitMap(map.bits),
            ValueRef::Wide(value) => Shown::Wide(value),
            ValueRef::WideEnum(value) => Shown::WideEnum(&value.value),
            ValueRef::WideBitMap(map) => Shown::WideBitMap(&map.bits),
            ValueRef::Struct(_) => Shown::Struct,
            ValueRef::Array(_) => Shown::Array,
            ValueRef::Variant(variant) => Shown::Variant(&variant.option().name),
            other => Shown::Other(format!("{other:?}")),
        }
    }

    fn labels(&self, give: &mut dyn FnMut(&str)) {
        match self {
            ValueRef::Enum(value) => value.labels().for_each(|label| give(label)),
            ValueRef::BitMap(map) => map.active().into_iter().for_each(|flag| give(flag)),
            ValueRef::WideEnum(value) => value.labels().for_each(|label| give(label)),
            ValueRef::WideBitMap(map) => map.active().into_iter().for_each(|flag| give(flag)),
            _ => {}
        }
    }

    fn elements(&self, give: &mut dyn FnMut(&Self)) {
        match self {
            ValueRef::Array(array) => array.iter().for_each(|value| give(&value)),
            ValueRef::Variant(variant) => give(&variant.value()),
            _ => {}
        }
    }

    fn members(&self) -> Option<&StructRef<'a>> {
        match self {
            ValueRef::Struct(fields) => Some(fields),
            _ => None,
        }
    }
}

impl<'a> Members for StructRef<'a> {
    type Value = ValueRef<'a>;

    fn each(&self, give: &mut dyn FnMut(&str, &ValueRef<'a>)) {
        self.iter().for_each(|field| give(field.name, &field.value));
    }

    fn length(&self, name: &str) -> Option<(bool, u64)> {
        match self.get(name)? {
            ValueRef::Str(text) => Some((true, text.len() as u64)),
            ValueRef::Array(array) => Some((false, array.len())),
            _ => None,
        }
    }
}
