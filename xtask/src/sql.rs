//! `cargo xtask sql`: lints, builds and tests `kymo-query`, a workspace of its own, as its engine
//! takes minutes to compile.

use anyhow::Result;

use crate::process::{cargo, root, run as run_command, target};

/// Its format and its tests.
pub(crate) fn test() -> Result<()> {
    inside(&["fmt", "--check"])?;
    inside(&["test", "--locked"])
}

/// All of it.
pub(crate) fn run() -> Result<()> {
    let clippy = [
        "clippy",
        "--locked",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    inside(&clippy)?;
    test()
}

fn inside(arguments: &[&str]) -> Result<()> {
    let mut command = cargo(arguments);
    command.current_dir(root().join("sql"));
    run_command(command.env("CARGO_TARGET_DIR", target().join("sql")))
}
