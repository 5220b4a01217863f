//! `kymo query`: runs `kymo-query`, which is built and installed apart because its engine is large.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use crate::exit::Code;

const PROGRAM: &str = "kymo-query";

/// Command line of `kymo query`, which is passed on as it is.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// The traces, and behind them the query; `--help` has all options.
    #[arg(
        value_name = "TRACE.. QUERY",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// Runs `kymo query`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    pass_on(&arguments.words)
}

/// Runs the program beside this one, or else the one that PATH has.
pub fn pass_on(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> anyhow::Result<Code> {
    let here = std::env::current_exe().ok();
    let beside = here.and_then(|kymo| Some(kymo.parent()?.join(PROGRAM)));
    let beside = beside.filter(|program| program.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(&program);
    match start(command.args(words)) {
        Err(error) if error.kind() == ErrorKind::NotFound => anyhow::bail!(
            "{PROGRAM} is not installed; `cargo install --locked --path sql` in Kymo's source \
             installs it"
        ),
        other => other.with_context(|| format!("cannot run {}", program.display())),
    }
}

/// Becomes the program, so that signals and the exit status are its own.
#[cfg(unix)]
fn start(command: &mut Command) -> std::io::Result<Code> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn start(command: &mut Command) -> std::io::Result<Code> {
    let status = command.status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Code::Command(code.unwrap_or(1)))
}
