//! The atomics that writers and readers share memory through: the core library's, or those of a
//! model checker.

#[cfg(all(test, loom))]
pub(crate) mod modelled;

#[cfg(all(target_pointer_width = "64", not(all(test, loom))))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{compiler_fence, fence};
#[cfg(all(test, loom))]
pub(crate) use modelled::{
    AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
