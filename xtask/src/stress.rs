//! `cargo xtask stress`: the long forms of the stress tests.

use anyhow::{Result, bail};

use crate::failure::Usage;
use crate::process::{cargo, run as run_command};
use crate::{setup, test};

/// Runs tests/stress until this many events are verified: signals nest writers while readers drain.
pub(crate) fn run(events: u64) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        println!("NOT RUN: it sends signals into the writers of x86-64, on Linux.");
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

/// Runs the long form of tests/e2e/tests/stress: interrupts nest writers under QEMU, with this many
/// calls for each architecture.
pub(crate) fn qemu(events: u64) -> Result<()> {
    if events < 100_000 {
        bail!(Usage(format!(
            "stress qemu takes 100000 events or more, not {events}."
        )));
    }
    setup::run()?;
    let options = [
        "--test",
        "stress",
        "--",
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    run_command(
        test::e2e()?
            .env("KYMO_QEMU_STRESS_EVENTS", events.to_string())
            .args(options),
    )
}
