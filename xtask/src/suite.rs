//! Programs of tests: built by one call of cargo, then run without it, so that all steps that take
//! the same selection of packages and features share one build.

use std::ffi::{OsStr, OsString};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::failure::{Failed, FailedTest};
use crate::process::{cargo, output};
use crate::tested;
use crate::watched::{Watched, keep, watch};

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The name of cargo's target: that of the library, or of a file under `tests`.
    pub(crate) target: String,
    /// The arguments with which cargo takes this target alone.
    select: Vec<String>,
    file: PathBuf,
    /// The package's folder, in which its tests run.
    folder: PathBuf,
}

impl Program {
    fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }
}

/// A line that cargo prints of what it has built.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Programs of tests, and how they run.
#[derive(Clone, Debug)]
pub(crate) struct Suite {
    programs: Vec<Program>,
    env: Vec<(OsString, OsString)>,
    /// The command that runs one test of a program alone.
    alone: fn(&Program, &str) -> String,
}

impl Suite {
    /// Builds the programs that `cargo test` with these arguments would run, but for the examples
    /// in documentation.
    pub(crate) fn build(arguments: &[&str]) -> Result<Suite> {
        Suite::build_with(arguments, &[])
    }

    /// [`build`](Self::build) with variables of the environment for cargo.
    pub(crate) fn build_with(arguments: &[&str], env: &[(&str, &str)]) -> Result<Suite> {
        let mut build = cargo(&["test", "--no-run", "--message-format"]);
        build.arg("json-render-diagnostics").args(arguments);
        build.envs(env.iter().copied());
        let text = output(&mut build)?;
        let mut programs = Vec::new();
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let message: Message = serde_json::from_str(line).context("cargo's messages")?;
            programs.extend(program(message));
        }
        if programs.is_empty() {
            bail!("cargo has built no tests");
        }
        Ok(Suite {
            programs,
            env: Vec::new(),
            alone: |program, test| {
                let select = program.select.join(" ");
                let package = &program.package;
                format!(
                    "cargo test -p {package} --all-features {select} -- --include-ignored --exact \
                     {test}"
                )
            },
        })
    }

    /// Sets a variable of the environment for the programs.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Suite {
        let pair = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.env.push(pair);
        self
    }

    /// Says how one test is run alone.
    pub(crate) fn alone(mut self, alone: fn(&Program, &str) -> String) -> Suite {
        self.alone = alone;
        self
    }

    /// The programs that fit.
    pub(crate) fn only(&self, fits: impl Fn(&Program) -> bool) -> Suite {
        let mut suite = self.clone();
        suite.programs.retain(|program| fits(program));
        suite
    }

    /// Runs all programs with these arguments, also behind one that fails.
    ///
    /// # Errors
    /// [`Failed`] with the tests that failed; no test ran, as behind a name that was changed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<()> {
        if self.programs.is_empty() {
            bail!("no program of tests is selected");
        }
        let (mut failed, mut count) = (Vec::new(), 0);
        let env = self.env_words();
        for program in &self.programs {
            eprintln!("\n     Running {} {}", program.name(), arguments.join(" "));
            let watched = watch(self.command(program).args(arguments))
                .with_context(|| format!("cannot start {}", program.file.display()))?;
            count += started(&watched.lines);
            tested::note(&program.name(), &watched.lines);
            failed.extend(
                failures(&watched)
                    .into_iter()
                    .map(|(test, lines)| FailedTest {
                        alone: format!("{env}{}", (self.alone)(program, &test)),
                        test: format!("{}: {test}", program.name()),
                        lines,
                    }),
            );
        }
        match failed.is_empty() {
            true if count == 0 => bail!("no test has the arguments {}", arguments.join(" ")),
            true => Ok(()),
            false => bail!(Failed(failed)),
        }
    }

    /// The variables of the environment, as one types them before a command.
    fn env_words(&self) -> String {
        let pairs = self.env.iter();
        let words = pairs.map(|(name, value)| format!("{}='{}' ", name.display(), value.display()));
        words.collect()
    }

    /// Runs each test whose name fits in a process of its own: first those that can stand others
    /// beside them, one on each of this machine's processors, then the rest one by one. Gives the
    /// time of each. With `shows`, what they print is shown also where they pass.
    ///
    /// # Errors
    /// [`Failed`], as for [`run`](Self::run); no test fits.
    pub(crate) fn run_each(
        &self,
        fits: impl Fn(&str) -> bool,
        beside: impl Fn(&str) -> bool,
        shows: bool,
    ) -> Result<()> {
        let (mut many, mut alone) = (Vec::new(), Vec::new());
        for program in &self.programs {
            for test in self.tests(program)?.into_iter().filter(|test| fits(test)) {
                match beside(&test) {
                    true => many.push((program, test)),
                    false => alone.push((program, test)),
                }
            }
        }
        let count = many.len() + alone.len();
        if count == 0 {
            bail!("no test is selected");
        }
        println!(
            "\nrunning {count} test{}",
            if count == 1 { "" } else { "s" }
        );
        let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
        let mut failed = self.run_on(workers, many, shows);
        failed.extend(self.run_on(1, alone, shows));
        if !failed.is_empty() {
            println!("\nfailures:");
            failed
                .iter()
                .for_each(|failed| println!("    {}", failed.test));
        }
        let word = if failed.is_empty() { "ok" } else { "FAILED" };
        let passed = count - failed.len();
        println!(
            "\ntest result: {word}. {passed} passed; {} failed",
            failed.len()
        );
        match failed.is_empty() {
            true => Ok(()),
            false => bail!(Failed(failed)),
        }
    }

    /// Whether there is a test whose name fits.
    pub(crate) fn has(&self, fits: impl Fn(&str) -> bool) -> Result<bool> {
        for program in &self.programs {
            if self.tests(program)?.iter().any(|test| fits(test)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The names of a program's tests.
    fn tests(&self, program: &Program) -> Result<Vec<String>> {
        let mut list = self.command(program);
        let text = output(list.args(["--list", "--format", "terse", "--include-ignored"]))?;
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    /// Runs the tests on so many threads. Returns those that failed.
    fn run_on(
        &self,
        workers: usize,
        tests: Vec<(&Program, String)>,
        shows: bool,
    ) -> Vec<FailedTest> {
        let waiting = Mutex::new(tests.into_iter());
        let next = || {
            let tests = waiting.lock();
            tests.unwrap_or_else(PoisonError::into_inner).next()
        };
        let work = || {
            let mut failed = Vec::new();
            while let Some((program, test)) = next() {
                failed.extend(self.run_alone(program, &test, shows));
            }
            failed
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            // Without the failures that a worker knew, the run would pass.
            let joined = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect()
        })
    }

    /// Runs one test, and prints how it ended. Returns it if it failed.
    fn run_alone(&self, program: &Program, test: &str, shows: bool) -> Option<FailedTest> {
        let mut command = self.command(program);
        command.args(["--exact", test, "--include-ignored", "--test-threads=1"]);
        if shows {
            command.arg("--nocapture");
        }
        let begin = Instant::now();
        let (is_good, lines) = match keep(&mut command) {
            Ok(watched) => {
                tested::note(&program.name(), &watched.lines);
                let own = failures(&watched).pop().map(|(_, lines)| lines);
                (own.is_none(), own.unwrap_or(watched.lines))
            }
            Err(error) => (false, vec![error.to_string()]),
        };
        let (word, time) = (if is_good { "ok" } else { "FAILED" }, begin.elapsed());
        let mut text = format!("test {test} ... {word} ({:.1} s)\n", time.as_secs_f64());
        if shows || !is_good {
            lines.iter().for_each(|line| text += &format!("{line}\n"));
        }
        // In one piece: others print at the same time.
        print!("{text}");
        (!is_good).then(|| FailedTest {
            test: test.to_owned(),
            lines,
            alone: (self.alone)(program, test),
        })
    }

    fn command(&self, program: &Program) -> Command {
        let mut command = Command::new(&program.file);
        // What cargo sets, as far as tests of tests ask for it.
        command
            .current_dir(&program.folder)
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env("CARGO_PKG_NAME", &program.package)
            .env("CARGO", cargo(&[]).get_program());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The program of tests that a message tells of, if it does.
fn program(message: Message) -> Option<Program> {
    // Tests of commands have the commands themselves built, too.
    if !message.profile?.test {
        return None;
    }
    let (file, target) = (message.executable?, message.target?);
    let folder = message.manifest_path.parent().unwrap_or(Path::new("."));
    // path+file:///folder/name#version, or path+file:///folder#name@version
    let (place, version) = message.package_id.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next()?,
    };
    let name = target.name;
    let select = match target.kind.first().map(String::as_str) {
        Some("test") => vec!["--test".to_owned(), name.clone()],
        Some("bin") => vec!["--bin".to_owned(), name.clone()],
        Some("example") => vec!["--example".to_owned(), name.clone()],
        _ => vec!["--lib".to_owned()],
    };
    Some(Program {
        package: package.to_owned(),
        target: name,
        select,
        file,
        folder: folder.to_owned(),
    })
}

/// The tests that failed, with what they printed; all of it, by the name "(all)", where the program
/// ended without saying which.
fn failures(watched: &Watched) -> Vec<(String, Vec<String>)> {
    if watched.status.success() {
        return Vec::new();
    }
    let names = failed_names(&watched.lines);
    if names.is_empty() {
        let mut lines = watched.lines.clone();
        lines.push(format!("({})", watched.status));
        return vec![("(all)".to_owned(), lines)];
    }
    let with_output = names.into_iter().map(|name| {
        let head = format!("---- {name} stdout ----");
        let begin = watched.lines.iter().position(|line| *line == head);
        let Some(begin) = begin else {
            // It was not kept back.
            return (name, watched.lines.clone());
        };
        let own = watched.lines.iter().skip(begin + 1);
        let own = own.take_while(|line| !(line.starts_with("---- ") || *line == "failures:"));
        (name, own.cloned().collect())
    });
    with_output.collect()
}

/// How many tests a program says it runs.
fn started(lines: &[String]) -> usize {
    let counts = lines.iter().filter_map(|line| {
        let (count, word) = line.strip_prefix("running ")?.split_once(' ')?;
        word.starts_with("test")
            .then(|| count.parse::<usize>().ok())?
    });
    counts.sum()
}

/// The names in the lists of failures; what each test has printed stands before the list.
fn failed_names(lines: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_list = false;
    for line in lines {
        match line.strip_prefix("    ") {
            Some(name) if is_list => names.push(name.to_owned()),
            _ => is_list = line == "failures:",
        }
    }
    names
}

/// Runs the examples in the documentation that `cargo test` with these arguments would run.
///
/// # Errors
/// As for [`Suite::run`].
pub(crate) fn examples(arguments: &[&str]) -> Result<()> {
    let mut command = cargo(&["test", "--doc", "--no-fail-fast"]);
    let watched = watch(command.args(arguments)).context("cannot start cargo test --doc")?;
    tested::note("documentation", &watched.lines);
    let failed = failures(&watched)
        .into_iter()
        .map(|(test, lines)| FailedTest {
            alone: format!("cargo test --doc {} '{test}'", arguments.join(" ")),
            test: format!("example in documentation: {test}"),
            lines,
        });
    let failed: Vec<FailedTest> = failed.collect();
    match failed.is_empty() {
        true => Ok(()),
        false => bail!(Failed(failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_programs() {
        let read = |text: &str| serde_json::from_str(text).ok().and_then(program);
        let test = r##"{"reason":"compiler-artifact","package_id":"path+file:///k/crates/kymo-cli#0.1.0","manifest_path":"/k/crates/kymo-cli/Cargo.toml","target":{"kind":["test"],"name":"report"},"profile":{"test":true},"executable":"/t/report-1"}"##;
        let found = read(test);
        assert_eq!(
            found,
            Some(Program {
                package: "kymo-cli".into(),
                target: "report".into(),
                select: vec!["--test".into(), "report".into()],
                file: "/t/report-1".into(),
                folder: "/k/crates/kymo-cli".into(),
            })
        );
        let other = test.replace("kymo-cli#0.1.0", "port#kymo-cli@0.1.0");
        assert_eq!(
            read(&other).map(|program| program.package),
            Some("kymo-cli".into())
        );
        assert_eq!(read(r#"{"reason":"build-finished","success":true}"#), None);
        let command = test.replace("true", "false");
        assert_eq!(read(&command), None);
        let library = test.replace("\"/t/report-1\"", "null");
        assert_eq!(read(&library), None);
    }

    /// Of a program that is told to run what it does not have, nothing fails.
    #[test]
    fn a_run_without_a_test_is_not_passed() {
        let suite = Suite {
            programs: vec![Program {
                package: "xtask".into(),
                target: "xtask".into(),
                select: Vec::new(),
                file: std::env::current_exe().unwrap_or_default(),
                folder: std::env::temp_dir(),
            }],
            env: vec![("A".into(), "b c".into())],
            alone: |_, test| test.to_owned(),
        };
        assert!(suite.run(&["--exact", "there is no such test"]).is_err());
        let there = "suite::tests::messages_name_programs";
        assert!(suite.run(&["--exact", there]).is_ok());
        assert_eq!(suite.env_words(), "A='b c' ");
    }

    #[test]
    fn failed_tests_have_their_own_lines() {
        let text = "\nrunning 3 tests\ntest a ... ok\ntest b ... FAILED\ntest c ... FAILED\n\nfailures:\n\n---- b stdout ----\none\ntwo\n---- c stdout ----\nthree\n\n\nfailures:\n    b\n    c\n\ntest result: FAILED. 1 passed; 2 failed";
        let ended = |text: &str| Watched {
            status: Command::new("false").status().unwrap_or_default(),
            lines: text.lines().map(str::to_owned).collect(),
        };
        let found = failures(&ended(text));
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["b", "c"]);
        let lines: Vec<Vec<String>> = found.into_iter().map(|(_, lines)| lines).collect();
        assert_eq!(lines, [vec!["one", "two"], vec!["three", "", ""]]);
        let crashed = failures(&ended("running 1 test"));
        assert_eq!(crashed.len(), 1);
        assert!(
            crashed
                .iter()
                .all(|(name, lines)| name == "(all)" && lines.len() == 2)
        );
    }
}
