//! Tokens to syntax tree.

use super::ast::{
    Assignment, At, Declaration, Declarator, Entry, Enumerator, Expression, Item, Length, Path,
    Statement, TypeSpec,
};
use super::cursor::{Parsed, Parser};
use super::lexer::TokenKind;
use crate::error::MetadataError;

/// Limit on nested types, so that no text can exhaust the stack.
const MAX_NESTING: u32 = 48;

/// Words of C's type names. They name types only through aliases, and several may form a name.
pub(crate) const C_TYPE_WORDS: [&str; 12] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// Words that cannot be names of fields and types (CTF 1.8.3, appendix C.1.2). They can be labels
/// and names of attributes.
const KEYWORDS: [&str; 28] = [
    "align",
    "callsite",
    "const",
    "char",
    "clock",
    "double",
    "enum",
    "env",
    "event",
    "floating_point",
    "float",
    "integer",
    "int",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// Words that begin a type other than an alias.
const TYPE_CLASSES: [&str; 6] = [
    "integer",
    "floating_point",
    "string",
    "enum",
    "struct",
    "variant",
];

/// The top-level blocks.
const BLOCKS: [&str; 6] = ["trace", "env", "clock", "stream", "event", "callsite"];

/// Whether a word cannot be the name of a field.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

fn keyword(name: &At<String>, of: &str) -> MetadataError {
    MetadataError::new(
        name.position,
        format!(
            "`{}` is a keyword, so it cannot be the name of {of}",
            name.value
        ),
    )
}

/// Reads a whole metadata text.
pub(crate) fn parse(text: &str) -> Result<Vec<Item>, MetadataError> {
    let mut parser = Parser::new(text)?;
    let mut items = Vec::new();
    while !parser.at_end() {
        if !parser.eat(";") {
            parser.item(&mut items)?;
        }
    }
    Ok(items)
}

/// The type before declarators.
struct Specifiers {
    of: At<TypeSpec>,
    /// Whether the declarators declare type names.
    typedef: bool,
}

/// A declarator without its bits.
struct Direct {
    name: At<String>,
    stars: usize,
    dimensions: Vec<At<Length>>,
}

/// What declarators name. Only fields can be bit-fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Fields,
    Types,
}

/// Whether this type specifier declares a named type.
fn is_named_body(of: &TypeSpec) -> bool {
    matches!(
        of,
        TypeSpec::Struct {
            name: Some(_),
            body: Some(_),
            ..
        } | TypeSpec::Enum {
            name: Some(_),
            body: Some(_),
            ..
        } | TypeSpec::Variant {
            name: Some(_),
            body: Some(_),
            ..
        }
    )
}

/// Whether all `words` are C type words.
fn is_c_type(words: &str) -> bool {
    words.split(' ').all(|word| C_TYPE_WORDS.contains(&word))
}

impl Parser {
    /// Refuses a block in the wrong place; usually a brace is missing before it.
    fn refuse_block(&self, name: &At<String>) -> Parsed<()> {
        if !self.is("{") || !BLOCKS.contains(&name.value.as_str()) {
            return Ok(());
        }
        let message = format!(
            "a block `{}` cannot be here; {}",
            name.value,
            self.innermost()
        );
        Err(MetadataError::new(name.position, message))
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let position = self.position();
        let word = match self.token() {
            TokenKind::Name(word) => word.as_str(),
            _ => return Err(self.unexpected("a block or a declaration")),
        };
        let block: fn(At<Vec<Statement>>) -> Item = match word {
            "trace" => Item::Trace,
            "env" => Item::Env,
            "clock" => Item::Clock,
            "stream" => Item::Stream,
            "event" => Item::Event,
            "callsite" => |_| Item::Callsite,
            _ => {
                let mut declarations = Vec::new();
                self.declaration(&mut declarations)?;
                items.extend(declarations.into_iter().map(Item::Declaration));
                return Ok(());
            }
        };
        self.next += 1;
        let value = self.block()?;
        self.expect(";")?;
        items.push(block(At { position, value }));
        Ok(())
    }

    fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.expect_opening()?;
        let mut statements = Vec::new();
        while !self.eat_closing()? {
            if self.eat(";") {
                continue;
            }
            if self.starts_declaration() {
                let mut declarations = Vec::new();
                self.declaration(&mut declarations)?;
                statements.extend(declarations.into_iter().map(Statement::Declaration));
                continue;
            }
            let name = self.dotted_name("the name of an attribute")?;
            self.refuse_block(&name)?;
            if self.eat(":=") {
                let of = self.type_spec()?;
                statements.push(Statement::AssignType { name, of });
            } else {
                self.expect("=")?;
                if self.starts_type() {
                    return self.refuse(&format!(
                        "the type of `{}` must be given by `:=`, not by `=`",
                        name.value
                    ));
                }
                let value = self.expression()?;
                statements.push(Statement::Assign(Assignment { name, value }));
            }
            self.expect(";")?;
        }
        Ok(statements)
    }

    /// Whether a type begins here, rather than a value: `struct name` and `string {`, but not
    /// `string;`, as an attribute's value may be any word.
    fn starts_type(&self) -> bool {
        let is_class =
            matches!(self.token(), TokenKind::Name(word) if TYPE_CLASSES.contains(&word.as_str()));
        is_class && !matches!(self.ahead(1), TokenKind::Mark(";" | "." | "->"))
    }

    /// Whether a declaration begins here, rather than an assignment to an attribute of that name.
    fn starts_declaration(&self) -> bool {
        const WORDS: [&str; 9] = [
            "typealias",
            "typedef",
            "struct",
            "enum",
            "variant",
            "const",
            "integer",
            "floating_point",
            "string",
        ];
        let TokenKind::Name(word) = self.token() else {
            return false;
        };
        let begins = WORDS.contains(&word.as_str())
            || is_c_type(word)
            || matches!(self.ahead(1), TokenKind::Name(next) if next == "typedef");
        begins && !matches!(self.ahead(1), TokenKind::Mark("=" | ":=" | "." | "->"))
    }

    fn declaration(&mut self, out: &mut Vec<Declaration>) -> Parsed<()> {
        if self.eat_word("typealias") {
            out.push(self.typealias()?);
            return self.expect(";");
        }
        // A type alone declares nothing.
        let unexpected = self.unexpected("a block or a declaration");
        let Specifiers { of, typedef } = self.specifiers()?;
        if typedef {
            let names = self.declarators(Names::Types)?;
            out.push(Declaration::Alias { of, names });
            return self.expect(";");
        }
        if !matches!(
            of.value,
            TypeSpec::Struct { .. } | TypeSpec::Enum { .. } | TypeSpec::Variant { .. }
        ) {
            return Err(unexpected);
        }
        if !is_named_body(&of.value) {
            return Err(MetadataError::new(
                of.position,
                "a declaration of a type needs a name and a body",
            ));
        }
        out.push(Declaration::Named(of));
        // Tracers leave the semicolon out, and nothing else can be meant.
        match self.token() {
            TokenKind::Name(_) | TokenKind::Mark("}") | TokenKind::End => Ok(()),
            _ => self.expect(";"),
        }
    }

    /// Parses a declaration after `typealias`: a type, possibly a pointer or array, and its new
    /// names.
    fn typealias(&mut self) -> Parsed<Declaration> {
        let of = self.type_spec()?;
        let stars = self.stars();
        let dimensions = self.dimensions()?;
        self.expect(":=")?;
        let mut names = Vec::new();
        loop {
            names.push(Declarator {
                name: self.alias_name()?,
                bits: None,
                stars,
                dimensions: dimensions.clone(),
            });
            if !self.eat(",") {
                return Ok(Declaration::Alias { of, names });
            }
        }
    }

    /// Parses a name that a `typealias` gives: `page`, `unsigned int`, `struct page *`.
    fn alias_name(&mut self) -> Parsed<At<String>> {
        while self.eat_word("const") {}
        let tagged = ["struct", "enum", "variant"]
            .into_iter()
            .find(|word| self.eat_word(word));
        let mut name = self.type_name()?;
        if let Some(word) = tagged {
            name.value = format!("{word} {}", name.value);
        }
        for _ in 0..self.stars() {
            name.value.push_str(" *");
        }
        Ok(name)
    }

    /// Parses a type with `const` and `typedef`, which C allows anywhere among the words of a type.
    fn specifiers(&mut self) -> Parsed<Specifiers> {
        let mut typedef = self.typedef_or_const();
        let mut of = self.type_spec()?;
        loop {
            if self.typedef_or_const() {
                typedef = true;
            } else if let (TypeSpec::Alias(words), TokenKind::Name(word)) =
                (&mut of.value, self.token().clone())
                && is_c_type(words)
                && C_TYPE_WORDS.contains(&word.as_str())
            {
                // `unsigned typedef int name;`
                *words = format!("{words} {word}");
                self.next += 1;
            } else {
                return Ok(Specifiers { of, typedef });
            }
        }
    }

    /// Skips any `typedef` and `const` here; returns whether there was a `typedef`.
    fn typedef_or_const(&mut self) -> bool {
        let mut typedef = false;
        loop {
            if self.eat_word("typedef") {
                typedef = true;
            } else if !self.eat_word("const") {
                return typedef;
            }
        }
    }

    /// Parses the name of an alias: one name, or several C type words.
    fn type_name(&mut self) -> Parsed<At<String>> {
        while self.eat_word("const") {}
        let mut name = self.name("the name of a type")?;
        if C_TYPE_WORDS.contains(&name.value.as_str()) {
            while let TokenKind::Name(word) = self.token()
                && C_TYPE_WORDS.contains(&word.as_str())
            {
                name.value = format!("{} {word}", name.value);
                self.next += 1;
            }
        } else if KEYWORDS.contains(&name.value.as_str()) {
            self.refuse_block(&name)?;
            return Err(keyword(&name, "a type"));
        }
        while self.eat_word("const") {}
        Ok(name)
    }

    /// Skips stars; returns their number.
    fn stars(&mut self) -> usize {
        let mut stars = 0;
        while self.eat("*") {
            stars += 1;
            while self.eat_word("const") {}
        }
        stars
    }

    fn dotted_name(&mut self, wanted: &str) -> Parsed<At<String>> {
        let mut name = self.name(wanted)?;
        loop {
            if !self.eat(".") && !self.eat("->") {
                return Ok(name);
            }
            name.value.push('.');
            name.value
                .push_str(&self.name("a name after the dot")?.value);
        }
    }

    fn path(&mut self) -> Parsed<At<Path>> {
        let dotted = self.dotted_name("the name of a field")?;
        Ok(At {
            position: dotted.position,
            value: dotted.value.split('.').map(str::to_owned).collect(),
        })
    }

    fn integer(&mut self) -> Parsed<i128> {
        let negative = self.eat("-");
        if !negative {
            self.eat("+");
        }
        let number = match *self.token() {
            TokenKind::Number(number) => {
                self.next += 1;
                i128::from(number)
            }
            TokenKind::Mark("(") => self.parenthesised(Self::integer)?,
            _ => return Err(self.unexpected("an integer constant")),
        };
        Ok(if negative { -number } else { number })
    }

    fn located_integer(&mut self) -> Parsed<At<i128>> {
        let position = self.position();
        Ok(At {
            position,
            value: self.integer()?,
        })
    }

    /// Parses `inner` in parentheses.
    fn parenthesised<T>(&mut self, inner: fn(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= MAX_NESTING {
            return self.refuse(&format!(
                "parentheses are nested more than {MAX_NESTING} deep, which is not supported"
            ));
        }
        self.expect("(")?;
        self.nesting += 1;
        let parsed = inner(self);
        self.nesting -= 1;
        let value = parsed?;
        self.expect(")")?;
        Ok(value)
    }

    fn expression(&mut self) -> Parsed<At<Expression>> {
        if self.is("(") {
            return self.parenthesised(Self::expression);
        }
        let position = self.position();
        let value = match self.token().clone() {
            TokenKind::Text(text) => {
                self.next += 1;
                Expression::Text(text)
            }
            TokenKind::Name(_) => Expression::Path(self.path()?.value),
            TokenKind::Number(_) | TokenKind::Mark("-" | "+") => {
                Expression::Number(self.integer()?)
            }
            _ => return Err(self.unexpected("a value")),
        };
        Ok(At { position, value })
    }

    fn attributes(&mut self) -> Parsed<Vec<Assignment>> {
        self.expect_opening()?;
        let mut attributes = Vec::new();
        while !self.eat_closing()? {
            if self.eat(";") {
                continue;
            }
            let name = self.dotted_name("the name of an attribute")?;
            self.expect("=")?;
            let value = self.expression()?;
            self.expect(";")?;
            attributes.push(Assignment { name, value });
        }
        Ok(attributes)
    }

    fn type_spec(&mut self) -> Parsed<At<TypeSpec>> {
        if self.nesting >= MAX_NESTING {
            return self.refuse(&format!(
                "types are nested more than {MAX_NESTING} deep, which is not supported"
            ));
        }
        self.nesting += 1;
        let parsed = self.type_spec_inner();
        self.nesting -= 1;
        parsed
    }

    fn type_spec_inner(&mut self) -> Parsed<At<TypeSpec>> {
        while self.eat_word("const") {}
        let position = self.position();
        let word = match self.token() {
            TokenKind::Name(word) => word.clone(),
            _ => return Err(self.unexpected("a type")),
        };
        let braced = *self.ahead(1) == TokenKind::Mark("{");
        let value = match word.as_str() {
            "integer" => {
                self.next += 1;
                TypeSpec::Integer(self.attributes()?)
            }
            "floating_point" => {
                self.next += 1;
                TypeSpec::Float(self.attributes()?)
            }
            "string" => {
                self.next += 1;
                TypeSpec::String(if braced {
                    self.attributes()?
                } else {
                    Vec::new()
                })
            }
            "enum" => self.enumeration()?,
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            _ => {
                let name = self.type_name()?;
                if self.is("{") {
                    let message = format!(
                        "`{}` is no class of types, so no braces can follow it",
                        name.value
                    );
                    return Err(MetadataError::new(position, message));
                }
                TypeSpec::Alias(name.value)
            }
        };
        while self.eat_word("const") {}
        Ok(At { position, value })
    }

    fn optional_name(&mut self) -> Option<At<String>> {
        match self.token() {
            TokenKind::Name(name) => {
                let name = self.at(name.clone());
                self.next += 1;
                Some(name)
            }
            _ => None,
        }
    }

    /// Parses the integer type, or its alias, as which an enumeration is stored.
    fn container(&mut self) -> Parsed<At<TypeSpec>> {
        while self.eat_word("const") {}
        let of = match self.token() {
            TokenKind::Name(word) if word == "integer" => self.type_spec()?,
            TokenKind::Name(word) if TYPE_CLASSES.contains(&word.as_str()) => {
                return self.refuse("an enumeration must be stored as an integer");
            }
            TokenKind::Name(_) => {
                let name = self.type_name()?;
                At {
                    position: name.position,
                    value: TypeSpec::Alias(name.value),
                }
            }
            _ => return Err(self.unexpected("a type")),
        };
        while self.eat_word("const") {}
        Ok(of)
    }

    fn enumeration(&mut self) -> Parsed<TypeSpec> {
        self.next += 1;
        let name = self.optional_name();
        let container = if self.eat(":") {
            Some(Box::new(self.container()?))
        } else {
            None
        };
        let body = if self.eat_opening() {
            Some(self.enumerators()?)
        } else {
            None
        };
        if body.is_none() && (name.is_none() || container.is_some()) {
            return Err(self.unexpected("`{`"));
        }
        Ok(TypeSpec::Enum {
            name,
            container,
            body,
        })
    }

    fn enumerators(&mut self) -> Parsed<Vec<Enumerator>> {
        let mut enumerators = Vec::new();
        if self.is("}") {
            return self.refuse("an enumeration needs at least one label");
        }
        while !self.eat_closing()? {
            let label = match self.token().clone() {
                TokenKind::Name(label) | TokenKind::Text(label) => self.at(label),
                _ => return Err(self.unexpected("a label or `}`")),
            };
            self.next += 1;
            let range = if self.eat("=") {
                let low = self.located_integer()?;
                let high = if self.eat("...") {
                    self.located_integer()?
                } else {
                    low.clone()
                };
                Some((low, high))
            } else {
                None
            };
            enumerators.push(Enumerator { label, range });
            if !self.eat(",") {
                if !self.eat_closing()? {
                    return Err(self.unexpected("`,` or `}`"));
                }
                break;
            }
        }
        Ok(enumerators)
    }

    fn structure(&mut self) -> Parsed<TypeSpec> {
        self.next += 1;
        let name = self.optional_name();
        let body = self.optional_body()?;
        if body.is_none() && name.is_none() {
            return Err(self.unexpected("`{`"));
        }
        let mut align = None;
        if self.is_word("align") && *self.ahead(1) == TokenKind::Mark("(") {
            self.next += 1;
            self.expect("(")?;
            let position = self.position();
            let value = u64::try_from(self.integer()?)
                .map_err(|_| MetadataError::new(position, "an alignment cannot be negative"))?;
            align = Some(At { position, value });
            self.expect(")")?;
        }
        Ok(TypeSpec::Struct { name, body, align })
    }

    fn variant(&mut self) -> Parsed<TypeSpec> {
        self.next += 1;
        let name = self.optional_name();
        let mut tag = None;
        if self.eat("<") {
            tag = Some(self.tag()?);
            self.expect(">")?;
        }
        let body = self.optional_body()?;
        if body.is_none() && name.is_none() {
            return Err(self.unexpected("`{`"));
        }
        Ok(TypeSpec::Variant { name, tag, body })
    }

    fn tag(&mut self) -> Parsed<At<Path>> {
        if self.is("(") {
            self.parenthesised(Self::tag)
        } else {
            self.path()
        }
    }

    fn optional_body(&mut self) -> Parsed<Option<Vec<Entry>>> {
        if !self.eat_opening() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        while !self.eat_closing()? {
            if self.eat(";") {
                continue;
            }
            if self.is_word("typealias") {
                let mut declarations = Vec::new();
                self.declaration(&mut declarations)?;
                entries.extend(declarations.into_iter().map(Entry::Declaration));
                continue;
            }
            let Specifiers { of, typedef } = self.specifiers()?;
            if typedef {
                entries.push(Entry::Declaration(Declaration::Alias {
                    of,
                    names: self.declarators(Names::Types)?,
                }));
                self.expect(";")?;
                continue;
            }
            if is_named_body(&of.value) && (self.eat(";") || self.starts_field()) {
                // `struct name { ... };` inside a body: a declaration without a field.
                entries.push(Entry::Declaration(Declaration::Named(of)));
                continue;
            }
            let names = self.declarators(Names::Fields)?;
            entries.push(Entry::Fields { of, names });
            self.expect(";")?;
        }
        Ok(Some(entries))
    }

    /// Whether the type of another field begins here, after a named body: what follows cannot be
    /// the name of a field of that body.
    fn starts_field(&self) -> bool {
        match self.token() {
            TokenKind::Mark("}") => true,
            TokenKind::Name(word) => {
                let is_name = !KEYWORDS.contains(&word.as_str());
                !is_name || matches!(self.ahead(1), TokenKind::Name(_))
            }
            _ => false,
        }
    }

    fn declarators(&mut self, of: Names) -> Parsed<Vec<Declarator>> {
        let mut names = Vec::new();
        loop {
            let Direct {
                name,
                stars,
                dimensions,
            } = self.declarator()?;
            let bits = if of == Names::Fields && self.eat(":") {
                let position = self.position();
                let bits = u64::try_from(self.integer()?).map_err(|_| {
                    MetadataError::new(position, "a bit-field cannot have a negative size")
                })?;
                Some(At {
                    position,
                    value: bits,
                })
            } else {
                None
            };
            names.push(Declarator {
                name,
                bits,
                stars,
                dimensions,
            });
            if !self.eat(",") {
                return Ok(names);
            }
        }
    }

    /// Parses stars, a name, possibly in parentheses with more of them, and its brackets.
    fn declarator(&mut self) -> Parsed<Direct> {
        let stars = self.stars();
        let mut direct = self.direct_declarator()?;
        if direct.stars > 0 && self.is("[") {
            return self.refuse("a pointer to an array is not supported");
        }
        direct.stars += stars;
        direct.dimensions.extend(self.dimensions()?);
        Ok(direct)
    }

    fn direct_declarator(&mut self) -> Parsed<Direct> {
        if self.is("(") {
            return self.parenthesised(Self::declarator);
        }
        if self.is(":") && matches!(self.ahead(1), TokenKind::Number(_)) {
            return self
                .refuse("a bit-field without a name is not supported; give the padding a name");
        }
        let name = self.name("the name of a field")?;
        if KEYWORDS.contains(&name.value.as_str()) {
            return Err(keyword(&name, "a field or type"));
        }
        Ok(Direct {
            name,
            stars: 0,
            dimensions: Vec::new(),
        })
    }

    /// Parses the array brackets here.
    fn dimensions(&mut self) -> Parsed<Vec<At<Length>>> {
        let mut dimensions = Vec::new();
        while self.eat("[") {
            dimensions.push(self.length()?);
            self.expect("]")?;
        }
        Ok(dimensions)
    }

    fn length(&mut self) -> Parsed<At<Length>> {
        let position = self.position();
        let value = match self.token() {
            TokenKind::Mark("(") => return self.parenthesised(Self::length),
            TokenKind::Name(_) => Length::Field(self.path()?.value),
            _ => Length::Fixed(u64::try_from(self.integer()?).map_err(|_| {
                MetadataError::new(position, "an array cannot have a negative length")
            })?),
        };
        Ok(At { position, value })
    }
}

#[cfg(test)]
mod tests;
