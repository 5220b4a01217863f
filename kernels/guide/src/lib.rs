//! The code that the guide prints, with what surrounds it in a kernel, so that it is compiled. No
//! kernel is made of it. The end-to-end test `guide` compares it with the guide; blocks that are
//! not here are in `kernels/teaching`.

#![no_std]
// What stands in a block need not be used, and the guide writes small things on one line.
#![allow(unused, const_item_mutation, clippy::all)]

#[rustfmt::skip]
mod on_target;
#[rustfmt::skip]
mod counters;
#[rustfmt::skip]
mod readme;
#[rustfmt::skip]
mod recipes;

// Here, because `trace!` looks for the crate's `Kymo`.
include!("your_kernel.rs");
