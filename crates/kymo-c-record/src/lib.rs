//! The part of `libkymo.a` that writes records, and what it asks of the kernel ([`port`]).
//!
//! It is a crate by itself because a profile of Cargo's sets the optimization level of a whole
//! crate: this one is built for speed, and what starts, reads and stops is built for size.
#![no_std]
#![deny(missing_docs)]

pub mod port;
pub mod record;
