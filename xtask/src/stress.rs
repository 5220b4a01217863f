//! `cargo xtask stress`: the long form of the step `stress` of `cargo xtask test`.

use anyhow::Result;

use crate::process::{cargo, run as run_command};

/// Signals nest writers while readers drain, until so many events were verified: tests/stress.
pub(crate) fn run(events: u64) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        println!("Not run: it sends signals into the writers of x86-64, on Linux.");
        return Ok(());
    }
    let mut command = cargo(&[
        "test",
        "-p",
        "kymo-stress",
        "--release",
        "--",
        "--include-ignored",
        "--nocapture",
    ]);
    run_command(command.env("KYMO_STRESS_EVENTS", events.to_string()))
}
