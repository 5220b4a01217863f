//! The parser's position among the tokens: the next token, errors for unexpected ones, and the open
//! braces.

use super::ast::At;
use super::lexer::{Token, TokenKind, tokens};
use crate::error::{MetadataError, Position};

pub(super) type Parsed<T> = Result<T, MetadataError>;

/// The tokens and the position among them. The grammar is in [`super::parser`].
pub(super) struct Parser {
    tokens: Vec<Token>,
    pub(super) next: usize,
    /// Depth of nested types or parentheses.
    pub(super) nesting: u32,
    /// Positions of the open braces, innermost last.
    open: Vec<Position>,
}

impl Parser {
    pub(super) fn new(text: &str) -> Parsed<Parser> {
        Ok(Parser {
            tokens: tokens(text)?,
            next: 0,
            nesting: 0,
            open: Vec::new(),
        })
    }

    pub(super) fn token(&self) -> &TokenKind {
        self.ahead(0)
    }

    pub(super) fn ahead(&self, count: usize) -> &TokenKind {
        self.tokens
            .get(self.next + count)
            .map_or(&TokenKind::End, |token| &token.kind)
    }

    pub(super) fn position(&self) -> Position {
        self.tokens
            .get(self.next)
            .or(self.tokens.last())
            .map_or(Position::START, |token| token.position)
    }

    pub(super) fn at_end(&self) -> bool {
        *self.token() == TokenKind::End
    }

    pub(super) fn at<T>(&self, value: T) -> At<T> {
        At {
            position: self.position(),
            value,
        }
    }

    pub(super) fn is(&self, mark: &str) -> bool {
        matches!(self.token(), TokenKind::Mark(found) if *found == mark)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.token(), TokenKind::Name(found) if found == word)
    }

    pub(super) fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.next += usize::from(found);
        found
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{mark}`")))
    }

    pub(super) fn unexpected(&self, wanted: &str) -> MetadataError {
        let found = self.token().describe();
        let at = self.position();
        let before = self
            .next
            .checked_sub(1)
            .and_then(|last| self.tokens.get(last))
            .map(|token| token.position.line);
        // A missing token usually belongs at the end of the previous line.
        let hint = match before.filter(|line| wanted == "`;`" && *line < at.line) {
            Some(line) => format!("; it is missing at the end of line {line}"),
            None => String::new(),
        };
        MetadataError::new(at, format!("expected {wanted}, found {found}{hint}"))
    }

    /// Skips an opening brace if it is next.
    pub(super) fn eat_opening(&mut self) -> bool {
        let position = self.position();
        let found = self.eat("{");
        if found {
            self.open.push(position);
        }
        found
    }

    pub(super) fn expect_opening(&mut self) -> Parsed<()> {
        if self.eat_opening() {
            Ok(())
        } else {
            Err(self.unexpected("`{`"))
        }
    }

    /// Skips a closing brace if it is next. The end of the text is an error.
    pub(super) fn eat_closing(&mut self) -> Parsed<bool> {
        if self.at_end() {
            return self.refuse(&format!(
                "expected `}}`, found the end of the metadata; {}",
                self.innermost()
            ));
        }
        let found = self.eat("}");
        if found {
            self.open.pop();
        }
        Ok(found)
    }

    pub(super) fn innermost(&self) -> String {
        let line = self.open.last().map_or(1, |open| open.line);
        format!("the `{{` of line {line} is not closed before it")
    }

    pub(super) fn refuse<T>(&self, message: &str) -> Parsed<T> {
        Err(MetadataError::new(self.position(), message))
    }

    pub(super) fn name(&mut self, wanted: &str) -> Parsed<At<String>> {
        match self.token().clone() {
            TokenKind::Name(name) => {
                let name = self.at(name);
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }
}
