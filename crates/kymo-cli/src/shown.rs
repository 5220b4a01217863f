//! Tests of the commands that help and the book show: each must be valid.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use crate::Arguments;

/// A command line, and where it stands.
struct Shown {
    place: String,
    line: String,
}

/// The repository's pages for users.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs/src"), root.clone()];
    for folder in ["kernels", "ports"] {
        let inner = fs::read_dir(root.join(folder)).unwrap();
        folders.extend(inner.map(|entry| entry.unwrap().path()));
    }
    let files = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.map(|entry| entry.unwrap().path()));
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect()
}

/// The lines of a page's blocks for a shell, with those that `\` continues joined.
fn in_page(path: &Path) -> Vec<Shown> {
    let text = fs::read_to_string(path).unwrap();
    let mut found: Vec<Shown> = Vec::new();
    let (mut is_shell, mut continues) = (false, false);
    for (number, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            is_shell = matches!(language, "sh" | "console");
            continues = false;
            continue;
        }
        if !is_shell {
            continue;
        }
        let ends = line.strip_suffix('\\');
        let part = ends.unwrap_or(line);
        match found.last_mut().filter(|_| continues) {
            Some(shown) => shown.line += part,
            None => found.push(Shown {
                place: format!("{}:{}", path.display(), number + 1),
                line: part.strip_prefix("$ ").unwrap_or(part).to_owned(),
            }),
        }
        continues = ends.is_some();
    }
    found
}

/// The examples in the help of all verbs. Two blanks begin the explanation of one.
fn in_help() -> Vec<Shown> {
    let command = Arguments::command();
    let verbs = command.get_subcommands().filter_map(|verb| {
        let help = verb.get_after_help()?.to_string();
        Some((verb.get_name().to_owned(), help))
    });
    let lines = verbs.flat_map(|(verb, help)| {
        let examples = help.lines().map(|line| {
            let example = line.trim_start();
            let line = example.split("  ").next().unwrap_or_default().to_owned();
            let place = format!("kymo {verb} --help");
            Shown { place, line }
        });
        examples.collect::<Vec<_>>()
    });
    lines.collect()
}

/// The commands of `kymo` in a line of a shell: without what pipes, redirects and comments add.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut words = shlex::Shlex::new(line);
    while let Some(word) = words.next() {
        let ends = ["|", "&&", "||", "&"].contains(&&*word) || word.ends_with(';');
        let redirects = word.trim_start_matches(|c: char| c.is_ascii_digit());
        if redirects.starts_with('>') || redirects.starts_with('<') {
            if redirects.len() == 1 {
                words.next();
            }
            continue;
        }
        let plain = word.trim_end_matches(';');
        if let Some(command) = commands.last_mut().filter(|_| !plain.is_empty()) {
            let is_variable = command.is_empty() && plain.contains('=');
            if !["|", "&&", "||", "&"].contains(&plain) && !is_variable {
                command.push(plain.to_owned());
            }
        }
        if ends {
            commands.push(Vec::new());
        }
    }
    commands.retain(|command| command.first().is_some_and(|name| name == "kymo"));
    commands
}

#[test]
fn commands_are_found_in_lines() {
    let of = |line| commands(line);
    assert_eq!(of("ls | grep kymo"), [[""; 0]; 0]);
    assert_eq!(
        of("A=1 kymo dump 'a b' > x 2>&1 | less; kymo hot t # why"),
        [vec!["kymo", "dump", "a b"], vec!["kymo", "hot", "t"]]
    );
}

/// `--help` and `--version` are answers, not errors.
#[test]
fn commands_that_are_shown_are_valid() {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    let pages = pages();
    let shown: Vec<Shown> = pages
        .iter()
        .flat_map(|path| in_page(path))
        .chain(in_help())
        .collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for Shown { place, line } in &shown {
        for words in commands(line) {
            count += 1;
            if let Err(error) = Arguments::try_parse_from(words)
                && !matches!(error.kind(), DisplayHelp | DisplayVersion)
            {
                wrong.push(format!("{place}: {line}\n{error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "{count} commands in {} pages", pages.len());
}
