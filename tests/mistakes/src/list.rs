//! A list of mistakes; crates/kymo/mistakes/README.md describes the format.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A deliberate mistake: an entry of a list.
#[derive(Debug, Default)]
pub struct Mistake {
    /// What comes behind the sign "=".
    pub name: String,
    /// The test that must fail; what it may be is up to the list's program.
    pub test: Option<String>,
    /// Words that a failing step must print.
    pub prints: Option<String>,
    /// Why no test can detect it.
    pub unseen: Option<String>,
    /// The changed lines, of one file or of several.
    pub edits: Vec<Edit>,
}

/// A replacement of lines, ignoring indentation.
#[derive(Debug, Default)]
pub struct Edit {
    /// Below the folder that the list's program chooses.
    pub file: String,
    /// The lines that are there.
    pub old: Vec<String>,
    /// The lines that replace them.
    pub new: Vec<String>,
}

impl Edit {
    /// The text with the new lines. An error unless the old ones are there exactly once.
    pub fn apply(&self, text: &str) -> Result<String> {
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

/// Reads every `.txt` file of the folder, ordered by name.
pub fn read(folder: &Path) -> Result<Vec<Mistake>> {
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
        if mistake.test.is_some() == mistake.unseen.is_some() {
            bail!("{} needs one line \"test\" or \"unseen\"", mistake.name);
        }
        if mistake.test.is_some() && mistake.edits.is_empty() {
            bail!("{} changes nothing", mistake.name);
        }
    }
    Ok(list)
}

/// The mistakes whose lines are not in their files exactly once.
pub fn stale(list: &[Mistake], read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for mistake in list {
        let mut changed = BTreeMap::new();
        for edit in &mistake.edits {
            let text = changed
                .entry(&edit.file)
                .or_insert_with(|| read(&edit.file).unwrap_or_default());
            match edit.apply(text) {
                Ok(new) => *text = new,
                Err(error) => problems.push(format!("{}: {error}", mistake.name)),
            }
        }
    }
    problems
}

/// Adds the entries of a file to the list.
pub fn parse(text: &str, list: &mut Vec<Mistake>) -> Result<()> {
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
                Some(("test", test)) => mistake.test = Some(test.to_owned()),
                Some(("prints", words)) => mistake.prints = Some(words.to_owned()),
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
        assert_eq!(mistake.test.as_deref(), Some("unit ring::tests::laps"));
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
        let stale = |text: Option<&str>| stale(&list, |_| text.map(str::to_owned)).len();
        assert_eq!(
            (stale(Some(lines)), stale(Some("")), stale(None)),
            (0, 1, 1)
        );
    }

    #[test]
    fn a_line_that_is_not_understood_is_refused() {
        for bad in ["= a\n: tests b\n", "= a\n: test b\n@ c\n*d\n"] {
            let error = entry(bad).unwrap_err().to_string();
            assert!(error.contains("is not understood"), "{error}");
        }
    }
}
