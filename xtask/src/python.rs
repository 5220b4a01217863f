//! Python programs for checks and benchmarks: each set has its own virtual environment under the
//! target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{run, target};

/// Folder of the programs of the environment `name`, which is created, or recreated if its list of
/// requirements has changed, or it was moved.
pub(crate) fn environment(name: &str, requirements: &Path) -> Result<PathBuf> {
    let environment = target().join(name).join("python");
    let installed = environment.join("requirements.txt");
    let listed =
        fs::read_to_string(requirements).with_context(|| requirements.display().to_string())?;
    // The programs of an environment name its folder: one that was moved does not run.
    let wanted = format!("# {}\n{listed}", environment.display());
    if fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/pip"));
        run(pip
            .args(["install", "--quiet", "--no-deps", "--requirement"])
            .arg(requirements))?;
        // Written last, so that an interrupted run is repeated.
        fs::write(&installed, wanted)?;
    }
    Ok(environment.join("bin"))
}
