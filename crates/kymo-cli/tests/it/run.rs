//! Runs the program.

use std::path::Path;
use std::process::{Command, Output};

/// `kymo` with these arguments and, behind them, a trace. The terminal is so wide that no line is
/// broken.
pub fn kymo(arguments: &[&str], trace: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(arguments)
        .arg(trace)
        .env("COLUMNS", "1000")
        .output()
        .unwrap()
}

/// Its exit status and what it printed.
#[allow(dead_code)]
pub fn printed(arguments: &[&str], trace: &Path) -> (Option<i32>, String) {
    let output = kymo(arguments, trace);
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text)
}
