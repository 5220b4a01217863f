//! The list of mistakes in crates/kymo/mistakes, whose README describes the format.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A deliberate mistake: an entry of the list.
#[derive(Debug, Default)]
pub(crate) struct Mistake {
    pub(crate) name: String,
    pub(crate) test: Option<Test>,
    /// Why no test can detect it.
    pub(crate) unseen: Option<String>,
    pub(crate) edits: Vec<Edit>,
}

/// A replacement of lines, ignoring indentation.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    /// Below the crate's `src`.
    pub(crate) file: String,
    pub(crate) old: Vec<String>,
    pub(crate) new: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) suite: Suite,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suite {
    /// `ring/models` and `session/models.rs`, with loom.
    Model,
    /// The crate's unit tests.
    Unit,
    /// `tests/nesting.rs`.
    Nesting,
}

impl Test {
    fn parse(text: &str) -> Option<Test> {
        let (suite, name) = text.split_once(' ')?;
        let suite = match suite {
            "model" => Suite::Model,
            "unit" => Suite::Unit,
            "nesting" => Suite::Nesting,
            _ => return None,
        };
        let name = name.to_owned();
        Some(Test { suite, name })
    }
}

impl Edit {
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        let lines: Vec<&str> = text.lines().collect();
        let old: Vec<&str> = self.old.iter().map(|line| line.trim()).collect();
        let stands_at = |at: &usize| {
            let found = lines.get(*at..at + old.len()).unwrap_or_default();
            found.len() == old.len()
                && found
                    .iter()
                    .zip(&old)
                    .all(|(line, old)| line.trim() == *old)
        };
        let places: Vec<usize> = (0..lines.len()).filter(stands_at).collect();
        let &[at] = &places[..] else {
            bail!(
                "these lines are {} times in {}, and must be there once:\n{}",
                places.len(),
                self.file,
                self.old.join("\n")
            );
        };
        let new = self.new.iter().map(String::as_str);
        let all: Vec<&str> = lines
            .iter()
            .take(at)
            .copied()
            .chain(new)
            .chain(lines.iter().skip(at + old.len()).copied())
            .collect();
        Ok(all.join("\n") + "\n")
    }
}

/// Reads every file of the folder, ordered by name.
pub(crate) fn read(folder: &Path) -> Result<Vec<Mistake>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut list = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        parse(&text, &mut list).with_context(|| format!("{}", file.display()))?;
    }
    let mut names = BTreeSet::new();
    for mistake in &list {
        if !names.insert(&mistake.name) {
            bail!("two mistakes are named {}", mistake.name);
        }
        if mistake.test.is_some() == mistake.unseen.is_some() || mistake.edits.is_empty() {
            bail!(
                "{} needs one line \"test\" or \"unseen\", and lines of code",
                mistake.name
            );
        }
    }
    Ok(list)
}

fn parse(text: &str, list: &mut Vec<Mistake>) -> Result<()> {
    let start = list.len();
    for (number, line) in (1..).zip(text.lines()) {
        let mistake = if list.len() > start {
            list.last_mut()
        } else {
            None
        };
        let (sign, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        match (sign, mistake) {
            ("#", _) => {}
            ("=", _) => list.push(Mistake {
                name: rest.trim().to_owned(),
                ..Mistake::default()
            }),
            ("@", Some(mistake)) => mistake.edits.push(Edit {
                file: rest.trim().to_owned(),
                ..Edit::default()
            }),
            (":", Some(mistake)) => match rest.trim().split_once(' ') {
                Some(("test", test)) => {
                    mistake.test = Some(Test::parse(test).with_context(|| {
                        format!("line {number}: model, unit or nesting, and a name")
                    })?);
                }
                Some(("unseen", why)) => mistake.unseen = Some(why.to_owned()),
                _ => bail!("line {number}: \"{line}\" is not understood"),
            },
            (" " | "-" | "+", Some(mistake)) => match mistake.edits.last_mut() {
                // Text before the first file, and empty lines, are comments.
                None => {}
                Some(_) if line.trim().is_empty() => {}
                Some(edit) => {
                    if sign != "+" {
                        edit.old.push(rest.to_owned());
                    }
                    if sign != "-" {
                        edit.new.push(rest.to_owned());
                    }
                }
            },
            (_, mistake)
                if mistake
                    .as_ref()
                    .is_none_or(|mistake| mistake.edits.is_empty()) => {}
            _ => bail!("line {number}: \"{line}\" is not understood"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    const ENTRY: &str = "\
# a comment
= group/name
Why it is a mistake.
: test unit ring::tests::laps
@ ring/writer.rs
     let a = 1;
-    store(Release);
+    store(Relaxed);
";

    fn entry(text: &str) -> Result<Vec<Mistake>> {
        let mut list = Vec::new();
        parse(text, &mut list).map(|()| list)
    }

    #[test]
    fn an_entry_changes_its_lines_wherever_they_are_indented() {
        let list = entry(ENTRY).unwrap();
        let [mistake] = &list[..] else {
            panic!("{list:?}")
        };
        assert_eq!(mistake.name, "group/name");
        assert_eq!(
            mistake.test,
            Some(Test {
                suite: Suite::Unit,
                name: "ring::tests::laps".into()
            })
        );
        let [edit] = &mistake.edits[..] else {
            panic!("{mistake:?}")
        };
        let source = "fn f() {\n        let a = 1;\n        store(Release);\n}\n";
        let changed = edit.apply(source).unwrap();
        assert!(changed.contains("store(Relaxed);") && !changed.contains("Release"));
        assert!(changed.starts_with("fn f() {\n") && changed.ends_with("}\n"));
    }

    #[test]
    fn lines_that_are_missing_or_ambiguous_are_refused() {
        let list = entry(ENTRY).unwrap();
        let edit = &list.first().unwrap().edits.first().unwrap();
        let lines = "let a = 1;\nstore(Release);\n";
        assert!(edit.apply("let a = 1;\n").is_err());
        assert!(edit.apply(&lines.repeat(2)).is_err());
        assert!(edit.apply(lines).is_ok());
    }

    /// In `cargo test`, so that whoever changes a line of the ring learns at once that a mistake
    /// is made in it.
    #[test]
    fn each_mistake_finds_its_lines_in_the_crate() {
        let crate_root = crate::root().join("crates/kymo");
        let mut problems = Vec::new();
        for mistake in read(&crate_root.join("mistakes")).unwrap() {
            let mut changed = BTreeMap::new();
            for edit in &mistake.edits {
                let text = changed.entry(&edit.file).or_insert_with(|| {
                    fs::read_to_string(crate_root.join("src").join(&edit.file)).unwrap_or_default()
                });
                match edit.apply(text) {
                    Ok(new) => *text = new,
                    Err(error) => problems.push(format!("{}: {error}", mistake.name)),
                }
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_test_of_an_unknown_suite_is_refused() {
        let error = entry("= a\n: test system b\n").unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
