//! The tests of this crate, one program: a file is a module of it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod counters;
mod locks;
mod memory;
mod path_oracle;
mod processes;
mod resume;
mod split;
mod worst;
