//! Runs a command line, and measures its time or memory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A command line, and its output file.
#[derive(Clone)]
pub(crate) struct Call {
    words: Vec<OsString>,
    /// A file or folder that it writes, removed after each run.
    written: Option<PathBuf>,
}

/// The duration of a run in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Seconds {
    /// Wall-clock time.
    pub(crate) wall: f64,
    /// Processor time, user and system.
    pub(crate) processor: f64,
}

impl Call {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Call {
        Call {
            words: vec![program.as_ref().to_owned()],
            written: None,
        }
    }

    pub(crate) fn word(mut self, word: impl AsRef<OsStr>) -> Call {
        self.words.push(word.as_ref().to_owned());
        self
    }

    pub(crate) fn words(mut self, words: &[&str]) -> Call {
        self.words.extend(words.iter().map(OsString::from));
        self
    }

    pub(crate) fn writes(mut self, path: PathBuf) -> Call {
        self.written = Some(path);
        self
    }

    /// Runs it and discards its output. The shell measures the processor time of its children to
    /// the millisecond.
    pub(crate) fn seconds(&self) -> Result<Seconds> {
        const SCRIPT: &str =
            r#"exec 3>&2; TIMEFORMAT="%3R %3U %3S"; { time "$@" >/dev/null 2>&3; } 2>&1"#;
        self.clear()?;
        let output = in_utc("bash")
            .args(["-c", SCRIPT, "bash"])
            .args(&self.words)
            .stderr(Stdio::piped())
            .output()
            .context("bash cannot be started")?;
        self.succeeded(output.status, &output.stderr)?;
        self.clear()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [wall, user, system] => Ok(Seconds {
                wall,
                processor: user + system,
            }),
            _ => bail!("the shell's time is malformed: {text}"),
        }
    }

    /// Peak memory in kilobytes, without mapped files. Sampled every millisecond, so it is a lower
    /// bound.
    pub(crate) fn memory(&self) -> Result<u64> {
        self.clear()?;
        let mut child = self
            .command()?
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.line())?;
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let mut most = 0;
        let ended = loop {
            if let Some(ended) = child.try_wait()? {
                break ended;
            }
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let size = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            most = most.max(size.unwrap_or(0));
            std::thread::sleep(Duration::from_millis(1));
        };
        self.succeeded(ended, b"")?;
        self.clear()?;
        Ok(most)
    }

    /// Runs it and gives its output.
    pub(crate) fn output(&self) -> Result<String> {
        let output = self.command()?.output().with_context(|| self.line())?;
        self.succeeded(output.status, &output.stderr)?;
        String::from_utf8(output.stdout).context("the output is not UTF-8")
    }

    pub(crate) fn command(&self) -> Result<Command> {
        let (program, arguments) = self.words.split_first().context("there is no command")?;
        let mut command = in_utc(program);
        command.args(arguments).stdin(Stdio::null());
        Ok(command)
    }

    /// Checks the exit status. For `kymo check`, 1 means findings, which is no failure here.
    fn succeeded(&self, status: ExitStatus, errors: &[u8]) -> Result<()> {
        let is_check = self.words.get(1).is_some_and(|word| word == "check");
        if status.success() || (is_check && status.code() == Some(1)) {
            return Ok(());
        }
        bail!(
            "failed ({status}): {}\n{}",
            self.line(),
            String::from_utf8_lossy(errors)
        )
    }

    fn clear(&self) -> Result<()> {
        match &self.written {
            Some(path) if path.is_dir() => fs::remove_dir_all(path),
            Some(path) if path.exists() => fs::remove_file(path),
            _ => Ok(()),
        }
        .with_context(|| format!("{} cannot be removed", self.name()))
    }

    fn name(&self) -> String {
        let written = self.written.as_deref().unwrap_or(Path::new(""));
        written.display().to_string()
    }

    fn line(&self) -> String {
        let words = self.words.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A command in UTC, so that both readers print the same times of the day.
fn in_utc(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("TZ", "UTC");
    command
}
