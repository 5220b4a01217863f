//! From bytes to fields.
//!
//! Three decoders read the body of a record, and a test (`agreement`) holds them together:
//! - [`skip`] steps over it by a compiled plan, and knows only where it ends;
//! - [`check`] walks over it field by field with every check, and says what is wrong and where;
//! - [`place`] reads values, from records that one of the other two has passed: for
//!   [`value_ref`] (any field, when it is asked for), for [`visitor`] (all fields in one pass), and
//!   for conversions.

#[cfg(test)]
mod agreement;
pub(crate) mod bits;
pub(crate) mod check;
pub(crate) mod choice;
pub(crate) mod fixed;
pub(crate) mod header;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod skip;
pub(crate) mod state;
pub(crate) mod text;
pub(crate) mod value;
pub(crate) mod value_ref;
pub(crate) mod visitor;
