//! Values of fields in the types of timeline viewers.

use std::borrow::Cow;

/// A field's value without structure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note<'a> {
    Unsigned(u64),
    /// A number that is best shown in hexadecimal.
    Address(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
}
