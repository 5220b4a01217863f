//! From bytes to fields: how a record's body is skipped, checked and read.

#[cfg(test)]
mod agreement;
pub(crate) mod bits;
pub(crate) mod choice;
pub(crate) mod fixed;
pub(crate) mod header;
pub(crate) mod plan;
pub(crate) mod state;
pub(crate) mod steps;
pub(crate) mod text;
pub(crate) mod value;
pub(crate) mod value_ref;
pub(crate) mod visit;
pub(crate) mod walk;
