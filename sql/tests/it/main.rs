//! Queries over made traces, beside computations by hand and by `kymo-analysis`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod brute;
mod chapter;
#[cfg(feature = "cluster")]
mod cluster;
mod command;
mod made;
mod more;
mod ready;
mod regressions;
mod samples;
mod store;
