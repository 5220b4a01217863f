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

pub mod attach;
pub mod follow;
pub mod image;
mod mapping;
mod packets;
#[cfg(unix)]
mod port;
pub mod qemu;
#[cfg(unix)]
pub mod qmp;
pub mod receive;
pub mod record;
pub mod recover;
pub mod sent;
mod users;

pub use kymo::ctf::directory::{ChannelSummary, Summary};
