//! `cargo xtask mistakes`: deliberate mistakes in the ring; see tests/mistakes.

use anyhow::Result;

use crate::process::{program, run_program, target};

/// Whether the tests are known to pass without a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    /// They passed in other steps of `cargo xtask test`, which tries a third of the mistakes each
    /// time.
    Passed,
    Untried,
}

/// Tries the mistakes whose names contain one of `names`, or all.
pub(crate) fn run(names: &[String], tests_are: Tests) -> Result<()> {
    let mut mistakes = program("kymo-mistakes")?;
    mistakes.arg("--scratch").arg(target().join("mistakes"));
    if tests_are == Tests::Passed {
        mistakes.arg("--third");
    }
    run_program(mistakes.arg("--").args(names))
}
