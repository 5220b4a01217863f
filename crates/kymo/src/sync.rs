//! The atomics that writers and readers share memory through: the core library's, or those of a model checker.

pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(target_pointer_width = "64")]
pub(crate) use core::sync::atomic::{AtomicU64, compiler_fence};
