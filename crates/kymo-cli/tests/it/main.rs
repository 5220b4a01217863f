//! The tests of this crate, one program: a file is a module of it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod babeltrace;
mod check;
mod clock;
mod command;
mod conditions;
mod convert;
#[cfg(target_os = "linux")]
mod count;
mod count_parts;
mod diff;
mod doctor;
mod doctor_hooks;
mod errors;
mod export;
mod flame;
mod flame_errors;
mod hot;
mod import;
#[cfg(target_os = "linux")]
mod import_perf;
mod life;
#[cfg(target_os = "linux")]
mod lines;
mod lint;
mod linux;
mod missing;
mod pages;
mod perf;
#[cfg(target_os = "linux")]
mod program;
mod report;
mod report_tables;
mod run;
#[cfg(target_os = "linux")]
mod sampled;
mod select;
mod size;
mod top;
mod view;
mod view_chosen;
mod why;
