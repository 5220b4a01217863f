//! Steps of a long run: the time each took, what was not run, and all that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};

use crate::disk::Room;
use crate::failure::{Both, Exited, Failed, FailedTest, LeftOut, NotRun};
use crate::tested;
use crate::watched::take_not_run;

/// Lines that the end of a run repeats of what a failed test printed.
const LAST: usize = 30;

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// It was left out or could not be run; says why.
    NotRun(String),
    Failed,
    /// This step, which it needs, failed.
    Needs(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Passed => f.write_str("ok"),
            Outcome::NotRun(why) => f.write_str(why),
            Outcome::Failed => f.write_str("FAILED"),
            Outcome::Needs(step) => write!(f, "NOT RUN: it needs {step}, which failed"),
        }
    }
}

#[derive(Debug)]
struct Done {
    name: String,
    time: Duration,
    outcome: Outcome,
    /// The parts of it that were not run, each with the reason.
    not_run: Vec<String>,
    /// The tests that ran in it.
    tests: BTreeSet<String>,
}

/// The steps so far. One that fails does not keep those that do not need it from running.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Done>,
    failures: Vec<FailedTest>,
    /// The error of the first step that failed.
    error: Option<Error>,
    /// What room the disk had, if anybody has looked.
    pub(crate) room: Option<Room>,
}

impl Steps {
    /// Runs a step, unless one of `needs` has failed. [`NotRun`] and [`LeftOut`] are no failures:
    /// the table shows them.
    pub(crate) fn run(
        &mut self,
        name: &str,
        needs: &[&str],
        step: impl FnOnce() -> Result<()>,
    ) -> bool {
        eprintln!("\n== {name}");
        if let Some(missing) = self.done.iter().find(|done| {
            needs.contains(&&*done.name)
                && matches!(done.outcome, Outcome::Failed | Outcome::Needs(_))
        }) {
            let outcome = Outcome::Needs(missing.name.clone());
            eprintln!("== {name}: {outcome}");
            self.push(name, Duration::ZERO, outcome);
            return false;
        }
        let begin = Instant::now();
        let result = step();
        let time = begin.elapsed();
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) if error.is::<NotRun>() || error.is::<LeftOut>() => {
                Outcome::NotRun(error.to_string())
            }
            Err(error) => {
                eprintln!("== {name}: {error:#}");
                self.failures.extend(failures(name, &error));
                self.error
                    .get_or_insert(error.context(format!("step {name}")));
                Outcome::Failed
            }
        };
        eprintln!("== {name}: {} min", minutes(time));
        self.push(name, time, outcome);
        self.done
            .last()
            .is_some_and(|done| done.outcome == Outcome::Passed && done.not_run.is_empty())
    }

    fn push(&mut self, name: &str, time: Duration, outcome: Outcome) {
        self.done.push(Done {
            name: name.to_owned(),
            time,
            outcome,
            not_run: take_not_run(),
            tests: tested::take(),
        });
    }

    /// Prints the table, what was not run, and everything that failed; notes the tests that ran in
    /// this form.
    ///
    /// # Errors
    /// That of the first step that failed.
    pub(crate) fn finish(self, form: &str) -> Result<()> {
        eprint!("{}", self.summary());
        let tests = self.done.iter().map(|done| (&*done.name, &done.tests));
        tested::write(form, &tests.collect::<Vec<_>>())?;
        match self.error {
            None => Ok(()),
            Some(error) => bail!(error),
        }
    }

    fn summary(&self) -> String {
        let mut text = format!("\n{:<12} {:>7}\n", "step", "minutes");
        for done in &self.done {
            let time = minutes(done.time);
            let outcome = &done.outcome;
            let tests = match done.tests.len() {
                0 => String::new(),
                1 => ", 1 test".to_owned(),
                count => format!(", {count} tests"),
            };
            let not_run = match (done.not_run.len(), reasons(&done.not_run)) {
                (0, _) => String::new(),
                (count, reasons) => format!(", {count} not run: {reasons}"),
            };
            text += &format!("{:<12} {time:>7}  {outcome}{not_run}{tests}\n", done.name);
        }
        let total = self.done.iter().map(|done| done.time).sum();
        text += &format!("{:<12} {:>7}\n", "all", minutes(total));
        if let Some(room) = &self.room {
            text += &format!("{room}\n");
        }
        for done in &self.done {
            for line in &done.not_run {
                text += &format!("NOT RUN in {}: {line}\n", done.name);
            }
        }
        for FailedTest { test, lines, alone } in &self.failures {
            text += &format!("\nFAILED {test}\n");
            let first = lines.len().saturating_sub(LAST);
            for line in lines.iter().skip(first) {
                text += &format!("    {line}\n");
            }
            text += &format!("  alone: {alone}\n");
        }
        if !self.failures.is_empty() {
            text += &format!("\n{} failed.\n", self.failures.len());
        }
        text
    }
}

/// What failed in a step.
fn failures(step: &str, error: &Error) -> Vec<FailedTest> {
    if let Some(Failed(tests)) = error.downcast_ref() {
        return tests.clone();
    }
    if let Some(Both(one, other)) = error.downcast_ref() {
        return [failures(step, one), failures(step, other)].concat();
    }
    let mut lines = match error.downcast_ref() {
        Some(Exited { lines, .. }) => lines.clone(),
        None => Vec::new(),
    };
    lines.push(format!("{error:#}"));
    vec![FailedTest {
        test: format!("step {step}"),
        lines,
        alone: format!("cargo xtask test {step}"),
    }]
}

/// The reasons without the names of tests; the most frequent one, and how many others there are.
fn reasons(not_run: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in not_run {
        let reason = line.split_once(": ").map_or(&**line, |(_, reason)| reason);
        *counts.entry(reason.trim_end_matches('.')).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let most = most.map_or("", |(reason, _)| *reason);
    match counts.len() {
        0 | 1 => most.to_owned(),
        more => format!("{most}; and {} other reasons", more - 1),
    }
}

fn minutes(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::process::{run, side_by_side};
    use crate::watched::not_run;

    #[test]
    fn a_failure_stops_only_what_needs_it_and_is_listed_at_the_end() {
        let mut steps = Steps::default();
        assert!(steps.run("good", &[], || Ok(())));
        let absent = || bail!(NotRun("no tool. Type: install it".to_owned()));
        assert!(!steps.run("absent", &[], absent));
        let left_out = || bail!(LeftOut("nothing under crates/kymo changed".to_owned()));
        assert!(!steps.run("left", &[], left_out));
        let shell = "for n in $(seq 40); do echo $n; done; exit 3";
        assert!(!steps.run("bad", &["good"], || {
            not_run("a: no perf.");
            run(std::process::Command::new("sh").args(["-c", shell]))
        }));
        assert!(!steps.run("later", &["bad"], || Ok(())));
        let tests = || {
            not_run("b: no perf");
            bail!(Failed(vec![FailedTest {
                test: "kymo lib: a::b".to_owned(),
                lines: vec!["it is wrong".to_owned()],
                alone: "cargo test a::b".to_owned(),
            }]))
        };
        assert!(!steps.run("tests", &["absent", "left"], tests));
        assert!(!steps.run("halves", &[], || {
            side_by_side(
                || -> Result<()> { bail!("one half") },
                || -> Result<()> { bail!("the other") },
            )
            .map(drop)
        }));
        let text = steps.summary();
        for line in [
            "good            0.00  ok",
            "absent          0.00  NOT RUN: no tool. Type: install it",
            "left            0.00  left out: nothing under crates/kymo changed",
            "bad             0.00  FAILED, 1 not run: no perf",
            "later           0.00  NOT RUN: it needs bad, which failed",
            "tests           0.00  FAILED, 1 not run: no perf",
            "NOT RUN in bad: a: no perf.",
            "FAILED step bad",
            "    40",
            "  alone: cargo xtask test bad",
            "FAILED kymo lib: a::b",
            "    it is wrong",
            "  alone: cargo test a::b",
            "halves          0.00  FAILED",
            "    one half",
            "    the other",
            "4 failed.",
        ] {
            // Behind an outcome comes how many tests ran: tests beside this one, too.
            let is_there = text.lines().any(|found| found.starts_with(line));
            assert!(is_there, "{line}\n{text}");
        }
        assert!(!text.contains("    10\n"), "only the last lines: {text}");
        let error = steps.error.unwrap();
        assert!(
            format!("{error:#}").starts_with("step bad: this failed"),
            "{error:#}"
        );
    }
}
