//! Common Trace Format 1.8: the metadata that follows from the declarations, packets around the
//! records.

pub mod packet;
pub mod stream;
pub mod tsdl;

/// Major and minor number of the format that is written.
pub const VERSION: (u8, u8) = (1, 8);
