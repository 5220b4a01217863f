//! The first program of a Linux guest without any other: it runs the commands that the kernel's
//! command line names, prints what they print, and switches the machine off.
//!
//! The kernel's command line has `guest.run="COMMAND;COMMAND"`. Words of a command are separated by
//! spaces; `NAME=VALUE` before it sets a variable. Every line of the console that is about the
//! command with the number N, from 0, begins so:
//!
//! | line | |
//! |---|---|
//! | `guest: out N TEXT` | a line of its standard output |
//! | `guest: err N TEXT` | a line of its standard error |
//! | `guest: end N STATUS` | its exit status, 128 and a signal's number, or why it did not start |
//!
//! Under the name `true` it is the program that does nothing, and under the name `spin` the program
//! that executes a known number of instructions.

#[cfg(target_os = "linux")]
mod guest;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let name = words.first().map(Path::new).and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let result = match (name.as_deref(), words.get(1..).unwrap_or_default()) {
        (Some("true"), _) => Ok(()),
        (Some("spin"), [loops]) => spin(loops),
        #[cfg(target_os = "linux")]
        _ if std::process::id() == 1 => guest::run(),
        _ => Err(anyhow::anyhow!(
            "this is the first program of a Linux guest; see its source"
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn spin(loops: &str) -> Result<()> {
    let loops = loops.parse().ok().filter(|loops| *loops > 0);
    kymo_linux_guest::spin(loops.context("the number of loops is 1 or more")?);
    Ok(())
}
