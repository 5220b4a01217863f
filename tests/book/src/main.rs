//! Checks the book and the other pages of the repository: every page is in the summary, and every
//! link leads to a file, and to a heading of it.

mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use page::{Link, Page};

/// The book's pages.
const BOOK: &str = "docs/src";
/// Pages outside of the book.
const FOLDERS: [&str; 4] = ["", "kernels", "ports", "tests"];

fn main() -> ExitCode {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    match check(root) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks all pages below `root`; returns what was checked, in a sentence.
fn check(root: &Path) -> Result<String> {
    let mut pages = BTreeMap::new();
    for path in markdown(root, Path::new(BOOK))? {
        let text = included(root, &path)?;
        pages.insert(path, Page::new(&text));
    }
    for folder in FOLDERS {
        let below = match folder {
            "" => markdown(root, Path::new(""))?,
            folder => readmes(root, Path::new(folder))?,
        };
        for path in below {
            let text = read(root, &path)?;
            pages.insert(path, Page::new(&text));
        }
    }
    let mut wrong = not_in_summary(&pages);
    let mut links = 0;
    for (path, page) in &pages {
        for link in &page.links {
            links += 1;
            if let Some(why) = broken(root, &pages, path, link) {
                wrong.push(format!(
                    "{}, line {}: {}: {why}",
                    path.display(),
                    link.line,
                    link.to
                ));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{} pages, {links} links", pages.len()))
}

fn read(root: &Path, path: &Path) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {}", path.display()))
}

/// The text of a page, with that of the file it includes as a whole.
fn included(root: &Path, path: &Path) -> Result<String> {
    let text = read(root, path)?;
    let file = text
        .trim()
        .strip_prefix("{{#include ")
        .and_then(|rest| rest.strip_suffix("}}"));
    match file {
        Some(file) => read(root, &plain(&beside(path, file))),
        None => Ok(text),
    }
}

/// The Markdown files in a folder.
fn markdown(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(folder))? {
        let name = PathBuf::from(entry?.file_name());
        if name.extension().is_some_and(|ending| ending == "md") {
            found.push(folder.join(name));
        }
    }
    Ok(found)
}

/// The README files in a folder and in its folders.
fn readmes(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let inner = fs::read_dir(root.join(folder))?
        .map(|entry| Ok(folder.join(entry?.file_name())))
        .collect::<Result<Vec<_>>>()?;
    for folder in inner.into_iter().chain([folder.to_owned()]) {
        let readme = folder.join("README.md");
        if root.join(&readme).is_file() {
            found.push(readme);
        }
    }
    Ok(found)
}

/// A link's file, relative to the root.
fn beside(page: &Path, file: &str) -> PathBuf {
    page.parent().unwrap_or(Path::new("")).join(file)
}

/// The path without `..`; empty if it leaves the root.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !plain.pop() => return PathBuf::new(),
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    plain
}

/// Pages of the book that its summary lacks, lists twice, or lists and has not.
fn not_in_summary(pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let path = Path::new(BOOK).join("SUMMARY.md");
    let Some(summary) = pages.get(&path) else {
        return vec![format!("{} is missing", path.display())];
    };
    let mut listed = BTreeSet::new();
    let mut wrong = Vec::new();
    for link in &summary.links {
        if !listed.insert(beside(&path, &link.to)) {
            wrong.push(format!("{} lists {} twice", path.display(), link.to));
        }
    }
    let in_book = pages.keys().filter(|page| page.starts_with(BOOK));
    let missing = in_book.filter(|page| **page != path && !listed.contains(*page));
    wrong.extend(missing.map(|page| format!("{} lacks {}", path.display(), page.display())));
    wrong
}

/// Why a link leads nowhere, if it does.
fn broken(
    root: &Path,
    pages: &BTreeMap<PathBuf, Page>,
    page: &Path,
    link: &Link,
) -> Option<String> {
    if link.to.contains("://") || link.to.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.to.split_once('#').unwrap_or((&link.to, ""));
    let target = match file {
        "" => page.to_owned(),
        file => plain(&beside(page, file)),
    };
    if !root.join(&target).exists() || target.as_os_str().is_empty() {
        return Some(format!("there is no {}", target.display()));
    }
    if page.starts_with(BOOK) && !target.starts_with(BOOK) {
        return Some("it leaves the book, so readers of the built one cannot follow it".to_owned());
    }
    if anchor.is_empty() {
        return None;
    }
    let Some(of) = pages.get(&target) else {
        return Some(format!("{} is no page with headings", target.display()));
    };
    (!of.headings.contains(anchor)).then(|| format!("{} has no such heading", target.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A repository of these pages, in a folder of its own.
    fn repository(name: &str, pages: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("kymo-book-{}-{name}", std::process::id()));
        for folder in FOLDERS.iter().chain([&BOOK]) {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (path, text) in pages {
            fs::write(root.join(path), text).unwrap();
        }
        root
    }

    #[test]
    fn a_book_whose_links_lead_somewhere_passes() {
        let root = repository(
            "good",
            &[
                (
                    "README.md",
                    "[book](docs/src/a.md#two-words) ![p](docs/src/p.svg)",
                ),
                ("docs/src/SUMMARY.md", "- [A](a.md)\n- [B](b.md)"),
                (
                    "docs/src/a.md",
                    "# One\n## Two `words`\n[there](b.md#it) [here](#one)",
                ),
                ("docs/src/b.md", "{{#include ../rest.md}}"),
                (
                    "docs/rest.md",
                    "# It\n[back](a.md) [out](https://example.com/x#y)\n```\n[x](y)\n```",
                ),
                ("docs/src/p.svg", ""),
            ],
        );
        assert_eq!(check(&root).unwrap(), "4 pages, 8 links");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn each_link_to_nowhere_is_named_with_its_line() {
        let root = repository(
            "bad",
            &[
                ("README.md", "text\n\n[book](docs/src/none.md)"),
                ("ports/README.md", "[up](../../etc)"),
                ("docs/src/SUMMARY.md", "- [A](a.md)\n- [A again](a.md)"),
                (
                    "docs/src/a.md",
                    "# One\n[no](#two) [out](../../README.md) [no](b.md#three)",
                ),
                ("docs/src/b.md", "# Two"),
            ],
        );
        let message = check(&root).unwrap_err().to_string();
        let wanted = [
            "docs/src/SUMMARY.md lists a.md twice",
            "docs/src/SUMMARY.md lacks docs/src/b.md",
            "README.md, line 3: docs/src/none.md: there is no docs/src/none.md",
            "docs/src/a.md, line 2: #two: docs/src/a.md has no such heading",
            "docs/src/a.md, line 2: ../../README.md: it leaves the book, so readers of the built one cannot follow it",
            "docs/src/a.md, line 2: b.md#three: docs/src/b.md has no such heading",
            "ports/README.md, line 1: ../../etc: there is no ",
        ];
        assert_eq!(message, wanted.join("\n"));
        fs::remove_dir_all(root).unwrap();
    }
}
