//! Prepares the benchmarks, which the programs under `benches/` run.

pub(crate) mod book;
pub(crate) mod count;
pub(crate) mod lttng;
pub(crate) mod samples;
pub(crate) mod sql;
pub(crate) mod trace;
pub(crate) mod verbs;
pub(crate) mod view;
