//! The step `rules` and `cargo xtask rules`: see tests/rules.

use std::process::Command;

use anyhow::Result;

use crate::process::{program, run_program, target};
use crate::test::{Form, STEPS, Step};

/// Checks that every rule has a test, and every test of a rule a mistake that it must detect.
pub(crate) fn run(form: Form) -> Result<()> {
    match form {
        Form::Short => run_program(&mut command()?),
        Form::All => break_all(&[], true),
    }
}

/// Makes the mistakes of these rules, or of all, in a copy of the repository.
pub(crate) fn break_all(ids: &[String], tests_passed: bool) -> Result<()> {
    let mut command = command()?;
    command.arg("--scratch").arg(target().join("rules/copy"));
    if tests_passed {
        command.arg("--passed");
    }
    run_program(command.arg("--").args(ids))
}

fn command() -> Result<Command> {
    let steps: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    let mut command = program("kymo-rules")?;
    command.args(["--steps", &steps.join(",")]);
    let guards = STEPS.iter().filter_map(Step::tests);
    let guards: Vec<&str> = guards.flatten().collect();
    command.args(["--sometimes", &guards.join(",")]);
    Ok(command)
}
