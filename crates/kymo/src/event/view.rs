//! Reading events back: what a declaration gives whoever reads a trace.
//!
//! [`event!`](crate::event!) gives each event a *view* with one method a field, of the field's name
//! and documentation. A view reads from [`FieldValues`], which a host implements over the records
//! of a trace: it finds the declared fields in a trace's event class once, by name, and hands out
//! their values by their place in the declaration. A field that a trace does not have, because an
//! older or another tracer wrote it, reads as `None`; fields that the declaration does not have are
//! not looked at.

use super::{Field, Sequence, Text};

/// The values of one record's fields, by their place in the event's declaration.
pub trait FieldValues {
    /// Text of a [`Text`] field.
    type Text;
    /// Elements of an array or a [`Sequence`].
    type Elements;

    /// An unsigned integer, or the value of an enumeration.
    fn unsigned(&self, place: usize) -> Option<u64>;
    /// A signed integer.
    fn signed(&self, place: usize) -> Option<i64>;
    /// Text.
    fn text(&self, place: usize) -> Option<Self::Text>;
    /// An array or a sequence.
    fn elements(&self, place: usize) -> Option<Self::Elements>;
}

/// A field's type, read back: integers of any width as 64 bits, since other tracers' may be wider.
pub trait ReadField<V: FieldValues>: Field {
    /// What a reader gets.
    type Value;
    /// The field at this place of the declaration; `None` where the record has none.
    fn read(values: &V, place: usize) -> Option<Self::Value>;
}

/// Values with labels: what [`enumeration!`](crate::enumeration!) declares.
pub trait Enumeration: Sized {
    /// The value's meaning; `None` for values that are not declared.
    fn from_value(value: u64) -> Option<Self>;
    /// The label in the trace: the variant's name.
    fn label(&self) -> &'static str;
}

macro_rules! integers {
    ($($method:ident -> $value:ty: $($ty:ty),*;)*) => {$($(
        impl<V: FieldValues> ReadField<V> for $ty {
            type Value = $value;
            #[inline]
            fn read(values: &V, place: usize) -> Option<$value> {
                values.$method(place)
            }
        }
    )*)*};
}
pub(crate) use integers as read_integers;

integers! {
    unsigned -> u64: u8, u16, u32, u64;
    signed -> i64: i8, i16, i32, i64;
}

impl<V: FieldValues> ReadField<V> for bool {
    type Value = bool;
    #[inline]
    fn read(values: &V, place: usize) -> Option<bool> {
        values.unsigned(place).map(|value| value != 0)
    }
}

impl<V: FieldValues, const N: usize> ReadField<V> for Text<N> {
    type Value = V::Text;
    #[inline]
    fn read(values: &V, place: usize) -> Option<V::Text> {
        values.text(place)
    }
}

impl<V: FieldValues, T: Field, const N: usize> ReadField<V> for [T; N] {
    type Value = V::Elements;
    #[inline]
    fn read(values: &V, place: usize) -> Option<V::Elements> {
        values.elements(place)
    }
}

impl<V: FieldValues, T: Copy, const N: usize> ReadField<V> for Sequence<T, N>
where
    Sequence<T, N>: Field,
{
    type Value = V::Elements;
    #[inline]
    fn read(values: &V, place: usize) -> Option<V::Elements> {
        values.elements(place)
    }
}
