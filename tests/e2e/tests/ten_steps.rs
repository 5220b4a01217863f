//! The porting guide, docs/src/ten-steps.md: its commands do what it says, and its code is that of
//! ports/skeleton-c.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_ctf::{Item, Trace};
use kymo_e2e::{babeltrace, built, kymo, run};
use serde_json::Value as Json;

const PAGE: &str = "ten-steps.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a page of the book in this language.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/src").join(page)).unwrap();
    let begin = format!("```{language}\n");
    let blocks = text.split(&*begin).skip(1);
    blocks
        .map(|rest| rest.split_once("```").unwrap().0.to_owned())
        .collect()
}

fn words(code: &str) -> String {
    code.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each of at least so many blocks of the page in C must be code of these files.
pub(crate) fn blocks_are_code_of(page: &str, least: usize, files: &[&str]) {
    let code = files.iter().map(|file| {
        let code = fs::read_to_string(root().join(file)).unwrap();
        words(&code)
    });
    let code: Vec<String> = code.collect();
    let blocks = blocks(page, "c");
    assert!(blocks.len() >= least, "{} blocks", blocks.len());
    for block in blocks {
        let line = block.lines().next().unwrap();
        let is_there = code.iter().any(|code| code.contains(&words(&block)));
        assert!(is_there, "{page}: in none of the files: {line}");
    }
}

#[test]
fn every_block_is_code_of_the_skeleton() {
    blocks_are_code_of(PAGE, 14, &["ports/skeleton-c/kernel.c"]);
}

/// `PATH` with the folder of `kymo` before the others.
pub(crate) fn path_with_kymo() -> OsString {
    let tool = built("KYMO_BIN").parent().unwrap().to_owned();
    let mut folders = vec![tool];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap()));
    env::join_paths(folders).unwrap()
}

/// Runs a command of the guide in the repository, and looks for the lines that the guide shows.
fn run_line(line: &str, shown: &[&str]) {
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", line]).current_dir(root());
    shell.env("PATH", path_with_kymo());
    let output = run(&mut shell, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    for shown in shown.iter().filter(|shown| **shown != "...") {
        let found = lines.any(|line| line.trim() == shown.trim());
        assert!(found, "{line} does not print \"{shown}\":\n{text}");
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_commands_lead_to_a_flame_graph() {
    let blocks = blocks(PAGE, "console");
    assert!(blocks.len() >= 9, "{} blocks", blocks.len());
    let folder = root().join("target/skeleton-c.trace");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    for block in &blocks {
        for command in block.split("$ ").skip(1) {
            let mut lines = command.lines();
            run_line(lines.next().unwrap(), &lines.collect::<Vec<_>>());
        }
    }
    // Every sample is in the picture: its function, and what called it.
    let output = run(kymo(["hot", "--json"]).arg(&folder), 0);
    let hot: Json = serde_json::from_slice(&output.stdout).unwrap();
    let samples = Trace::open(&folder).unwrap().events().filter(|item| {
        matches!(item, Ok(Item::Event(event)) if event.name() == "sample"
            && event.fields.get("tid").unwrap().as_u64() != Some(0))
    });
    assert_eq!(hot["samples"].as_u64().unwrap(), samples.count() as u64);
    let stacks = run(kymo(["flame", "--format", "folded"]).arg(&folder), 0);
    let stacks = String::from_utf8(stacks.stdout).unwrap();
    let has_chain = |line: &str| line.contains("work;multiply;add ");
    assert!(stacks.lines().any(has_chain), "{stacks}");
    babeltrace::compare(&folder);
}
