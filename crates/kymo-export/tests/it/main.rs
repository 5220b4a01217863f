//! The tests of this crate, one program: a file is a module of it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod counted;
mod decoded;
mod derived;
mod limits;
mod other_tracers;
mod perfetto;
mod profiles;
mod samples;
mod unfinished;
