//! The text format of `crates/kymo-ctf/tests/data`; see the README there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Marks a position in a metadata text, and is not part of it.
const MARK: char = '‸';
/// Stands for the separator byte of CTF 2 fragments.
const RECORD_SEPARATOR: char = '␞';

/// One case: a header, directives, a body, sections.
#[derive(Debug)]
pub struct Case {
    /// File without extension, and the name: `tsdl/parses/trace-alone`.
    pub name: String,
    /// The tested sections of the specifications: `1:4.1.5`.
    pub sections: Vec<String>,
    /// What it shows.
    pub why: String,
    /// Lines `@name value`.
    pub directives: BTreeMap<String, String>,
    /// The metadata, in files that have nothing else.
    pub body: String,
    /// Parts that begin with `--- title`.
    pub parts: Vec<(String, String)>,
}

/// A metadata text, and the positions at which its error may be reported.
#[derive(Debug)]
pub struct Text {
    /// Without the marks.
    pub text: String,
    /// Lines and columns, from 1.
    pub marks: Vec<(u32, u32)>,
}

impl Text {
    fn new(source: &str) -> Text {
        let (mut text, mut marks) = (String::new(), Vec::new());
        let (mut line, mut column) = (1, 1);
        for c in source.chars() {
            match c {
                MARK => {
                    marks.push((line, column));
                    continue;
                }
                '\n' => (line, column) = (line + 1, 1),
                _ => column += 1,
            }
            text.push(if c == RECORD_SEPARATOR { '\u{1e}' } else { c });
        }
        Text { text, marks }
    }
}

impl Case {
    /// The body as metadata.
    pub fn text(&self) -> Text {
        Text::new(&self.body)
    }

    /// The part with this title, if there is one.
    pub fn part(&self, title: &str) -> Option<&str> {
        self.parts
            .iter()
            .find(|(have, _)| have == title)
            .map(|(_, text)| text.as_str())
    }

    /// The bytes of the metadata `title`; with `hex` after it, given as bytes.
    pub fn metadata(&self, title: &str) -> Option<Vec<u8>> {
        match self.part(title) {
            Some(text) => Some(Text::new(text).text.into_bytes()),
            None => self
                .part(&format!("{title} hex"))
                .map(|text| self.bytes(text)),
        }
    }

    /// The stream files by name.
    pub fn streams(&self) -> Vec<(String, Vec<u8>)> {
        let parts = self
            .parts
            .iter()
            .filter(|(title, _)| title.split(' ').next() == Some("stream"));
        let mut streams: Vec<_> = parts
            .map(|(title, text)| {
                (
                    title.split(' ').nth(1).unwrap_or("stream").to_owned(),
                    self.bytes(text),
                )
            })
            .collect();
        streams.sort();
        streams
    }

    fn bytes(&self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in text.lines() {
            let mut rest = line.trim_start();
            while !rest.is_empty() && !rest.starts_with('#') {
                let (token, after) = match rest.strip_prefix('"').map(|inner| inner.split_once('"'))
                {
                    Some(Some((inner, after))) => {
                        bytes.extend_from_slice(inner.as_bytes());
                        ("", after)
                    }
                    Some(None) => panic!("{}: a string without end: {line}", self.name),
                    None => rest.split_once(' ').unwrap_or((rest, "")),
                };
                if !token.is_empty() && token_bytes(token, &mut bytes).is_none() {
                    panic!("{}: `{token}` is not understood", self.name);
                }
                rest = after.trim_start();
            }
        }
        bytes
    }
}

/// `0a`, `0b00001010`, `le32:10`, `be16:-1`, `0*7` (seven zero bytes).
fn token_bytes(token: &str, out: &mut Vec<u8>) -> Option<()> {
    if let Some(binary) = token.strip_prefix("0b").filter(|binary| binary.len() == 8) {
        out.push(u8::from_str_radix(binary, 2).ok()?);
    } else if let Some((order, number)) = token.split_once(':') {
        let size = order.get(2..)?.parse::<usize>().ok()? / 8;
        let number = match number.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        match order.get(..2)? {
            "le" => out.extend_from_slice(number.to_le_bytes().get(..size)?),
            "be" => out.extend_from_slice(number.to_be_bytes().get(16 - size..)?),
            _ => return None,
        }
    } else if let Some((byte, times)) = token.split_once('*') {
        let byte = u8::from_str_radix(byte, 16).ok()?;
        out.extend(std::iter::repeat_n(byte, times.parse().ok()?));
    } else {
        (token.len() == 2).then_some(())?;
        out.push(u8::from_str_radix(token, 16).ok()?);
    }
    Some(())
}

/// Folder of the data.
pub fn folder() -> PathBuf {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../crates/kymo-ctf/tests/data"
    ))
    .to_owned()
}

/// All cases of streams.
pub fn streams() -> Vec<Case> {
    read(&[
        "streams/fields",
        "streams/records",
        "streams/runs",
        "streams/scopes",
        "streams/ctf-2",
        "streams/random",
    ])
}

/// All cases of the files `tests/data/FILE.txt`.
pub fn read(files: &[&str]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(folder().join(format!("{file}.txt"))).unwrap();
        File::default().read(file, &text, &mut cases);
    }
    let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    names.sort();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1], "there are two cases of this name");
    }
    cases
}

#[derive(Default)]
struct File {
    templates: BTreeMap<String, String>,
    default: String,
}

impl File {
    fn read(mut self, file: &str, text: &str, cases: &mut Vec<Case>) {
        let mut blocks = text.split("\n=== ");
        self.head(blocks.next().unwrap());
        for block in blocks {
            let (header, body) = block.split_once('\n').unwrap_or((block, ""));
            let fields: Vec<&str> = header.split(" | ").collect();
            let [name, sections, why] = fields[..] else {
                panic!("{file}: a header has three fields: {header}")
            };
            let mut case = Case {
                name: format!("{file}/{name}"),
                sections: sections
                    .split([',', ' '])
                    .filter(|section| !section.is_empty())
                    .map(str::to_owned)
                    .collect(),
                why: why.to_owned(),
                directives: BTreeMap::new(),
                body: String::new(),
                parts: Vec::new(),
            };
            let mut body = body;
            while let Some((line, rest)) = body.split_once('\n')
                && let Some((key, value)) = line.split_once(": ")
                && ["with", "fails", "babeltrace2", "ticks"].contains(&key)
            {
                case.directives.insert(key.to_owned(), value.to_owned());
                body = rest;
            }
            let with = case.directives.get("with").unwrap_or(&self.default).clone();
            let mut parts = format!("\n{body}");
            while parts.ends_with("\n\n") {
                parts.pop();
            }
            let mut parts = parts.split("\n--- ");
            let body = parts.next().unwrap().trim_start_matches('\n');
            case.body = self.expand(&with, body);
            for part in parts {
                let (title, text) = part.split_once('\n').unwrap_or((part, ""));
                let text = if title.starts_with("metadata") && !title.ends_with("hex") {
                    let (used, rest) = match text.strip_prefix("with: ") {
                        Some(rest) => rest.split_once('\n').unwrap_or((rest, "")),
                        None => ("", text),
                    };
                    self.expand(used, rest)
                } else {
                    text.to_owned()
                };
                case.parts.push((title.to_owned(), text));
            }
            cases.push(case);
        }
    }

    fn head(&mut self, text: &str) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("default: ") {
                self.default = name.to_owned();
            } else if let Some(name) = line.strip_prefix("template ") {
                let template: Vec<&str> =
                    lines.by_ref().take_while(|line| *line != "end").collect();
                self.templates.insert(name.to_owned(), template.join("\n"));
            } else {
                assert!(line.is_empty() || line.starts_with('#'), "{line}");
            }
        }
    }

    fn expand(&self, template: &str, body: &str) -> String {
        if template.is_empty() {
            return body.to_owned();
        }
        let template = self
            .templates
            .get(template)
            .unwrap_or_else(|| panic!("there is no template `{template}`"));
        template.replace("%%", body.trim_end_matches('\n'))
    }
}
