//! Text to tokens.
//!
//! Keywords are ordinary names here: TSDL allows names in many places where no keyword can occur,
//! so the parser decides.

use crate::error::{MetadataError, Position};

/// A token and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) position: Position,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or keyword.
    Name(String),
    /// A quoted string, escapes resolved.
    Text(String),
    /// An integer constant without sign.
    Number(u64),
    /// Punctuation.
    Mark(&'static str),
    /// The end of the text.
    End,
}

impl TokenKind {
    /// The token as messages name it.
    pub(crate) fn describe(&self) -> String {
        match self {
            TokenKind::Name(name) => format!("`{name}`"),
            TokenKind::Text(text) => format!("the string {text:?}"),
            TokenKind::Number(number) => format!("the number {number}"),
            TokenKind::Mark(mark) => format!("`{mark}`"),
            TokenKind::End => "the end of the metadata".to_owned(),
        }
    }
}

const MARKS: [&str; 19] = [
    "...", ":=", "->", "{", "}", "(", ")", "[", "]", "<", ">", "=", ";", ",", ".", "-", "+", ":",
    "*",
];

/// Splits a whole metadata text into tokens; the last is always [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, MetadataError> {
    let mut lexer = Lexer {
        rest: text,
        position: Position::START,
    };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token.kind == TokenKind::End;
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

/// White space in C, but not for [`char::is_ascii_whitespace`].
const VERTICAL_TAB: char = '\u{b}';

struct Lexer<'a> {
    rest: &'a str,
    position: Position,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token, MetadataError> {
        self.skip_blank()?;
        let position = self.position;
        let kind = match self.peek() {
            None => TokenKind::End,
            Some('"') => self.text()?,
            Some('\'') => self.character()?,
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_ascii_alphabetic() || c == '_' || self.at_universal_name() => {
                let name = self.identifier()?;
                // Wide strings and characters are equal to plain ones.
                match self.peek() {
                    Some('"') if name == "L" => self.text()?,
                    Some('\'') if name == "L" => self.character()?,
                    _ => TokenKind::Name(name),
                }
            }
            Some(c) => self.mark().ok_or_else(|| {
                MetadataError::new(position, format!("the character {c:?} is not part of TSDL"))
            })?,
        };
        Ok(Token { kind, position })
    }

    /// Whether `\u` or `\U` is next, which is part of an identifier (CTF 1.8.3, appendix C.1.3).
    fn at_universal_name(&self) -> bool {
        self.rest.starts_with("\\u") || self.rest.starts_with("\\U")
    }

    fn identifier(&mut self) -> Result<String, MetadataError> {
        let mut name = String::new();
        loop {
            name += &self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            if !self.at_universal_name() {
                return Ok(name);
            }
            let position = self.position;
            self.bump();
            name += &String::from_utf8_lossy(&self.escape(position)?);
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        if c == '\n' {
            self.position.line = self.position.line.saturating_add(1);
            self.position.column = 1;
        } else {
            self.position.column = self.position.column.saturating_add(1);
        }
        Some(c)
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek().filter(|&c| accept(c)) {
            taken.push(c);
            self.bump();
        }
        taken
    }

    fn skip_blank(&mut self) -> Result<(), MetadataError> {
        loop {
            if self.rest.starts_with("/*") {
                let start = self.position;
                self.bump();
                self.bump();
                while !self.rest.starts_with("*/") {
                    if self.bump().is_none() {
                        return Err(MetadataError::new(
                            start,
                            "this comment is never closed with `*/`",
                        ));
                    }
                }
                self.bump();
                self.bump();
            } else if self.rest.starts_with("//") {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.bump();
                }
            } else if self
                .peek()
                .is_some_and(|c| c.is_ascii_whitespace() || c == VERTICAL_TAB)
            {
                self.bump();
            } else {
                return Ok(());
            }
        }
    }

    fn mark(&mut self) -> Option<TokenKind> {
        let mark = MARKS
            .iter()
            .filter(|mark| self.rest.starts_with(**mark))
            .max_by_key(|mark| mark.len())?;
        for _ in 0..mark.len() {
            self.bump();
        }
        Some(TokenKind::Mark(mark))
    }

    fn number(&mut self) -> Result<TokenKind, MetadataError> {
        let position = self.position;
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
        let suffix = text.get(digits.len()..).unwrap_or_default();
        let suffix = suffix
            .strip_prefix(['u', 'U'])
            .or(suffix.strip_suffix(['u', 'U']))
            .unwrap_or(suffix);
        let known = ["", "l", "L", "ll", "LL"].contains(&suffix);
        let parsed = if !known {
            "".parse()
        } else if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16)
        } else if let Some(bits) = digits.strip_prefix("0b").or(digits.strip_prefix("0B")) {
            // Not of C99, but of its compilers.
            u64::from_str_radix(bits, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        parsed.map(TokenKind::Number).map_err(|_| {
            MetadataError::new(
                position,
                format!("`{text}` is not an integer constant of at most 64 bits"),
            )
        })
    }

    /// A character constant, which is a number.
    fn character(&mut self) -> Result<TokenKind, MetadataError> {
        let start = self.position;
        let mut bytes = Vec::new();
        self.quoted('\'', &mut bytes).ok_or_else(|| {
            MetadataError::new(
                start,
                "this character constant is not closed with `'` on its line",
            )
        })??;
        match std::str::from_utf8(&bytes)
            .ok()
            .map(|text| (text.chars().next(), text.chars().count()))
        {
            Some((Some(c), 1)) => Ok(TokenKind::Number(u64::from(u32::from(c)))),
            None if bytes.len() == 1 => Ok(TokenKind::Number(
                bytes.first().copied().map_or(0, u64::from),
            )),
            _ => Err(MetadataError::new(
                start,
                "a character constant has one character",
            )),
        }
    }

    /// The text between two quotes, the first of which is next; `None` if the second is missing.
    fn quoted(&mut self, quote: char, bytes: &mut Vec<u8>) -> Option<Result<(), MetadataError>> {
        self.bump();
        loop {
            let position = self.position;
            match self.bump()? {
                '\n' => return None,
                '\\' => match self.escape(position) {
                    Ok(escaped) => bytes.extend(escaped),
                    Err(error) => return Some(Err(error)),
                },
                c if c == quote => return Some(Ok(())),
                c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn text(&mut self) -> Result<TokenKind, MetadataError> {
        let start = self.position;
        let mut bytes = Vec::new();
        self.quoted('"', &mut bytes).ok_or_else(|| {
            MetadataError::new(start, "this string is not closed with `\"` on its line")
        })??;
        // Octal and hexadecimal escapes give bytes. Those that make no UTF-8 cannot be shown.
        Ok(TokenKind::Text(
            String::from_utf8_lossy(&bytes).into_owned(),
        ))
    }

    fn escape(&mut self, position: Position) -> Result<Vec<u8>, MetadataError> {
        let bad = || MetadataError::new(position, "this escape sequence is not known");
        let byte = match self.bump().ok_or_else(bad)? {
            c @ ('u' | 'U') => {
                let mut digits = String::new();
                for _ in 0..if c == 'u' { 4 } else { 8 } {
                    digits.extend(self.bump());
                }
                let c = u32::from_str_radix(&digits, 16)
                    .ok()
                    .and_then(char::from_u32)
                    .ok_or_else(bad)?;
                return Ok(c.encode_utf8(&mut [0; 4]).as_bytes().to_vec());
            }
            'n' => b'\n',
            't' => b'\t',
            'r' => b'\r',
            'a' => 7,
            'b' => 8,
            'v' => 11,
            'f' => 12,
            c @ ('"' | '\\' | '\'' | '?') => c as u8,
            'x' => {
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                low_byte(&digits, 16).ok_or_else(bad)?
            }
            c @ '0'..='7' => {
                let mut digits = c.to_string();
                while digits.len() < 3
                    && let Some(c @ '0'..='7') = self.peek()
                {
                    digits.push(c);
                    self.bump();
                }
                low_byte(&digits, 8).ok_or_else(bad)?
            }
            _ => return Err(bad()),
        };
        Ok(vec![byte])
    }
}

/// The byte that an escape gives. C has octal ones of up to three digits and hexadecimal ones of any
/// number, of which compilers keep the low byte. `None` without a digit.
fn low_byte(digits: &str, radix: u8) -> Option<u8> {
    let values = digits
        .chars()
        .filter_map(|digit| u8::try_from(digit.to_digit(radix.into())?).ok());
    values.reduce(|byte, digit| byte.wrapping_mul(radix).wrapping_add(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).unwrap().into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn splits_names_numbers_strings_and_marks() {
        use TokenKind::*;
        assert_eq!(
            kinds("a:=0x1F ... 017 12ULL\"b\\x41\\n\" // c\n/* d */;"),
            [
                Name("a".into()),
                Mark(":="),
                Number(31),
                Mark("..."),
                Number(15),
                Number(12),
                Text("bA\n".into()),
                Mark(";"),
                End
            ]
        );
    }

    #[test]
    fn characters_are_numbers_and_wide_strings_are_strings() {
        use TokenKind::*;
        assert_eq!(
            kinds(r#"'a' '\n' L'é' '\xff' L"b\u00e9""#),
            [
                Number(97),
                Number(10),
                Number(233),
                Number(255),
                Text("bé".into()),
                End
            ]
        );
        assert_eq!(
            kinds("1u 2LL 3ull 4LU"),
            [Number(1), Number(2), Number(3), Number(4), End]
        );
    }

    #[test]
    fn escapes_give_the_low_byte_of_their_digits() {
        let text = |text: &str| TokenKind::Text(text.into());
        assert_eq!(
            kinds(r#""\x00000041" "\x141" "\501" "\1012" "\xff""#),
            [
                text("A"),
                text("A"),
                text("A"),
                text("A2"),
                text("\u{fffd}"),
                TokenKind::End
            ]
        );
    }

    #[test]
    fn counts_lines_and_columns_from_one() {
        let tokens = tokens("a\n  é".trim_end_matches('é')).unwrap();
        assert_eq!(tokens[0].position, Position { line: 1, column: 1 });
        let error = super::tokens("a\n  é").unwrap_err();
        assert_eq!(error.position, Position { line: 2, column: 3 });
    }

    #[test]
    fn refuses_what_never_ends() {
        for text in [
            "/* a",
            "\"a",
            "\"a\n\"",
            "'a",
            "''",
            "'ab'",
            "L\"a",
            "0x",
            "99999999999999999999",
            "1uu",
            "08",
            "\"\\q\"",
            "\"\\uD800\"",
        ] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
