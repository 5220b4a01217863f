//! Steps of a long run, with the time each took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::failure::NotRun;

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The message says why.
    NotRun(String),
    Failed,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Passed => f.write_str("ok"),
            Outcome::NotRun(why) => f.write_str(why),
            Outcome::Failed => f.write_str("FAILED"),
        }
    }
}

/// The steps so far. Prints their table when dropped, so also after a failure.
#[derive(Default)]
pub(crate) struct Steps<'a> {
    done: Vec<(&'a str, Duration, Outcome)>,
}

impl<'a> Steps<'a> {
    /// Runs a step; an error names it. [`NotRun`] is no failure: the table shows it.
    pub(crate) fn run(&mut self, name: &'a str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        eprintln!("\n== {name}");
        let begin = Instant::now();
        let result = step();
        let time = begin.elapsed();
        eprintln!("== {name}: {} min", minutes(time));
        let (outcome, result) = match result {
            Ok(()) => (Outcome::Passed, Ok(())),
            Err(error) if error.is::<NotRun>() => (Outcome::NotRun(error.to_string()), Ok(())),
            Err(error) => (Outcome::Failed, Err(error)),
        };
        self.done.push((name, time, outcome));
        result.with_context(|| format!("step {name}"))
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        let total = self.done.iter().map(|(_, time, _)| time).sum();
        eprintln!("\n{:<12} {:>7}", "step", "minutes");
        for (name, time, outcome) in &self.done {
            eprintln!("{name:<12} {:>7}  {outcome}", minutes(*time));
        }
        eprintln!("{:<12} {:>7}", "all", minutes(total));
    }
}

fn minutes(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_step_that_was_not_run_neither_fails_nor_passes() {
        let mut steps = Steps::default();
        steps.run("good", || Ok(())).unwrap();
        let not_run = || bail!(NotRun("no tool. Type: install it".to_owned()));
        steps.run("absent", not_run).unwrap();
        assert!(steps.run("bad", || bail!("it is wrong")).is_err());
        let outcomes: Vec<_> = steps
            .done
            .iter()
            .map(|(_, _, outcome)| outcome.to_string())
            .collect();
        let absent = "NOT RUN: no tool. Type: install it";
        assert_eq!(outcomes, ["ok", absent, "FAILED"]);
    }
}
