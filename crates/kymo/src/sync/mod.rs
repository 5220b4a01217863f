//! The atomics that writers and readers share memory through: the core library's, those of a model
//! checker, or those of a processor without a compare-and-swap.

#[cfg(all(test, loom))]
pub(crate) mod modelled;
#[cfg(not(target_has_atomic = "ptr"))]
mod uninterrupted;

#[cfg(all(target_pointer_width = "64", not(all(test, loom))))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(all(target_has_atomic = "ptr", not(all(test, loom))))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};
#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{Ordering, compiler_fence, fence};
#[cfg(all(test, loom))]
pub(crate) use modelled::{
    AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
#[cfg(not(target_has_atomic = "ptr"))]
pub(crate) use uninterrupted::{AtomicU8, AtomicU32, AtomicUsize};
