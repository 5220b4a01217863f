//! `cargo xtask mistakes`: deliberate mistakes in the ring, of which each must be noticed by the
//! test that is there for it.
//!
//! The list is `crates/kymo/mistakes/`; its README says how an entry is written. Each mistake is
//! made in a copy of the crate; the test must build, and fail by a panic of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::failure::Usage;
use crate::process::{cargo, quiet, root, target};

/// A test that takes longer does not notice the mistake: it hangs on it. (The slowest one needs
/// seconds.)
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// One entry of the list.
#[derive(Debug, Default)]
struct Mistake {
    name: String,
    test: Option<Test>,
    /// Why no test can see it.
    unseen: Option<String>,
    edits: Vec<Edit>,
}

/// Lines that become others. Indentation does not count.
#[derive(Debug, Default)]
struct Edit {
    /// Below the crate's `src`.
    file: String,
    old: Vec<String>,
    new: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    suite: Suite,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suite {
    /// `ring/models`, with loom.
    Model,
    /// The crate's unit tests.
    Unit,
    /// `tests/nesting.rs`.
    Nesting,
}

impl Test {
    fn parse(text: &str) -> Option<Test> {
        let (suite, name) = text.split_once(' ')?;
        let (suite, name) = match suite {
            "model" => (Suite::Model, format!("ring::models::{name}")),
            "unit" => (Suite::Unit, name.to_owned()),
            "nesting" => (Suite::Nesting, name.to_owned()),
            _ => return None,
        };
        Some(Test { suite, name })
    }
}

/// Runs all models, with so many pre-emptions more than they ask for themselves.
pub(crate) fn models(more: u32) -> Result<()> {
    let mut command = cargo(&[
        "test",
        "--profile",
        "models",
        "-p",
        "kymo",
        "--lib",
        "ring::models",
        "--",
        "--nocapture",
    ]);
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("KYMO_MODEL_PREEMPTIONS", more.to_string());
    crate::process::run(command.env("CARGO_TARGET_DIR", target().join("loom")))
}

/// Lints the models.
pub(crate) fn clippy() -> Result<()> {
    let mut command = cargo(&[
        "clippy",
        "--profile",
        "models",
        "-p",
        "kymo",
        "--lib",
        "--tests",
        "--",
        "-Dwarnings",
    ]);
    crate::process::run(
        command
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", target().join("loom")),
    )
}

/// Whether the tests have passed without a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    /// They have, in other steps of `cargo xtask test`; which tries a third of the mistakes each
    /// time.
    Passed,
    Untried,
}

/// Tries those whose names contain one of `names`, or all.
pub(crate) fn run(names: &[String], tests_are: Tests) -> Result<()> {
    let mut list = read_list()?;
    for name in names {
        if !list
            .iter()
            .any(|mistake| mistake.name.contains(name.as_str()))
        {
            bail!(Usage(format!("No mistake has \"{name}\" in its name.")));
        }
    }
    list.retain(|mistake| {
        names.is_empty()
            || names
                .iter()
                .any(|name| mistake.name.contains(name.as_str()))
    });
    let (mut seen, unseen): (Vec<_>, Vec<_>) = list
        .into_iter()
        .partition(|mistake| mistake.unseen.is_none());

    let sandboxes =
        Sandbox::make(std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(4)))?;
    let width = seen
        .iter()
        .map(|mistake| mistake.name.len())
        .max()
        .unwrap_or(0);
    let [first, ..] = &sandboxes[..] else {
        bail!("there is no processor")
    };
    // So that the list does not go stale.
    for mistake in seen.iter().chain(&unseen) {
        first
            .make_mistake(mistake)
            .with_context(|| mistake.name.clone())?
            .undo()?;
    }
    if tests_are == Tests::Passed {
        let third = third();
        println!(
            "Every third of {} mistakes, from number {third} on (the commit says which); all of \
             them: cargo xtask mistakes",
            seen.len()
        );
        let mut number = 0;
        seen.retain(|_| {
            number += 1;
            number % THIRDS == third
        });
    }
    let suites: BTreeSet<Suite> = seen
        .iter()
        .filter_map(|mistake| Some(mistake.test.as_ref()?.suite))
        .collect();
    for suite in suites {
        if let Err(text) = first.build(suite)? {
            bail!("the tests do not build, without a mistake:\n{text}");
        }
    }
    if tests_are == Tests::Untried {
        let tests: BTreeSet<&Test> = seen
            .iter()
            .filter_map(|mistake| mistake.test.as_ref())
            .collect();
        let tests: Vec<&Test> = tests.into_iter().collect();
        eprintln!("{} tests without a mistake", tests.len());
        let pass = in_parallel(&sandboxes, &tests, |sandbox, test| {
            let outcome = sandbox.run(test)?;
            if !matches!(outcome, Outcome::Passed) {
                println!("{} without a mistake: {outcome:?}", test.name);
            }
            Ok(matches!(outcome, Outcome::Passed))
        })?;
        if pass.contains(&false) {
            bail!("tests must pass before mistakes are made");
        }
    }
    let begin = Instant::now();
    let caught = in_parallel(&sandboxes, &seen, |sandbox, mistake| {
        let Some(test) = &mistake.test else {
            bail!("{} names no test", mistake.name)
        };
        let made = sandbox
            .make_mistake(mistake)
            .with_context(|| mistake.name.clone())?;
        let begin = Instant::now();
        let outcome = sandbox.run(test)?;
        made.undo()?;
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{:<width$}  {seconds:>5.1} s  {}  {}",
            mistake.name,
            outcome.say(),
            test.name
        );
        if let Outcome::DoesNotBuild(text) | Outcome::Otherwise(text) = &outcome {
            println!(
                "{}",
                text.lines()
                    .filter(|line| line.starts_with("error") || outcome.is_other())
                    .collect::<Vec<_>>()
                    .join("\n")
            );
        }
        Ok(matches!(outcome, Outcome::Caught))
    })?;
    for mistake in &unseen {
        println!(
            "{:<width$}  not tried: {}",
            mistake.name,
            mistake.unseen.as_deref().unwrap_or("")
        );
    }
    let missed = caught.iter().filter(|&&caught| !caught).count();
    println!(
        "{} mistakes, {} caught, {:.0} s",
        seen.len(),
        seen.len() - missed,
        begin.elapsed().as_secs_f64()
    );
    if missed > 0 {
        bail!("{missed} mistakes were not caught");
    }
    Ok(())
}

const THIRDS: usize = 3;

/// Which third of the mistakes is this commit's: 0, 1 or 2.
fn third() -> usize {
    let head = quiet(
        Command::new("git")
            .current_dir(root())
            .args(["rev-parse", "HEAD"]),
    )
    .unwrap_or_default();
    head.bytes().map(usize::from).sum::<usize>() % THIRDS
}

/// Does `work` for each item, in as many threads as there are sandboxes; in the items' order.
fn in_parallel<T: Sync>(
    sandboxes: &[Sandbox],
    items: &[T],
    work: impl Fn(&Sandbox, &T) -> Result<bool> + Sync,
) -> Result<Vec<bool>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for sandbox in sandboxes {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
                    let result = work(sandbox, item);
                    if result.is_err() {
                        // No use in going on.
                        next.store(items.len(), Relaxed);
                    }
                    results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push(result);
                }
            });
        }
    });
    results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .into_iter()
        .collect()
}

#[derive(Debug)]
enum Outcome {
    Passed,
    /// By a panic of the test's.
    Caught,
    DoesNotBuild(String),
    TooLong,
    /// A signal, or another test.
    Otherwise(String),
}

impl Outcome {
    fn is_other(&self) -> bool {
        matches!(self, Outcome::Otherwise(_))
    }

    fn say(&self) -> &'static str {
        match self {
            Outcome::Passed => "MISSED        ",
            Outcome::Caught => "caught        ",
            Outcome::DoesNotBuild(_) => "DOES NOT BUILD",
            Outcome::TooLong => "HANGS         ",
            Outcome::Otherwise(_) => "OTHER FAILURE ",
        }
    }
}

/// A copy of the crate, in a workspace of its own.
struct Sandbox {
    folder: PathBuf,
}

impl Sandbox {
    fn make(count: usize) -> Result<Vec<Sandbox>> {
        let folder = target().join("mistakes");
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

    fn make_mistake(&self, mistake: &Mistake) -> Result<Made> {
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

    fn run(&self, test: &Test) -> Result<Outcome> {
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

    /// Builds the tests. Returns the program, or what the compiler says.
    fn build(&self, suite: Suite) -> Result<std::result::Result<PathBuf, String>> {
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
        // Each copy has its own: cargo tells packages apart by their path inside of the workspace.
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
            .context("cargo does not say what it built")?;
        Ok(Ok(self.folder.join(program)))
    }
}

/// A mistake that was made: files, and what stood in them.
struct Made(Vec<(PathBuf, String)>);

impl Made {
    fn undo(self) -> Result<()> {
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

impl Edit {
    fn apply(&self, text: &str) -> Result<String> {
        let lines: Vec<&str> = text.lines().collect();
        let old: Vec<&str> = self.old.iter().map(|line| line.trim()).collect();
        let places: Vec<usize> = (0..=lines.len().saturating_sub(old.len()))
            .filter(|&at| {
                lines
                    .iter()
                    .skip(at)
                    .zip(&old)
                    .all(|(line, old)| line.trim() == *old)
            })
            .collect();
        let &[at] = &places[..] else {
            bail!(
                "these lines are {} times in {}, and must be there once:\n{}",
                places.len(),
                self.file,
                self.old.join("\n")
            );
        };
        let new = self.new.iter().map(String::as_str);
        let all: Vec<&str> = lines
            .iter()
            .take(at)
            .copied()
            .chain(new)
            .chain(lines.iter().skip(at + old.len()).copied())
            .collect();
        Ok(all.join("\n") + "\n")
    }
}

fn read_list() -> Result<Vec<Mistake>> {
    let folder = root().join("crates/kymo/mistakes");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut list = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        parse(&text, &mut list).with_context(|| format!("{}", file.display()))?;
    }
    let mut names = BTreeSet::new();
    for mistake in &list {
        if !names.insert(&mistake.name) {
            bail!("two mistakes are named {}", mistake.name);
        }
        if mistake.test.is_some() == mistake.unseen.is_some() || mistake.edits.is_empty() {
            bail!(
                "{} needs one line \"test\" or \"unseen\", and lines of code",
                mistake.name
            );
        }
    }
    Ok(list)
}

fn parse(text: &str, list: &mut Vec<Mistake>) -> Result<()> {
    let start = list.len();
    for (number, line) in (1..).zip(text.lines()) {
        let mistake = if list.len() > start {
            list.last_mut()
        } else {
            None
        };
        let (sign, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        match (sign, mistake) {
            ("#", _) => {}
            ("=", _) => list.push(Mistake {
                name: rest.trim().to_owned(),
                ..Mistake::default()
            }),
            ("@", Some(mistake)) => mistake.edits.push(Edit {
                file: rest.trim().to_owned(),
                ..Edit::default()
            }),
            (":", Some(mistake)) => match rest.trim().split_once(' ') {
                Some(("test", test)) => {
                    mistake.test = Some(Test::parse(test).with_context(|| {
                        format!("line {number}: model, unit or nesting, and a name")
                    })?);
                }
                Some(("unseen", why)) => mistake.unseen = Some(why.to_owned()),
                _ => bail!("line {number}: \"{line}\" is not understood"),
            },
            (" " | "-" | "+", Some(mistake)) => match mistake.edits.last_mut() {
                // What comes before the first file, and empty lines, are for people.
                None => {}
                Some(_) if line.trim().is_empty() => {}
                Some(edit) => {
                    if sign != "+" {
                        edit.old.push(rest.to_owned());
                    }
                    if sign != "-" {
                        edit.new.push(rest.to_owned());
                    }
                }
            },
            (_, mistake)
                if mistake
                    .as_ref()
                    .is_none_or(|mistake| mistake.edits.is_empty()) => {}
            _ => bail!("line {number}: \"{line}\" is not understood"),
        }
    }
    Ok(())
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
    // What is gone there goes here.
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

/// Leaves a file alone that is as it should be, so that nothing is built again for it.
fn write_if_new(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
