//! Makes deliberate mistakes in the ring, each of which its test must detect.
//!
//! The list is `crates/kymo/mistakes/`. Each mistake is made in a copy of the crate; the test must
//! build, and fail by a panic of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;

use kymo_mistakes::list::{self, Mistake};
use kymo_mistakes::root;
use kymo_mistakes::sandbox::{Outcome, Program, Sandbox};

/// Makes deliberate mistakes in copies of the ring, and checks that tests detect them.
#[derive(Parser)]
struct Arguments {
    /// Only mistakes whose names contain one of these
    names: Vec<String>,
    /// A folder for the copies, which is kept for the next run
    #[arg(long)]
    scratch: PathBuf,
    /// Take a third of the mistakes, selected by the commit, and assume that their tests pass
    /// without a mistake
    #[arg(long)]
    third: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let selected = select(&arguments.names);
    let done = match selected {
        Ok(Ok(list)) => run(list, &arguments),
        Ok(Err(name)) => {
            eprintln!("No mistake has \"{name}\" in its name.");
            return ExitCode::from(2);
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A test of the ring: its program and its name.
type Test = (Program, String);

/// "model", "unit", or a file of tests, and a name.
fn test(text: &str) -> Option<Test> {
    let (suite, name) = text.split_once(' ')?;
    let file = match suite {
        "model" | "unit" => None,
        "nesting" | "sample_nesting" => Some(suite.to_owned()),
        _ => return None,
    };
    let program = Program {
        package: "kymo".into(),
        file,
        model: suite == "model",
        profile: "models",
    };
    Some((program, name.to_owned()))
}

/// The test that must detect the mistake.
fn test_of(mistake: &Mistake) -> Result<Test> {
    let text = mistake.test.as_deref().unwrap_or_default();
    test(text).with_context(|| {
        format!(
            "{}: \"{text}\" is not model, unit or a file of tests, and a name",
            mistake.name
        )
    })
}

/// The mistakes whose names contain one of `names`, or all; or the name that matches no mistake.
fn select(names: &[String]) -> Result<Result<Vec<Mistake>, String>> {
    let mut list = list::read(&root().join("crates/kymo/mistakes"))?;
    for name in names {
        if !list
            .iter()
            .any(|mistake| mistake.name.contains(name.as_str()))
        {
            return Ok(Err(name.clone()));
        }
    }
    list.retain(|mistake| {
        names.is_empty()
            || names
                .iter()
                .any(|name| mistake.name.contains(name.as_str()))
    });
    Ok(Ok(list))
}

/// Makes each of these mistakes.
fn run(list: Vec<Mistake>, arguments: &Arguments) -> Result<()> {
    let (mut seen, unseen): (Vec<_>, Vec<_>) = list
        .into_iter()
        .partition(|mistake| mistake.unseen.is_none());
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(4));
    // The tests are started in another folder.
    let scratch = std::path::absolute(&arguments.scratch)?;
    let sandboxes: Vec<Sandbox> = (0..cpus)
        .map(|number| Sandbox::of_the_ring(scratch.join(number.to_string())))
        .collect::<Result<_>>()?;
    let [first, ..] = &sandboxes[..] else {
        bail!("there is no processor")
    };
    // Checks that the list is up to date.
    for mistake in seen.iter().chain(&unseen) {
        first
            .make_mistake(mistake)
            .with_context(|| mistake.name.clone())?
            .undo()?;
    }
    if arguments.third {
        keep_third(&mut seen);
    }
    let tests: BTreeSet<Test> = seen.iter().map(test_of).collect::<Result<_>>()?;
    let programs: BTreeSet<&Program> = tests.iter().map(|(program, _)| program).collect();
    for program in programs {
        if let Err(text) = first.build(program)? {
            bail!("the tests do not build, without a mistake:\n{text}");
        }
    }
    if !arguments.third {
        tests_pass(&sandboxes, tests)?;
    }
    try_all(&sandboxes, &seen, &unseen)
}

fn keep_third(seen: &mut Vec<Mistake>) {
    let third = third();
    println!(
        "Every third of {} mistakes, from number {third} on (the commit says which); all of them: \
         cargo xtask mistakes",
        seen.len()
    );
    let mut number = 0;
    seen.retain(|_| {
        number += 1;
        number % THIRDS == third
    });
}

/// Runs the tests without a mistake: they must pass.
fn tests_pass(sandboxes: &[Sandbox], tests: BTreeSet<Test>) -> Result<()> {
    let tests: Vec<Test> = tests.into_iter().collect();
    eprintln!("{} tests without a mistake", tests.len());
    let pass = in_parallel(sandboxes, &tests, |sandbox, (program, name)| {
        let outcome = sandbox.run(program, name)?;
        if !matches!(outcome, Outcome::Passed) {
            println!("{name} without a mistake: {outcome:?}");
        }
        Ok(matches!(outcome, Outcome::Passed))
    })?;
    if pass.contains(&false) {
        bail!("tests must pass before mistakes are made");
    }
    Ok(())
}

/// Makes one mistake after the other in each sandbox, and prints the result of its test.
fn try_all(sandboxes: &[Sandbox], seen: &[Mistake], unseen: &[Mistake]) -> Result<()> {
    let names = seen.iter().map(|mistake| mistake.name.len());
    let width = names.max().unwrap_or(0);
    let begin = Instant::now();
    let caught = in_parallel(sandboxes, seen, |sandbox, mistake| {
        let (program, name) = test_of(mistake)?;
        let made = sandbox
            .make_mistake(mistake)
            .with_context(|| mistake.name.clone())?;
        let begin = Instant::now();
        let outcome = sandbox.run(&program, &name)?;
        made.undo()?;
        println!(
            "{:<width$}  {:>5.1} s  {}  {}",
            mistake.name,
            begin.elapsed().as_secs_f64(),
            outcome.describe(),
            name
        );
        if !outcome.lines().is_empty() {
            println!("{}", outcome.lines());
        }
        Ok(matches!(outcome, Outcome::Caught))
    })?;
    for mistake in unseen {
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

/// The third of the mistakes for this commit: 0, 1 or 2.
fn third() -> usize {
    let head = Command::new("git")
        .current_dir(root())
        .args(["rev-parse", "HEAD"])
        .output();
    let head = head.map(|output| output.stdout).unwrap_or_default();
    head.into_iter().map(usize::from).sum::<usize>() % THIRDS
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
                        // Stop the other threads.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// In `cargo test`, so that whoever changes a line of the ring learns at once that a mistake
    /// is made in it.
    #[test]
    fn each_mistake_finds_its_lines_in_the_crate() {
        let ring = root().join("crates/kymo");
        let list = list::read(&ring.join("mistakes")).unwrap();
        let read = |file: &str| std::fs::read_to_string(ring.join("src").join(file)).ok();
        let problems = list::stale(&list, read);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        for mistake in &list {
            assert!(
                !mistake.edits.is_empty(),
                "{} changes nothing",
                mistake.name
            );
            assert!(mistake.unseen.is_some() || test_of(mistake).is_ok());
        }
    }

    #[test]
    fn a_test_of_an_unknown_suite_is_refused() {
        assert!(test("system a").is_none());
        assert!(test("unit a").is_some());
    }
}
