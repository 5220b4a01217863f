//! How much memory a program takes at most: all that is resident, or what it has of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The command of this program that runs another one.
pub(crate) const MEASURED: &str = "measured";

/// A program that is run by way of [`measured`], which tells the most that was resident, with what
/// is mapped of files.
pub(crate) struct Resident {
    command: Command,
    figure: PathBuf,
}

impl Resident {
    /// `figure`: a file for the answer.
    pub(crate) fn of(program: &Path, figure: &Path) -> Result<Resident> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(MEASURED).arg(figure).arg(program);
        Ok(Resident {
            command,
            figure: figure.to_owned(),
        })
    }

    /// Takes the program's arguments, and where its input and output go.
    pub(crate) fn arguments(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs it to its end; kilobytes.
    pub(crate) fn run(&mut self) -> Result<u64> {
        let status = self.command.status().context("it cannot be started")?;
        if !status.success() {
            bail!("it ends with {status}");
        }
        fs::read_to_string(&self.figure)?
            .parse()
            .context("how much memory it took is not told")
    }
}

/// `xtask measured FILE PROGRAM ARGUMENTS..`: runs the program, and writes to the file how much
/// memory it took at most, in kilobytes.
///
/// A process of its own, because the system counts what its parent had as a program's memory until
/// it begins: this one has had little.
#[cfg(target_os = "linux")]
pub(crate) fn measured(figure: &str, program: &str, arguments: &[&str]) -> Result<()> {
    let child = Command::new(program)
        .args(arguments)
        .spawn()
        .context("it cannot be started")?;
    let pid = i32::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: zeros are a value of this structure of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both point to memory of these types. The child is ours, and nobody else waits for it.
    if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } != pid {
        return Err(std::io::Error::last_os_error()).context("it cannot be waited for");
    }
    if status != 0 {
        bail!("{program} ends with status {status:#x}");
    }
    fs::write(figure, usage.ru_maxrss.to_string()).context("what it took cannot be written")
}

/// Runs the program. What it took is not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn measured(figure: &str, program: &str, arguments: &[&str]) -> Result<()> {
    if !Command::new(program)
        .args(arguments)
        .status()
        .context("it cannot be started")?
        .success()
    {
        bail!("{program} fails");
    }
    fs::write(figure, "0").context("what it took cannot be written")
}

/// The most memory that a command had of its own, in kilobytes: what is mapped from files does not
/// count. Sampled, so a lower bound.
pub(crate) fn own(words: &[String]) -> Result<u64> {
    let (program, arguments) = words.split_first().context("there is no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut most = 0;
    while child.try_wait()?.is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let size = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        most = most.max(size.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(most)
}
