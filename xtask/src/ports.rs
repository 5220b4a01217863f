//! `cargo xtask ports`: counts the lines that a user of each port adds to a kernel.
//!
//! A folder under ports/, or one under kernels/ that was made to be copied, has a `port.toml`:
//!
//! ```toml
//! limit = 80                      # of added lines
//! whole = ["kymo_freertos.h"]     # files that a user adds
//! marked = ["example/main.c"]     # files with marked parts
//! named = ["trap.c"]              # files in which a line that names Kymo counts, and marked parts
//! besides = ["kymo_port.c"]       # printed, and not limited: the functions of any port to C
//! ```
//!
//! A marked part stands between two comments, `port: begin` and `port: end`, each in a line of its
//! own. Blank lines and comments do not count. As there are formatters for Rust alone, a line with
//! several statements counts once for each, and none may be longer than 100 columns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::process::{root, run as run_command};

const COLUMNS: usize = 100;

/// `port.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    limit: usize,
    #[serde(default)]
    whole: Vec<String>,
    #[serde(default)]
    marked: Vec<String>,
    #[serde(default)]
    named: Vec<String>,
    #[serde(default)]
    besides: Vec<String>,
}

/// Prints the added lines of each port; an error if one has more than its limit.
pub(crate) fn run() -> Result<()> {
    let mut over = Vec::new();
    println!("{:<14} {:>6} {:>6}  files", "port", "lines", "limit");
    for folder in folders()? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let counted = count(&folder).with_context(|| format!("the port {name}"))?;
        let files: Vec<String> = counted
            .files
            .iter()
            .map(|(file, lines)| format!("{file} {lines}"))
            .collect();
        let (lines, limit) = (counted.lines(), counted.limit);
        println!("{name:<14} {lines:>6} {limit:>6}  {}", files.join(", "));
        for (file, lines) in &counted.besides {
            println!("{:<14} {lines:>6} {:>6}  {file}", "  besides", "");
        }
        if lines > limit {
            over.push(format!("{name} adds {lines} lines, not {limit}"));
        }
    }
    if !over.is_empty() {
        bail!("{}.", over.join("; "));
    }
    Ok(())
}

/// The folders of the ports, sorted.
fn folders() -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for (parent, all) in [("ports", true), ("kernels", false)] {
        let parent = root().join(parent);
        let entries =
            fs::read_dir(&parent).with_context(|| format!("cannot read {}", parent.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && (all || path.join("port.toml").exists()) {
                folders.push(path);
            }
        }
    }
    folders.sort();
    Ok(folders)
}

/// The added lines of a port, by file.
#[derive(Debug)]
struct Counted {
    limit: usize,
    files: Vec<(String, usize)>,
    besides: Vec<(String, usize)>,
}

impl Counted {
    fn lines(&self) -> usize {
        self.files.iter().map(|(_, lines)| lines).sum()
    }
}

fn count(folder: &Path) -> Result<Counted> {
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).with_context(|| format!("cannot read {name}"))
    };
    read("README.md")?;
    let port: Port = toml::from_str(&read("port.toml")?).context("port.toml")?;
    let counted = |names: &[String], which| {
        let lines = |name: &String| {
            let lines = count_file(&folder.join(name), &read(name)?, which);
            Ok((name.clone(), lines.with_context(|| name.clone())?))
        };
        names.iter().map(lines).collect::<Result<Vec<_>>>()
    };
    let mut files = counted(&port.whole, Which::All)?;
    files.extend(counted(&port.marked, Which::Marked)?);
    files.extend(counted(&port.named, Which::Named)?);
    if files.is_empty() {
        bail!("port.toml names no file");
    }
    Ok(Counted {
        limit: port.limit,
        files,
        besides: counted(&port.besides, Which::All)?,
    })
}

/// Which lines of a file count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    Marked,
    /// Those that name Kymo, too.
    Named,
}

fn count_file(path: &Path, text: &str, which: Which) -> Result<usize> {
    let language = Language::of(path)?;
    if language == Language::Rust {
        let mut rustfmt = Command::new("rustfmt");
        run_command(rustfmt.args(["--edition", "2024", "--check"]).arg(path))?;
    }
    count_lines(text, language, which)
}

/// How comments are written, and where statements end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    Rust,
    /// TOML, YAML, CMake, Kconfig, Make: `#` begins a comment.
    Hash,
}

impl Language {
    fn of(path: &Path) -> Result<Language> {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let stem = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(match (&*extension, &*stem) {
            ("c" | "h" | "S" | "ld", _) => Language::C,
            ("rs", _) => Language::Rust,
            ("toml" | "yml" | "conf" | "cmake" | "mk", _)
            | (_, "Kconfig" | "Makefile" | "CMakeLists.txt") => Language::Hash,
            _ => {
                bail!("how comments are written in {stem} is not known: add it to xtask's ports.rs")
            }
        })
    }
}

/// Counts the lines of a text, or of its parts.
fn count_lines(text: &str, language: Language, which: Which) -> Result<usize> {
    let code = without_comments(text, language);
    let has_marks = which != Which::All;
    let (mut count, mut inside, mut parts) = (0, !has_marks, 0);
    for (number, (line, code)) in text.lines().zip(code.lines()).enumerate() {
        let number = number + 1;
        let comment = line.trim_matches(|c: char| c.is_whitespace() || "/*#".contains(c));
        match comment {
            "port: begin" if has_marks && !inside => (inside, parts) = (true, parts + 1),
            "port: end" if has_marks && inside => inside = false,
            "port: begin" | "port: end" => bail!("line {number}: a mark without its other one"),
            _ if code.trim().is_empty() => {}
            _ if !(inside || which == Which::Named && names_kymo(code)) => {}
            _ if line.chars().count() > COLUMNS => {
                bail!("line {number} is longer than {COLUMNS} columns")
            }
            _ => count += statements(code, language).max(1),
        }
    }
    if has_marks && inside || which == Which::Marked && parts == 0 {
        bail!("no `port: begin` and `port: end`");
    }
    Ok(count)
}

fn names_kymo(code: &str) -> bool {
    code.to_lowercase().contains("kymo")
}

/// The statements that end in a line of code: semicolons outside parentheses. Formatters break the
/// lines of Rust.
fn statements(code: &str, language: Language) -> usize {
    if language != Language::C {
        return 1;
    }
    let (mut depth, mut ends) = (0_i32, 0);
    for letter in code.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ';' if depth <= 0 => ends += 1,
            _ => {}
        }
    }
    ends
}

/// The text with each comment replaced by spaces and each text in quotes by `_`, line by line.
fn without_comments(text: &str, language: Language) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (len, is_comment) = match language {
            Language::Hash if first == '#' => (until(rest, "\n"), true),
            Language::C | Language::Rust if rest.starts_with("//") => (until(rest, "\n"), true),
            Language::C | Language::Rust if rest.starts_with("/*") => {
                (2 + behind(&rest[2..], "*/"), true)
            }
            _ if first == '"' => (quoted(rest, '"'), false),
            // In Rust it may be a lifetime.
            Language::C if first == '\'' => (quoted(rest, '\''), false),
            Language::Rust if rest.starts_with("'\"'") => (3, false),
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        let (part, behind) = rest.split_at(len);
        out.extend(part.chars().map(|letter| match letter {
            '\n' => '\n',
            _ if is_comment => ' ',
            _ => '_',
        }));
        rest = behind;
    }
    out
}

fn until(text: &str, end: &str) -> usize {
    text.find(end).unwrap_or(text.len())
}

fn behind(text: &str, end: &str) -> usize {
    text.find(end).map_or(text.len(), |at| at + end.len())
}

/// The length of a text in quotes, with them.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            // A quote that is no string's: it does not reach into the next line.
            '\n' if quote == '\'' => return at,
            _ if letter == quote => return at + letter.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn blank_lines_and_comments_do_not_count() {
        let c =
            "/* a\n * b; */\n\nint x = 1; /* c */ // d\n  /* e */ \nchar *s = \"/* no\";\nint y;\n";
        assert_eq!(count_lines(c, Language::C, Which::All).unwrap(), 3);
        let rust = "//! a\nlet a = '\"'; // b\nfn f<'a>() {}\nlet s = \"// no\";\n";
        assert_eq!(count_lines(rust, Language::Rust, Which::All).unwrap(), 3);
        let toml = "# a\n[dependencies] # b\nkymo = \"# no\"\n";
        assert_eq!(count_lines(toml, Language::Hash, Which::All).unwrap(), 2);
    }

    #[test]
    fn each_statement_of_a_line_in_c_counts() {
        let count = |text| count_lines(text, Language::C, Which::All).unwrap();
        assert_eq!(count("a(); b(); c();\n"), 3);
        assert_eq!(count("for (i = 0; i < 3; i++) f(';', \";;\");\n"), 1);
        let long = format!("int x = {};\n", "1 + ".repeat(30));
        assert!(count_lines(&long, Language::C, Which::All).is_err());
    }

    #[test]
    fn only_marked_parts_count() {
        let text = "int a;\n/* port: begin */\nint b;\n/* c */\n/* port: end */\nint d;\n";
        assert_eq!(count_lines(text, Language::C, Which::Marked).unwrap(), 1);
        let rust = "// port: begin\nfn a() {}\n// port: end\nfn b() {}\n";
        assert_eq!(count_lines(rust, Language::Rust, Which::Marked).unwrap(), 1);
        for wrong in [
            "int a;\n",
            "/* port: begin */\nint b;\n",
            "/* port: end */\n",
            "/* port: begin */\n/* port: begin */\n/* port: end */\n",
        ] {
            assert!(
                count_lines(wrong, Language::C, Which::Marked).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn lines_that_name_kymo_count_beside_marked_parts() {
        let text = "int a;\n  kymo_irq(1); /* kymo */\n/* kymo */\nenum KYMO_X x;\n";
        let marked = "/* port: begin */\nint b;\n/* port: end */\n";
        let count = |text: &str| count_lines(text, Language::C, Which::Named).unwrap();
        assert_eq!(count(text), 2);
        assert_eq!(count(&[text, marked].concat()), 3);
    }

    #[test]
    fn a_port_without_files_or_with_unknown_keys_is_refused() {
        let folder = std::env::temp_dir().join(format!("kymo-ports-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("README.md", "A port.\n");
        write("a.h", "int a;\nint b;\n");
        let counted = |text: &str| {
            write("port.toml", text);
            count(&folder).map(|counted| (counted.lines(), counted.limit))
        };
        let besides = "limit = 1\nwhole = [\"a.h\"]\nbesides = [\"a.h\"]\n";
        assert_eq!(counted(besides).unwrap(), (2, 1));
        for wrong in [
            "limit = 1\n",
            "whole = [\"a.h\"]\n",
            "limit = 1\nall = [\"a.h\"]\n",
            "limit = 1\nwhole = [\"b.h\"]\n",
            "limit = 1\nwhole = [\"README.md\"]\n",
        ] {
            assert!(counted(wrong).is_err(), "{wrong}");
        }
        fs::remove_file(folder.join("README.md")).unwrap();
        assert!(counted("limit = 1\nwhole = [\"a.h\"]\n").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
