//! The list of mistakes in tests/rules/broken: each removes what a row of docs/rules.md claims, and
//! names the test of the row that must fail. Its README describes the format.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use kymo_mistakes::list::{self, Mistake};
use kymo_mistakes::sandbox::{Outcome, Program, Sandbox};

use crate::rows::{Checked, must_be_held, step};

/// The file with the ids of the rows that have no mistake, separated by spaces.
const NOT_YET: &str = "not_yet";

#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) list: Vec<Mistake>,
    /// Rows that have no mistake yet.
    pub(crate) not_yet: Vec<String>,
}

/// The row of a mistake: its name without what follows the slash.
fn row(mistake: &Mistake) -> &str {
    mistake.name.split('/').next().unwrap_or_default()
}

impl Broken {
    pub(crate) fn read(folder: &Path) -> Result<Broken> {
        let not_yet = fs::read_to_string(folder.join(NOT_YET)).unwrap_or_default();
        Ok(Broken {
            list: list::read(folder)?,
            not_yet: not_yet.split_whitespace().map(str::to_owned).collect(),
        })
    }

    /// The rows with a mistake, or a reason why there is none.
    pub(crate) fn rows(&self) -> BTreeSet<&str> {
        self.list.iter().map(row).collect()
    }

    /// What is wrong with the list, without running anything.
    pub(crate) fn faults(
        &self,
        checked: &Checked,
        read: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let mut faults = list::stale(&self.list, read);
        let rows = self.rows();
        let not_yet: BTreeSet<&str> = self.not_yet.iter().map(String::as_str).collect();
        for id in checked.held.keys().filter(|id| must_be_held(id)) {
            match (rows.contains(id.as_str()), not_yet.contains(id.as_str())) {
                (false, false) => faults.push(format!("nothing breaks what {id} claims")),
                (true, true) => faults.push(format!("{id} is broken, and listed as not yet")),
                _ => {}
            }
        }
        for id in not_yet {
            if !checked.held.contains_key(id) {
                faults.push(format!("{id} in {NOT_YET} is no rule with a test"));
            }
        }
        for mistake in &self.list {
            let name = &mistake.name;
            let Some(tests) = checked.held.get(row(mistake)) else {
                faults.push(format!("{name} breaks no rule with a test"));
                continue;
            };
            let Some(test) = &mistake.test else { continue };
            if !tests.contains(test) {
                faults.push(format!("{name}: the row does not name {test}"));
            }
            if step(test).is_some() != mistake.prints.is_some() {
                faults.push(format!("{name}: a step, and no test, prints words"));
            }
        }
        faults
    }

    /// The mistakes with these names or of these rows, or all.
    pub(crate) fn select(self, ids: &[String]) -> Result<Vec<Mistake>> {
        let is = |mistake: &Mistake, id: &String| mistake.name == *id || row(mistake) == id;
        for id in ids {
            if !self.list.iter().any(|mistake| is(mistake, id)) {
                bail!("nothing breaks {id}");
            }
        }
        let mut list = self.list;
        list.retain(|mistake| {
            mistake.unseen.is_none() && (ids.is_empty() || ids.iter().any(|id| is(mistake, id)))
        });
        Ok(list)
    }
}

/// How a test is run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Run {
    /// A test in a program of tests.
    Test(Program, String),
    /// A test in a file of tests/e2e.
    EndToEnd(String, String),
    /// A step of `cargo xtask test`, and what it prints when it fails.
    Step(String, String),
}

/// How to run the test of this mistake.
fn how(mistake: &Mistake, checked: &Checked) -> Result<Run> {
    let test = mistake.test.as_deref().unwrap_or_default();
    if let Some(step) = step(test) {
        let words = mistake.prints.clone().unwrap_or_default();
        return Ok(Run::Step(step.to_owned(), words));
    }
    let (short, function) = test.split_once("::").context("a file and a test")?;
    let file = checked.files.get(short).context("no such short name")?;
    how_in(file, function).with_context(|| format!("no way to run the tests of {file}"))
}

fn how_in(file: &str, function: &str) -> Option<Run> {
    let path = file.strip_suffix(".rs")?;
    if let Some(rest) = path.strip_prefix("tests/e2e/tests/") {
        let program = rest.split('/').next()?.to_owned();
        return Some(Run::EndToEnd(program, function.to_owned()));
    }
    let parts: Vec<&str> = path.split('/').collect();
    let (package, file, name) = match parts[..] {
        // The files of a crate's tests are modules of one program.
        ["crates", package, "tests", "it", file] => (
            package.to_owned(),
            Some("it"),
            format!("{file}::{function}"),
        ),
        ["crates", package, "tests", file] => (package.to_owned(), Some(file), function.to_owned()),
        ["crates", package, "src", ref modules @ ..] => {
            let modules: Vec<&str> = modules
                .iter()
                .copied()
                .filter(|part| *part != "mod")
                .collect();
            // The test is in this file, or in its `mod tests`.
            let name = format!("{}::{function}", modules.join("::"));
            (package.to_owned(), None, name)
        }
        ["tests", folder, "tests", file] => {
            (format!("kymo-{folder}"), Some(file), function.to_owned())
        }
        _ => return None,
    };
    let model = file.is_none() && parts.contains(&"models");
    let program = Program {
        profile: match package.as_str() {
            _ if model => "models",
            "kymo-stress" => "release",
            _ => "dev",
        },
        package,
        file: file.map(str::to_owned),
        model,
    };
    Some(Run::Test(program, name))
}

fn run_in(sandbox: &Sandbox, run: &Run) -> Result<Outcome> {
    match run {
        Run::Test(program, name) => sandbox.run(program, name),
        Run::EndToEnd(file, test) => sandbox.run_step_test(&format!("e2e:{file}::{test}"), test),
        Run::Step(step, words) => sandbox.run_step(step, words),
    }
}

/// Makes each of these mistakes, and checks that its test fails.
pub(crate) fn run(
    list: Vec<Mistake>,
    checked: &Checked,
    scratch: &Path,
    passed: bool,
) -> Result<()> {
    let sandbox = Sandbox::of_the_repository(std::path::absolute(scratch)?)?;
    let mut failed = 0;
    if !passed {
        let runs: BTreeSet<Run> = list
            .iter()
            .map(|mistake| {
                // The words are of the mistake.
                Ok(match how(mistake, checked)? {
                    Run::Step(step, _) => Run::Step(step, String::new()),
                    run => run,
                })
            })
            .collect::<Result<_>>()?;
        println!("{} tests without a mistake", runs.len());
        for run in &runs {
            let outcome = run_in(&sandbox, run)?;
            if !matches!(outcome, Outcome::Passed) {
                println!("{run:?} without a mistake: {outcome:?}");
                failed += 1;
            }
        }
        if failed > 0 {
            bail!("tests must pass before mistakes are made");
        }
    }
    for mistake in &list {
        let run = how(mistake, checked)?;
        let made = sandbox.make_mistake(mistake)?;
        let begin = Instant::now();
        let outcome = run_in(&sandbox, &run);
        made.undo()?;
        let outcome = outcome.with_context(|| mistake.name.clone())?;
        println!(
            "{:<24} {:>6.1} s  {}  {}",
            mistake.name,
            begin.elapsed().as_secs_f64(),
            outcome.describe(),
            mistake.test.as_deref().unwrap_or_default()
        );
        if !matches!(outcome, Outcome::Caught) {
            println!("{}", outcome.lines());
            failed += 1;
        }
    }
    println!("{} mistakes, {} caught", list.len(), list.len() - failed);
    if failed > 0 {
        bail!("{failed} mistakes were not caught");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ENTRY: &str = "= P-01/part\n: test file::there\n@ a.rs\n-one\n+two\n";

    fn faults(text: &str, not_yet: &str) -> Vec<String> {
        let mut list = Vec::new();
        assert!(list::parse(text, &mut list).is_ok());
        let not_yet = not_yet.split_whitespace().map(str::to_owned).collect();
        let row = |id: &str, test: &str| (id.to_owned(), vec![test.to_owned()]);
        let checked = Checked {
            held: BTreeMap::from([
                row("P-01", "file::there"),
                row("V-01", "`cargo xtask test fmt`"),
                row("N-01", "file::there"),
            ]),
            ..Checked::default()
        };
        let read = |path: &str| (path == "a.rs").then(|| "one\n".to_owned());
        Broken { list, not_yet }.faults(&checked, read)
    }

    #[test]
    fn every_rule_is_broken_by_a_test_of_its_own_or_is_not_yet() {
        assert_eq!(faults(ENTRY, "V-01"), [""; 0]);
        let cannot = "= V-01\n: unseen Nothing can be changed.\n";
        assert_eq!(faults(&format!("{ENTRY}{cannot}"), ""), [""; 0]);
        let step = "= V-01\n: test `cargo xtask test fmt`\n: prints Diff\n@ a.rs\n-one\n+two\n";
        assert_eq!(faults(&format!("{ENTRY}{step}"), ""), [""; 0]);
        for (text, not_yet, why) in [
            (ENTRY, "", "nothing breaks what V-01 claims"),
            ("", "V-01", "nothing breaks what P-01 claims"),
            (ENTRY, "V-01 P-01", "P-01 is broken, and listed"),
            (ENTRY, "V-01 P-02", "P-02 in not_yet is no rule"),
            (&ENTRY.replace("-one", "-three"), "V-01", "0 times in a.rs"),
            (&ENTRY.replace("a.rs", "b.rs"), "V-01", "0 times in b.rs"),
            (
                &ENTRY.replace("there", "gone"),
                "V-01",
                "does not name file::gone",
            ),
            (
                &format!("{ENTRY}{}", ENTRY.replace("P-01", "P-02")),
                "V-01",
                "no rule",
            ),
            (
                &format!("{ENTRY}{}", step.replace(": prints Diff\n", "")),
                "",
                "prints words",
            ),
        ] {
            let faults = faults(text, not_yet);
            assert!(
                faults.len() == 1 && faults.iter().all(|fault| fault.contains(why)),
                "{why}: {faults:?}"
            );
        }
    }

    #[test]
    fn a_test_is_found_by_its_file() {
        let test = |package: &str, file: Option<&str>, model, profile, name: &str| {
            let program = Program {
                package: package.to_owned(),
                file: file.map(str::to_owned),
                model,
                profile,
            };
            Some(Run::Test(program, name.to_owned()))
        };
        assert_eq!(
            how_in("crates/kymo/src/event/mod.rs", "a"),
            test("kymo", None, false, "dev", "event::a")
        );
        assert_eq!(
            how_in("crates/kymo/src/session/models.rs", "a"),
            test("kymo", None, true, "models", "session::models::a")
        );
        assert_eq!(
            how_in("crates/kymo-hosted/tests/restart.rs", "a"),
            test("kymo-hosted", Some("restart"), false, "dev", "a")
        );
        assert_eq!(
            how_in("crates/kymo-ctf/tests/it/streams.rs", "a"),
            test("kymo-ctf", Some("it"), false, "dev", "streams::a")
        );
        assert_eq!(
            how_in("tests/stress/tests/signals.rs", "a"),
            test("kymo-stress", Some("signals"), false, "release", "a")
        );
        let end_to_end = Run::EndToEnd("stress".into(), "a".into());
        assert_eq!(
            how_in("tests/e2e/tests/stress/mod.rs", "a"),
            Some(end_to_end)
        );
        assert_eq!(how_in("kernels/demo/src/main.rs", "a"), None);
    }
}
