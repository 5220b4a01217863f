//! Copies of the crate, in which mistakes are made and tests run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::list::{Mistake, Suite, Test};
use crate::{cargo, root};

/// A test that takes longer hangs on the mistake instead of detecting it. (The slowest one needs
/// seconds.)
const TIME_LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    /// The test panicked.
    Caught,
    DoesNotBuild(String),
    TooLong,
    /// A signal, or a failure of another test.
    Otherwise(String),
}

impl Outcome {
    pub(crate) fn is_other(&self) -> bool {
        matches!(self, Outcome::Otherwise(_))
    }

    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Outcome::Passed => "MISSED        ",
            Outcome::Caught => "caught        ",
            Outcome::DoesNotBuild(_) => "DOES NOT BUILD",
            Outcome::TooLong => "HANGS         ",
            Outcome::Otherwise(_) => "OTHER FAILURE ",
        }
    }
}

/// A copy of the crate in a separate workspace.
pub(crate) struct Sandbox {
    folder: PathBuf,
}

impl Sandbox {
    /// Makes this many copies below `folder`.
    pub(crate) fn make(folder: &Path, count: usize) -> Result<Vec<Sandbox>> {
        (0..count)
            .map(|number| Sandbox::copy(folder.join(number.to_string())))
            .collect()
    }

    fn copy(folder: PathBuf) -> Result<Sandbox> {
        let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
        let (_, shared) = manifest
            .split_once("[workspace.package]")
            .context("Cargo.toml has no [workspace.package]")?;
        write_if_new(
            &folder.join("Cargo.toml"),
            &format!(
                "[workspace]\nresolver = \"3\"\nmembers = \
                 [\"crates/kymo\"]\n\n[workspace.package]{shared}"
            ),
        )?;
        write_if_new(
            &folder.join("Cargo.lock"),
            &fs::read_to_string(root().join("Cargo.lock"))?,
        )?;
        copy_tree(&root().join("examples"), &folder.join("examples"))?;
        copy_tree(&root().join("crates/kymo"), &folder.join("crates/kymo"))?;
        Ok(Sandbox { folder })
    }

    fn source(&self, file: &str) -> PathBuf {
        self.folder.join("crates/kymo/src").join(file)
    }

    pub(crate) fn make_mistake(&self, mistake: &Mistake) -> Result<Made> {
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

    /// Builds and runs one test.
    pub(crate) fn run(&self, test: &Test) -> Result<Outcome> {
        let program = match self.build(test.suite)? {
            Ok(program) => program,
            Err(text) => return Ok(Outcome::DoesNotBuild(text)),
        };
        let log = self.folder.join("log");
        let file = fs::File::create(&log)?;
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.join("crates/kymo"))
            .args(["--exact", &test.name, "--nocapture", "--test-threads=1"])
            .env("RUST_BACKTRACE", "0");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let Some(success) = wait(&mut child)? else {
            return Ok(Outcome::TooLong);
        };
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if !text.contains("\nrunning 1 test\n") {
            bail!("there is no test {}", test.name);
        }
        let failed = text
            .lines()
            .any(|line| line == format!("    {}", test.name))
            && text.contains("panicked at ");
        Ok(match (success, failed) {
            (true, _) => Outcome::Passed,
            (false, true) => Outcome::Caught,
            (false, false) => {
                Outcome::Otherwise(text.lines().rev().take(8).collect::<Vec<_>>().join("\n"))
            }
        })
    }

    /// Builds the tests. Returns the program, or the compiler's messages.
    pub(crate) fn build(&self, suite: Suite) -> Result<std::result::Result<PathBuf, String>> {
        let mut command = cargo(&["test", "--profile", "models", "-p", "kymo", "--no-run"]);
        command.current_dir(&self.folder);
        command.args(if suite == Suite::Nesting {
            &["--test", "nesting"][..]
        } else {
            &["--lib"]
        });
        if suite == Suite::Model {
            command.env("RUSTFLAGS", "--cfg loom");
        }
        // Each copy needs its own target folder, as cargo distinguishes packages by their paths
        // inside the workspace.
        let built = self.folder.join(if suite == Suite::Model {
            "built-models"
        } else {
            "built-tests"
        });
        let output = command
            .env("CARGO_TARGET_DIR", built)
            .env("RUST_BACKTRACE", "0")
            .output()
            .context("cannot start cargo")?;
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

/// A mistake that was made: the changed files with their previous content.
pub(crate) struct Made(Vec<(PathBuf, String)>);

impl Made {
    pub(crate) fn undo(self) -> Result<()> {
        self.0
            .into_iter()
            .rev()
            .try_for_each(|(path, text)| Ok(fs::write(path, text)?))
    }
}

/// Whether it succeeded; `None` if it had to be stopped.
fn wait(child: &mut Child) -> Result<Option<bool>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if begin.elapsed() > TIME_LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        names.insert(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else {
            write_if_new(&to, &fs::read_to_string(entry.path())?)?;
        }
    }
    // Remove files that no longer exist in the source.
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !names.contains(&entry.file_name()) && entry.file_name() != "log" {
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?
            } else {
                fs::remove_file(entry.path())?
            }
        }
    }
    Ok(())
}

/// Writes a file only if its content changes, to avoid a rebuild.
fn write_if_new(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
