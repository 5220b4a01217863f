//! `cargo xtask fuzz ctf`: see tests/fuzz-campaign, and tests/fuzz for the fuzzer.

use anyhow::{Context, Result};

use crate::process::{program, run_program, target};
use crate::setup;

/// Fuzzes each target for this many seconds. With `goal`, it must reach the required line coverage.
pub(crate) fn ctf(seconds: u64, goal: bool) -> Result<()> {
    let mut campaign = program("kymo-fuzz-campaign")?;
    campaign.args(["--seconds", &seconds.to_string()]);
    let host = setup::host().context("rustc does not report the host machine")?;
    campaign.args(["--host", &host]);
    if goal {
        campaign.arg("--goal");
    }
    if let Some(tools) = setup::llvm_tools() {
        campaign.arg("--llvm-tools").arg(tools);
    }
    run_program(campaign.arg("--folder").arg(target().join("fuzz")))
}
