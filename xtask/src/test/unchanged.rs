//! Steps that the short form leaves out while nothing that they depend on has changed.
//!
//! `.ci/all-passed` has a line for each such step: its name, and the last commit on which its form
//! of `cargo xtask test --all` passed. (A line a step, rather than one commit for all of them, so
//! that one step can be tried again by itself: all of them take hours.)

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{Dependency, packages, quiet, root};

use super::manifests;

/// Where the commits stand.
const FILE: &str = ".ci/all-passed";

/// What the file begins with.
const HEAD: &str = "\
# The last commit on which each of these steps passed in its long form. Written by
# `cargo xtask test --all`; the short form leaves a step out while nothing that it depends on has
# changed since.
";

/// What a step depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    /// Packages of the workspace: their folders, and those of the packages that they depend on.
    pub(crate) packages: &'static [&'static str],
    /// Other files and folders, as git names them.
    pub(crate) paths: &'static [&'static str],
}

/// Why the step need not run: since which commit nothing under which folders has changed. `None`
/// if it must, also where that cannot be known.
pub(crate) fn reason(step: &str, inputs: &Inputs) -> Result<Option<String>> {
    let text = fs::read_to_string(root().join(FILE)).unwrap_or_default();
    let Some(commit) = commit_of(&text, step) else {
        return Ok(None);
    };
    let paths = paths(inputs)?;
    if changed(root(), commit, &paths) || manifests_changed(root(), commit, inputs.packages) {
        return Ok(None);
    }
    let short = commit.get(..10).unwrap_or(commit);
    Ok(Some(format!(
        "since {short} nothing changed under {}",
        paths.join(" ")
    )))
}

/// The commit of a step.
fn commit_of<'t>(text: &'t str, step: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (name, commit) = line.split_once(' ')?;
        (name == step).then_some(commit.trim())
    })
}

/// Whether a file under one of these paths differs from the commit's, or git cannot say.
fn changed(folder: &Path, commit: &str, paths: &[String]) -> bool {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        quiet(
            git.current_dir(folder)
                .args(arguments)
                .arg("--")
                .args(paths),
        )
    };
    let same = git(&["diff", "--quiet", commit]).is_some();
    let others = git(&["ls-files", "--others", "--exclude-standard"]);
    !same || others.is_none_or(|files| !files.is_empty())
}

/// Whether `Cargo.toml` or `Cargo.lock` says something else of these packages, or of what they
/// depend on, than it did on that commit, or that cannot be known.
fn manifests_changed(folder: &Path, commit: &str, packages: &[&str]) -> bool {
    let then = |file: &str| git(folder, &["show", &format!("{commit}:{file}")]);
    let now = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let said = |manifest: Option<String>, lock: Option<String>| {
        manifests::said(&manifest?, &lock?, packages)
    };
    let then = said(then("Cargo.toml"), then("Cargo.lock"));
    then.is_none() || then != said(now("Cargo.toml"), now("Cargo.lock"))
}

/// The paths of the inputs, sorted, but for the workspace's manifest and lock.
fn paths(inputs: &Inputs) -> Result<Vec<String>> {
    let packages = packages(root(), "--no-deps")?;
    let mut paths: BTreeSet<String> = inputs.paths.iter().map(|path| path.to_string()).collect();
    let mut names: Vec<String> = inputs
        .packages
        .iter()
        .map(|name| name.to_string())
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = names.pop() {
        // Tests of other packages are not run.
        let is_own = inputs.packages.contains(&&*name);
        if !seen.insert(name.clone()) {
            continue;
        }
        let package = packages.iter().find(|package| package.name == name);
        let package = package.with_context(|| format!("no package is named {name}"))?;
        let folder = package.folder()?.strip_prefix(root());
        let folder = folder.context("a package is elsewhere")?;
        paths.insert(folder.display().to_string());
        let is_dev = |other: &Dependency| other.kind.as_deref() == Some("dev");
        let needed = package.dependencies.iter();
        let needed = needed.filter(|other| other.path.is_some() && (is_own || !is_dev(other)));
        names.extend(needed.map(|other| other.name.clone()));
    }
    Ok(paths.into_iter().collect())
}

/// Runs git in a folder. `None` if it fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    quiet(git.current_dir(folder).args(arguments))
}

/// The commit that the tree is, if it has no changes.
pub(crate) fn commit(folder: &Path) -> Option<String> {
    let changes = git(folder, &["status", "--porcelain"])?;
    let head = git(folder, &["rev-parse", "HEAD"])?;
    changes.is_empty().then(|| head.trim().to_owned())
}

/// Notes that the steps have passed on the commit that the tree was when they began, in a commit of
/// its own. Says why not where the tree was none, or is another one now.
pub(crate) fn note(steps: &[&str], began_on: Option<&str>) -> Result<()> {
    let Some(head) = commit(root()).filter(|now| began_on == Some(now)) else {
        println!("{FILE} stays as it is: the tree was not that of one commit all the time.");
        return Ok(());
    };
    let file = root().join(FILE);
    let text = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, noted(&text, steps, &head)).context(FILE)?;
    let message = format!("ci: note on which commit {} passed", steps.join(", "));
    let subject = match message.len() <= 72 {
        true => message.clone(),
        false => format!("ci: note on which commit {} steps passed", steps.len()),
    };
    let body = format!("By cargo xtask test --all: {}.", steps.join(", "));
    let git = |arguments: &[&str]| git(root(), arguments);
    if git(&["add", FILE]).is_none() || git(&["commit", "-m", &subject, "-m", &body]).is_none() {
        bail!("git cannot commit {FILE}");
    }
    Ok(())
}

/// The file with the commit for these steps.
fn noted(text: &str, steps: &[&str], commit: &str) -> String {
    let mut lines: BTreeSet<String> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|line| !steps.iter().any(|step| commit_of(line, step).is_some()))
        .map(str::to_owned)
        .collect();
    lines.extend(steps.iter().map(|step| format!("{step} {commit}")));
    let lines: Vec<String> = lines.into_iter().collect();
    format!("{HEAD}{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_step_has_the_commit_of_its_line() {
        let text = noted("", &["models", "miri"], "aaa");
        let text = noted(&text, &["models"], "bbb");
        assert_eq!(commit_of(&text, "models"), Some("bbb"));
        assert_eq!(commit_of(&text, "miri"), Some("aaa"));
        assert_eq!(commit_of(&text, "mir"), None);
        assert_eq!(text, format!("{HEAD}miri aaa\nmodels bbb\n"));
    }

    #[test]
    fn inputs_are_folders_of_packages_and_of_those_that_they_depend_on() {
        let inputs = Inputs {
            packages: &["kymo-machine"],
            paths: &["budgets.toml"],
        };
        let paths = paths(&inputs).unwrap();
        for path in ["budgets.toml", "crates/kymo-machine", "crates/kymo-ctf"] {
            assert!(paths.contains(&path.to_owned()), "{path}: {paths:?}");
        }
        assert!(!paths.contains(&"crates/kymo-cli".to_owned()), "{paths:?}");
        let unknown = Inputs {
            packages: &["kymo-nothing"],
            paths: &[],
        };
        assert!(super::paths(&unknown).is_err());
    }

    #[test]
    fn changes_are_those_of_commits_of_the_tree_and_new_files() {
        let folder = std::env::temp_dir().join(format!("kymo-unchanged-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("a")).unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(&folder)
                .args(["-c", "user.name=a", "-c", "user.email=a@a"]);
            quiet(git.args(arguments)).unwrap()
        };
        git(&["init", "--quiet"]);
        fs::write(folder.join("a/one"), "1").unwrap();
        fs::write(folder.join("two"), "2").unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "first"]);
        let first = git(&["rev-parse", "HEAD"]).trim().to_owned();
        let changed = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
            changed(&folder, &first, &paths)
        };
        assert!(!changed(&["a", "two"]));
        assert_eq!(commit(&folder), Some(first.clone()));
        fs::write(folder.join("two"), "3").unwrap();
        assert_eq!(commit(&folder), None, "it is changed");
        assert!(!changed(&["a"]) && changed(&["two"]), "in the tree");
        git(&["commit", "--quiet", "--all", "-m", "second"]);
        assert!(!changed(&["a"]) && changed(&["a", "two"]), "in a commit");
        assert!(commit(&folder).is_some_and(|second| second != first));
        fs::write(folder.join("a/new"), "").unwrap();
        assert!(changed(&["a"]), "a file that git does not know");

        let manifests = |manifest: &str, lock: &str| {
            fs::write(folder.join("Cargo.toml"), manifest).unwrap();
            fs::write(folder.join("Cargo.lock"), lock).unwrap();
        };
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
        manifests("[workspace]\n", lock);
        let of_a = |commit: &str| manifests_changed(&folder, commit, &["a"]);
        assert!(of_a(&first), "there were none");
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "third"]);
        let third = git(&["rev-parse", "HEAD"]).trim().to_owned();
        assert!(!of_a(&third));
        manifests("[workspace]\nmembers = [\"b\"]\n", &lock.replace('a', "b"));
        assert!(of_a(&third), "it is gone");
        manifests(
            "[workspace]\nmembers = [\"b\"]\n",
            &format!("{lock}{}", lock.replace("\"a", "\"b")),
        );
        assert!(!of_a(&third), "another one came");
        let unknown = "0123456789012345678901234567890123456789";
        assert!(super::changed(&folder, unknown, &["a".to_owned()]));
        fs::remove_dir_all(&folder).unwrap();
    }
}
