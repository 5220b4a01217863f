//! The tests of this crate, one program: a file is a module of it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod babeltrace;
mod conformance;
mod convert;
mod damage;
mod fields;
mod follow;
mod json;
mod metadata;
mod recorder;
mod resume;
mod sections;
mod streams;
#[path = "../../../kymo/tests/thread_cpu/mod.rs"]
mod thread_cpu;
mod tracers;
mod tree;
mod tsdl;
mod writer;
