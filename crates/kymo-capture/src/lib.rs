//! Where traces come from: a guest's memory while it runs, what is left of it, or what the guest
//! sends; and the writer of trace directories that all of them use.
//!
//! - [`TraceWriter`] writes a region's channels as a CTF trace directory, which is whole at every
//!   moment.
//! - [`source`] has what a trace is taken from, a file each, behind one trait.
//! - [`record`] drains a machine that it starts; [`attach`] one that runs already; [`recover`] a
//!   dead one.
//! - [`qemu`] starts a machine whose RAM is a file, with a port if need be; [`locate`] finds the
//!   region in a RAM file, a raw dump or an ELF core.
//! - [`framed`] and [`frames`] put together what a guest sends, and count what is wrong with it.
//!
//! A machine whose memory is read is never asked for anything, and never stopped.
//!
//! Without the feature `machines` there is only [`TraceWriter`]: for programs that record
//! themselves.
#![deny(missing_docs)]

mod packet_file;
mod region;

#[cfg(feature = "machines")]
pub mod attach;
#[cfg(feature = "machines")]
pub mod framed;
#[cfg(feature = "machines")]
pub mod frames;
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
pub mod record;
#[cfg(feature = "machines")]
pub mod recover;
#[cfg(feature = "machines")]
pub mod source;

pub use region::{ChannelSummary, Summary, TraceError, TraceWriter};
