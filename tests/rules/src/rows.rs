//! The tables of docs/rules.md.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use anyhow::{Result, bail};

/// The existing rules.
const RULES: [(&str, &[RangeInclusive<u32>]); 6] = [
    ("P", &[1..=10, 20..=36, 40..=54]),
    ("L", &[1..=15, 40..=45]),
    ("V", &[1..=16]),
    ("R", &[1..=17]),
    ("K", &[1..=22]),
    ("N", &[1..=33]),
];

/// Letters whose rules must all have tests.
const HELD: [&str; 5] = ["P", "L", "V", "R", "K"];

/// Later features: rules of these letters may only wait for one of them.
const LATER: [&str; 2] = ["counting", "RTT"];

/// How a row begins whose rule is kept in part.
const PARTLY: &str = "Partly: ";

/// Headings of the table of short file names, and of the tables of rules.
const FILES_HEAD: &str = "| short | file |";
const RULES_HEAD: &str = "| id | what Kymo does | tested by |";

#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The tests and steps of each rule that has some.
    pub(crate) held: BTreeMap<String, Vec<String>>,
    /// The files of the short names.
    pub(crate) files: BTreeMap<String, String>,
    /// Rules without a test, with reasons.
    pub(crate) gaps: Vec<(String, String)>,
    /// Rules of which a part is missing, with what the row says.
    pub(crate) partly: Vec<(String, String)>,
    pub(crate) faults: Vec<String>,
}

/// The steps of `cargo xtask test`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) all: Vec<String>,
    /// Those that the short form may leave out, by their names, by the paths of their tests, or by
    /// a folder or a file's stem anywhere in these paths.
    pub(crate) sometimes: Vec<String>,
}

impl Steps {
    /// Whether a step or a test in a file is always in the short form.
    fn always(&self, step_or_file: &str) -> bool {
        let path = step_or_file.strip_suffix(".rs").unwrap_or(step_or_file);
        !self.sometimes.iter().any(|name| {
            step_or_file.starts_with(&**name) || path.split('/').any(|part| part == name)
        })
    }
}

/// Checks that every rule has one row, that the tests in every row exist, and that the short form
/// of `cargo xtask test` always has one of them.
pub(crate) fn check(
    text: &str,
    steps: &Steps,
    read: impl Fn(&str) -> Option<String>,
) -> Result<Checked> {
    let files: BTreeMap<&str, &str> = rows(text, FILES_HEAD)
        .filter_map(|cells| match cells.as_slice() {
            &[short, file] => Some((short, file.trim_matches('`'))),
            _ => None,
        })
        .collect();
    if files.is_empty() {
        bail!("there is no table \"{FILES_HEAD}\"");
    }
    let mut checked = Checked::default();
    let mut sources: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut missing: BTreeSet<String> = RULES
        .iter()
        .flat_map(|(letter, ranges)| {
            ranges
                .iter()
                .cloned()
                .flatten()
                .map(move |number| format!("{letter}-{number:02}"))
        })
        .collect();
    for cells in rows(text, RULES_HEAD) {
        let &[id, says, held_by] = cells.as_slice() else {
            checked.faults.push(format!(
                "a row has {} cells instead of 3: {}",
                cells.len(),
                cells.join(" | ")
            ));
            continue;
        };
        if !missing.remove(id) {
            checked
                .faults
                .push(format!("{id} is no rule, or has two rows"));
        }
        if says.is_empty() {
            checked
                .faults
                .push(format!("{id} does not say what Kymo does"));
        }
        let must = must_be_held(id);
        if let Some(feature) = held_by.strip_prefix("later: ") {
            if must && !LATER.contains(&feature) {
                checked.faults.push(format!(
                    "{id} waits for \"{feature}\", which is not among what comes later: {}",
                    LATER.join(", ")
                ));
            }
            checked.gaps.push((id.to_owned(), held_by.to_owned()));
            continue;
        }
        if held_by == "not yet" && !must {
            checked.gaps.push((id.to_owned(), held_by.to_owned()));
            continue;
        }
        let references = held_by.split(", ").map(str::to_owned).collect();
        checked.held.insert(id.to_owned(), references);
        match says.strip_prefix(PARTLY) {
            Some(says) => checked.partly.push((id.to_owned(), says.to_owned())),
            None if says
                .split(|c: char| !c.is_alphabetic())
                .any(|word| word == "yet") =>
            {
                checked.faults.push(format!(
                    "{id} lacks a part, and does not begin with \"{PARTLY}\""
                ))
            }
            None => {}
        }
        let (mut is_always, faults_before) = (false, checked.faults.len());
        for reference in held_by.split(", ") {
            if let Some(command) = command(reference) {
                match step(reference).filter(|step| steps.all.iter().any(|known| known == step)) {
                    Some(step) => is_always |= steps.always(step),
                    None => checked
                        .faults
                        .push(format!("{id}: `{command}` is no step of cargo xtask test")),
                }
                continue;
            }
            let Some((short, function)) = reference.split_once("::") else {
                checked.faults.push(format!(
                    "{id}: \"{reference}\" is no test, written as file::function"
                ));
                continue;
            };
            let Some(&file) = files.get(short) else {
                checked
                    .faults
                    .push(format!("{id}: {short} is not in the table of files"));
                continue;
            };
            is_always |= steps.always(file);
            match sources.entry(file).or_insert_with(|| read(file)) {
                None => checked
                    .faults
                    .push(format!("{id}: the file {file} of {short} is not there")),
                Some(source) if !has_test(source, function) => {
                    checked
                        .faults
                        .push(format!("{id}: {file} has no test {function}"));
                }
                Some(_) => {}
            }
        }
        if !is_always && checked.faults.len() == faults_before {
            checked.faults.push(format!(
                "{id}: the short form of cargo xtask test may leave out all of its tests"
            ));
        }
    }
    checked.files = files
        .into_iter()
        .map(|(short, file)| (short.to_owned(), file.to_owned()))
        .collect();
    checked
        .faults
        .extend(missing.iter().map(|id| format!("{id} has no row")));
    Ok(checked)
}

fn command(reference: &str) -> Option<&str> {
    reference.strip_prefix('`')?.strip_suffix('`')
}

/// The step of a reference like "`cargo xtask test fmt`".
pub(crate) fn step(reference: &str) -> Option<&str> {
    command(reference)?.strip_prefix("cargo xtask test ")
}

/// Whether the rule must have a test or wait for a later feature.
pub(crate) fn must_be_held(id: &str) -> bool {
    HELD.iter().any(|letter| id.starts_with(letter))
}

/// The cells of every row below such a heading.
fn rows<'a>(text: &'a str, head: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let mut inside = false;
    text.lines().filter_map(move |line| {
        if line.trim() == head {
            inside = true;
            return None;
        }
        inside &= line.starts_with('|');
        if !inside || line.starts_with("| ---") {
            return None;
        }
        Some(
            line.trim()
                .trim_matches('|')
                .split('|')
                .map(str::trim)
                .collect(),
        )
    })
}

/// Whether the function exists and is a test.
fn has_test(source: &str, function: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let begins = format!("fn {function}(");
    lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with(&begins))
        .any(|(at, _)| {
            let above = lines.iter().take(at).rev();
            above
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| *line == "#[test]")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#[test]\n#[ignore = \"long\"]\nfn there() {}\n\nfn no_test() {}\n";

    fn table(rows: &str) -> String {
        format!(
            "{FILES_HEAD}\n| --- | --- |\n| file | `a.rs` |\n| gone | `b.rs` |\n\
             | model | `src/models/a.rs` |\n| some | `some/tests/b.rs` |\n\n{RULES_HEAD}\n| \
             --- | --- | --- |\n{rows}\n"
        )
    }

    fn faults(row: &str) -> Vec<String> {
        let steps = Steps {
            all: vec!["fmt".into(), "models".into()],
            sometimes: vec!["models".into(), "some/tests".into()],
        };
        let is_there = |path: &str| ["a.rs", "src/models/a.rs", "some/tests/b.rs"].contains(&path);
        let checked = check(&table(row), &steps, |path| {
            is_there(path).then(|| SOURCE.to_owned())
        })
        .unwrap_or_default();
        checked
            .faults
            .into_iter()
            .filter(|fault| !fault.ends_with("has no row"))
            .collect()
    }

    #[test]
    fn a_row_holds_what_it_says_or_is_a_fault() {
        for good in [
            "| P-01 | x | file::there |",
            "| P-01 | x | file::there, `cargo xtask test fmt` |",
            "| P-01 | x | model::there, file::there |",
            "| P-01 | x | `cargo xtask test models`, `cargo xtask test fmt` |",
            "| P-01 | x | later: RTT |",
            "| N-01 | x | later: a rainy day |",
            "| N-01 | x | not yet |",
            "| P-01 | No x yet | later: RTT |",
            "| P-01 | Partly: x, no y yet | file::there |",
        ] {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
        for (bad, why) in [
            ("| P-01 | x | not yet |", "is no test"),
            ("| P-01 | x |  |", "is no test"),
            (
                "| L-01 | x | later: a rainy day |",
                "not among what comes later",
            ),
            ("| V-01 | x | file::gone |", "has no test gone"),
            ("| V-01 | x | file::no_test |", "has no test no_test"),
            ("| V-01 | x | file::ther |", "has no test ther"),
            ("| V-01 | x | gone::there |", "b.rs of gone is not there"),
            ("| V-01 | x | other::there |", "other is not in the table"),
            ("| N-01 | x | file::gone |", "has no test gone"),
            ("| P-01 | x | `cargo xtask test no` |", "is no step"),
            ("| P-01 | x | `cargo xtask test models` |", "may leave out"),
            ("| P-01 | x | model::there, some::there |", "may leave out"),
            ("| P-99 | x | file::there |", "is no rule"),
            (
                "| P-01 | x | file::there |\n| P-01 | x | file::there |",
                "two rows",
            ),
            ("| P-01 |  | file::there |", "does not say"),
            ("| P-01 | x, no y yet | file::there |", "lacks a part"),
            ("| P-01 | x |", "cells"),
        ] {
            let faults = faults(bad);
            assert!(
                faults.len() == 1 && faults.iter().all(|fault| fault.contains(why)),
                "{bad}: {faults:?}"
            );
        }
    }

    #[test]
    fn a_rule_without_a_row_is_a_fault() {
        let checked = check(
            &table("| P-01 | x | file::there |"),
            &Steps::default(),
            |_| Some(SOURCE.to_owned()),
        )
        .unwrap_or_default();
        assert!(
            checked.faults.contains(&"L-45 has no row".to_owned())
                && !checked.faults.contains(&"P-01 has no row".to_owned())
        );
    }
}
