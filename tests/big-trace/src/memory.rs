//! Peak resident memory of a program.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The subcommand that runs another program.
pub(super) const MEASURED: &str = "measured";

/// A program that is run through [`measured`]. Resident pages of mapped files count.
pub(super) struct Resident {
    command: Command,
    figure: PathBuf,
}

impl Resident {
    /// A command for `program`; `figure` is a file for the result.
    pub(super) fn of(program: &Path, figure: &Path) -> Result<Resident> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(MEASURED).arg(figure).arg(program);
        Ok(Resident {
            command,
            figure: figure.to_owned(),
        })
    }

    /// The command, for setting arguments, input and output.
    pub(super) fn arguments(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs the program to its end; returns its peak memory in kilobytes.
    pub(super) fn run(&mut self) -> Result<u64> {
        let status = self.command.status().context("it cannot be started")?;
        if !status.success() {
            bail!("it ends with {status}");
        }
        fs::read_to_string(&self.figure)?
            .parse()
            .context("the figure of its memory is malformed")
    }
}

/// Runs the program, and writes its peak resident memory, in kilobytes, to `figure`.
///
/// This needs a separate process: until a program begins, Linux counts its parent's memory as the
/// program's, and this process has little.
#[cfg(target_os = "linux")]
pub(super) fn measured(figure: &Path, program: &OsStr, arguments: &[OsString]) -> Result<()> {
    let child = Command::new(program)
        .args(arguments)
        .spawn()
        .context("it cannot be started")?;
    let pid = i32::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: zeros are a value of this structure of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both point to memory of these types. The child is ours, and nothing else waits for
    // it.
    if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } != pid {
        return Err(std::io::Error::last_os_error()).context("it cannot be waited for");
    }
    if status != 0 {
        bail!("{} ends with status {status:#x}", program.display());
    }
    fs::write(figure, usage.ru_maxrss.to_string())
        .context("the figure of its memory cannot be written")
}

/// Runs the program. Its memory is not measured on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn measured(figure: &Path, program: &OsStr, arguments: &[OsString]) -> Result<()> {
    if !Command::new(program)
        .args(arguments)
        .status()
        .context("it cannot be started")?
        .success()
    {
        bail!("{} fails", program.display());
    }
    fs::write(figure, "0").context("the figure of its memory cannot be written")
}
