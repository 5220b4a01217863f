//! Where traces come from: a guest's memory while it runs, what is left of it, or what the guest
//! sends.
//!
//! - [`qemu`] starts a machine whose RAM is a file, with a port if need be.
//! - [`image`] finds the region in memory: a RAM file, a raw dump, an ELF core.
//! - [`record`] drains a machine that it starts into a trace directory; [`attach`] one that runs
//!   already; [`recover`] a dead one.
//! - [`receive`] puts together the frames that a guest sends, and counts what is wrong with them.
//!
//! A machine whose memory is read is never asked for anything, and never stopped.
#![deny(missing_docs)]

#[cfg(feature = "machines")]
pub mod attach;
#[cfg(feature = "machines")]
pub mod follow;
#[cfg(feature = "machines")]
pub mod image;
#[cfg(feature = "machines")]
mod mapping;
mod packet_file;
#[cfg(feature = "machines")]
mod packet_header;
#[cfg(all(unix, feature = "machines"))]
mod port;
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
pub mod sent;
#[cfg(feature = "machines")]
mod users;

mod region;

pub use region::{ChannelSummary, Summary, TraceError, TraceWriter};
