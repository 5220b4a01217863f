//! Checks that every rule of docs/rules.md has an existing test, prints the gaps, and breaks what
//! the rows claim to see their tests fail.

mod broken;
mod rows;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use kymo_mistakes::root;

use broken::Broken;
use rows::{Checked, Steps};

/// Checks that every rule of docs/rules.md has an existing test or is a known gap.
#[derive(Parser)]
struct Arguments {
    /// The steps of `cargo xtask test`, which can also check rules
    #[arg(long, value_delimiter = ',')]
    steps: Vec<String>,
    /// Those of the steps that the short form may leave out: their names, the paths of their
    /// tests, or folders anywhere in such paths
    #[arg(long, value_delimiter = ',')]
    sometimes: Vec<String>,
    /// Break what the rows claim in a copy of the repository in this folder, and run their tests
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// Do not run the tests without a mistake before
    #[arg(long)]
    passed: bool,
    /// Only the mistakes of these rules, or those of these full names
    ids: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let steps = Steps {
        all: arguments.steps.clone(),
        sometimes: arguments.sometimes.clone(),
    };
    let done = check(&steps).and_then(|(checked, broken)| match &arguments.scratch {
        Some(scratch) => {
            let list = broken.select(&arguments.ids)?;
            broken::run(list, &checked, scratch, arguments.passed)
        }
        None => Ok(()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The files of tests that no program has: cargo compiles only what `tests/main.rs` names.
fn forgotten() -> Result<Vec<String>> {
    let mut forgotten = Vec::new();
    for folder in ["crates", "ports", "tests"] {
        for package in fs::read_dir(root().join(folder)).context(folder)? {
            let tests = package?.path().join("tests");
            let Ok(main) = fs::read_to_string(tests.join("main.rs")) else {
                continue;
            };
            for entry in fs::read_dir(&tests)? {
                let path = entry?.path();
                let is_module = path.extension().is_some_and(|extension| extension == "rs")
                    || path.join("mod.rs").is_file();
                let name = path
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let names_it = main
                    .lines()
                    .any(|line| line.ends_with(&format!("mod {name};")));
                if is_module && name != "main" && !names_it {
                    forgotten.push(path.display().to_string());
                }
            }
        }
    }
    Ok(forgotten)
}

/// Checks the tables and the list of mistakes, and prints what is missing.
fn check(steps: &Steps) -> Result<(Checked, Broken)> {
    let read = |path: &str| fs::read_to_string(root().join(path)).ok();
    let text = read("docs/rules.md").context("docs/rules.md")?;
    let checked = rows::check(&text, steps, read)?;
    let tests: BTreeSet<&String> = checked.held.values().flatten().collect();
    println!(
        "{} rules of docs/rules.md have {} tests and steps.",
        checked.held.len(),
        tests.len()
    );
    for (id, gap) in &checked.gaps {
        println!("GAP: {id}: {gap}");
    }
    for (id, says) in &checked.partly {
        println!("PARTLY: {id}: {says}");
    }
    let broken = Broken::read(&root().join("tests/rules/broken"))?;
    let faults = broken.faults(&checked, read);
    println!(
        "{} mistakes break what {} of them claim.",
        broken.list.len(),
        broken.rows().len()
    );
    for mistake in &broken.list {
        if let Some(why) = &mistake.unseen {
            println!("CANNOT BE BROKEN: {}: {why}", mistake.name);
        }
    }
    if !broken.not_yet.is_empty() {
        println!("NOT YET BROKEN: {}", broken.not_yet.join(" "));
    }
    let forgotten = forgotten()?;
    if !forgotten.is_empty() {
        bail!("these tests are in no program: {}", forgotten.join(" "));
    }
    let faults: Vec<&String> = checked.faults.iter().chain(&faults).collect();
    if !faults.is_empty() {
        let faults: Vec<&str> = faults.into_iter().map(String::as_str).collect();
        bail!("docs/rules.md:\n  {}", faults.join("\n  "));
    }
    Ok((checked, broken))
}
