//! The tests of this crate, one program: a file is a module of it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod perf;
mod samples;
mod stacks;
mod waits;
