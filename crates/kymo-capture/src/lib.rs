//! Captures traces from a running guest's memory, from a memory image, or from what a guest sends,
//! and writes them to trace directories.
//!
//! - [`TraceWriter`] writes a region's channels as a CTF trace directory, which is valid at every
//!   moment.
//! - [`source`] has the sources of traces, one per file, behind one trait.
//! - [`record`] drains a machine that it starts, [`attach`] a running one, [`recover`] a dead one;
//!   [`receive`] drains a serial line, an RTT up-buffer or a file, into which a kernel has sent.
//! - [`qemu`] starts a machine whose RAM is a file, with a port if needed; [`locate`] finds the
//!   region in a RAM file, a raw dump or an ELF core.
//! - [`framed`] and [`frames`] assemble what a guest sends, and count its faults.
//!
//! Reading a machine's memory never needs its cooperation and never stops it.
//!
//! Without the feature `machines`, the crate only has [`TraceWriter`], for programs that record
//! themselves.
#![deny(missing_docs)]

mod own_counters;
mod packet_file;
mod region;

#[cfg(feature = "machines")]
pub mod attach;
#[cfg(feature = "machines")]
pub mod framed;
#[cfg(feature = "machines")]
pub mod frames;
#[cfg(feature = "machines")]
mod gdb;
#[cfg(feature = "machines")]
pub mod locate;
#[cfg(feature = "machines")]
mod packet_header;
#[cfg(feature = "machines")]
mod processes;
#[cfg(feature = "machines")]
pub mod qemu;
#[cfg(all(unix, feature = "machines"))]
pub mod qmp;
#[cfg(feature = "machines")]
pub mod receive;
#[cfg(feature = "machines")]
pub mod record;
#[cfg(feature = "machines")]
pub mod recover;
#[cfg(feature = "machines")]
pub mod source;

pub use region::{ChannelSummary, Summary, TraceError, TraceWriter};
