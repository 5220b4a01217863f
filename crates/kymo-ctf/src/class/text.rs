//! Classes of text and bytes.

use std::borrow::Cow;
use std::sync::Arc;

use super::{FieldLocation, Roles};
use crate::class::attribute::Attributes;

/// Text encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextEncoding {
    /// UTF-8, and ASCII with it.
    #[default]
    Utf8,
    /// UTF-16, most significant byte first.
    Utf16Be,
    /// UTF-16, least significant byte first.
    Utf16Le,
    /// UTF-32, most significant byte first.
    Utf32Be,
    /// UTF-32, least significant byte first.
    Utf32Le,
}

impl TextEncoding {
    /// Bytes of a code unit, and of the terminator.
    pub fn unit(self) -> usize {
        match self {
            TextEncoding::Utf8 => 1,
            TextEncoding::Utf16Be | TextEncoding::Utf16Le => 2,
            TextEncoding::Utf32Be | TextEncoding::Utf32Le => 4,
        }
    }
}

impl TextEncoding {
    /// The text in `bytes`, up to the first zero code unit. Invalid text becomes U+FFFD.
    pub fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        crate::decode::text::decode(bytes, self)
    }
}

/// Length of text or bytes.
#[derive(Debug, Clone)]
pub enum StringLength {
    /// Ends before the first zero code unit, which is stored, too.
    Terminated,
    /// A fixed number of bytes. Text ends before its first zero code unit.
    Static(u64),
    /// The number of bytes is in another field.
    Dynamic(FieldLocation),
}

impl StringLength {
    pub(crate) fn least_bits(&self) -> u64 {
        match self {
            StringLength::Terminated => 8,
            StringLength::Static(bytes) => bytes.saturating_mul(8),
            StringLength::Dynamic(_) => 0,
        }
    }
}

/// Text, aligned to 8 bits.
#[derive(Debug, Clone)]
pub struct StringClass {
    /// The length.
    pub length: StringLength,
    /// The encoding.
    pub encoding: TextEncoding,
    /// Attributes from the metadata.
    pub attributes: Attributes,
}

impl StringClass {
    /// Terminated UTF-8.
    pub(crate) fn terminated() -> Self {
        StringClass {
            length: StringLength::Terminated,
            encoding: TextEncoding::Utf8,
            attributes: Attributes::default(),
        }
    }

    pub(crate) fn least_bits(&self) -> u64 {
        match self.length {
            StringLength::Terminated => self.encoding.unit() as u64 * 8,
            _ => self.length.least_bits(),
        }
    }
}

/// Bytes, aligned to 8 bits (CTF 2).
#[derive(Debug, Clone)]
pub struct BlobClass {
    /// The number of bytes; never [`StringLength::Terminated`].
    pub length: StringLength,
    /// Media type of the bytes.
    pub media_type: Arc<str>,
    /// The field's roles; only the metadata stream's UUID can be a BLOB.
    pub roles: Roles,
    /// Attributes from the metadata.
    pub attributes: Attributes,
}
