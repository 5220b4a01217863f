//! `cargo xtask bench samples`: how fast samples become folded stacks and a flame graph, beside
//! inferno-collapse-perf.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, cargo, root, run, target};
use crate::{kernel, setup, test};

/// Number of samples, and whether goals are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A million, for which the goals are set.
    Standard,
    /// Ten million, whose text takes 20 GB under the target folder.
    Full,
    /// A few, for CI: the folded stacks must be equal, but no time is compared.
    Short,
}

/// The program's folder.
fn folder() -> PathBuf {
    root().join("benches/samples")
}

fn built() -> PathBuf {
    target().join("bench-samples")
}

/// Lints the program.
pub(crate) fn clippy() -> Result<()> {
    let mut command = cargo(&["clippy", "--release", "--locked", "--target-dir"]);
    run(command
        .arg(built())
        .args(["--", "-Dwarnings"])
        .current_dir(folder()))
}

/// Builds everything, makes the samples, measures, and removes them.
pub(crate) fn measure(form: Form) -> Result<()> {
    let kernel = kernel::demo_with_debug_information(setup::run()?)?;
    // The short form compares no time.
    let kymo = match form {
        Form::Short => process::build("kymo")?,
        Form::Standard | Form::Full => test::cli()?,
    };
    run(cargo(&["build", "--release", "--locked", "--target-dir"])
        .arg(built())
        .current_dir(folder()))?;
    let data = built().join("data");
    if data.exists() {
        fs::remove_dir_all(&data).with_context(|| format!("cannot clear {}", data.display()))?;
    }
    fs::create_dir_all(&data)?;
    let mut command = Command::new(built().join("release/kymo-bench-samples"));
    command
        .args(["run", "--kymo"])
        .arg(kymo)
        .arg("--kernel")
        .arg(kernel)
        .arg("--folder")
        .arg(&data);
    command.args(match form {
        Form::Standard => ["--samples=1000000", "--goals"].as_slice(),
        Form::Full => &["--samples=10000000", "--goals", "--rounds=1"],
        Form::Short => &["--samples=30000", "--stacks=1000", "--rounds=1"],
    });
    let measured = run(&mut command);
    fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
    measured
}
