//! The step `package`: see tests/package.

use anyhow::Result;

use crate::process::{program, run_program, target};
use crate::test::Form;

/// Packages, compiles and installs; in the long form as users install, optimized.
pub(crate) fn run(form: Form) -> Result<()> {
    let mut package = program("kymo-package")?;
    package.arg("--packages").arg(target().join("packaging"));
    package.arg("--installed").arg(target().join("install"));
    if form == Form::All {
        package.arg("--release");
    }
    run_program(&mut package)
}
