//! The atomics that writers and readers share memory through: the core library's, or those of a model checker.

pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
