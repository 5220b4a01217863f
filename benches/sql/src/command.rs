//! Runs commands, and measures their time and memory.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How often a command's memory is looked at.
const EACH: Duration = Duration::from_millis(2);

/// A command with its arguments.
#[derive(Clone)]
pub(crate) struct Words(Vec<String>);

impl Words {
    pub(crate) fn new(program: &Path, words: &[&str]) -> Words {
        let program = program.display().to_string();
        let words = words.iter().map(|word| (*word).to_owned());
        Words([program].into_iter().chain(words).collect())
    }

    pub(crate) fn and(mut self, word: &Path) -> Words {
        self.0.push(word.display().to_string());
        self
    }

    fn command(&self) -> Result<Command> {
        let (program, words) = self.0.split_first().context("there is no command")?;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null());
        Ok(command)
    }

    /// What it prints.
    pub(crate) fn output(&self) -> Result<String> {
        let output = self.command()?.output().with_context(|| self.0.join(" "))?;
        self.check(&output)?;
        String::from_utf8(output.stdout).context("the output is not UTF-8")
    }

    /// How long it takes in seconds, and what it prints.
    pub(crate) fn seconds(&self) -> Result<(f64, String)> {
        let begin = Instant::now();
        let text = self.output()?;
        Ok((begin.elapsed().as_secs_f64(), text))
    }

    /// Peak memory in KiB that belongs to no file. It is looked at every few milliseconds, so this
    /// is a lower bound. `None` if it fails.
    pub(crate) fn memory(&self) -> Result<Option<u64>> {
        let mut command = self.command()?;
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut most = 0;
        let ended = loop {
            if let Some(ended) = child.try_wait()? {
                break ended;
            }
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let size = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            most = most.max(size.unwrap_or(0));
            std::thread::sleep(EACH);
        };
        Ok(ended.success().then_some(most))
    }

    fn check(&self, output: &Output) -> Result<()> {
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("failed ({}): {}\n{errors}", output.status, self.0.join(" "))
    }
}
