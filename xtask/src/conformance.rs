//! The conformance set of crates/kymo-ctf: runs it, and prints what sections of the specifications
//! no case names.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, root, run as run_command};

/// The specifications: how cases name them, what they are called, and the list of their sections.
const SPECIFICATIONS: [(&str, &str, &str); 2] = [
    ("1", "CTF 1.8.3", "sections/ctf-1.8.txt"),
    ("2", "CTF2-SPEC-2.0", "sections/ctf-2.txt"),
];

/// All cases, against babeltrace2 too where it can read them, and then the sections.
pub(crate) fn run() -> Result<()> {
    let arguments = [
        "test",
        "-p",
        "kymo-ctf",
        "--test",
        "conformance",
        "--test",
        "convert",
        "--",
        "--include-ignored",
        "--nocapture",
    ];
    run_command(&mut cargo(&arguments))?;
    sections()
}

fn data() -> PathBuf {
    root().join("crates/kymo-ctf/tests/data")
}

/// Prints the sections without a case. A case of a section that does not exist is an error.
pub(crate) fn sections() -> Result<()> {
    let named = named()?;
    let mut known = BTreeSet::new();
    for (number, name, file) in SPECIFICATIONS {
        let text = fs::read_to_string(data().join(file))
            .with_context(|| format!("{file} cannot be read"))?;
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
    let strange: Vec<&String> = named.difference(&known).collect();
    if !strange.is_empty() {
        bail!("cases name sections that do not exist: {strange:?}");
    }
    Ok(())
}

/// The sections that cases name: the second field of their headers.
fn named() -> Result<BTreeSet<String>> {
    let mut named = BTreeSet::new();
    for folder in ["tsdl", "json", "streams"] {
        for entry in
            fs::read_dir(data().join(folder)).with_context(|| format!("{folder} cannot be read"))?
        {
            let text = fs::read_to_string(entry?.path())?;
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
    Ok(named)
}
