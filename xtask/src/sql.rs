//! `cargo xtask sql`: lints, builds and tests `kymo-query`, a workspace of its own: no other command
//! compiles its engine.

use anyhow::Result;

use crate::process::{cargo, root, run as run_command, target};

/// Whether its source is formatted, which needs no engine.
pub(crate) fn fmt() -> Result<()> {
    inside(&["fmt", "--check"])
}

/// All of it.
pub(crate) fn run() -> Result<()> {
    fmt()?;
    let clippy = [
        "clippy",
        "--locked",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    inside(&clippy)?;
    inside(&["test", "--locked"])
}

fn inside(arguments: &[&str]) -> Result<()> {
    let mut command = cargo(arguments);
    command.current_dir(root().join("sql"));
    run_command(command.env("CARGO_TARGET_DIR", target().join("sql")))
}
