//! The step `rules`: see tests/rules.

use anyhow::Result;

use crate::process::{program, run_program};
use crate::test::STEPS;

pub(crate) fn run() -> Result<()> {
    let steps: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    run_program(program("kymo-rules")?.args(["--steps", &steps.join(",")]))
}
