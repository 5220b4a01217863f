//! `cargo xtask stress`: the long forms of the stress tests.

use anyhow::{Result, bail};

use crate::failure::Usage;
use crate::suite::Suite;
use crate::watched::not_run;
use crate::{setup, test};

/// Runs tests/stress until this many events are verified: signals nest writers while readers drain.
pub(crate) fn run(events: u64) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        not_run("it sends signals into the writers of x86-64, on Linux");
        return Ok(());
    }
    Suite::build(&["-p", "kymo-stress", "--release"])?
        .env("KYMO_STRESS_EVENTS", events.to_string())
        .run(&["--include-ignored", "--nocapture"])
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
    let calls = events.to_string();
    let e2e = test::e2e::all()?.env("KYMO_QEMU_STRESS_EVENTS", calls);
    e2e.show(|file| test::e2e::STRESS.contains(&file))
}
