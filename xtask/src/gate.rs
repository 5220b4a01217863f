//! `cargo xtask gate`: what CI does, in a clean clone, before a commit lands.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::failure::Usage;
use crate::process::{output, quiet, root, show, target};

/// Variables that the run keeps: all others are this session's own. Node has no certificates but its
/// own without the one of them.
const KEPT: [&str; 6] = [
    "PATH",
    "HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NODE_EXTRA_CA_CERTS",
    cache::VARIABLE,
];

/// The file below the target folder with the last commit that passed.
const PASSED: &str = "gate";

/// Runs `.ci/run` on a clean clone of the commit.
pub(crate) fn run(commit: &str) -> Result<()> {
    let mut parse = Command::new("git");
    parse.args([
        "rev-parse",
        "--verify",
        "--quiet",
        &format!("{commit}^{{commit}}"),
    ]);
    let Some(hash) = quiet(parse.current_dir(root())) else {
        bail!(Usage(format!("There is no commit \"{commit}\".")));
    };
    let hash = hash.trim();
    let folder = env::temp_dir().join(format!("kymo-gate-{}", std::process::id()));
    let mut clone = Command::new("git");
    clone
        .args(["clone", "--quiet", "--no-checkout"])
        .arg(root());
    output(clone.arg(&folder))?;
    let mut checkout = Command::new("git");
    checkout.current_dir(&folder);
    output(checkout.args(["checkout", "--quiet", "--detach", hash]))?;

    let mut ci = Command::new("bash");
    ci.arg(".ci/run").current_dir(&folder).stdin(Stdio::null());
    ci.env_clear().env("CI", "true");
    ci.envs(
        KEPT.iter()
            .filter_map(|name| Some((name, env::var_os(name)?))),
    );
    eprintln!("{hash} in {}", folder.display());
    show(&mut ci).with_context(|| format!("{hash} has not passed; see {}", folder.display()))?;
    let passed = target().join(PASSED);
    fs::write(&passed, format!("{hash}\n"))
        .with_context(|| format!("cannot write {}", passed.display()))?;
    if let Some(cache) = cache::folder()
        && let Err(error) = cache::keep(&folder, &cache)
    {
        eprintln!("Builds of dependencies are not kept for the next gate: {error:#}");
    }
    fs::remove_dir_all(&folder).context("the clone cannot be removed")?;
    eprintln!("{hash} has passed");
    Ok(())
}
