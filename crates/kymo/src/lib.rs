//! Tracing for any kernel: typed events, per CPU, without locks, in Common Trace Format.
//!
//! A kernel declares its events, implements [`Platform`] and calls [`Tracer::start`]; from then on every [`trace!`] writes a record into the ring of
//! the CPU that it runs on. Anyone who can read the memory can read the rings: the kernel, a host that maps a guest's RAM, a debugger, a
//! dump of a dead machine. What they read is CTF 1.8, as it is.
//!
//! # What it costs
//! An event with two 32-bit fields takes 12 bytes and, on RV64, 21 instructions (23 with interrupts masked and restored around it). A
//! switched-off one is a load and a branch. Without the feature `trace` nothing is left of it.
//!
//! # What it never does
//! Allocate, lock, wait, print, call the kernel back (but for its clock), lose an event without counting it, or let a reader stop a writer.
//!
//! # Invariants
//! Those of the ring stand in [`ring`]; those that a kernel must keep, in [`Platform`].
//!
//! # Example
//! ```
//! # #[cfg(feature = "std")] mod example {
//! kymo::event! {
//!     /// A request was answered.
//!     #[id(21)]
//!     pub struct Answered { pub request: u32, pub status: u16 }
//! }
//! static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Answered];
//! # }
//! ```
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("Kymo runs on 64-bit targets so far");

pub mod arch;
pub mod ctf;
pub mod event;
#[cfg(feature = "std")]
pub mod hosted;
mod platform;
pub mod ring;
mod session;
mod tracer;
pub mod vocabulary;

pub use event::{Text, Vocabulary};
pub use platform::{
    Base, Blocks, ByPointer, ControlPointer, ControlWord, Cursor, Epoch, Events, Limit, Local, Mask, Platform, Switch,
};
pub use ring::layout::{ChannelKind, Clock, Consumer, Control, Mode};
pub use ring::local_cas::LocalCas;
pub use ring::masked::{Interrupts, Masked};
pub use session::{Config, Error, Memory, RegionMemory, Session};
pub use tracer::{COMPILED_IN, Tracer};
pub use vocabulary::{Address, Irq, Tid};
