//! The end-to-end tests, one program: `cargo xtask test e2e` runs it, `cargo xtask test e2e:FILE`
//! one file of it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attach;
mod bench;
mod broken;
mod clib;
mod cortex_m;
mod cost;
mod count;
mod counters;
mod demo;
mod doctor;
mod errors;
mod firmware_c;
mod guide;
mod hosted;
mod image;
mod kill;
mod kymo_cost;
mod linux_guest;
mod live;
mod on_target;
mod pages;
mod perf;
mod perf_samples;
mod plugin;
mod port_arceos;
mod port_freertos;
mod port_zephyr;
mod ports_arm;
mod record;
mod sample;
mod sample_stress;
mod scenarios;
mod smp_c;
mod stress;
mod teaching;
mod ten_steps;
mod threads_c;
mod via;
mod warm_reset;
mod x86_64;

/// What `trace!` in these tests records with.
use hosted::Kymo;
