//! Decoded values.

use std::sync::Arc;

use crate::class::wide_int::WideInt;

/// The value of one field.
///
/// The variant depends on the value, not on the field's size: a number that fits into 64 bits is
/// [`UInt`](Value::UInt) or [`Int`](Value::Int), even from a field of 128 bits. Only larger numbers
/// are of the wide kinds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An unsigned integer.
    UInt(u64),
    /// A signed integer.
    Int(i64),
    /// An enumeration's value and its labels: possibly none, or several if ranges overlap.
    Enum {
        /// The integer.
        value: i128,
        /// The labels, in declared order.
        labels: Vec<Arc<str>>,
    },
    /// A floating-point number; 32-bit ones are widened, which is exact.
    Float(f64),
    /// Text. Invalid bytes become U+FFFD.
    Str(String),
    /// An array or a sequence.
    Array(Vec<Value>),
    /// A structure.
    Struct(Fields),
    /// A variant: the option that its tag selected.
    Variant {
        /// Name of the option.
        option: Arc<str>,
        /// Its value.
        value: Box<Value>,
    },
    /// True or false.
    Bool(bool),
    /// A bit map and the names of its active flags.
    BitMap {
        /// The bits.
        bits: u64,
        /// The active flags, in declared order.
        flags: Vec<Arc<str>>,
    },
    /// Bytes.
    Bytes(Vec<u8>),
    /// An absent optional field.
    None,
    /// An integer or a bit array of more than 64 bits (CTF 2).
    Wide(WideInt),
    /// An enumeration whose value does not fit into an `i128` (CTF 2).
    WideEnum {
        /// The integer.
        value: WideInt,
        /// The labels, in declared order.
        labels: Vec<Arc<str>>,
    },
    /// A bit map with a set bit above the lowest 64 (CTF 2).
    WideBitMap {
        /// The bits.
        bits: WideInt,
        /// The active flags, in declared order.
        flags: Vec<Arc<str>>,
    },
}

impl Value {
    /// The value as an unsigned integer, if it is an integer or enumeration and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::UInt(value) => Some(*value),
            Value::Int(value) => u64::try_from(*value).ok(),
            Value::Enum { value, .. } => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The value as a signed integer, if it is an integer or enumeration that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::UInt(value) => i64::try_from(*value).ok(),
            Value::Int(value) => Some(*value),
            Value::Enum { value, .. } => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }
}

/// Named values in declared order: a structure, or one part of a packet or record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields(pub(crate) Vec<(Arc<str>, Value)>);

impl Fields {
    /// The value of the field `name` (without the underscore that TSDL may put before it).
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(have, _)| **have == *name);
        found.map(|(_, value)| value)
    }

    /// All names and values, in declared order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Value)> for Fields {
    /// Names and values, in declared order.
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(fields: I) -> Self {
        let fields = fields.into_iter();
        Fields(fields.map(|(name, value)| (name.into(), value)).collect())
    }
}
