//! Common Trace Format 1.8: the metadata that follows from the declarations, packets around the
//! records, trace directories.

#[cfg(feature = "std")]
pub mod directory;
pub mod packet;
pub mod stream;
pub mod tsdl;

/// Major and minor number of the format that is written.
pub const VERSION: (u8, u8) = (1, 8);
