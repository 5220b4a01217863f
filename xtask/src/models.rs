//! Runs the models of the ring, of sessions, of the history's mark and of RTT up-buffers under loom:
//! `ring/models`, `session/models.rs`, `history/models.rs` and others in crates/kymo/src.

use anyhow::Result;

use crate::process::{cargo, run as run_command, target};

/// Runs all models, with this many preemptions in addition to their own.
pub(crate) fn run(more: u32) -> Result<()> {
    let mut command = cargo(&[
        "test",
        "--profile",
        "models",
        "-p",
        "kymo",
        "--lib",
        "models::",
        "--",
        "--nocapture",
    ]);
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("KYMO_MODEL_PREEMPTIONS", more.to_string());
    run_command(command.env("CARGO_TARGET_DIR", target().join("loom")))
}

/// Lints the models.
pub(crate) fn clippy() -> Result<()> {
    let mut command = cargo(&[
        "clippy",
        "--profile",
        "models",
        "-p",
        "kymo",
        "--lib",
        "--tests",
        "--",
        "-Dwarnings",
    ]);
    run_command(
        command
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", target().join("loom")),
    )
}
