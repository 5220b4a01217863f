//! Decodes bytes into fields.
//!
//! Three decoders read the body of a record; the test `agreement` checks that they agree:
//! - [`skip`] skips it by a compiled plan and only finds its end;
//! - [`check`] walks it field by field with every check, and reports errors and their positions;
//! - [`place`] reads values from records that one of the other two has accepted: for [`value_ref`]
//!   (any field on demand), for [`visitor`] (all fields in one pass), and for conversions.

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
#[cfg(test)]
mod told;
pub(crate) mod value;
pub(crate) mod value_ref;
pub(crate) mod visitor;
