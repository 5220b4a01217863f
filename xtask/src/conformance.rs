//! The conformance set of crates/kymo-ctf.

use anyhow::Result;

use crate::process::{cargo, run as run_command};

/// Runs all cases, also with babeltrace2 if it supports them, and prints the sections of the
/// specifications that no case names.
pub(crate) fn run() -> Result<()> {
    let arguments = [
        "test",
        "-p",
        "kymo-ctf",
        "--test",
        "conformance",
        "--test",
        "convert",
        "--",
        "--include-ignored",
        "--nocapture",
    ];
    run_command(&mut cargo(&arguments))?;
    sections()
}

/// Prints the sections without a case.
pub(crate) fn sections() -> Result<()> {
    let arguments = [
        "test",
        "-p",
        "kymo-ctf",
        "--test",
        "sections",
        "--",
        "--nocapture",
    ];
    run_command(&mut cargo(&arguments))
}
