//! Finds and runs other programs; errors name the program.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::failure::{Both, Exited, Usage};
use crate::tested;
use crate::watched::{Watched, print_time, watch};

/// Root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// The cargo that runs this program, in the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Runs the command; an error unless it succeeds. What it prints is passed on, and kept for the
/// list of failures.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let watched = watch(command).with_context(|| format!("cannot start: {line}"))?;
    succeeded(line, watched)
}

fn succeeded(line: String, watched: Watched) -> Result<()> {
    let Watched { status, lines } = watched;
    tested::note("", &lines);
    if status.success() {
        return Ok(());
    }
    bail!(Exited {
        line,
        status,
        lines
    })
}

/// Runs the command at the terminal of this program, if there is one; an error unless it succeeds.
pub(crate) fn show(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot start: {line}"))?;
    if !status.success() {
        bail!("this failed ({status}): {line}");
    }
    Ok(())
}

/// Runs the command and returns its standard output; the standard error is inherited.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    eprintln!("$ {line}");
    let begin = Instant::now();
    let result = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start: {line}"))?;
    print_time(begin);
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    if !result.status.success() {
        // Cargo's messages in JSON are not for people; its errors are on the standard error.
        let told = text
            .lines()
            .filter(|line| !line.starts_with("{\"reason\":"));
        let told: Vec<&str> = told.collect();
        bail!(
            "this failed ({}): {line}\n{}",
            result.status,
            told.join("\n")
        );
    }
    Ok(text)
}

/// Does two parts of a step at the same time, each to its end.
///
/// # Errors
/// That of one of them, or [`Both`].
pub(crate) fn side_by_side<A: Send, B>(
    one: impl FnOnce() -> Result<A> + Send,
    other: impl FnOnce() -> Result<B>,
) -> Result<(A, B)> {
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (
            one.join().unwrap_or_else(|panic| resume_unwind(panic)),
            other,
        )
    });
    match (one, other) {
        (Err(one), Err(other)) => bail!(Both(one, other)),
        (one, other) => Ok((one?, other?)),
    }
}

/// The arguments with which cargo takes all packages with all features. Every step that builds for
/// this machine gives them, and then names what it needs of it: so a dependency has the same
/// features in all steps, and is compiled once.
pub(crate) const WORKSPACE: [&str; 2] = ["--workspace", "--all-features"];

/// Builds a program of this workspace, with all features. Returns its path.
pub(crate) fn build(name: &str) -> Result<PathBuf> {
    run(cargo(&["build"]).args(WORKSPACE).args(["--bin", name]))?;
    Ok(target().join("debug").join(name))
}

/// Builds a program of this workspace and returns its command.
pub(crate) fn program(package: &str) -> Result<Command> {
    let mut command = Command::new(build(package)?);
    command.current_dir(root());
    Ok(command)
}

/// Runs a program of this workspace, whose exit codes have the same meanings as ours.
pub(crate) fn run_program(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let watched = watch(command).with_context(|| format!("cannot start: {line}"))?;
    if watched.status.code() == Some(2) {
        bail!(Usage(format!("These arguments are wrong: {line}")));
    }
    succeeded(line, watched)
}

/// A package, as far as `cargo metadata` is asked for it.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a package depends on.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Its folder, if it comes from no registry.
    pub(crate) path: Option<PathBuf>,
    pub(crate) kind: Option<String>,
}

impl Package {
    /// Its folder.
    pub(crate) fn folder(&self) -> Result<&Path> {
        let folder = self.manifest_path.parent();
        folder.context("a manifest has a folder")
    }
}

/// The packages that cargo finds from a folder, by `cargo metadata` with this argument.
pub(crate) fn packages(folder: &Path, argument: &str) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut metadata = cargo(&["metadata", argument, "--format-version", "1"]);
    let text = output(metadata.current_dir(folder))?;
    let metadata: Metadata = serde_json::from_str(&text).context("cargo metadata")?;
    Ok(metadata.packages)
}

/// Runs the command silently; its standard output, or `None` if it cannot be started or fails.
pub(crate) fn quiet(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program of this name is on the PATH, or exists at this path.
pub(crate) fn exists(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// Characters of a command that are printed at most.
const WIDE: usize = 200;

/// A command as one would type it, with the program's file name.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = std::iter::once(program.file_name().unwrap_or(program.as_os_str()))
        .chain(command.get_args());
    let line = words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    match line.char_indices().nth(WIDE) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
