//! Common Trace Format 1.8: the metadata that follows from the declarations, packets around the records, trace directories.

#[cfg(feature = "std")]
pub mod directory;
pub mod packet;
pub mod stream;
pub mod tsdl;
