//! JSON text sequences: values with their positions.
//!
//! The crate has its own parser because a metadata error needs line and column even if the JSON is
//! well-formed. Among the crates with spans, `json-spanned-value` and `spanned_json_parser` have
//! had no release in years, `jiter` brings a Python interface, and `hifijson` is a lexer that
//! leaves values, positions and limits to its caller, which is most of the code below. `serde_json`
//! has positions for syntax errors only, and silently takes the last of two properties of the same
//! name.

use std::collections::HashSet;

use super::Checked;
use crate::class::wide_int::WideInt;
use crate::error::{MetadataError, Position};

/// The byte before every fragment.
const SEPARATOR: char = '\u{1e}';
/// Limit on the nesting of values: four levels for each supported level of structures, and a
/// margin.
const MAX_NESTING: u32 = 320;

/// A value and its position.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Json,
}

/// A JSON value.
#[derive(Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A number without fraction and exponent.
    Integer(i128),
    /// A number without fraction and exponent, of more than 127 bits.
    Wide(WideInt),
    /// Any other number, and integers of tens of thousands of bits.
    Real(f64),
    Text(String),
    List(Vec<Node>),
    /// Properties in the order of the text, without duplicate names.
    Map(Vec<(Name, Node)>),
}

/// A property's name and its position.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) at: Position,
    pub(super) text: String,
}

impl Node {
    /// The kind of value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Json::Null => "`null`",
            Json::Bool(_) => "a boolean",
            Json::Integer(_) | Json::Wide(_) => "an integer",
            Json::Real(_) => "a number with a fraction or an exponent",
            Json::Text(_) => "a string",
            Json::List(_) => "an array",
            Json::Map(_) => "an object",
        }
    }
}

/// Parser of the fragments of a metadata text.
#[derive(Debug)]
pub(super) struct Sequence<'a> {
    rest: &'a str,
    at: Position,
}

impl<'a> Sequence<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Sequence {
            rest: text,
            at: Position::START,
        }
    }

    /// The next fragment; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Checked<Option<Node>> {
        if self.at == Position::START {
            // Skip a byte order mark from an editor.
            if self.rest.starts_with('\u{feff}') {
                self.step();
            }
            self.blank();
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        if !self.rest.starts_with(SEPARATOR) {
            return self.refuse(
                "a fragment of CTF 2 begins with the separator 0x1e, which is missing here",
            );
        }
        // Several separators count as one.
        while self.rest.starts_with(SEPARATOR) {
            self.step();
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.blank();
        let node = self.value(0)?;
        self.blank();
        if !self.rest.is_empty() && !self.rest.starts_with(SEPARATOR) {
            return self
                .refuse("the fragment should end here: after its value comes the separator 0x1e of the next one, or the end");
        }
        Ok(Some(node))
    }

    fn refuse<T>(&self, message: &str) -> Checked<T> {
        Err(MetadataError::new(self.at, message))
    }

    /// An error because `what` is expected next; at the fragment's end, the message reports it
    /// missing.
    fn expected<T>(&self, what: &str, inside: &str) -> Checked<T> {
        match self.rest.chars().next() {
            None => self.refuse(&format!("the text ends {inside}: {what} is missing")),
            Some(SEPARATOR) => self.refuse(&format!(
                "the fragment ends {inside}, with the separator of the next one: {what} is missing"
            )),
            Some(c) => self.refuse(&format!(
                "{what} should come here, not `{}`",
                c.escape_debug()
            )),
        }
    }

    /// Skips one character.
    fn step(&mut self) {
        let mut chars = self.rest.chars();
        match chars.next() {
            Some('\n') => {
                self.at = Position {
                    line: self.at.line.saturating_add(1),
                    column: 1,
                }
            }
            Some(_) => self.at.column = self.at.column.saturating_add(1),
            None => {}
        }
        self.rest = chars.as_str();
    }

    fn blank(&mut self) {
        while self.rest.starts_with([' ', '\t', '\n', '\r']) {
            self.step();
        }
    }

    /// Skips `c` if it is next; returns whether it was.
    fn takes(&mut self, c: char) -> bool {
        let found = self.rest.starts_with(c);
        if found {
            self.step();
        }
        found
    }

    fn value(&mut self, nesting: u32) -> Checked<Node> {
        let at = self.at;
        if nesting >= MAX_NESTING {
            return self.refuse(&format!(
                "values are nested more than {MAX_NESTING} deep, which is not supported"
            ));
        }
        let value = match self.rest.chars().next() {
            Some('{') => self.map(nesting)?,
            Some('[') => self.list(nesting)?,
            Some('"') => Json::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            Some('a'..='z' | 'A'..='Z') => self.word()?,
            _ => return self.expected("a JSON value", "here"),
        };
        Ok(Node { at, value })
    }

    fn map(&mut self, nesting: u32) -> Checked<Json> {
        const INSIDE: &str = "inside an object";
        let mut properties = Vec::new();
        self.step();
        self.blank();
        if self.takes('}') {
            return Ok(Json::Map(properties));
        }
        loop {
            self.blank();
            let at = self.at;
            if !self.rest.starts_with('"') {
                return self.expected("the name of a property, a string in double quotes,", INSIDE);
            }
            let name = Name {
                at,
                text: self.text()?,
            };
            self.blank();
            if !self.takes(':') {
                return self.expected("`:`", INSIDE);
            }
            self.blank();
            properties.push((name, self.value(nesting + 1)?));
            self.blank();
            if self.takes('}') {
                break;
            }
            if !self.takes(',') {
                return self.expected("`,` or `}`", INSIDE);
            }
        }
        let mut seen = HashSet::new();
        if let Some((name, _)) = properties
            .iter()
            .find(|(name, _)| !seen.insert(name.text.as_str()))
        {
            return Err(MetadataError::new(
                name.at,
                format!("the property `{}` is given twice", name.text),
            ));
        }
        Ok(Json::Map(properties))
    }

    fn list(&mut self, nesting: u32) -> Checked<Json> {
        let mut elements = Vec::new();
        self.step();
        self.blank();
        if self.takes(']') {
            return Ok(Json::List(elements));
        }
        loop {
            self.blank();
            elements.push(self.value(nesting + 1)?);
            self.blank();
            if self.takes(']') {
                return Ok(Json::List(elements));
            }
            if !self.takes(',') {
                return self.expected("`,` or `]`", "inside an array");
            }
        }
    }

    fn word(&mut self) -> Checked<Json> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        let word = self.rest.get(..end).unwrap_or("");
        let value = match word {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            _ => {
                let word: String = word.chars().take(40).collect();
                return self.refuse(&format!("`{word}` is not a JSON value"));
            }
        };
        self.skip(end);
        Ok(value)
    }

    /// Skips `bytes` of ASCII without line ends.
    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
        self.at.column = self
            .at
            .column
            .saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    fn number(&mut self) -> Checked<Json> {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| {
            bytes.get(from..).map_or(0, |rest| {
                rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
            })
        };
        let sign = usize::from(bytes.first() == Some(&b'-'));
        let whole = digits(sign);
        let mut end = sign + whole;
        if whole == 0 || (whole > 1 && bytes.get(sign) == Some(&b'0')) {
            return self.refuse(
                "a number is digits, of which only a single one may be a 0 at the beginning",
            );
        }
        let mut integer = true;
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            if fraction == 0 {
                return self.refuse("a number's decimal point needs digits behind it");
            }
            (integer, end) = (false, end + 1 + fraction);
        }
        if let Some(b'e' | b'E') = bytes.get(end) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent == 0 {
                return self.refuse("a number's exponent needs digits");
            }
            (integer, end) = (false, end + 1 + sign + exponent);
        }
        let text = self.rest.get(..end).unwrap_or("");
        let number = || match text.parse() {
            Ok(value) => Some(Json::Integer(value)),
            Err(_) => WideInt::from_decimal(text).map(Json::Wide),
        };
        let number = if integer { number() } else { None };
        let value = number.unwrap_or_else(|| Json::Real(text.parse().unwrap_or(f64::NAN)));
        self.skip(end);
        Ok(value)
    }

    fn text(&mut self) -> Checked<String> {
        let mut text = String::new();
        self.step();
        loop {
            match self.rest.chars().next() {
                Some('"') => {
                    self.step();
                    return Ok(text);
                }
                Some('\\') => text.push(self.escape()?),
                None | Some(SEPARATOR) => return self.expected("`\"`", "inside a string"),
                Some(c) if c < ' ' => {
                    return self.refuse("a string cannot contain a control character or the end of a line but as an escape");
                }
                Some(c) => {
                    text.push(c);
                    self.step();
                }
            }
        }
    }

    fn escape(&mut self) -> Checked<char> {
        let second = self.rest.chars().nth(1);
        let (character, length) = match second {
            Some(c @ ('"' | '\\' | '/')) => (Some(c), 2),
            Some('b') => (Some('\u{8}'), 2),
            Some('f') => (Some('\u{c}'), 2),
            Some('n') => (Some('\n'), 2),
            Some('r') => (Some('\r'), 2),
            Some('t') => (Some('\t'), 2),
            Some('u') => match self.unit(0) {
                Some(high @ 0xd800..=0xdbff) => match self.unit(6) {
                    Some(low @ 0xdc00..=0xdfff) => (
                        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)),
                        12,
                    ),
                    _ => {
                        return self.refuse(
                            "this escape is half a surrogate pair, without the other half",
                        );
                    }
                },
                Some(0xdc00..=0xdfff) => {
                    return self.refuse(
                        "this escape is the second half of a surrogate pair, without the first",
                    );
                }
                Some(unit) => (char::from_u32(unit), 6),
                None => (None, 0),
            },
            _ => (None, 0),
        };
        let Some(character) = character else {
            return self.refuse("this is no escape of JSON");
        };
        self.skip(length);
        Ok(character)
    }

    /// The UTF-16 unit of the escape `\uXXXX` at `from` bytes ahead.
    fn unit(&self, from: usize) -> Option<u32> {
        let digits = self.rest.get(from..from + 6)?.strip_prefix("\\u")?;
        let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if all_hex {
            u32::from_str_radix(digits, 16).ok()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Checked<Vec<Node>> {
        let mut sequence = Sequence::new(text);
        let mut nodes = Vec::new();
        while let Some(node) = sequence.next()? {
            nodes.push(node);
        }
        Ok(nodes)
    }

    #[test]
    fn values_know_their_places() {
        let nodes = all("\u{1e}{\"é\": [1,\r\n  -2.5e1]}\n\u{1e}\u{1e} 7").unwrap();
        let Json::Map(properties) = &nodes[0].value else {
            panic!("{nodes:?}")
        };
        assert_eq!((nodes[0].at.line, nodes[0].at.column), (1, 2));
        let (name, list) = &properties[0];
        assert_eq!(
            (name.text.as_str(), name.at.column, list.at.column),
            ("é", 3, 8)
        );
        let Json::List(elements) = &list.value else {
            panic!("{list:?}")
        };
        assert!(matches!(elements[0].value, Json::Integer(1)));
        assert!(matches!(elements[1].value, Json::Real(real) if real == -25.0));
        assert_eq!((elements[1].at.line, elements[1].at.column), (2, 3));
        assert_eq!((nodes[1].at.line, nodes[1].at.column), (3, 4));
    }

    #[test]
    fn every_cut_is_an_error_with_a_place() {
        let text = "\u{1e}{\"a\": [true, null, \"\\ud83d\\ude42\\n\", -0.5E+2], \"b\": {}}";
        assert!(all(text).is_ok());
        for end in 2..text.len() {
            let error = all(&text[..end]).unwrap_err();
            assert_eq!(error.position.line, 1, "{end}: {error}");
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        for open in ["[", "{\"a\":"] {
            let error = all(&format!("\u{1e}{}", open.repeat(1_000_000))).unwrap_err();
            assert!(error.message.contains("nested"), "{error}");
        }
    }

    #[test]
    fn integers_are_exact_until_they_are_too_large_for_anything() {
        let nodes =
            all("\u{1e}[170141183460469231731687303715884105728, -1606938044258990275541962092341162602522202993782]").unwrap();
        let Json::List(numbers) = &nodes[0].value else {
            panic!("{nodes:?}")
        };
        let text = |node: &Node| {
            if let Json::Wide(number) = &node.value {
                number.to_string()
            } else {
                format!("{node:?}")
            }
        };
        assert_eq!(text(&numbers[0]), "170141183460469231731687303715884105728");
        assert_eq!(
            text(&numbers[1]),
            "-1606938044258990275541962092341162602522202993782"
        );
        let nodes = all(&format!("\u{1e}{}", "9".repeat(30_000))).unwrap();
        assert!(matches!(nodes[0].value, Json::Real(_)));
    }

    #[test]
    fn only_separators_are_between_fragments() {
        for text in [
            "{}",
            "\u{1e}{} {}",
            "\u{1e}{},",
            "\u{1e}\n\u{1e}{}",
            "x\u{1e}{}",
        ] {
            assert!(all(text).is_err(), "{text:?}");
        }
        for (text, count) in [
            ("", 0),
            ("\u{1e}", 0),
            ("\u{feff}\r\n\u{1e}{}\r\n\u{1e}", 1),
        ] {
            assert_eq!(all(text).unwrap().len(), count, "{text:?}");
        }
    }
}
