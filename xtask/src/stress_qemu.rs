//! `cargo xtask stress qemu`: the long form of tests/e2e/tests/stress.rs.

use anyhow::{Result, bail};

use crate::process::run as run_command;
use crate::{Usage, setup, test};

/// Calls of all runs of each processor, unless told.
const EVENTS: &str = "20000000";

/// The same runs, with so many calls.
pub(crate) fn run(events: Option<&str>) -> Result<()> {
    let events = events.unwrap_or(EVENTS);
    if !events.parse::<u64>().is_ok_and(|events| events >= 100_000) {
        bail!(Usage(format!(
            "stress qemu takes a number of events, 100000 or more, and \"{events}\" is none."
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
            .env("KYMO_QEMU_STRESS_EVENTS", events)
            .args(options),
    )
}
