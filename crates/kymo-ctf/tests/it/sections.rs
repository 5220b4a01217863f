//! The sections of both specifications of CTF, and the conformance set's cases that name them.
//!
//! `cargo xtask ctf-sections` prints the sections without a case.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The specifications: their names in cases, their titles, and the lists of their sections.
const SPECIFICATIONS: [(&str, &str, &str); 2] = [
    ("1", "CTF 1.8.3", "sections/ctf-1.8.txt"),
    ("2", "CTF2-SPEC-2.0", "sections/ctf-2.txt"),
];

fn data() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))
}

/// Prints the sections without a case.
#[test]
fn every_case_names_sections_that_exist() {
    let named = named();
    let mut known = BTreeSet::new();
    for (number, name, file) in SPECIFICATIONS {
        let text = fs::read_to_string(data().join(file)).unwrap();
        let (mut with, mut without, mut silent) = (0, Vec::new(), 0);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (section, title) = line.split_once(' ').unwrap_or((line, ""));
            let section = format!("{number}:{section}");
            match (named.contains(&section), title.starts_with("- ")) {
                (true, _) => with += 1,
                (false, true) => silent += 1,
                (false, false) => without.push(line),
            }
            known.insert(section);
        }
        println!(
            "{name}: {with} sections have cases, {silent} say nothing that a case could check, {} \
             have none",
            without.len()
        );
        for line in without {
            println!("  {line}");
        }
    }
    let unknown: Vec<&String> = named.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "cases name sections that do not exist: {unknown:?}"
    );
}

/// The sections named by cases, in the second field of their headers.
fn named() -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for folder in ["tsdl", "json", "streams"] {
        for entry in fs::read_dir(data().join(folder)).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            for header in text.lines().filter_map(|line| line.strip_prefix("=== ")) {
                let sections = header.split(" | ").nth(1).unwrap_or_default();
                named.extend(
                    sections
                        .split([' ', ','])
                        .filter(|section| !section.is_empty())
                        .map(str::to_owned),
                );
            }
        }
    }
    named
}
