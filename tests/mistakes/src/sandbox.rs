//! Copies of the repository or of a part of it, in which mistakes are made and tests run.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::list::Mistake;
use crate::{cargo, root};

/// A test that takes longer hangs on the mistake instead of detecting it. (The slowest one needs
/// seconds.)
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// A step of `cargo xtask test` also builds what it needs.
const STEP_TIME_LIMIT: Duration = Duration::from_secs(3600);

/// What a test did about a mistake.
#[derive(Debug)]
pub enum Outcome {
    /// It did not notice.
    Passed,
    /// The test panicked, or the step failed with the words that are expected.
    Caught,
    /// The compiler's messages.
    DoesNotBuild(String),
    /// It hung.
    TooLong,
    /// A signal, or a failure of something else.
    Otherwise(String),
}

impl Outcome {
    /// A word for a table.
    pub fn describe(&self) -> &'static str {
        match self {
            Outcome::Passed => "MISSED        ",
            Outcome::Caught => "caught        ",
            Outcome::DoesNotBuild(_) => "DOES NOT BUILD",
            Outcome::TooLong => "HANGS         ",
            Outcome::Otherwise(_) => "OTHER FAILURE ",
        }
    }

    /// The lines that say why the outcome is not the expected one.
    pub fn lines(&self) -> String {
        let (Outcome::DoesNotBuild(text) | Outcome::Otherwise(text)) = self else {
            return String::new();
        };
        text.lines()
            .filter(|line| line.starts_with("error") || matches!(self, Outcome::Otherwise(_)))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// Its crate.
    pub package: String,
    /// Its file below the crate's `tests`; without one, the crate's own tests.
    pub file: Option<String>,
    /// Whether it is built for the model checker.
    pub model: bool,
    /// The profile of cargo.
    pub profile: &'static str,
}

/// A copy in a separate workspace.
pub struct Sandbox {
    folder: PathBuf,
    /// Where the files of a mistake are, below the folder.
    edited: &'static str,
}

impl Sandbox {
    /// Copies the crate `kymo` alone, in which mistakes name files below `src`.
    pub fn of_the_ring(folder: PathBuf) -> Result<Sandbox> {
        let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
        let (_, shared) = manifest
            .split_once("[workspace.package]")
            .context("Cargo.toml has no [workspace.package]")?;
        write_if_new(
            &folder.join("Cargo.toml"),
            format!(
                "[workspace]\nresolver = \"3\"\nmembers = \
                 [\"crates/kymo\"]\n\n[workspace.package]{shared}"
            )
            .as_bytes(),
        )?;
        let lock = "Cargo.lock";
        write_if_new(&folder.join(lock), &fs::read(root().join(lock))?)?;
        for part in ["examples", "crates/kymo"] {
            copy_tree(&root().join(part), &folder.join(part))?;
        }
        let edited = "crates/kymo/src";
        Ok(Sandbox { folder, edited })
    }

    /// Copies the repository, in which mistakes name files from its root.
    pub fn of_the_repository(folder: PathBuf) -> Result<Sandbox> {
        copy_tree(root(), &folder)?;
        let edited = "";
        Ok(Sandbox { folder, edited })
    }

    fn source(&self, file: &str) -> PathBuf {
        self.folder.join(self.edited).join(file)
    }

    /// A cargo that builds in this copy, below `target`.
    ///
    /// Each copy needs its own target folder, as cargo distinguishes packages by their paths
    /// inside the workspace.
    fn cargo(&self, arguments: &[&str], target: &str) -> Command {
        let mut command = cargo(arguments);
        command
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", self.folder.join(target))
            .env("RUST_BACKTRACE", "0")
            // One mistake after another is built here; .ci/run switches it off for all else.
            .env("CARGO_INCREMENTAL", "1");
        command
    }

    /// Changes the files. An error unless all the lines are there.
    pub fn make_mistake(&self, mistake: &Mistake) -> Result<Made> {
        let mut made = Made(Vec::new());
        for edit in &mistake.edits {
            let path = self.source(&edit.file);
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", edit.file))?;
            match edit.apply(&text) {
                Ok(new) => fs::write(&path, new)?,
                Err(error) => {
                    made.undo()?;
                    return Err(error);
                }
            }
            made.0.push((path, text));
        }
        Ok(made)
    }

    /// Builds and runs one test. The last word of `test` is its name, the words before it are the
    /// first ones of its module.
    pub fn run(&self, program: &Program, test: &str) -> Result<Outcome> {
        let file = match self.build(program)? {
            Ok(file) => file,
            Err(text) => return Ok(Outcome::DoesNotBuild(text)),
        };
        let mut command = Command::new(&file);
        let output = command.args(["--list", "--format", "terse"]).output()?;
        let list = String::from_utf8_lossy(&output.stdout).into_owned();
        let (module, function) = test.rsplit_once("::").unwrap_or(("", test));
        let is_meant =
            |name: &&str| name.rsplit("::").next() == Some(function) && name.starts_with(module);
        let names: Vec<&str> = list
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .filter(is_meant)
            .collect();
        let name = match names[..] {
            [name] => name,
            _ if names.contains(&test) => test,
            _ => bail!("{} tests are named {test}", names.len()),
        };
        let mut command = Command::new(&file);
        command
            .current_dir(self.folder.join("crates").join(&program.package))
            .args(["--exact", name, "--include-ignored", "--nocapture"])
            .arg("--test-threads=1")
            .env("RUST_BACKTRACE", "0");
        if !self.folder.join("crates").join(&program.package).is_dir() {
            command.current_dir(&self.folder);
        }
        let Some((success, text)) = self.logged(&mut command, TIME_LIMIT)? else {
            return Ok(Outcome::TooLong);
        };
        Ok(verdict(success, &text, name))
    }

    /// Runs `cargo xtask test STEP`, of which one test must fail by a panic.
    pub fn run_step_test(&self, step: &str, test: &str) -> Result<Outcome> {
        let Some((success, text)) = self.step(step)? else {
            return Ok(Outcome::TooLong);
        };
        Ok(verdict(success, &text, test))
    }

    /// Runs `cargo xtask test STEP`, which must fail and print these words.
    pub fn run_step(&self, step: &str, words: &str) -> Result<Outcome> {
        let Some((success, text)) = self.step(step)? else {
            return Ok(Outcome::TooLong);
        };
        Ok(match (success, text.contains(words)) {
            (true, _) => Outcome::Passed,
            (false, true) => Outcome::Caught,
            (false, false) => Outcome::Otherwise(end(&text)),
        })
    }

    fn step(&self, step: &str) -> Result<Option<(bool, String)>> {
        let mut command = self.cargo(&["xtask", "test", step], "target");
        self.logged(&mut command, STEP_TIME_LIMIT)
    }

    /// Whether the command succeeds, and all that it prints; `None` if it had to be stopped.
    fn logged(&self, command: &mut Command, limit: Duration) -> Result<Option<(bool, String)>> {
        let log = self.folder.join("log");
        let file = fs::File::create(&log)?;
        let mut child = command
            // What it starts, such as QEMU, ends with it if it hangs.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let Some(success) = wait(&mut child, limit)? else {
            return Ok(None);
        };
        Ok(Some((
            success,
            String::from_utf8_lossy(&fs::read(&log)?).into_owned(),
        )))
    }

    /// Whether a crate has a library; else its own tests are its command's.
    fn has_library(&self, package: &str) -> bool {
        let library = Path::new("crates").join(package).join("src/lib.rs");
        self.folder.join(library).is_file()
    }

    /// Builds the tests. Returns the program, or the compiler's messages.
    pub fn build(&self, program: &Program) -> Result<std::result::Result<PathBuf, String>> {
        // Built for the model checker, everything is another build.
        let target = match (self.edited.is_empty(), program.model) {
            (true, false) => "target",
            (true, true) => "target/loom",
            (false, false) => "built-tests",
            (false, true) => "built-models",
        };
        let mut command = self.cargo(&["test", "--no-run", "--profile", program.profile], target);
        command.args(["-p", &program.package]);
        match &program.file {
            Some(file) => command.args(["--test", file]),
            None if self.has_library(&program.package) => command.arg("--lib"),
            None => command.arg("--bins"),
        };
        if program.model {
            command.env("RUSTFLAGS", "--cfg loom");
        }
        let output = command.output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Ok(Err(text));
        }
        let line = text
            .lines()
            .rev()
            .find_map(|line| line.trim().strip_prefix("Executable "));
        let program = line
            .and_then(|line| line.rsplit_once('(')?.1.strip_suffix(')'))
            .context("cargo names no program that it built")?;
        Ok(Ok(self.folder.join(program)))
    }
}

/// What the output of a test says: it must have run, and have failed by a panic of its own.
fn verdict(success: bool, text: &str, test: &str) -> Outcome {
    if success && text.contains("\nrunning 1 test\n") {
        return Outcome::Passed;
    }
    // The end-to-end tests are named with their file.
    let failed = text.lines().any(|line| {
        let name = line.strip_prefix("    ").unwrap_or_default();
        name == test || name.ends_with(&format!("::{test}"))
    });
    // An end-to-end test whose kernel was not built panics, too.
    let had_all = !text.contains(" is not set: run these tests by ");
    if failed && had_all && text.contains("panicked at ") {
        Outcome::Caught
    } else if text.contains("error: could not compile") {
        Outcome::DoesNotBuild(text.to_owned())
    } else {
        Outcome::Otherwise(end(text))
    }
}

fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(8)..)
        .unwrap_or_default()
        .join("\n")
}

/// A mistake that was made: the changed files with their previous content.
#[must_use]
pub struct Made(Vec<(PathBuf, String)>);

impl Made {
    /// Restores the files.
    pub fn undo(self) -> Result<()> {
        self.0
            .into_iter()
            .rev()
            .try_for_each(|(path, text)| Ok(fs::write(path, text)?))
    }
}

/// Whether it succeeded; `None` if it had to be stopped.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<bool>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if begin.elapsed() > limit {
            let group = rustix::process::Pid::from_child(child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a copy has of its own.
const OWN: [&str; 3] = [".git", "target", "log"];

/// Makes `to` equal to `from`.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let is_own = |name: &std::ffi::OsStr| OWN.iter().any(|own| name == *own);
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if is_own(&entry.file_name()) {
            continue;
        }
        let to = to.join(entry.file_name());
        names.insert(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else {
            copy_if_new(&entry.path(), &to)?;
        }
    }
    // Remove files that no longer exist in the source.
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let name = entry.file_name();
        if names.contains(&name) || is_own(&name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?
        } else {
            fs::remove_file(entry.path())?
        }
    }
    Ok(())
}

/// Copies a file, and whether it can be run.
fn copy_if_new(from: &Path, to: &Path) -> Result<()> {
    write_if_new(to, &fs::read(from)?)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(())
}

/// Writes a file only if its content changes, to avoid a rebuild.
fn write_if_new(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a panic of the test's own counts, and not that of a test which lacks what it needs.
    #[test]
    fn a_mistake_is_caught_by_the_tests_own_panic() {
        let failed = |why: &str| verdict(false, &format!("{why}\nfailures:\n    a::b\n"), "a::b");
        assert!(matches!(
            failed("panicked at x: 1 is not 2"),
            Outcome::Caught
        ));
        let lacks = "panicked at x: KYMO_XTASK is not set: run these tests by `cargo xtask`";
        assert!(matches!(failed(lacks), Outcome::Otherwise(_)));
        assert!(matches!(
            failed("error: could not compile"),
            Outcome::DoesNotBuild(_)
        ));
        assert!(matches!(failed("killed"), Outcome::Otherwise(_)));
        let file = verdict(false, "panicked at x\nfailures:\n    file::b\n", "b");
        assert!(matches!(file, Outcome::Caught));
        assert!(matches!(
            verdict(true, "\nrunning 1 test\n", "a::b"),
            Outcome::Passed
        ));
        assert!(matches!(
            verdict(true, "\nrunning 0 tests\n", "a::b"),
            Outcome::Otherwise(_)
        ));
    }
}
