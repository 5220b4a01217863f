//! Common Trace Format 1.8: the metadata that follows from the declarations, and packets around the records.

pub mod packet;
pub mod tsdl;
