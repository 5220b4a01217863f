//! Where traces come from: a guest's memory while it runs, or what is left of it.
//!
//! - [`qemu`] starts a machine whose RAM is a file.
//! - [`image`] finds the region in memory: a RAM file, a raw dump, an ELF core.
//! - [`record`] drains a running machine into a trace directory; [`recover`] does it for a dead one.
//!
//! The machine is never asked for anything, and never stopped.
#![deny(missing_docs)]

pub mod image;
mod mapping;
pub mod qemu;
pub mod record;
pub mod recover;

pub use kymo::ctf::directory::{ChannelSummary, Summary};
