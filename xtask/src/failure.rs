//! Errors with their own exit codes, and what a step that failed leaves to be listed.

use std::process::ExitStatus;

/// A command ended with an error.
#[derive(Debug)]
pub(crate) struct Exited {
    pub(crate) line: String,
    pub(crate) status: ExitStatus,
    /// What it printed.
    pub(crate) lines: Vec<String>,
}

impl std::fmt::Display for Exited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "this failed ({}): {}", self.status, self.line)
    }
}

impl std::error::Error for Exited {}

/// Two parts of a step failed that ran side by side.
#[derive(Debug)]
pub(crate) struct Both(pub(crate) anyhow::Error, pub(crate) anyhow::Error);

impl std::fmt::Display for Both {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}; {:#}", self.0, self.1)
    }
}

impl std::error::Error for Both {}

/// Tests failed.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) Vec<FailedTest>);

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedTest {
    pub(crate) test: String,
    /// What it printed.
    pub(crate) lines: Vec<String>,
    /// The command that runs it alone.
    pub(crate) alone: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "a test failed: {}", one.test),
            all => write!(f, "{} tests failed", all.len()),
        }
    }
}

impl std::error::Error for Failed {}

/// A step was left out of the short form, and why.
#[derive(Debug)]
pub(crate) struct LeftOut(pub(crate) String);

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "left out: {}", self.0)
    }
}

impl std::error::Error for LeftOut {}

/// The machine lacks something; the message says what to type.
#[derive(Debug)]
pub(crate) struct Environment(pub(crate) String);

impl std::fmt::Display for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Environment {}

/// A step of `cargo xtask test` was not run, and why: it lacks a tool that CI can do without.
#[derive(Debug)]
pub(crate) struct NotRun(pub(crate) String);

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NOT RUN: {}", self.0)
    }
}

impl std::error::Error for NotRun {}

/// The command line is invalid; the message says why.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n\nFor all commands: cargo xtask --help", self.0)
    }
}

impl std::error::Error for Usage {}

/// The exit code: 1 for a failed check, 2 for wrong usage, 4 for a missing tool.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        2
    } else if error.is::<Environment>() {
        4
    } else {
        1
    }
}
