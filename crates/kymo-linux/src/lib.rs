//! Samples of programs as they are, on Linux: from the kernel's records to a trace.
//!
//! - [`Writer`] takes records of `perf_event_open(2)`, by what they say ([`Entry`]), and writes a
//!   CTF trace. It does not know where the records come from: a running kernel, or a file of
//!   `perf`.
//! - [`Session`] opens the events for a program, for processes or for all CPUs, and hands what the
//!   kernel writes into their buffers to a [`Writer`].
//!
//! The events of the trace have the names and fields that `perf data convert --to-ctf` gives them,
//! and so the meaning that `kymo-machine` knows already. `perf_comm` has one field more, `exec`: 1
//! where the process has executed another program.
//!
//! # Invariants
//! - Records are written in the order of their times. They come in [rounds](Writer::end_round):
//!   nothing that is still missing can precede a record that is not younger than the youngest one
//!   of the round before. A record that comes too late all the same gets the time of its
//!   predecessor, and is counted.
//! - Every record that the kernel lost, as it tells, is counted among the discarded events of its
//!   CPU's stream. Linux before 6.0 does not tell those at the very end.
//! - A stream's file consists of whole packets, also if the disk is full.
//!
//! # The parser
//! Records are parsed by the crate `linux-perf-event-reader`, which `samply` and `linux-perf-data`
//! use too: it knows the layouts of all kernels and both byte orders, and borrows what it parses.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod entry;
mod error;
mod kernel;
mod lane;
mod metadata;
mod perf_data;
#[cfg(target_os = "linux")]
mod running;
mod sample;
#[cfg(target_os = "linux")]
mod session;
#[cfg(test)]
mod tests;
mod writer;

pub use entry::{Entry, Stamp};
pub use error::Error;
pub use kernel::{KernelSymbols, write_kernel};
pub use metadata::Origin;
pub use perf_data::{Left, Missing, PerfData};
#[cfg(target_os = "linux")]
pub use session::{Session, Setup, Whom};
pub use writer::{Summary, Writer};
