//! `cargo xtask bench view`: how soon `kymo view` shows a trace, and what its index costs.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, run, target};
use crate::test;

/// Events of the trace.
const LARGE: u64 = 100_000_000;
/// Events for CI.
const SMALL: u64 = 2_000_000;
/// Events in a megabyte, about.
const IN_MEGABYTE: u64 = 60_000;

/// Writes a trace of about so many events, and measures. The short form compares no figure with its
/// goal.
pub(crate) fn measure(is_short: bool, events: Option<u64>) -> Result<()> {
    let folder = target().join("bench-view");
    let clear = || match folder.exists() {
        true => fs::remove_dir_all(&folder).context("the last trace cannot be removed"),
        false => Ok(()),
    };
    clear()?;
    fs::create_dir_all(&folder)?;
    let kymo = match is_short {
        true => process::build("kymo")?,
        false => test::cli()?,
    };
    let trace = folder.join("trace");
    let events = events.unwrap_or(if is_short { SMALL } else { LARGE });
    let megabytes = events.div_ceil(IN_MEGABYTE);
    let mut write = Command::new(process::build("kymo-big-trace")?);
    write.arg("write").arg(&trace).arg("--megabytes");
    run(write.arg(megabytes.to_string()))?;
    let mut view = Command::new(process::build("kymo-bench-view")?);
    view.arg("--kymo").arg(kymo).arg("--trace").arg(&trace);
    view.arg("--folder").arg(folder.join("index"));
    view.args((!is_short).then_some("--goals"));
    run(&mut view)?;
    clear()
}
