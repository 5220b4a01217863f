//! Which tests ran: `target/tests-short` and `target/tests-all` have a line for each, by the form
//! of `cargo xtask test` and the step that ran it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::process::target;

/// The tests that ran since the set was taken last, each with its program.
static TESTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Notes the tests of which a program's output tells, or the output of cargo, which names the
/// programs itself.
pub(crate) fn note(program: &str, lines: &[String]) {
    let mut tests = TESTS.lock().unwrap_or_else(PoisonError::into_inner);
    tests.extend(tests_of(program, lines));
}

fn tests_of(program: &str, lines: &[String]) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    let mut program = program.to_owned();
    for line in lines {
        if let Some(running) = line.trim_start().strip_prefix("Running ") {
            program = name_of(running).unwrap_or(program);
        }
        if let Some(test) = test_of(line) {
            tests.insert(format!("{program}: {test}"));
        }
    }
    tests
}

/// The tests that ran since this was called last.
pub(crate) fn take() -> BTreeSet<String> {
    std::mem::take(&mut *TESTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The program that cargo runs: `unittests src/lib.rs (target/debug/deps/kymo-0123456789abcdef)`.
fn name_of(running: &str) -> Option<String> {
    let (_, file) = running.strip_suffix(')')?.rsplit_once('/')?;
    let (name, _hash) = file.rsplit_once('-')?;
    Some(name.to_owned())
}

/// The test that has run, by a line of the test harness.
fn test_of(line: &str) -> Option<&str> {
    let (test, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let is_run = !outcome.starts_with("ignored");
    is_run.then(|| test.trim_end_matches(" - should panic"))
}

/// Writes the tests of these steps in the place of those that the steps ran before. The form is
/// `short` or `all`.
pub(crate) fn write(form: &str, steps: &[(&str, &BTreeSet<String>)]) -> Result<()> {
    let file = target().join(format!("tests-{form}"));
    let text = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, merged(&text, steps)).with_context(|| file.display().to_string())
}

/// The file's text with the tests of these steps.
fn merged(text: &str, steps: &[(&str, &BTreeSet<String>)]) -> String {
    let is_new = |line: &&str| {
        let step = line.split_whitespace().next().unwrap_or_default();
        steps.iter().any(|(name, _)| *name == step)
    };
    let mut lines: BTreeSet<String> = text
        .lines()
        .filter(|line| !is_new(line))
        .map(str::to_owned)
        .collect();
    for (step, tests) in steps {
        lines.extend(tests.iter().map(|test| format!("{step:<11} {test}")));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_ran_are_noted() {
        let lines = "     Running unittests src/lib.rs (target/debug/deps/kymo_ctf-01ef)\n\
                     test a::b ... ok\ntest c ... ignored, needs QEMU\n\
                     test d - should panic ... ok\ntest result: ok. 2 passed\n\
                     test src/lib.rs - (line 3) ... FAILED";
        let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        let found: Vec<String> = tests_of("here", &lines).into_iter().collect();
        let expected = [
            "kymo_ctf: a::b",
            "kymo_ctf: d",
            "kymo_ctf: src/lib.rs - (line 3)",
        ];
        assert_eq!(found, expected);
        let line = ["test a::b ... ok".to_owned()];
        assert!(tests_of("kymo lib", &line).contains("kymo lib: a::b"));
    }

    #[test]
    fn a_step_that_runs_again_replaces_its_lines() {
        let tests = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let first = merged(
            "",
            &[("unit", &tests(&["b", "a"])), ("e2e", &tests(&["c"]))],
        );
        assert_eq!(first, "e2e         c\nunit        a\nunit        b\n");
        let again = merged(&first, &[("unit", &tests(&["b"]))]);
        assert_eq!(again, "e2e         c\nunit        b\n");
    }
}
