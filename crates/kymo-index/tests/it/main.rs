//! What an index tells, beside the whole timeline in memory.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod arrows;
mod files;
mod made;
mod windows;
