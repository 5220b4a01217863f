//! Lists of deliberate mistakes, and copies of the repository in which they are made.
//!
//! Two programs use it: this crate's own makes mistakes in the ring (`crates/kymo/mistakes`), and
//! `tests/rules` breaks what each row of docs/rules.md claims (`tests/rules/broken`).

pub mod list;
pub mod sandbox;

use std::path::Path;
use std::process::Command;

/// Root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The cargo that runs this program, in the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}
