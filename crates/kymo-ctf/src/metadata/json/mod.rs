//! The metadata of CTF 2: a JSON text sequence (RFC 7464) in, [`crate::Metadata`] out.
//!
//! Four stages, each with its own types:
//!
//! 1. [`syntax`]: text to JSON values that know their line and column;
//! 2. [`object`]: properties of JSON objects, checked for name and kind;
//! 3. [`classes`]: field classes, with aliases looked up; [`location`] and [`ranges`] are parts of
//!    them;
//! 4. [`fragments`]: the six kinds of fragment, and the [roles](roles) that each scope allows.

pub(crate) mod fragments;

mod classes;
mod location;
mod object;
mod ranges;
mod roles;
mod syntax;

pub(crate) use classes::ENCODINGS;
pub(crate) use fragments::{LOG_LEVELS, log_level};
pub(crate) use roles::{OF_BLOBS, OF_INTEGERS};

use crate::error::MetadataError;

type Checked<T> = Result<T, MetadataError>;
