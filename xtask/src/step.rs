//! Steps of a long run, with the time each took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The steps so far. Prints their table when dropped, so also after a failure.
#[derive(Default)]
pub(crate) struct Steps<'a> {
    done: Vec<(&'a str, Duration, bool)>,
}

impl<'a> Steps<'a> {
    /// Runs a step; an error names it.
    pub(crate) fn run<T>(&mut self, name: &'a str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("\n== {name}");
        let begin = Instant::now();
        let result = step();
        let time = begin.elapsed();
        eprintln!("== {name}: {} min", minutes(time));
        self.done.push((name, time, result.is_ok()));
        result.with_context(|| format!("step {name}"))
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        let total = self.done.iter().map(|(_, time, _)| time).sum();
        eprintln!("\n{:<12} {:>7}", "step", "minutes");
        for (name, time, ok) in &self.done {
            eprintln!(
                "{name:<12} {:>7}  {}",
                minutes(*time),
                if *ok { "ok" } else { "FAILED" }
            );
        }
        eprintln!("{:<12} {:>7}", "all", minutes(total));
    }
}

fn minutes(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() / 60.0)
}
