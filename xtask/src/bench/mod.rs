//! Benchmarks: what they need is made here, and measured by the programs under `benches/`.

pub(crate) mod book;
pub(crate) mod lttng;
pub(crate) mod trace;
pub(crate) mod verbs;
