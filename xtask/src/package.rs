//! The step `package`: see tests/package.

use anyhow::Result;

use crate::process::{program, run_program, target};

pub(crate) fn run() -> Result<()> {
    let mut package = program("kymo-package")?;
    package.arg("--packages").arg(target().join("packaging"));
    package.arg("--installed").arg(target().join("install"));
    run_program(&mut package)
}
